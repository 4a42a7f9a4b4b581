-- Which errors were there, how often, since when, and how many tenants were hit?
-- hours: how far back from now. limit: most rows.
SELECT t.worker_group AS worker_group, t.job_type AS job_type, t.error_class AS error_class, t.fingerprint AS fingerprint, count() AS attempts, uniqExact(t.tenant_id) AS tenants, min(t.log_at) AS first_seen, max(t.log_at) AS last_seen
FROM (SELECT DISTINCT worker_group, job_type, error_class, fingerprint, tenant_id, log_at, log_id, partition, offset FROM timeline
  WHERE log_at >= now64(3, 'UTC') - toIntervalHour({hours:UInt32}) AND type = 'attempt_finished' AND error_class != '' AND NOT late) AS t
GROUP BY worker_group, job_type, error_class, fingerprint
ORDER BY attempts DESC, first_seen
LIMIT {limit:UInt32}
