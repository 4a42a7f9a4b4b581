-- What share of the attempts of the last minutes were retries, per job type?
-- minutes: length of the window, which ends with the last full minute. least: attempts in it below which nothing is said. Rates are shares, 0 to 1.
SELECT worker_group, job_type, sum(started) AS attempts, sum(retried) AS retries, retries / attempts AS rate
FROM v_rates_1m
WHERE minute >= toStartOfMinute(now('UTC')) - toIntervalMinute({minutes:UInt32}) AND minute < toStartOfMinute(now('UTC'))
GROUP BY worker_group, job_type
HAVING attempts >= {least:UInt32}
ORDER BY rate DESC, worker_group, job_type
