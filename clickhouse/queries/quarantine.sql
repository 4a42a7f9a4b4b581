-- Which records of the logs are no events?
-- since: what was logged before it is left out. limit: most rows.
SELECT log_topic, partition, offset, log_at, reason, length(record_value) AS bytes
FROM quarantine
WHERE log_at >= {since:DateTime64(3, 'UTC')}
ORDER BY log_at DESC, partition, offset
LIMIT 1 BY log_id, partition, offset
LIMIT {limit:UInt32}
