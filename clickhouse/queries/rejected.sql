-- What was asked of a job and refused?
-- since: what was logged before it is left out. limit: most rows.
SELECT log_at, tenant_id, operation_id, job_id, worker_group, run, refused, expected, found, detail
FROM v_rejected
WHERE log_at >= {since:DateTime64(3, 'UTC')}
ORDER BY log_at DESC
LIMIT {limit:UInt32}
