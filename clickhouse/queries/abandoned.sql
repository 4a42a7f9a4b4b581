-- Which attempts were abandoned in the last hours, and what became of their jobs?
-- hours: how far back from now. limit: most rows.
SELECT t.log_at AS found_at, e.worker_group AS worker_group, e.operation_id AS operation_id, e.tenant_id AS tenant_id, e.job_id AS job_id, e.attempt_id AS attempt_id, e.number AS attempt, e.cause AS abandoned_because, j.state AS state_now
FROM (SELECT DISTINCT log_at, log_id, partition, offset FROM timeline WHERE log_at >= now64(3, 'UTC') - toIntervalHour({hours:UInt32}) AND type = 'attempt_abandoned') AS t
JOIN (SELECT DISTINCT worker_group, operation_id, tenant_id, job_id, attempt_id, number, cause, run, origin_topic_id, origin_offset, log_id, partition, offset FROM evidence WHERE type = 'attempt_abandoned') AS e
  ON e.log_id = t.log_id AND e.partition = t.partition AND e.offset = t.offset
JOIN v_jobs AS j ON j.job_id = e.job_id AND j.tenant_id = e.tenant_id AND j.worker_group = e.worker_group AND j.origin_topic_id = e.origin_topic_id AND j.partition = e.partition AND j.origin_offset = e.origin_offset AND j.run = e.run
ORDER BY found_at DESC
LIMIT {limit:UInt32}
