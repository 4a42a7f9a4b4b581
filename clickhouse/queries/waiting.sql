-- What is not finished, per job type and state, and how long has the oldest of it stood there?
-- since: runs published before it are left out.
-- Counts of runs; seconds since the last event of the run to which nothing has happened for longest.
SELECT worker_group, job_type, state, count() AS runs, min(last_at) AS oldest, dateDiff('second', oldest, now64(3, 'UTC')) AS oldest_seconds
FROM v_jobs
WHERE state IN ('pending', 'running', 'deciding', 'retry_waiting', 'parked') AND origin_at >= {since:DateTime64(3, 'UTC')}
GROUP BY worker_group, job_type, state
ORDER BY oldest, worker_group, job_type, state
