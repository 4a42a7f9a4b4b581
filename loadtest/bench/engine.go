package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/jobtrail/jobtrail/clickhouse"
	"github.com/jobtrail/jobtrail/pkg/events"
)

// runEngine measures ClickHouse's own Kafka engine, from the moment it may begin
// to the last event. It inserts into the same tables by the same views.
func runEngine(views bool) func(context.Context, settings) (time.Duration, error) {
	return func(ctx context.Context, s settings) (took time.Duration, err error) {
		st, err := openStore(ctx, s, views)
		if err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, st.close()) }()
		log, err := logID(ctx, s)
		if err != nil {
			return 0, err
		}
		schema, err := os.ReadFile(s.Proto)
		if err != nil {
			return 0, fmt.Errorf("reading the schema: %w", err)
		}
		db := st.database()
		if err := st.conn.Exec(ctx, engineTable(db, s.Brokers, s.topology().Evidence(), string(schema))); err != nil {
			return 0, fmt.Errorf("making the Kafka table: %w", err)
		}
		begun := time.Now()
		if err := st.conn.Exec(ctx, engineView(db, log)); err != nil {
			return 0, fmt.Errorf("making the Kafka table's view: %w", err)
		}
		err = st.await(ctx, s.Jobs, nil)
		took = time.Since(begun)
		if err != nil {
			return 0, errors.Join(err, st.engineError(ctx))
		}
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		for _, name := range []string{"log_mv", "log"} {
			if err := st.conn.Exec(end, "DROP TABLE "+db+"."+name+" SYNC"); err != nil {
				return 0, err
			}
		}
		return took, nil
	}
}

// engineError is what the engine's consumers complain of.
func (st *store) engineError(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	var words string
	if err := st.conn.QueryRow(ctx, "SELECT toString(groupUniqArrayArray(exceptions.text)) FROM system.kafka_consumers WHERE database = ?", st.database()).Scan(&words); err != nil {
		return err
	}
	return fmt.Errorf("the engine says %s", words)
}

// logID returns the Kafka id of the log.
func logID(ctx context.Context, s settings) (uuid.UUID, error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.Brokers))
	if err != nil {
		return uuid.Nil, err
	}
	defer cl.Close()
	topics, err := kadm.NewClient(cl).ListTopics(ctx, s.topology().Evidence())
	if err == nil {
		err = topics.Error()
	}
	return uuid.UUID(topics[s.topology().Evidence()].ID), err
}

