-- Which job types retry more often than they usually do?
-- minutes: length of the window, which ends with the last full minute. hours: length of the past before it that it is held against.
-- least: attempts in the window below which nothing is said. factor, margin: raised means rate > factor * usual_rate + margin.
-- Rates are shares of attempts, 0 to 1. Of a past of less than 5 * least attempts the missing ones count as none that were retried.
SELECT worker_group, job_type, sum(recent) AS attempts, sum(recent_again) AS retries, retries / attempts AS rate,
  sum(past) AS usual_attempts, sum(past_again) / greatest(1, usual_attempts, 5 * {least:UInt32}) AS usual_rate,
  rate > {factor:Float64} * usual_rate + {margin:Float64} AS raised
FROM (SELECT worker_group, job_type, toStartOfMinute(now('UTC')) - toIntervalMinute({minutes:UInt32}) AS since,
    groupBitmapIf(offset, log_at >= since) AS recent, groupBitmapIf(offset, log_at >= since AND cause != 'first') AS recent_again,
    groupBitmapIf(offset, log_at < since) AS past, groupBitmapIf(offset, log_at < since AND cause != 'first') AS past_again
  FROM timeline
  WHERE type = 'attempt_started' AND log_at >= since - toIntervalHour({hours:UInt32}) AND log_at < toStartOfMinute(now('UTC'))
  GROUP BY worker_group, job_type, log_id, partition)
GROUP BY worker_group, job_type
HAVING attempts >= greatest(1, {least:UInt32})
ORDER BY raised DESC, rate - usual_rate DESC, worker_group, job_type
