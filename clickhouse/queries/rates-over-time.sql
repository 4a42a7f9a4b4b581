-- What share of attempts was retried and what share of runs ended without success, over time, per job type?
-- since, until: the time looked at. seconds: length of a step, at least 60.
-- Rates are shares, 0 to 1; NULL in a step in which nothing started or nothing ended.
SELECT toStartOfInterval(minute, toIntervalSecond(greatest(60, {seconds:UInt32}))) AS at, concat(worker_group, ' ', job_type) AS type,
  if(sum(started) = 0, NULL, sum(retried) / sum(started)) AS retry_rate,
  if(sum(succeeded) + sum(terminal_failures) = 0, NULL, sum(terminal_failures) / (sum(succeeded) + sum(terminal_failures))) AS failure_rate
FROM v_rates_1m
WHERE minute >= toStartOfMinute({since:DateTime64(3, 'UTC')}) AND minute < {until:DateTime64(3, 'UTC')}
GROUP BY at, type
ORDER BY at, type
