-- How much was done, over time?
-- since, until: the time looked at. seconds: length of a step, at least 60.
-- Counts per step.
SELECT at, sum(starts) AS attempts, sum(again) AS retries, sum(bad) AS failed_attempts, sum(lost) AS abandoned, sum(good) AS jobs_succeeded, sum(dead) AS jobs_failed
FROM (SELECT toStartOfInterval(log_at, toIntervalSecond(greatest(60, {seconds:UInt32}))) AS at,
    groupBitmapIf(offset, type = 'attempt_started') AS starts, groupBitmapIf(offset, type = 'attempt_started' AND cause != 'first') AS again,
    groupBitmapIf(offset, type = 'attempt_finished' AND outcome != 'succeeded' AND NOT late) AS bad, groupBitmapIf(offset, type = 'attempt_abandoned') AS lost,
    groupBitmapIf(offset, type = 'job_terminal' AND outcome = 'succeeded') AS good, groupBitmapIf(offset, type = 'job_terminal' AND outcome != 'succeeded') AS dead
  FROM timeline
  WHERE log_at >= {since:DateTime64(3, 'UTC')} AND log_at < {until:DateTime64(3, 'UTC')}
  GROUP BY at, log_id, partition)
GROUP BY at
ORDER BY at
