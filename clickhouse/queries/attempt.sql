-- What happened to an attempt?
-- attempt: its id.
SELECT log_at, operation_id, tenant_id, job_id, worker_group, run, version, state, type, number, step, cause, outcome, late, error_class, error_message, worker
FROM evidence
WHERE (operation_id, tenant_id, job_id, toYYYYMM(origin_at)) IN (SELECT operation_id, tenant_id, job_id, toYYYYMM(origin_at) FROM attempt_ids WHERE attempt_id = {attempt:UUID})
  AND attempt_id = {attempt:UUID}
ORDER BY log_at, partition, offset
LIMIT 1 BY log_id, partition, offset
