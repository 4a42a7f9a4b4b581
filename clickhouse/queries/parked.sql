-- Which jobs wait for a decision, and since when?
-- since: what was published before it is left out. limit: most rows.
SELECT worker_group, tenant_id, operation_id, job_id, job_type, run, attempts, last_at AS parked_at
FROM v_jobs
WHERE state = 'parked' AND origin_at >= {since:DateTime64(3, 'UTC')}
ORDER BY parked_at
LIMIT {limit:UInt32}
