-- +goose NO TRANSACTION
-- +goose Up

CREATE TABLE IF NOT EXISTS evidence {{.OnCluster}}
(
  operation_id       String COMMENT 'Customer action that caused the job, as its producer gave it; empty when it gave none' CODEC(ZSTD(1)),
  tenant_id          LowCardinality(String) COMMENT 'Whose job it is; empty when the producer gave none',
  job_id             String COMMENT 'Logical identity of the job within worker_group and tenant_id; empty in events that are about no job' CODEC(ZSTD(1)),
  worker_group       LowCardinality(String) COMMENT 'Group of workers that runs the job',
  job_type           LowCardinality(String) COMMENT 'Which handler runs the job',
  origin_topic       LowCardinality(String) COMMENT 'Job topic the job was published to; with partition and origin_offset the publication',
  origin_topic_id    UUID COMMENT 'Kafka id of origin_topic, which tells two topics of one name apart' CODEC(ZSTD(1)),
  origin_offset      UInt64 COMMENT 'Offset of the publication in origin_topic; its partition is the column partition' CODEC(Delta(8), ZSTD(1)),
  origin_at          DateTime64(3, 'UTC') COMMENT 'Time of the publication, the same in all events of a run; log_at in events that are about no job' CODEC(Delta(8), ZSTD(1)),
  run                UInt16 COMMENT 'Life of the publication, from 1; only a redrive opens the next; 0 in duplicate_seen' CODEC(T64, ZSTD(1)),
  version            UInt32 COMMENT '1, 2, 3 ... within the run without holes; 0 for a fact that changes no state' CODEC(T64, ZSTD(1)),
  state              {{.States}} COMMENT 'State of the run after this version; none with version 0' CODEC(ZSTD(1)),
  type               {{.Types}} COMMENT 'What happened' CODEC(ZSTD(1)),
  attempt_id         UUID COMMENT 'The execution that the event is about; zero when it is about none' CODEC(ZSTD(1)),
  number             UInt16 COMMENT 'Attempts started so far in the run, this one included' CODEC(T64, ZSTD(1)),
  delivery           UInt16 COMMENT 'Which delivery of the source record carried the attempt, from 1' CODEC(T64, ZSTD(1)),
  step               LowCardinality(String) COMMENT 'Step of a multi-step job; empty in others',
  next_step          LowCardinality(String) COMMENT 'step_completed: the step that follows',
  cause              LowCardinality(String) COMMENT 'attempt_started: first, retry, redelivery, redrive, resolve; attempt_abandoned: worker_lost, moved_away, deadline_passed, not_started',
  outcome            LowCardinality(String) COMMENT 'attempt_finished: succeeded, failed, timed_out, interrupted, cancelled; job_terminal: succeeded, failed, cancelled, expired, erased',
  reason             LowCardinality(String) COMMENT 'Why: of job_terminal, job_deferred and job_parked',
  action             LowCardinality(String) COMMENT 'job_resolved: the decision; duplicate_seen: what was done; transition_rejected: what was refused; group_event: its kind',
  actor              LowCardinality(String) COMMENT 'Who decided: of job_resolved and job_redriven',
  late               Bool COMMENT 'attempt_finished that a worker told after it had lost the partition: a fact that changed no state' CODEC(ZSTD(1)),
  based_on           UInt64 COMMENT 'Offset plus one of the event this one rests on: the late outcome that attempt_finished adopts, the attempt_started that attempt_abandoned closes' CODEC(T64, ZSTD(1)),
  error_class        LowCardinality(String) COMMENT 'transient, throttled, timeout, permanent, malformed, panic, crash',
  error_type         LowCardinality(String) COMMENT 'Go type, HTTP status or exit code of the error',
  error_message      String COMMENT 'Sanitised message of the error, at most 1 KiB' CODEC(ZSTD(3)),
  fingerprint        UInt64 COMMENT 'Equal for error messages of one template' CODEC(ZSTD(1)),
  note               String COMMENT 'Sanitised words: the reason of job_resolved, the detail of job_terminal and transition_rejected, the fields of group_event' CODEC(ZSTD(3)),
  enqueued_at        DateTime64(3, 'UTC') COMMENT 'attempt_started: when the record that carried it was appended to its topic; 1970 when not set' CODEC(Delta(8), ZSTD(1)),
  deadline           DateTime64(3, 'UTC') COMMENT 'attempt_started: no attempt starts after it; 1970 when there is none' CODEC(Delta(8), ZSTD(1)),
  started_at         DateTime64(3, 'UTC') COMMENT 'attempt_finished: when the handler began, by the corrected clock of the worker; 1970 when not set' CODEC(Delta(8), ZSTD(1)),
  finished_at        DateTime64(3, 'UTC') COMMENT 'attempt_finished: when the handler returned, by the corrected clock of the worker; 1970 when not set' CODEC(Delta(8), ZSTD(1)),
  due_at             DateTime64(3, 'UTC') COMMENT 'attempt_finished: earliest start of the retry; job_deferred: until when; 1970 when not set' CODEC(Delta(8), ZSTD(1)),
  tier               LowCardinality(String) COMMENT 'Retry topic in which the job waits',
  cohort             UInt16 COMMENT 'attempt_started of a suspect: most attempts that may run beside it, itself included; 0 otherwise' CODEC(T64, ZSTD(1)),
  losses             UInt16 COMMENT 'attempt_abandoned: workers lost under the run so far' CODEC(T64, ZSTD(1)),
  solo_losses        UInt16 COMMENT 'attempt_abandoned: those of losses while the job ran alone' CODEC(T64, ZSTD(1)),
  expected_state     {{.States}} COMMENT 'transition_rejected: state that the refused command or event needed' CODEC(ZSTD(1)),
  found_state        {{.States}} COMMENT 'transition_rejected: state that the run was in; duplicate_seen: state of the first publication' CODEC(ZSTD(1)),
  duplicate_of       String COMMENT 'duplicate_seen: the first publication, topic/partition/offset' CODEC(ZSTD(1)),
  first_operation_id String COMMENT 'duplicate_seen: operation of the first publication' CODEC(ZSTD(1)),
  command_id         UUID COMMENT 'The command behind job_resolved, job_redriven or transition_rejected' CODEC(ZSTD(1)),
  occurred_at        DateTime64(3, 'UTC') COMMENT 'When it happened, by the corrected clock of the worker' CODEC(Delta(8), ZSTD(1)),
  log_at             DateTime64(3, 'UTC') COMMENT 'When the broker appended the event to the log' CODEC(Delta(8), ZSTD(1)),
  trace_id           FixedString(16) COMMENT 'W3C trace id; zeros when there is none' CODEC(ZSTD(1)),
  source_topic       LowCardinality(String) COMMENT 'Topic of the record that carried the job: a job topic or a retry tier; its partition is the column partition',
  source_offset      UInt64 COMMENT 'Offset of that record' CODEC(Delta(8), ZSTD(1)),
  worker             LowCardinality(String) COMMENT 'host/boot id of the worker that wrote the event',
  generation         UInt32 COMMENT 'Consumer group generation of the writer' CODEC(T64, ZSTD(1)),
  code_version       LowCardinality(String) COMMENT 'Version of the program that wrote the event',
  min_reader         UInt16 COMMENT 'Schema version that a reader must know to act on the event' CODEC(T64, ZSTD(1)),
  log_id             UUID COMMENT 'Kafka id of the evidence topic; with partition and offset the identity of the event' CODEC(ZSTD(1)),
  partition          UInt16 COMMENT 'Partition of the log, of the publication and of the source record: they are one number' CODEC(T64, ZSTD(1)),
  offset             UInt64 COMMENT 'Offset of the event in the log' CODEC(Delta(8), ZSTD(1)),
  rest               String COMMENT 'What has no column, as an encoded jobtrail.events.v1.Event to be merged over the columns; it is the whole event when it names a group; SHA-256 of the record in checkpoint and dedup_page' CODEC(ZSTD(3)),
  PROJECTION positions (SELECT log_id, partition, min(offset), max(offset), count() GROUP BY log_id, partition)
)
ENGINE = {{.Engine "ReplacingMergeTree" "evidence"}}
PARTITION BY toYYYYMM(origin_at)
ORDER BY (operation_id, tenant_id, job_id, worker_group, origin_topic_id, partition, origin_offset, run, log_id, offset)
SETTINGS index_granularity = 1024, {{.Window}}, deduplicate_merge_projection_mode = 'rebuild', lightweight_mutation_projection_mode = 'rebuild'
COMMENT 'Every record of the evidence logs, one row each, lossless. One operation is one range of the key';

