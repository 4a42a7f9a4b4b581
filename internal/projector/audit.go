package projector

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/jobtrail/jobtrail/pkg/events"
)

// Sum is how many events a partition has, and a checksum of what they say and
// where they are that does not depend on their order.
type Sum struct {
	Events      int
	Quarantined int
	Checksum    uint64
}

// AuditReport is what the log and the store hold of each partition.
type AuditReport struct {
	LogID      uuid.UUID
	Log, Store map[int32]Sum
}

// Err says in which partitions log and store differ; nil when in none.
func (r AuditReport) Err() error {
	for _, p := range slices.Sorted(maps.Keys(r.Log)) {
		if r.Log[p] != r.Store[p] {
			return fmt.Errorf("partition %d: the log has %+v, the store %+v", p, r.Log[p], r.Store[p])
		}
	}
	for p := range r.Store {
		if _, ok := r.Log[p]; !ok {
			return fmt.Errorf("partition %d: the log has nothing, the store %+v", p, r.Store[p])
		}
	}
	return nil
}

// Audit compares the log of a worker group, from its start to its last stable
// offset, with the rows of database, a generation: every event is restored from
// its row and compared with what the log says. It reads both whole. kafka opens
// a client with the given options.
func Audit(ctx context.Context, kafka func(...kgo.Opt) (*kgo.Client, error), store driver.Conn, database, group string) (AuditReport, error) {
	r := AuditReport{Log: map[int32]Sum{}, Store: map[int32]Sum{}}
	topic := EvidenceTopic(group)
	client, err := kafka(kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(100*time.Millisecond))
	if err != nil {
		return r, fmt.Errorf("opening a Kafka client: %w", err)
	}
	defer client.Close()
	adm := kadm.NewClient(client)
	topics, err := adm.ListTopics(ctx, topic)
	if err != nil || topics[topic].Err != nil {
		return r, fmt.Errorf("looking up the log: %w", cmp.Or(err, topics[topic].Err))
	}
	r.LogID = uuid.UUID(topics[topic].ID)
	starts, err := adm.ListStartOffsets(ctx, topic)
	if err != nil {
		return r, fmt.Errorf("listing start offsets: %w", err)
	}
	ends, err := adm.ListCommittedOffsets(ctx, topic)
	if err != nil {
		return r, fmt.Errorf("listing stable offsets: %w", err)
	}
	left := map[int32]int64{}
	ends.Each(func(o kadm.ListedOffset) {
		if start, _ := starts.Lookup(topic, o.Partition); o.Offset > start.Offset {
			left[o.Partition] = o.Offset
		}
	})
	var decoder events.Decoder
	c := encoder{}
	for len(left) > 0 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return r, fmt.Errorf("reading the log: %w", err)
		}
		fetches.EachRecord(func(rec *kgo.Record) {
			end, ok := left[rec.Partition]
			if !ok {
				return
			}
			if rec.Offset < end && !rec.Attrs.IsControl() {
				s := r.Log[rec.Partition]
				var e events.Event
				if c.decode(rec) != nil {
					s.Quarantined++
				} else if err := decoder.Decode(rec.Value, &e); err == nil {
					digest := sha256.Sum256(rec.Value)
					s.add(&e, rec.Offset, digest[:])
				}
				r.Log[rec.Partition] = s
			}
			if rec.Offset+1 >= end {
				delete(left, rec.Partition)
			}
		})
	}
	err = EachRow(ctx, store, database, "WHERE log_id = ? LIMIT 1 BY partition, offset", func(row *Row) error {
		s := r.Store[int32(row.Partition)]
		if err := s.AddRow(row); err != nil {
			return err
		}
		r.Store[int32(row.Partition)] = s
		return nil
	}, r.LogID)
	if err != nil {
		return r, err
	}
	rows, err := store.Query(ctx, "SELECT partition, uniqExact(offset) FROM "+database+".quarantine WHERE log_id = ? GROUP BY partition", r.LogID)
	if err != nil {
		return r, fmt.Errorf("reading the quarantine: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var p uint16
		var n uint64
		if err := rows.Scan(&p, &n); err != nil {
			return r, fmt.Errorf("reading the quarantine: %w", err)
		}
		s := r.Store[int32(p)]
		s.Quarantined = int(n)
		r.Store[int32(p)] = s
	}
	return r, rows.Err()
}

