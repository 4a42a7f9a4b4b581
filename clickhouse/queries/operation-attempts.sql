-- Which attempts did an operation take, and how did each end?
-- operation: its id. tenant: whose.
SELECT job_id, type_of_job, published_to, partition, origin_offset, run, attempt, at_step, started_because, on_worker, start_logged_at, end_logged_at, ended, ended_late, class, message, abandoned_because, ran_ms
FROM v_attempts
WHERE operation_id = {operation:String} AND tenant_id = {tenant:String}
ORDER BY start_logged_at, attempt