CREATE TABLE IF NOT EXISTS jobs {{.OnCluster}}
(
  job_id          String COMMENT 'As in evidence' CODEC(ZSTD(1)),
  tenant_id       LowCardinality(String) COMMENT 'As in evidence',
  worker_group    LowCardinality(String) COMMENT 'As in evidence',
  origin_topic_id UUID COMMENT 'As in evidence' CODEC(ZSTD(1)),
  partition       UInt16 COMMENT 'As in evidence' CODEC(T64, ZSTD(1)),
  origin_offset   UInt64 COMMENT 'As in evidence' CODEC(ZSTD(1)),
  run             UInt16 COMMENT 'As in evidence; the row of run 0 is a publication that was seen as a duplicate' CODEC(T64, ZSTD(1)),
  origin_at       DateTime64(3, 'UTC') COMMENT 'As in evidence' CODEC(Delta(8), ZSTD(1)),
  operation_id    SimpleAggregateFunction(max, String) COMMENT 'As in evidence' CODEC(ZSTD(1)),
  job_type        SimpleAggregateFunction(max, LowCardinality(String)) COMMENT 'As in evidence',
  origin_topic    SimpleAggregateFunction(max, LowCardinality(String)) COMMENT 'As in evidence',
  progress        SimpleAggregateFunction(max, UInt64) COMMENT 'version << 32 | attempts << 8 | state: the state at the highest version' CODEC(ZSTD(1)),
  versions        SimpleAggregateFunction(groupBitOr, UInt64) COMMENT 'Bit version - 1 of every version up to 64: its holes are missing evidence' CODEC(ZSTD(1)),
  facts           SimpleAggregateFunction(groupBitOr, UInt32) COMMENT '1 late outcome, 2 abandoned, 4 parked, 8 seen as duplicate, 16 transition rejected, 32 redriven, 64 deferred, 128 resolved, 256 id collision' CODEC(T64, ZSTD(1)),
  first_at        SimpleAggregateFunction(min, DateTime64(3, 'UTC')) COMMENT 'log_at of the first event' CODEC(Delta(8), ZSTD(1)),
  last_at         SimpleAggregateFunction(max, DateTime64(3, 'UTC')) COMMENT 'log_at of the last event' CODEC(Delta(8), ZSTD(1)),
  last_error      SimpleAggregateFunction(max, String) COMMENT 'Eight hexadecimal digits of version, then the error class' CODEC(ZSTD(1))
)
ENGINE = {{.Engine "AggregatingMergeTree" "jobs"}}
PARTITION BY toYYYYMM(origin_at)
ORDER BY (job_id, tenant_id, worker_group, origin_topic_id, partition, origin_offset, run, origin_at)
SETTINGS index_granularity = 1024, {{.Window}}
COMMENT 'One row per run of a publication once merged; read it through v_jobs. Every column is a lattice, so order and repetition of events change nothing';

