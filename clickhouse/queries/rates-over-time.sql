-- What share of attempts was retried and what share of runs ended without success, over time, per job type?
-- since, until: the time looked at. seconds: length of a step, at least 60.
-- Rates are shares, 0 to 1; NULL in a step in which nothing started or nothing ended.
SELECT at, concat(worker_group, ' ', job_type) AS type, if(sum(starts) = 0, NULL, sum(retries) / sum(starts)) AS retry_rate, if(sum(ends) = 0, NULL, sum(failures) / sum(ends)) AS failure_rate
FROM (SELECT toStartOfInterval(log_at, toIntervalSecond(greatest(60, {seconds:UInt32}))) AS at, worker_group, job_type,
    groupBitmapIf(offset, t.type = 'attempt_started') AS starts, groupBitmapIf(offset, t.type = 'attempt_started' AND cause != 'first') AS retries,
    groupBitmapIf(offset, t.type = 'job_terminal') AS ends, groupBitmapIf(offset, t.type = 'job_terminal' AND outcome != 'succeeded') AS failures
  FROM timeline AS t
  WHERE log_at >= {since:DateTime64(3, 'UTC')} AND log_at < {until:DateTime64(3, 'UTC')} AND t.type IN ('attempt_started', 'job_terminal')
  GROUP BY at, worker_group, job_type, log_id, partition)
GROUP BY at, type
ORDER BY at, type
