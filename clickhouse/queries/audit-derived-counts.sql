-- Audit, expected to be empty: on which days do evidence and the tables made from it differ?
-- since: what was logged before it is left out.
SELECT day, sum(in_evidence) AS evidence_events, sum(in_timeline) AS timeline_events, sum(starts) AS evidence_starts, sum(in_attempt_ids) AS attempt_ids_rows, sum(fails) AS evidence_failures, sum(in_failures) AS failures_rows
FROM (
  SELECT toDate(log_at) AS day, uniqExact(log_id, partition, offset) AS in_evidence, 0 AS in_timeline, uniqExactIf(attempt_id, type = 'attempt_started') AS starts, 0 AS in_attempt_ids,
    uniqExactIf((log_id, partition, offset), type = 'job_terminal' AND outcome != 'succeeded') AS fails, 0 AS in_failures
  FROM evidence WHERE type NOT IN ('checkpoint', 'dedup_page') AND log_at >= {since:DateTime64(3, 'UTC')} GROUP BY day
  UNION ALL
  SELECT toDate(log_at) AS day, 0, uniqExact(log_id, partition, offset), 0, 0, 0, 0 FROM timeline WHERE log_at >= {since:DateTime64(3, 'UTC')} GROUP BY day
  UNION ALL
  SELECT toDate(log_at) AS day, 0, 0, 0, uniqExact(attempt_id), 0, 0 FROM evidence WHERE type = 'attempt_started' AND log_at >= {since:DateTime64(3, 'UTC')} AND attempt_id IN (SELECT attempt_id FROM attempt_ids) GROUP BY day
  UNION ALL
  SELECT toDate(log_at) AS day, 0, 0, 0, 0, 0, uniqExact(log_id, partition, offset) FROM failures WHERE log_at >= {since:DateTime64(3, 'UTC')} GROUP BY day
)
GROUP BY day
HAVING evidence_events != timeline_events OR evidence_starts != attempt_ids_rows OR evidence_failures != failures_rows
ORDER BY day