CREATE MATERIALIZED VIEW IF NOT EXISTS jobs_mv {{.OnCluster}} TO jobs AS
SELECT e.job_id AS job_id, e.tenant_id AS tenant_id, e.worker_group AS worker_group, e.origin_topic_id AS origin_topic_id, e.partition AS partition,
  e.origin_offset AS origin_offset, e.run AS run, e.origin_at AS origin_at, max(e.operation_id) AS operation_id, max(e.job_type) AS job_type, max(e.origin_topic) AS origin_topic,
  max(bitOr(bitOr(bitShiftLeft(toUInt64(e.version), 32), bitShiftLeft(toUInt64(e.number), 8)), if(e.version = 0, toUInt64(0), toUInt64(toInt8(e.state))))) AS progress,
  groupBitOr(toUInt64(e.version > 0 AND e.version <= 64) * bitShiftLeft(toUInt64(1), toUInt8((e.version - 1) % 64))) AS versions,
  groupBitOr(toUInt32(multiIf(e.late, 1, e.type = 'attempt_abandoned', 2, e.type = 'job_parked', 4, e.action = 'id_collision', 264, e.type = 'duplicate_seen', 8, e.type = 'transition_rejected', 16,
    e.type = 'job_redriven', 32, e.type = 'job_deferred', 64, e.type = 'job_resolved', 128, 0))) AS facts,
  min(e.log_at) AS first_at, max(e.log_at) AS last_at,
  max(if(e.error_class = '', '', concat(leftPad(hex(e.version), 8, '0'), e.error_class))) AS last_error
