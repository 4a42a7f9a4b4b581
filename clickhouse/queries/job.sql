-- How does a job stand, in every publication and run?
-- job: its id. tenant: whose.
SELECT worker_group, job_type, operation_id, origin_topic, partition, origin_offset, run, origin_at, state, version, attempts, complete, has_late_outcome, has_abandoned, was_parked, has_rejected, was_redriven,
  first_at, last_at, last_error_class
FROM v_jobs
WHERE job_id = {job:String} AND tenant_id = {tenant:String}
ORDER BY first_at, run
