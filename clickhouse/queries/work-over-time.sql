-- How much was done, over time?
-- since, until: the time looked at. seconds: length of a step, at least 60.
-- Counts per step.
SELECT toStartOfInterval(minute, toIntervalSecond(greatest(60, {seconds:UInt32}))) AS at, sum(started) AS attempts, sum(retried) AS retries, sum(failed_attempts) AS failed_attempts,
  sum(abandoned) AS abandoned, sum(succeeded) AS jobs_succeeded, sum(terminal_failures) AS jobs_failed
FROM v_rates_1m
WHERE minute >= toStartOfMinute({since:DateTime64(3, 'UTC')}) AND minute < {until:DateTime64(3, 'UTC')}
GROUP BY at
ORDER BY at