// engineTable is the table that reads the log. Its columns have the names of the
// fields of events.proto with the dots as underscores, so the engine finds them
// itself; body is the number of the field of the oneof that is set. Strings are
// plain: every message is a block of its own before it joins the others, and a
// dictionary a message and column makes the engine half as slow again.
func engineTable(db, brokers, topic, schema string) string {
	quoted := strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace
	return `CREATE TABLE ` + db + `.log (
	min_reader UInt32, occurred_at Int64, "group" String, tenant_id String, job_id String, job_type String, operation_id String,
	publication_topic_id FixedString(16), publication_topic String, publication_offset Int64,
	run UInt32, version UInt32, state Int8, number UInt32, origin_at Int64, trace_id FixedString(16), source_topic String, source_offset Int64,
	worker String, generation UInt32, code_version String, body UInt8,
	attempt_started_attempt_id FixedString(16), attempt_started_step String, attempt_started_cause Int8, attempt_started_cohort UInt32, attempt_started_enqueued_at Int64,
	attempt_started_deadline Int64, attempt_started_delivery UInt32,
	attempt_finished_attempt_id FixedString(16), attempt_finished_outcome Int8, attempt_finished_error_class Int8, attempt_finished_error_type String, attempt_finished_error_message String,
	attempt_finished_error_fingerprint UInt64, attempt_finished_started_at Int64, attempt_finished_finished_at Int64, attempt_finished_next_retry_at Int64, attempt_finished_next_tier String,
	attempt_finished_late UInt8, attempt_finished_adopted_from Int64, attempt_finished_delivery UInt32,
	attempt_abandoned_attempt_id FixedString(16), attempt_abandoned_cause Int8, attempt_abandoned_losses UInt32, attempt_abandoned_solo_losses UInt32, attempt_abandoned_based_on Int64, attempt_abandoned_delivery UInt32,
	step_completed_step String, step_completed_next_step String,
	job_deferred_reason Int8, job_deferred_until Int64, job_deferred_tier String, job_parked_reason Int8,
	job_resolved_verb Int8, job_resolved_actor String, job_resolved_reason String, job_resolved_command_id FixedString(16),
	job_terminal_outcome Int8, job_terminal_reason Int8, job_redriven_redrive_id FixedString(16), job_redriven_actor String,
	duplicate_seen_first_topic String, duplicate_seen_first_partition Int32, duplicate_seen_first_offset Int64, duplicate_seen_first_operation_id String, duplicate_seen_first_state Int8, duplicate_seen_action Int8,
	transition_rejected_what String, transition_rejected_expected Int8, transition_rejected_found Int8, transition_rejected_detail String, transition_rejected_command_id FixedString(16),
	group_event_kind String, checkpoint_part UInt32, dedup_page_topic Array(UInt32)
) ENGINE = Kafka SETTINGS kafka_broker_list = '` + brokers + `', kafka_topic_list = '` + topic + `', kafka_group_name = '` + topic + `.` + db + `', kafka_format = 'ProtobufSingle',
	format_schema_source = 'string', format_schema = '` + quoted(schema) + `', format_schema_message_name = 'Event', input_format_protobuf_oneof_presence = 1,
	kafka_num_consumers = 2, kafka_thread_per_consumer = 1, kafka_max_block_size = 100000, kafka_poll_max_batch_size = 100000, kafka_flush_interval_ms = 1000`
}

// word is the expression of the published name of an enum's number.
func word[T interface {
	~uint8
	String() string
}](expr string, last T) string {
	var names []string
	for v := T(0); v <= last; v++ {
		names = append(names, "'"+v.String()+"'")
	}
	return "[" + strings.Join(names, ", ") + "][" + expr + " + 1]"
}

