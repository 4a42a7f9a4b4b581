-- Audit, expected to be empty: for which partitions does evidence hold fewer events than the projector was told were stored?
-- No parameters.
SELECT b.log_id AS log_id, b.partition AS partition, b.acknowledged AS acknowledged, e.stored AS stored
FROM (SELECT log_id, partition, sum(row_count) AS acknowledged FROM batches FINAL WHERE rev LIKE '%.0' GROUP BY log_id, partition) AS b
LEFT JOIN (SELECT log_id, partition, uniqExact(offset) AS stored FROM evidence GROUP BY log_id, partition) AS e ON e.log_id = b.log_id AND e.partition = b.partition
WHERE stored < acknowledged
ORDER BY log_id, partition
