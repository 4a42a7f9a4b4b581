-- Audit, expected to be empty: which runs have two ends, or go on after one?
-- since: what was published before it is left out.
SELECT worker_group, tenant_id, job_id, origin_topic_id, partition, origin_offset, run, uniqExactIf((log_id, offset), type = 'job_terminal') AS ends, minIf(version, type = 'job_terminal') AS ended_at_version, max(version) AS highest
FROM evidence
WHERE version > 0 AND origin_at >= {since:DateTime64(3, 'UTC')}
GROUP BY worker_group, tenant_id, job_id, origin_topic_id, partition, origin_offset, run
HAVING ends > 1 OR (ends = 1 AND highest > ended_at_version)
ORDER BY worker_group, tenant_id, job_id, origin_topic_id, partition, origin_offset, run