// engineView maps the fields to the columns of evidence as SQL can: all of them
// but rest, which holds what has no column.
func engineView(db string, log uuid.UUID) string {
	field := func(t events.Type) string { return fmt.Sprint(32 + int(t)) }
	at := func(expr, column string) string { return "fromUnixTimestamp64Milli(" + expr + ", 'UTC') AS " + column }
	id := func(expr, column string) string { return "toUUID(UUIDNumToString(" + expr + ")) AS " + column }
	low := func(expr, column string) string { return "toLowCardinality(" + expr + ") AS " + column }
	started, finished, abandoned := field(events.TypeAttemptStarted), field(events.TypeAttemptFinished), field(events.TypeAttemptAbandoned)
	resolved, terminal, deferred := field(events.TypeJobResolved), field(events.TypeJobTerminal), field(events.TypeJobDeferred)
	redriven, duplicate, rejected := field(events.TypeJobRedriven), field(events.TypeDuplicateSeen), field(events.TypeTransitionRejected)
	columns := []string{
		"operation_id", "tenant_id", "job_id", `"group" AS worker_group`, "job_type",
		"publication_topic AS origin_topic", id("publication_topic_id", "origin_topic_id"), "toUInt64(publication_offset) AS origin_offset",
		at("if(l.origin_at = 0, toUnixTimestamp64Milli(assumeNotNull(_timestamp_ms)), l.origin_at)", "origin_at"),
		"toUInt16(l.run) AS run", "version", "CAST(l.state AS STATES) AS state", "CAST(if(body = 0, 0, body - 32) AS TYPES) AS type",
		id("multiIf(body = "+started+", attempt_started_attempt_id, body = "+finished+", attempt_finished_attempt_id, attempt_abandoned_attempt_id)", "attempt_id"),
		"toUInt16(l.number) AS number",
		"toUInt16(attempt_started_delivery + attempt_finished_delivery + attempt_abandoned_delivery) AS delivery",
		low("concat(attempt_started_step, step_completed_step)", "step"), "step_completed_next_step AS next_step",
		low("if(body = "+abandoned+", "+word("attempt_abandoned_cause", events.AbandonNotStarted)+", "+word("attempt_started_cause", events.CauseResolve)+")", "cause"),
		low("if(body = "+terminal+", "+word("job_terminal_outcome", events.TerminalErased)+", "+word("attempt_finished_outcome", events.OutcomeCancelled)+")", "outcome"),
		low("multiIf(body = "+terminal+", "+word("job_terminal_reason", events.ReasonOperator)+", body = "+deferred+", "+word("job_deferred_reason", events.DeferSuspect)+", "+word("job_parked_reason", events.ParkInterrupted)+")", "reason"),
		low("multiIf(body = "+resolved+", "+word("job_resolved_verb", events.ResolveRetry)+", body = "+duplicate+", "+word("duplicate_seen_action", events.DuplicateIDCollision)+", body = "+rejected+", toString(transition_rejected_what), toString(group_event_kind))", "action"),
		low("if(body = "+redriven+", job_redriven_actor, job_resolved_actor)", "actor"),
		"CAST(attempt_finished_late AS Bool) AS late", "toUInt64(attempt_finished_adopted_from + attempt_abandoned_based_on) AS based_on",
		low(word("attempt_finished_error_class", events.ClassCrash), "error_class"), "attempt_finished_error_type AS error_type", "attempt_finished_error_message AS error_message",
		"attempt_finished_error_fingerprint AS fingerprint", "if(body = " + rejected + ", transition_rejected_detail, job_resolved_reason) AS note",
		at("attempt_started_enqueued_at", "enqueued_at"), at("attempt_started_deadline", "deadline"), at("attempt_finished_started_at", "started_at"), at("attempt_finished_finished_at", "finished_at"),
		at("if(body = "+deferred+", job_deferred_until, attempt_finished_next_retry_at)", "due_at"), low("if(body = "+deferred+", job_deferred_tier, attempt_finished_next_tier)", "tier"),
		"toUInt16(attempt_started_cohort) AS cohort", "toUInt16(attempt_abandoned_losses) AS losses", "toUInt16(attempt_abandoned_solo_losses) AS solo_losses",
		"CAST(transition_rejected_expected AS STATES) AS expected_state", "CAST(if(body = " + duplicate + ", duplicate_seen_first_state, transition_rejected_found) AS STATES) AS found_state",
		"if(body = " + duplicate + ", concat(duplicate_seen_first_topic, '/', toString(duplicate_seen_first_partition), '/', toString(duplicate_seen_first_offset)), '') AS duplicate_of",
		"duplicate_seen_first_operation_id AS first_operation_id",
		id("multiIf(body = "+resolved+", job_resolved_command_id, body = "+redriven+", job_redriven_redrive_id, transition_rejected_command_id)", "command_id"),
		at("l.occurred_at", "occurred_at"), "assumeNotNull(_timestamp_ms) AS log_at", "trace_id", "source_topic", "toUInt64(l.source_offset) AS source_offset",
		"worker", "generation", "code_version", "toUInt16(l.min_reader) AS min_reader", "toUUID('" + log.String() + "') AS log_id", "toUInt16(_partition) AS partition", "_offset AS offset", "'' AS rest",
	}
	selected := strings.NewReplacer("STATES", clickhouse.Layout{}.States(), "TYPES", clickhouse.Layout{}.Types()).Replace(strings.Join(columns, ", "))
	return "CREATE MATERIALIZED VIEW " + db + ".log_mv TO " + db + ".evidence AS SELECT " + selected + " FROM " + db + ".log AS l"
}
