-- What ran minute by minute, per job type?
-- minutes: how far back, in full minutes; the present one is part of it. Counts.
SELECT minute, worker_group, job_type, sum(started) AS attempts, sum(retried) AS retries, sum(failed_attempts) AS failed, sum(abandoned) AS lost, sum(succeeded) AS jobs_succeeded, sum(terminal_failures) AS jobs_failed
FROM v_rates_1m
WHERE minute >= toStartOfMinute(now('UTC')) - toIntervalMinute({minutes:UInt32})
GROUP BY minute, worker_group, job_type
ORDER BY minute, worker_group, job_type
