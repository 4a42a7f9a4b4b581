-- Audit, expected to be empty: which versions are claimed by two events?
-- since: what was published before it is left out.
SELECT worker_group, tenant_id, job_id, origin_topic_id, partition, origin_offset, run, version, uniqExact(log_id, offset) AS events
FROM evidence
WHERE version > 0 AND origin_at >= {since:DateTime64(3, 'UTC')}
GROUP BY worker_group, tenant_id, job_id, origin_topic_id, partition, origin_offset, run, version
HAVING events > 1
ORDER BY worker_group, tenant_id, job_id, origin_topic_id, partition, origin_offset, run, version
