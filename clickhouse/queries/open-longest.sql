-- Which runs have been open for longest?
-- since: what was published before it is left out. limit: most rows.
SELECT worker_group, tenant_id, operation_id, job_id, job_type, run, state, attempts, first_at, last_at
FROM v_jobs
WHERE state IN ('pending', 'running', 'deciding', 'retry_waiting') AND origin_at >= {since:DateTime64(3, 'UTC')}
ORDER BY first_at
LIMIT {limit:UInt32}
