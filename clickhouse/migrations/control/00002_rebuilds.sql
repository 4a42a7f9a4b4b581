-- +goose NO TRANSACTION
-- +goose Up

CREATE TABLE IF NOT EXISTS rebuilds {{.OnCluster}}
(
  rebuild_id   UUID COMMENT 'Identity of the rebuild',
  kind         LowCardinality(String) COMMENT 'rebuild, rollback, drop',
  database     String COMMENT 'Generation that is filled',
  previous     String COMMENT 'Generation that was live when it began',
  phase        LowCardinality(String) COMMENT 'emptying, filling, comparing, differs, equal, flipping, flipped, dropped, given_up',
  mapping      UInt32 COMMENT 'Revision of the mapping from events to rows',
  started_at   DateTime64(3, 'UTC') COMMENT 'When it began',
  updated_at   DateTime64(3, 'UTC') COMMENT 'When the phase was reached',
  copied       UInt64 COMMENT 'Events that came from the previous generation because the log no longer holds them',
  compared     UInt64 COMMENT 'Events that were compared',
  differences  UInt64 COMMENT 'Differences that the comparison found, at least',
  keep_until   DateTime64(3, 'UTC') COMMENT 'Until when the previous generation is kept; 1970 before the flip',
  holder       String COMMENT 'host/process id that reached the phase'
)
ENGINE = {{.Engine "ReplacingMergeTree(updated_at)" "rebuilds"}}
ORDER BY rebuild_id
COMMENT 'Rebuilds of a generation and how far each came';

CREATE TABLE IF NOT EXISTS rebuild_claims {{.OnCluster}}
(
  claim_id   UUID COMMENT 'Identity of the claim',
  beat_at    DateTime64(3, 'UTC') COMMENT 'Last sign of life, by the clock of the server',
  acquired   Bool COMMENT 'False while the process looks whether it is alone',
  released   Bool COMMENT 'True once the process gave it up',
  holder     String COMMENT 'host/process id'
)
ENGINE = {{.Engine "ReplacingMergeTree(beat_at)" "rebuild_claims"}}
ORDER BY claim_id
TTL toDateTime(beat_at) + INTERVAL 7 DAY
COMMENT 'Which process may change the generation that is not live; at most one claim is alive';

-- +goose Down
SELECT throwIf(1, 'the state of a rebuild is never dropped by a migration');