FROM evidence AS e
WHERE e.job_id != ''
GROUP BY job_id, tenant_id, worker_group, origin_topic_id, partition, origin_offset, run, origin_at;

CREATE TABLE IF NOT EXISTS timeline {{.OnCluster}}
(
  log_at       DateTime64(3, 'UTC') COMMENT 'As in evidence' CODEC(Delta(8), ZSTD(1)),
  tenant_id    LowCardinality(String) COMMENT 'As in evidence',
  worker_group LowCardinality(String) COMMENT 'As in evidence',
  job_type     LowCardinality(String) COMMENT 'As in evidence',
  type         {{.Types}} COMMENT 'As in evidence' CODEC(ZSTD(1)),
  number       UInt16 COMMENT 'As in evidence' CODEC(T64, ZSTD(1)),
  cause        LowCardinality(String) COMMENT 'As in evidence',
  outcome      LowCardinality(String) COMMENT 'As in evidence',
  reason       LowCardinality(String) COMMENT 'As in evidence',
  late         Bool COMMENT 'As in evidence' CODEC(ZSTD(1)),
  error_class  LowCardinality(String) COMMENT 'As in evidence',
  fingerprint  UInt64 COMMENT 'As in evidence' CODEC(ZSTD(1)),
  ran_ms       UInt32 COMMENT 'attempt_finished: how long the handler ran, in milliseconds' CODEC(ZSTD(1)),
  waited_ms    UInt32 COMMENT 'attempt_started: from the record that carried it to the start, in milliseconds' CODEC(ZSTD(1)),
  log_id       UUID COMMENT 'As in evidence' CODEC(ZSTD(1)),
  partition    UInt16 COMMENT 'As in evidence' CODEC(T64, ZSTD(1)),
  offset       UInt64 COMMENT 'As in evidence' CODEC(Delta(8), ZSTD(1))
)
ENGINE = {{.Engine "ReplacingMergeTree" "timeline"}}
PARTITION BY toYYYYMM(log_at)
ORDER BY (log_at, log_id, partition, offset)
SETTINGS {{.Window}}
COMMENT 'Narrow copy of evidence by log time, without checkpoints: rates, alerts, groups of failures';

