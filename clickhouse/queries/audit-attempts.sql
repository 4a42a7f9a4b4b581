-- Audit, expected to be empty: which attempts ended without a start, or never ended although their run did?
-- since: what was published before it is left out.
SELECT worker_group, tenant_id, job_id, origin_topic_id, partition, origin_offset, run, attempt_id, started, ended, run_ended
FROM (
  SELECT worker_group, tenant_id, job_id, origin_topic_id, partition, origin_offset, run, attempt_id, countIf(type = 'attempt_started') > 0 AS started, countIf(type IN ('attempt_finished', 'attempt_abandoned')) > 0 AS ended
  FROM evidence
  WHERE type IN ('attempt_started', 'attempt_finished', 'attempt_abandoned') AND origin_at >= {since:DateTime64(3, 'UTC')}
  GROUP BY worker_group, tenant_id, job_id, origin_topic_id, partition, origin_offset, run, attempt_id
) AS a
LEFT JOIN (
  SELECT worker_group, tenant_id, job_id, origin_topic_id, partition, origin_offset, run, 1 AS run_ended FROM evidence WHERE type = 'job_terminal' AND version > 0 AND origin_at >= {since:DateTime64(3, 'UTC')} GROUP BY worker_group, tenant_id, job_id, origin_topic_id, partition, origin_offset, run
) AS t USING (worker_group, tenant_id, job_id, origin_topic_id, partition, origin_offset, run)
WHERE NOT started OR (NOT ended AND run_ended = 1)
ORDER BY worker_group, tenant_id, job_id, origin_topic_id, partition, origin_offset, run, attempt_id
