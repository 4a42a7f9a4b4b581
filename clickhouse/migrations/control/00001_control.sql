-- +goose NO TRANSACTION
-- +goose Up

CREATE TABLE IF NOT EXISTS generation {{.OnCluster}}
(
  seq         UInt64 COMMENT 'Counts the switches; the live database is the one of the highest',
  database    String COMMENT 'Database that was made live',
  switched_at DateTime64(3, 'UTC') COMMENT 'When',
  reason      String COMMENT 'Why, in words'
)
ENGINE = {{.Engine "ReplacingMergeTree" "generation"}}
ORDER BY seq
COMMENT 'Which of the two databases is live';

CREATE TABLE IF NOT EXISTS erasures {{.OnCluster}}
(
  erasure_id   UUID COMMENT 'Identity of the request',
  requested_at DateTime64(3, 'UTC') COMMENT 'When it was asked for',
  actor        String COMMENT 'Who asked',
  tenant_id    String COMMENT 'Whose data',
  operation_id String COMMENT 'Only this operation; empty for all',
  job_id       String COMMENT 'Only this job; empty for all',
  status       LowCardinality(String) COMMENT 'requested, hidden, erased, verified',
  updated_at   DateTime64(3, 'UTC') COMMENT 'When the status was reached'
)
ENGINE = {{.Engine "ReplacingMergeTree(updated_at)" "erasures"}}
ORDER BY erasure_id
COMMENT 'Requests to erase; they hold for every generation';

-- +goose Down
SELECT throwIf(1, 'evidence is never dropped by a migration');
