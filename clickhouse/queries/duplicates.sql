-- Which publications were seen as duplicates of a job that was known already?
-- since: what was logged before it is left out. limit: most rows.
SELECT log_at, tenant_id, operation_id, job_id, job_type, worker_group, origin_topic, partition, origin_offset, duplicate_of, first_operation_id, first_state, done
FROM v_duplicates
WHERE log_at >= {since:DateTime64(3, 'UTC')}
ORDER BY log_at DESC
LIMIT {limit:UInt32}
