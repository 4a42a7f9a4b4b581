-- How far behind the logs is the store, per worker group?
-- No parameters.
-- lag_seconds: age of the time up to which the store is complete, of the partition that is furthest behind. behind: events and transaction markers
-- that are not in the store. held: the same that an open transaction keeps back. silent_seconds: since a projector last told its position.
SELECT worker_group, count() AS partitions, greatest(0, dateDiff('second', min(complete_up_to), now64(3, 'UTC'))) AS lag_seconds, sum(stable_offset - least(position, stable_offset)) AS behind,
  sum(end_offset - least(stable_offset, end_offset)) AS held, greatest(0, dateDiff('second', min(written_at), now64(3, 'UTC'))) AS silent_seconds
FROM v_positions
GROUP BY worker_group
ORDER BY worker_group
