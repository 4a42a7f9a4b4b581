package loadtest

import (
	"context"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/google/uuid"

	"github.com/jobtrail/jobtrail/pkg/events"
)

// stored is a row of the store as far as it is compared: what every event has,
// and what each kind is read for.
type stored struct {
	Partition    uint16    `ch:"partition"`
	Offset       uint64    `ch:"offset"`
	LogAt        time.Time `ch:"log_at"`
	OccurredAt   time.Time `ch:"occurred_at"`
	Type         string    `ch:"type"`
	Group        string    `ch:"worker_group"`
	TenantID     string    `ch:"tenant_id"`
	JobID        string    `ch:"job_id"`
	JobType      string    `ch:"job_type"`
	OperationID  string    `ch:"operation_id"`
	OriginTopic  string    `ch:"origin_topic"`
	OriginOffset uint64    `ch:"origin_offset"`
	Run          uint16    `ch:"run"`
	Version      uint32    `ch:"version"`
	State        string    `ch:"state"`
	Number       uint16    `ch:"number"`
	AttemptID    uuid.UUID `ch:"attempt_id"`
	Outcome      string    `ch:"outcome"`
	Reason       string    `ch:"reason"`
	Cause        string    `ch:"cause"`
	ErrorClass   string    `ch:"error_class"`
	ErrorMessage string    `ch:"error_message"`
	Late         bool      `ch:"late"`
	SourceTopic  string    `ch:"source_topic"`
	SourceOffset uint64    `ch:"source_offset"`
	Worker       string    `ch:"worker"`
	Generation   uint32    `ch:"generation"`
	TraceID      string    `ch:"trace"`
}

// expectedRow returns the row that an event must have.
func expectedRow(r Record) stored {
	e := r.Event
	s := stored{Partition: uint16(r.Partition), Offset: uint64(r.Offset), LogAt: r.At.Time(), OccurredAt: e.OccurredAt.Time(), Type: e.Type().String(), Group: e.Group, TenantID: e.TenantID,
		JobID: e.JobID, JobType: e.JobType, OperationID: e.OperationID, OriginTopic: e.Publication.Topic, OriginOffset: uint64(e.Publication.Offset), Run: uint16(e.Run), Version: e.Version,
		State: e.State.String(), Number: uint16(e.Number), SourceTopic: e.Source.Topic, SourceOffset: uint64(e.Source.Offset), Worker: e.Worker, Generation: e.Generation,
		TraceID: hex.EncodeToString(e.TraceID[:])}
	switch b := e.Body.(type) {
	case *events.AttemptStarted:
		s.AttemptID, s.Cause = b.AttemptID, b.Cause.String()
	case *events.AttemptFinished:
		s.AttemptID, s.Outcome, s.ErrorClass, s.ErrorMessage, s.Late = b.AttemptID, b.Outcome.String(), b.Error.Class.String(), b.Error.Message.String(), b.Late
	case *events.AttemptAbandoned:
		s.AttemptID, s.Cause = b.AttemptID, b.Cause.String()
	case *events.JobTerminal:
		s.Outcome, s.Reason = b.Outcome.String(), b.Reason.String()
	case *events.JobParked:
		s.Reason = b.Reason.String()
	case *events.JobDeferred:
		s.Reason = b.Reason.String()
	}
	return s
}

// CompareStore holds the store's table evidence against a dump of the log: I6. It
// returns what is wrong: a record without its one row, a row without a record, a
// row that says something else.
func CompareStore(ctx context.Context, conn clickhouse.Conn, database string, d *Dump) ([]string, error) {
	var rows []stored
	if err := conn.Select(ctx, &rows, fmt.Sprintf(`SELECT partition, offset, log_at, occurred_at, toString(type) AS type, worker_group, tenant_id, job_id, job_type, operation_id, origin_topic,
		origin_offset, run, version, toString(state) AS state, number, attempt_id, outcome, reason, cause, error_class, error_message, late, source_topic, source_offset, worker, generation,
		lower(hex(trace_id)) AS trace FROM %s.evidence WHERE worker_group = ? AND log_id = ?`, database), d.Topology.Group, d.TopicIDs[d.Topology.Evidence()]); err != nil {
		return nil, fmt.Errorf("reading the table evidence: %w", err)
	}
	type place struct {
		partition uint16
		offset    uint64
	}
	there := make(map[place]stored, len(rows))
	var wrong []string
	for _, r := range rows {
		r.LogAt, r.OccurredAt = r.LogAt.UTC(), r.OccurredAt.UTC()
		p := place{r.Partition, r.Offset}
		if _, twice := there[p]; twice {
			wrong = append(wrong, fmt.Sprintf("I6: %d/%d stands twice in the store", p.partition, p.offset))
		}
		there[p] = r
	}
	for _, rec := range d.Evidence {
		want := expectedRow(rec)
		p := place{want.Partition, want.Offset}
		got, ok := there[p]
		delete(there, p)
		switch {
		case !ok:
			wrong = append(wrong, fmt.Sprintf("I6: %d/%d (%s) is not in the store", p.partition, p.offset, want.Type))
		case got != want:
			wrong = append(wrong, fmt.Sprintf("I6: %d/%d is in the store as\n%+v\nbut in the log as\n%+v", p.partition, p.offset, got, want))
		}
	}
	for p := range there {
		wrong = append(wrong, fmt.Sprintf("I6: %d/%d is in the store and not in the log", p.partition, p.offset))
	}
	return wrong, nil
}
