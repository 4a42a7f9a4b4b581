-- Which outcomes were told after the worker had lost the partition?
-- since: what was logged before it is left out. limit: most rows.
SELECT log_at, tenant_id, operation_id, job_id, worker_group, run, attempt_id, number, outcome, finished_at, worker
FROM evidence
WHERE late AND origin_at >= {since:DateTime64(3, 'UTC')}
ORDER BY log_at DESC
LIMIT 1 BY log_id, partition, offset
LIMIT {limit:UInt32}