// AddRow counts the event that a row holds.
func (s *Sum) AddRow(row *Row) error {
	e, err := Restore(row)
	if err != nil {
		return err
	}
	s.add(e, int64(row.Offset), row.Rest)
	return nil
}

// add counts an event. digest stands for the bodies that are not stored.
func (s *Sum) add(e *events.Event, offset int64, digest []byte) {
	b := binary.BigEndian.AppendUint64(nil, uint64(offset))
	switch e.Type() {
	case events.TypeCheckpoint:
		c := *e
		c.Body, e = &events.Checkpoint{}, &c
		b = append(b, digest...)
	case events.TypeDedupPage:
		c := *e
		c.Body, e = &events.DedupPage{}, &c
		b = append(b, digest...)
	}
	sum := sha256.Sum256(events.Append(b, e))
	s.Events++
	s.Checksum ^= binary.BigEndian.Uint64(sum[:])
}

// EachRow calls f with rows of the table evidence of database, a generation;
// clauses is what follows the table's name in the query, and args are the
// values of its question marks. A row is f's to keep.
func EachRow(ctx context.Context, store driver.Conn, database, clauses string, f func(*Row) error, args ...any) error {
	rows, err := store.Query(ctx, `SELECT operation_id, tenant_id, job_id, worker_group, job_type, origin_topic, origin_topic_id, origin_offset, toUnixTimestamp64Milli(origin_at), run, version,
  toInt8(state), toInt8(type), attempt_id, number, delivery, step, next_step, cause, outcome, reason, action, actor, late, based_on, error_class, error_type, error_message, fingerprint, note,
  toUnixTimestamp64Milli(enqueued_at), toUnixTimestamp64Milli(deadline), toUnixTimestamp64Milli(started_at), toUnixTimestamp64Milli(finished_at), toUnixTimestamp64Milli(due_at),
  tier, cohort, losses, solo_losses, toInt8(expected_state), toInt8(found_state), duplicate_of, first_operation_id, command_id, toUnixTimestamp64Milli(occurred_at), toUnixTimestamp64Milli(log_at),
  toString(trace_id), source_topic, source_offset, worker, generation, code_version, min_reader, log_id, partition, offset, rest
FROM `+database+`.evidence `+clauses, args...)
	if err != nil {
		return fmt.Errorf("reading evidence: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var r Row
		var state, typ, expected, found int8
		var trace, rest string
		err := rows.Scan(&r.OperationID, &r.TenantID, &r.JobID, &r.WorkerGroup, &r.JobType, &r.OriginTopic, &r.OriginTopicID, &r.OriginOffset, &r.OriginAt, &r.Run, &r.Version,
			&state, &typ, &r.AttemptID, &r.Number, &r.Delivery, &r.Step, &r.NextStep, &r.Cause, &r.Outcome, &r.Reason, &r.Action, &r.Actor, &r.Late, &r.BasedOn, &r.ErrorClass, &r.ErrorType, &r.ErrorMessage, &r.Fingerprint, &r.Note,
			&r.EnqueuedAt, &r.Deadline, &r.StartedAt, &r.FinishedAt, &r.DueAt,
			&r.Tier, &r.Cohort, &r.Losses, &r.SoloLosses, &expected, &found, &r.DuplicateOf, &r.FirstOperationID, &r.CommandID, &r.OccurredAt, &r.LogAt,
			&trace, &r.SourceTopic, &r.SourceOffset, &r.Worker, &r.Generation, &r.CodeVersion, &r.MinReader, &r.LogID, &r.Partition, &r.Offset, &rest)
		if err != nil {
			return fmt.Errorf("reading evidence: %w", err)
		}
		r.State, r.Type, r.ExpectedState, r.FoundState = events.State(state), events.Type(typ), events.State(expected), events.State(found)
		copy(r.TraceID[:], trace)
		if rest != "" {
			r.Rest = []byte(rest)
		}
		if err := f(&r); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("reading evidence: %w", err)
	}
	return nil
}
