-- How far is the store, per partition of each log?
-- No parameters.
SELECT log_topic, partition, position, stable_offset, end_offset, stable_offset - least(position, stable_offset) AS behind, end_offset - stable_offset AS held_by_transactions, complete_up_to, written_at
FROM v_positions
ORDER BY log_topic, partition