CREATE MATERIALIZED VIEW IF NOT EXISTS timeline_mv {{.OnCluster}} TO timeline AS
SELECT log_at, tenant_id, worker_group, job_type, type, number, cause, outcome, reason, late, error_class, fingerprint,
  toUInt32(greatest(0, least(4294967295, toUnixTimestamp64Milli(finished_at) - toUnixTimestamp64Milli(started_at)))) AS ran_ms,
  toUInt32(if(type != 'attempt_started' OR toUnixTimestamp64Milli(enqueued_at) = 0, 0, greatest(0, least(4294967295, toUnixTimestamp64Milli(occurred_at) - toUnixTimestamp64Milli(enqueued_at))))) AS waited_ms,
  log_id, partition, offset
FROM evidence
WHERE type NOT IN ('checkpoint', 'dedup_page');

CREATE TABLE IF NOT EXISTS failures {{.OnCluster}}
(
  tenant_id    LowCardinality(String) COMMENT 'As in evidence',
  log_at       DateTime64(3, 'UTC') COMMENT 'When the end was appended to the log' CODEC(Delta(8), ZSTD(1)),
  operation_id String COMMENT 'As in evidence' CODEC(ZSTD(1)),
  job_id       String COMMENT 'As in evidence' CODEC(ZSTD(1)),
  worker_group LowCardinality(String) COMMENT 'As in evidence',
  job_type     LowCardinality(String) COMMENT 'As in evidence',
  run          UInt16 COMMENT 'As in evidence' CODEC(T64, ZSTD(1)),
  number       UInt16 COMMENT 'Attempts started in the run' CODEC(T64, ZSTD(1)),
  outcome      LowCardinality(String) COMMENT 'failed, cancelled, expired, erased',
  reason       LowCardinality(String) COMMENT 'Why no further attempt was scheduled',
  origin_at    DateTime64(3, 'UTC') COMMENT 'As in evidence' CODEC(Delta(8), ZSTD(1)),
  log_id       UUID COMMENT 'As in evidence' CODEC(ZSTD(1)),
  partition    UInt16 COMMENT 'As in evidence' CODEC(T64, ZSTD(1)),
  offset       UInt64 COMMENT 'As in evidence' CODEC(ZSTD(1))
)
ENGINE = {{.Engine "ReplacingMergeTree" "failures"}}
PARTITION BY toYYYYMM(log_at)
ORDER BY (tenant_id, log_at, log_id, partition, offset)
SETTINGS {{.Window}}
COMMENT 'Runs that ended without success, in order of time per tenant';

CREATE MATERIALIZED VIEW IF NOT EXISTS failures_mv {{.OnCluster}} TO failures AS
SELECT tenant_id, log_at, operation_id, job_id, worker_group, job_type, run, number, outcome, reason, origin_at, log_id, partition, offset
FROM evidence
WHERE type = 'job_terminal' AND outcome != 'succeeded';

CREATE TABLE IF NOT EXISTS attempt_ids {{.OnCluster}}
(
  attempt_id   UUID COMMENT 'As in evidence' CODEC(NONE),
  operation_id String COMMENT 'As in evidence' CODEC(ZSTD(1)),
  tenant_id    LowCardinality(String) COMMENT 'As in evidence',
  job_id       String COMMENT 'As in evidence' CODEC(ZSTD(1)),
  origin_at    DateTime64(3, 'UTC') COMMENT 'As in evidence' CODEC(ZSTD(1))
)
ENGINE = {{.Engine "ReplacingMergeTree" "attempt_ids"}}
PARTITION BY toYYYYMM(origin_at)
ORDER BY attempt_id
SETTINGS index_granularity = 1024, {{.Window}}
COMMENT 'From an attempt to its operation, job and month';

CREATE MATERIALIZED VIEW IF NOT EXISTS attempt_ids_mv {{.OnCluster}} TO attempt_ids AS
SELECT attempt_id, operation_id, tenant_id, job_id, origin_at
FROM evidence
WHERE type = 'attempt_started';

