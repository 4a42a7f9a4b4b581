-- Which jobs of a tenant ended last without success?
-- tenant: whose. limit: most rows.
SELECT log_at, operation_id, job_id, worker_group, job_type, run, attempts, outcome, reason
FROM v_failures
WHERE tenant_id = {tenant:String}
ORDER BY log_at DESC, partition, offset
LIMIT {limit:UInt32}
