-- +goose NO TRANSACTION
-- +goose Up

CREATE OR REPLACE VIEW v_jobs {{.OnCluster}} AS
SELECT job_id, tenant_id, worker_group, origin_topic, origin_topic_id, partition, origin_offset, run, origin_at, operation_id, job_type,
  CAST(toInt8(bitAnd(p, 255)), '{{.StatesQuoted}}') AS state,
  toUInt32(bitShiftRight(p, 32)) AS version,
  toUInt32(bitAnd(bitShiftRight(p, 8), 16777215)) AS attempts,
  if(bitShiftRight(p, 32) > 64, NULL, v = if(bitShiftRight(p, 32) = 64, toUInt64(18446744073709551615), toUInt64(bitShiftLeft(toUInt64(1), bitShiftRight(p, 32)) - 1))) AS complete,
  bitTest(f, 0) = 1 AS has_late_outcome, bitTest(f, 1) = 1 AS has_abandoned, bitTest(f, 2) = 1 AS was_parked, bitTest(f, 4) = 1 AS has_rejected, bitTest(f, 5) = 1 AS was_redriven,
  fa AS first_at, la AS last_at, substring(le, 9) AS last_error_class
FROM (
  SELECT j.job_id AS job_id, j.tenant_id AS tenant_id, j.worker_group AS worker_group, j.origin_topic_id AS origin_topic_id, j.partition AS partition, j.origin_offset AS origin_offset, j.run AS run,
    j.origin_at AS origin_at, max(j.operation_id) AS operation_id, max(j.job_type) AS job_type, max(j.origin_topic) AS origin_topic, max(j.progress) AS p, groupBitOr(j.versions) AS v, groupBitOr(j.facts) AS f,
    min(j.first_at) AS fa, max(j.last_at) AS la, max(j.last_error) AS le
  FROM jobs AS j
  WHERE j.run > 0
  GROUP BY job_id, tenant_id, worker_group, origin_topic_id, partition, origin_offset, run, origin_at
);

CREATE OR REPLACE VIEW v_attempts {{.OnCluster}} AS
SELECT e.operation_id AS operation_id, e.tenant_id AS tenant_id, e.job_id AS job_id, e.worker_group AS worker_group, e.origin_topic_id AS origin_topic_id, e.partition AS partition,
  e.origin_offset AS origin_offset, e.run AS run, e.origin_at AS origin_at, e.attempt_id AS attempt_id,
  any(e.origin_topic) AS published_to, any(e.job_type) AS type_of_job, anyIf(e.number, e.type = 'attempt_started') AS attempt, anyIf(e.step, e.type = 'attempt_started') AS at_step,
  anyIf(e.cause, e.type = 'attempt_started') AS started_because, anyIf(e.worker, e.type = 'attempt_started') AS on_worker,
  minIfOrNull(e.log_at, e.type = 'attempt_started') AS start_logged_at,
  minIfOrNull(e.log_at, e.type = 'attempt_finished' AND NOT e.late) AS end_logged_at,
  argMinIfOrNull(e.outcome, (e.log_at, e.offset), e.type = 'attempt_finished' AND NOT e.late) AS ended,
  argMinIfOrNull(e.outcome, (e.log_at, e.offset), e.type = 'attempt_finished' AND e.late) AS ended_late,
  argMinIf(e.error_class, (e.late, e.log_at, e.offset), e.type = 'attempt_finished') AS class,
  argMinIf(e.error_message, (e.late, e.log_at, e.offset), e.type = 'attempt_finished') AS message,
  anyIfOrNull(e.cause, e.type = 'attempt_abandoned') AS abandoned_because,
  max(greatest(0, toUnixTimestamp64Milli(e.finished_at) - toUnixTimestamp64Milli(e.started_at))) AS ran_ms
FROM evidence AS e
WHERE e.type IN ('attempt_started', 'attempt_finished', 'attempt_abandoned')
GROUP BY operation_id, tenant_id, job_id, worker_group, origin_topic_id, partition, origin_offset, run, origin_at, attempt_id;

