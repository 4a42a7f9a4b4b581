-- How many jobs ended without success in the last minutes, and why?
-- minutes: length of the window, which ends now.
SELECT worker_group, job_type, outcome, reason, count() AS jobs, uniqExact(tenant_id) AS tenants, max(log_at) AS last_seen
FROM v_failures
WHERE log_at >= now64(3, 'UTC') - toIntervalMinute({minutes:UInt32})
GROUP BY worker_group, job_type, outcome, reason
ORDER BY jobs DESC, worker_group, job_type, outcome, reason
