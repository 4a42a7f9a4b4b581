-- Audit, expected to be empty: which runs lack a version?
-- since: what was published before it is left out.
SELECT worker_group, tenant_id, job_id, origin_topic_id, partition, origin_offset, run, max(version) AS highest, uniqExact(version) AS found
FROM evidence
WHERE version > 0 AND origin_at >= {since:DateTime64(3, 'UTC')}
GROUP BY worker_group, tenant_id, job_id, origin_topic_id, partition, origin_offset, run
HAVING found < highest
ORDER BY worker_group, tenant_id, job_id, origin_topic_id, partition, origin_offset, run
