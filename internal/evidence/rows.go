package evidence

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
)

// event is what is read of a row of the table evidence; the fields are its
// columns.
type event struct {
	OperationID, TenantID, JobID, WorkerGroup, JobType string

	OriginTopic    string
	OriginTopicID  uuid.UUID
	Partition      uint16
	OriginOffset   uint64
	OriginAt       time.Time
	Run            uint16
	Version        uint32
	State          string
	Type           string
	AttemptID      uuid.UUID
	Number         uint16
	Step, NextStep string
	Cause, Outcome string
	Reason, Action string
	Actor          string
	Late           bool
	BasedOn        uint64
	ErrorClass     string
	ErrorMessage   string
	Note           string
	StartedAt      time.Time
	FinishedAt     time.Time
	DueAt          time.Time
	Tier           string
	FoundState     string
	DuplicateOf    string
	FirstOperation string
	LogAt          time.Time
	TraceID        string
	Worker         string
	LogID          uuid.UUID
	Offset         uint64
}

const eventColumns = `operation_id, tenant_id, job_id, worker_group, job_type, origin_topic, origin_topic_id, partition, origin_offset, origin_at, run, version,
  toString(state), toString(type), attempt_id, number, step, next_step, cause, outcome, reason, action, actor, late, based_on, error_class, error_message, note,
  started_at, finished_at, due_at, tier, toString(found_state), duplicate_of, first_operation_id, log_at, lower(hex(trace_id)), worker, log_id, offset`

func (e *event) fields() []any {
	return []any{&e.OperationID, &e.TenantID, &e.JobID, &e.WorkerGroup, &e.JobType, &e.OriginTopic, &e.OriginTopicID, &e.Partition, &e.OriginOffset, &e.OriginAt, &e.Run, &e.Version,
		&e.State, &e.Type, &e.AttemptID, &e.Number, &e.Step, &e.NextStep, &e.Cause, &e.Outcome, &e.Reason, &e.Action, &e.Actor, &e.Late, &e.BasedOn, &e.ErrorClass, &e.ErrorMessage, &e.Note,
		&e.StartedAt, &e.FinishedAt, &e.DueAt, &e.Tier, &e.FoundState, &e.DuplicateOf, &e.FirstOperation, &e.LogAt, &e.TraceID, &e.Worker, &e.LogID, &e.Offset}
}

// MaxEvents is the most events that one answer is made of.
const MaxEvents = 500_000

// events reads the rows of evidence that where selects.
func (s *Store) events(ctx context.Context, where string, args ...any) ([]event, error) {
	rows, err := s.conn.Query(ctx, fmt.Sprintf("SELECT %s FROM %s.evidence WHERE %s LIMIT %d", eventColumns, s.database, where, MaxEvents+1), args...)
	if err != nil {
		return nil, fmt.Errorf("reading evidence: %w", err)
	}
	defer rows.Close()
	var found []event
	for rows.Next() {
		var e event
		if err := rows.Scan(e.fields()...); err != nil {
			return nil, fmt.Errorf("reading evidence: %w", err)
		}
		found = append(found, e)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("reading evidence: %w", err)
	}
	if len(found) > MaxEvents {
		return nil, fmt.Errorf("reading evidence: more than %d events; ask for a single job", MaxEvents)
	}
	return found, nil
}

// inLogOrder sorts events by the time of their log and their place in it, and
// drops the second copy of a place.
func inLogOrder(es []event) []event {
	slices.SortFunc(es, func(a, b event) int {
		return cmp.Or(a.LogAt.Compare(b.LogAt), cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Offset, b.Offset), slices.Compare(a.LogID[:], b.LogID[:]))
	})
	return slices.CompactFunc(es, func(a, b event) bool { return a.LogID == b.LogID && a.Partition == b.Partition && a.Offset == b.Offset })
}
