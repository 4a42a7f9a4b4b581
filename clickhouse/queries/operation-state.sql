-- How does an operation stand?
-- operation: its id. tenant: whose.
-- Every publication counts, also of a job that was published again; op show goes by the latest.
SELECT jobs, parked, open, succeeded, not_succeeded, attempts_started, first_at, last_at
FROM v_operations
WHERE operation_id = {operation:String} AND tenant_id = {tenant:String}
