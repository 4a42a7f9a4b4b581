-- Audit, expected to be empty: for which runs does the table jobs say something else than evidence?
-- since: what was published before it is left out.
SELECT worker_group, tenant_id, job_id, origin_topic_id, partition, origin_offset, run, e.p AS by_evidence, j.p AS by_jobs
FROM (
  SELECT worker_group, tenant_id, job_id, origin_topic_id, partition, origin_offset, run,
    max(bitOr(bitOr(bitShiftLeft(toUInt64(version), 32), bitShiftLeft(toUInt64(number), 8)), if(version = 0, toUInt64(0), toUInt64(toInt8(state))))) AS p
  FROM evidence WHERE job_id != '' AND origin_at >= {since:DateTime64(3, 'UTC')} GROUP BY worker_group, tenant_id, job_id, origin_topic_id, partition, origin_offset, run
) AS e
FULL JOIN (
  SELECT worker_group, tenant_id, job_id, origin_topic_id, partition, origin_offset, run, max(progress) AS p
  FROM jobs WHERE origin_at >= {since:DateTime64(3, 'UTC')} GROUP BY worker_group, tenant_id, job_id, origin_topic_id, partition, origin_offset, run
) AS j USING (worker_group, tenant_id, job_id, origin_topic_id, partition, origin_offset, run)
WHERE e.p != j.p
ORDER BY worker_group, tenant_id, job_id, origin_topic_id, partition, origin_offset, run
