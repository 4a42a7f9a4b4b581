-- Of how many runs is evidence missing, per job type?
-- since: runs published before it are left out.
-- Counts of runs: all, those with a hole in their versions (expected: 0), those of more than 64 versions, of which this cannot say it (audit-holes can).
SELECT worker_group, job_type, count() AS runs, countIf(complete = 0) AS with_holes, countIf(complete IS NULL) AS not_known
FROM v_jobs
WHERE origin_at >= {since:DateTime64(3, 'UTC')}
GROUP BY worker_group, job_type
ORDER BY with_holes DESC, worker_group, job_type
