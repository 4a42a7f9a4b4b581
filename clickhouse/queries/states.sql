-- How many runs are in each state, of those published since a time?
-- since: what was published before it is left out.
SELECT worker_group, job_type, state, count() AS runs
FROM v_jobs
WHERE origin_at >= {since:DateTime64(3, 'UTC')}
GROUP BY worker_group, job_type, state
ORDER BY worker_group, job_type, state