CREATE TABLE IF NOT EXISTS quarantine {{.OnCluster}}
(
  log_id       UUID COMMENT 'As in evidence',
  log_topic    LowCardinality(String) COMMENT 'Name of the evidence topic',
  partition    UInt16 COMMENT 'As in evidence',
  offset       UInt64 COMMENT 'As in evidence',
  log_at       DateTime64(3, 'UTC') COMMENT 'As in evidence',
  reason       String COMMENT 'Why the record is no event',
  record_key   String COMMENT 'Key of the record, exact bytes' CODEC(ZSTD(3)),
  record_value String COMMENT 'Value of the record, exact bytes' CODEC(ZSTD(3))
)
ENGINE = {{.Engine "ReplacingMergeTree" "quarantine"}}
PARTITION BY toYYYYMM(log_at)
ORDER BY (log_id, partition, offset)
SETTINGS {{.Window}}
COMMENT 'Records of the evidence logs that are no events';

CREATE TABLE IF NOT EXISTS batches {{.OnCluster}}
(
  log_id        UUID COMMENT 'As in evidence',
  log_topic     LowCardinality(String) COMMENT 'Name of the evidence topic',
  partition     UInt16 COMMENT 'As in evidence',
  first_offset  UInt64 COMMENT 'Position at which the batch began' CODEC(Delta(8), ZSTD(1)),
  last_offset   UInt64 COMMENT 'Offset of its last record' CODEC(Delta(8), ZSTD(1)),
  row_count     UInt32 COMMENT 'Records that became rows of evidence; offsets have holes, so it is counted' CODEC(T64, ZSTD(1)),
  poison_count  UInt32 COMMENT 'Records that became rows of quarantine' CODEC(T64, ZSTD(1)),
  rev           LowCardinality(String) COMMENT 'Revision of the mapping, and how often the partition was rewound',
  min_origin_at DateTime64(3, 'UTC') COMMENT 'Smallest origin_at of the rows' CODEC(Delta(8), ZSTD(1)),
  max_origin_at DateTime64(3, 'UTC') COMMENT 'Greatest origin_at of the rows' CODEC(Delta(8), ZSTD(1)),
  min_log_at    DateTime64(3, 'UTC') COMMENT 'log_at of the first record' CODEC(Delta(8), ZSTD(1)),
  max_log_at    DateTime64(3, 'UTC') COMMENT 'log_at of the last record' CODEC(Delta(8), ZSTD(1)),
  inserted_at   DateTime64(3, 'UTC') COMMENT 'When the server had acknowledged the batch, by the clock of the projector' CODEC(Delta(8), ZSTD(1)),
  projector     LowCardinality(String) COMMENT 'host/boot id of the projector'
)
ENGINE = {{.Engine "ReplacingMergeTree(inserted_at)" "batches"}}
PARTITION BY toYYYYMM(max_log_at)
ORDER BY (log_id, partition, last_offset, first_offset)
SETTINGS {{.Window}}
COMMENT 'What was inserted into evidence, and when';

CREATE TABLE IF NOT EXISTS positions {{.OnCluster}}
(
  log_id         UUID COMMENT 'As in evidence',
  partition      UInt16 COMMENT 'As in evidence',
  log_topic      LowCardinality(String) COMMENT 'Name of the evidence topic',
  worker_group   LowCardinality(String) COMMENT 'As in evidence',
  position       UInt64 COMMENT 'Every event before this offset is in evidence',
  end_offset     UInt64 COMMENT 'End of the log when the projector last looked',
  stable_offset  UInt64 COMMENT 'Up to here no transaction was open when the projector last looked',
  complete_up_to DateTime64(3, 'UTC') COMMENT 'Every event appended before this time is in evidence',
  written_at     DateTime64(3, 'UTC') COMMENT 'When the row was written, by the clock of the projector',
  projector      LowCardinality(String) COMMENT 'host/boot id of the projector'
)
ENGINE = {{.Engine "ReplacingMergeTree(written_at)" "positions"}}
ORDER BY (log_id, partition)
COMMENT 'How far the projector is, one row per partition of a log once merged; read it through v_positions';

-- +goose Down
SELECT throwIf(1, 'evidence is never dropped by a migration');