CREATE OR REPLACE VIEW v_operations {{.OnCluster}} AS
SELECT operation_id, tenant_id, uniqExact(worker_group, job_id) AS jobs, countIf(st = 'parked') AS parked,
  countIf(st IN ('pending', 'running', 'deciding', 'retry_waiting')) AS open, countIf(st = 'succeeded') AS succeeded,
  countIf(st IN ('failed', 'cancelled', 'expired', 'erased')) AS not_succeeded, sum(attempts) AS attempts_started, min(fa) AS first_at, max(la) AS last_at
FROM (
  SELECT e.operation_id AS operation_id, e.tenant_id AS tenant_id, e.job_id AS job_id, e.worker_group AS worker_group,
    argMax(e.state, (e.run, e.version)) AS st, max(e.number) AS attempts, min(e.log_at) AS fa, max(e.log_at) AS la
  FROM evidence AS e
  WHERE e.run > 0 AND e.job_id != ''
  GROUP BY operation_id, tenant_id, job_id, worker_group, e.origin_topic_id, e.partition, e.origin_offset
)
GROUP BY operation_id, tenant_id;

CREATE OR REPLACE VIEW v_rates_1m {{.OnCluster}} AS
SELECT toStartOfMinute(t.log_at) AS minute, t.tenant_id AS tenant_id, t.worker_group AS worker_group, t.job_type AS job_type,
  countIf(t.type = 'attempt_started') AS started,
  countIf(t.type = 'attempt_started' AND t.cause != 'first') AS retried,
  countIf(t.type = 'attempt_finished' AND t.outcome != 'succeeded' AND NOT t.late) AS failed_attempts,
  countIf(t.type = 'attempt_abandoned') AS abandoned,
  countIf(t.type = 'job_terminal' AND t.outcome = 'succeeded') AS succeeded,
  countIf(t.type = 'job_terminal' AND t.outcome != 'succeeded') AS terminal_failures
FROM (SELECT DISTINCT log_at, tenant_id, worker_group, job_type, type, cause, outcome, late, log_id, partition, offset FROM timeline) AS t
GROUP BY minute, tenant_id, worker_group, job_type;

CREATE OR REPLACE VIEW v_failures {{.OnCluster}} AS
SELECT DISTINCT tenant_id, log_at, operation_id, job_id, worker_group, job_type, run, number AS attempts, outcome, reason, origin_at, log_id, partition, offset
FROM failures;

CREATE OR REPLACE VIEW v_duplicates {{.OnCluster}} AS
SELECT DISTINCT e.operation_id AS operation_id, e.tenant_id AS tenant_id, e.job_id AS job_id, e.worker_group AS worker_group, e.job_type AS job_type, e.origin_topic AS origin_topic, e.partition AS partition,
  e.origin_offset AS origin_offset, e.duplicate_of AS duplicate_of, e.first_operation_id AS first_operation_id, e.found_state AS first_state, e.action AS done, e.log_at AS log_at, e.offset AS offset
FROM evidence AS e
WHERE e.type = 'duplicate_seen';

CREATE OR REPLACE VIEW v_rejected {{.OnCluster}} AS
SELECT DISTINCT e.operation_id AS operation_id, e.tenant_id AS tenant_id, e.job_id AS job_id, e.worker_group AS worker_group, e.run AS run, e.action AS refused, e.expected_state AS expected, e.found_state AS found,
  e.note AS detail, e.log_at AS log_at, e.log_id AS log_id, e.partition AS partition, e.offset AS offset
FROM evidence AS e
WHERE e.type = 'transition_rejected';

CREATE OR REPLACE VIEW v_positions {{.OnCluster}} AS
SELECT p.log_id AS log_id, p.partition AS partition, argMax(p.log_topic, p.written_at) AS log_topic, argMax(p.worker_group, p.written_at) AS worker_group, argMax(p.position, p.written_at) AS position,
  argMax(p.end_offset, p.written_at) AS end_offset, argMax(p.stable_offset, p.written_at) AS stable_offset, max(p.complete_up_to) AS complete_up_to, max(p.written_at) AS written_at
FROM positions AS p
GROUP BY log_id, partition;

-- +goose Down
SELECT throwIf(1, 'evidence is never dropped by a migration');
