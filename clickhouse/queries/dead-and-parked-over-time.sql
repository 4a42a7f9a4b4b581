-- How many jobs became dead letters or were parked, and how many left, over time?
-- since, until: the time looked at. seconds: length of a step, at least 60.
-- Counts per step. Dead: ended as failed or expired, so a record went to the dead-letter topic. Growth is dead - redriven and parked - resolved.
SELECT toStartOfInterval(t.log_at, toIntervalSecond(greatest(60, {seconds:UInt32}))) AS at, countIf(t.type = 'job_terminal') AS dead, countIf(t.type = 'job_redriven') AS redriven,
  countIf(t.type = 'job_parked') AS parked, countIf(t.type = 'job_resolved') AS resolved
FROM (SELECT DISTINCT log_at, type, log_id, partition, offset FROM timeline
  WHERE log_at >= {since:DateTime64(3, 'UTC')} AND log_at < {until:DateTime64(3, 'UTC')}
    AND (type IN ('job_parked', 'job_resolved', 'job_redriven') OR type = 'job_terminal' AND outcome IN ('failed', 'expired'))) AS t
GROUP BY at
ORDER BY at
