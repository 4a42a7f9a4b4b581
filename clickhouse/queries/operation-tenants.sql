-- Whose operation is it? More than one row: the id alone does not say.
-- operation: its id.
SELECT DISTINCT tenant_id
FROM evidence
WHERE operation_id = {operation:String}
ORDER BY tenant_id
