-- Audit, expected to be empty: which events did the state machine forbid where they stand? The steps are those of events.Job.Apply.
-- since: what was published before it is left out.
SELECT worker_group, tenant_id, job_id, origin_topic_id, partition, origin_offset, run, version, before, type, state
FROM (
  SELECT worker_group, tenant_id, job_id, origin_topic_id, partition, origin_offset, run, version, type, state, number,
    if(version = 1, if(type = 'job_redriven', 'failed', 'pending'), toString(lagInFrame(state, 1) OVER w)) AS before,
    if(version = 1, 0, lagInFrame(number, 1) OVER w) AS number_before,
    version = 1 OR lagInFrame(version, 1) OVER w = version - 1 AS follows
  FROM (SELECT DISTINCT worker_group, tenant_id, job_id, origin_topic_id, partition, origin_offset, run, version, type, state, number, log_id, offset FROM evidence WHERE version > 0 AND origin_at >= {since:DateTime64(3, 'UTC')})
  WINDOW w AS (PARTITION BY worker_group, tenant_id, job_id, origin_topic_id, partition, origin_offset, run ORDER BY version, log_id, offset ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)
)
WHERE follows AND (NOT has({{.Transitions}}, (before, toString(type), toString(state))) OR number != number_before + (type = 'attempt_started'))
ORDER BY worker_group, tenant_id, job_id, origin_topic_id, partition, origin_offset, run, version
