-- Why did jobs end without success in the last minutes: for which reason, after which class of error?
-- minutes: length of the window, which ends now.
-- Counts of runs and of tenants. The class is that of the run's last error, empty when it had none.
SELECT f.worker_group AS worker_group, f.job_type AS job_type, f.outcome AS outcome, f.reason AS reason, j.last_error_class AS error_class, count() AS jobs, uniqExact(f.tenant_id) AS tenants,
  min(f.log_at) AS first_seen, max(f.log_at) AS last_seen
FROM (SELECT tenant_id, log_at, job_id, worker_group, job_type, run, outcome, reason, origin_at, log_id, partition, offset FROM v_failures
  WHERE log_at >= now64(3, 'UTC') - toIntervalMinute({minutes:UInt32})) AS f
LEFT JOIN (SELECT job_id, tenant_id, worker_group, partition, run, origin_at, last_at, last_error_class FROM v_jobs
  WHERE job_id IN (SELECT job_id FROM failures WHERE log_at >= now64(3, 'UTC') - toIntervalMinute({minutes:UInt32}))) AS j
  ON j.job_id = f.job_id AND j.tenant_id = f.tenant_id AND j.worker_group = f.worker_group AND j.partition = f.partition AND j.run = f.run AND j.origin_at = f.origin_at
GROUP BY worker_group, job_type, outcome, reason, error_class
ORDER BY jobs DESC, worker_group, job_type, outcome, reason, error_class
