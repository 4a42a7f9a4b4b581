-- How long do handlers run and jobs wait, per job type?
-- minutes: length of the window, which ends now. Milliseconds; waited is from the record that carried the attempt to its start.
SELECT worker_group, job_type, countIf(type = 'attempt_finished') AS finished, quantileExactIf(0.5)(ran_ms, type = 'attempt_finished') AS ran_p50_ms, quantileExactIf(0.99)(ran_ms, type = 'attempt_finished') AS ran_p99_ms,
  quantileExactIf(0.5)(waited_ms, type = 'attempt_started') AS waited_p50_ms, quantileExactIf(0.99)(waited_ms, type = 'attempt_started') AS waited_p99_ms
FROM (SELECT DISTINCT worker_group, job_type, type, ran_ms, waited_ms, log_id, partition, offset FROM timeline WHERE log_at >= now64(3, 'UTC') - toIntervalMinute({minutes:UInt32}) AND type IN ('attempt_started', 'attempt_finished') AND NOT late)
GROUP BY worker_group, job_type
ORDER BY worker_group, job_type
