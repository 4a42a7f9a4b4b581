-- What happened to an operation, event by event?
-- operation: its id. tenant: whose.
SELECT log_at, worker_group, job_id, job_type, origin_topic, partition, origin_offset, run, version, state, type, number, step, cause, outcome, reason, action, late, error_class, error_message, due_at, worker
FROM evidence
WHERE operation_id = {operation:String} AND tenant_id = {tenant:String}
ORDER BY log_at, partition, offset
LIMIT 1 BY log_id, partition, offset
