-- How often was an operation retried, and because of what?
-- operation: its id. tenant: whose.
SELECT started_because AS cause, after, count() AS retries
FROM (
  SELECT started_because,
    lagInFrame(multiIf(abandoned_because IS NOT NULL, abandoned_because, class != '', class, ifNull(ended, '')), 1, '') OVER (PARTITION BY worker_group, job_id, origin_topic_id, partition, origin_offset, run ORDER BY attempt) AS after
  FROM v_attempts
  WHERE operation_id = {operation:String} AND tenant_id = {tenant:String}
)
WHERE cause != 'first'
GROUP BY cause, after
ORDER BY retries DESC, cause, after
