-- What happened to a job, event by event, over all its operations?
-- job: its id. tenant: whose.
SELECT log_at, worker_group, operation_id, origin_topic, partition, origin_offset, run, version, state, type, number, step, cause, outcome, reason, action, actor, note, late, error_class, error_message, due_at, tier, worker
FROM evidence
WHERE (operation_id, toYYYYMM(origin_at)) IN (SELECT operation_id, toYYYYMM(origin_at) FROM jobs WHERE job_id = {job:String} AND tenant_id = {tenant:String})
  AND job_id = {job:String} AND tenant_id = {tenant:String}
ORDER BY log_at, partition, offset
LIMIT 1 BY log_id, partition, offset
