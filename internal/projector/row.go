package projector

import (
	"crypto/sha256"
	"reflect"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/jobtrail/jobtrail/pkg/events"
)

// Row is one row of the table evidence. Its fields are the table's columns,
// described there; times are milliseconds since the Unix epoch.
type Row struct {
	OperationID, TenantID, JobID, WorkerGroup, JobType string

	OriginTopic   string
	OriginTopicID uuid.UUID
	OriginOffset  uint64
	OriginAt      int64
	Run           uint16
	Version       uint32
	State         events.State
	Type          events.Type

	AttemptID        uuid.UUID
	Number, Delivery uint16
	Step, NextStep   string
	Cause, Outcome   string
	Reason, Action   string
	Actor            string
	Late             bool
	BasedOn          uint64

	ErrorClass, ErrorType, ErrorMessage string
	Fingerprint                         uint64
	Note                                string

	EnqueuedAt, Deadline, StartedAt, FinishedAt, DueAt int64

	Tier                          string
	Cohort, Losses, SoloLosses    uint16
	ExpectedState, FoundState     events.State
	DuplicateOf, FirstOperationID string
	CommandID                     uuid.UUID

	OccurredAt, LogAt int64
	TraceID           [16]byte
	SourceTopic       string
	SourceOffset      uint64
	Worker            string
	Generation        uint32
	CodeVersion       string
	MinReader         uint16

	LogID     uuid.UUID
	Partition uint16
	Offset    uint64
	Rest      []byte
}

// Place is where an event is in the log, and when it was appended.
type Place struct {
	LogID     uuid.UUID
	Partition uint16
	Offset    int64
	At        int64 // milliseconds since the Unix epoch
}

// maxMillis is the last time that every DateTime64(3) function of ClickHouse
// represents; a later one wraps around silently. 2200-01-01.
const maxMillis = 7258118400000

// A mapper turns events into rows. It keeps scratch memory and is not safe for
// concurrent use.
type mapper struct {
	scratch []byte
	encoder events.Encoder
	whole   bool // the columns cannot say it all: rest holds the whole event
}

// fill sets r to the row of e, whose record held value. The columns and rest
// together hold everything that e says; of a Checkpoint and a DedupPage rest
// holds the SHA-256 of value instead.
func (m *mapper) fill(r *Row, e *events.Event, at Place, value []byte) {
	*r = Row{
		OperationID: e.OperationID, TenantID: e.TenantID, JobID: e.JobID, WorkerGroup: e.Group, JobType: e.JobType,
		Version: e.Version, Type: e.Type(), TraceID: e.TraceID, Worker: e.Worker, Generation: e.Generation, CodeVersion: e.CodeVersion,
		LogID: at.LogID, Partition: at.Partition, Offset: uint64(at.Offset), LogAt: min(max(at.At, 0), maxMillis),
	}
	m.whole = false
	r.Run, r.Number, r.MinReader = m.small(e.Run), m.small(e.Number), m.small(e.MinReader)
	r.State = m.state(e.State)
	r.OccurredAt = m.time(e.OccurredAt)
	m.origin(r, e)
	if e.Source != (events.Source{}) {
		r.SourceTopic, r.SourceOffset = e.Source.Topic, m.offset(e.Source.Offset)
		m.whole = m.whole || e.Source.Topic == "" || e.Source.Partition != int32(at.Partition)
	}
	left := m.body(r, e)
	switch {
	case r.Type == events.TypeCheckpoint || r.Type == events.TypeDedupPage:
		sum := sha256.Sum256(value)
		r.Rest = sum[:]
	case m.whole:
		r.Rest = m.encoder.Append(nil, e)
	case left != nil || len(e.Unknown) > 0:
		m.scratch = m.encoder.Append(m.scratch[:0], &events.Event{Body: left, Unknown: e.Unknown})
		// A body without a field is its tag of two bytes and its length, zero.
		if len(m.scratch) > 3 || left == nil {
			r.Rest = append([]byte(nil), m.scratch...)
		}
	}
}

func (m *mapper) origin(r *Row, e *events.Event) {
	r.OriginAt = r.LogAt
	if e.Publication == (events.Publication{}) {
		m.whole = m.whole || e.OriginAt != 0
		return
	}
	p := e.Publication
	r.OriginTopic, r.OriginTopicID, r.OriginOffset = p.Topic, p.TopicID, m.offset(p.Offset)
	m.whole = m.whole || p.Partition != int32(r.Partition) || (p.Topic == "" && p.TopicID == uuid.Nil)
	if e.OriginAt > 0 && e.OriginAt <= maxMillis {
		r.OriginAt = int64(e.OriginAt)
	} else {
		m.whole = true
	}
}

// body sets the columns of the event's body and returns a copy of the body
// with only what has no column; nil when there is certainly nothing left.
func (m *mapper) body(r *Row, e *events.Event) events.Body {
	switch b := e.Body.(type) {
	case *events.AttemptStarted:
		r.AttemptID, r.Step, r.Cause, r.Cohort, r.Delivery = b.AttemptID, b.Step, b.Cause.String(), m.small(b.Cohort), m.small(b.Delivery)
		r.EnqueuedAt, r.Deadline = m.time(b.EnqueuedAt), m.time(b.Deadline)
		m.whole = m.whole || b.IdempotencyKey != events.IdempotencyKey(e.Group, e.TenantID, e.JobID, b.Step)
		c := *b
		c.AttemptID, c.Step, c.Cause, c.Cohort, c.Delivery, c.EnqueuedAt, c.Deadline, c.IdempotencyKey = uuid.Nil, "", 0, 0, 0, 0, 0, uuid.Nil
		return &c
	case *events.AttemptFinished:
		r.AttemptID, r.Outcome, r.Late, r.BasedOn, r.Delivery = b.AttemptID, b.Outcome.String(), b.Late, m.offset(b.AdoptedFrom), m.small(b.Delivery)
		r.ErrorClass, r.ErrorType, r.ErrorMessage, r.Fingerprint = b.Error.Class.String(), b.Error.Type, b.Error.Message.String(), b.Error.Fingerprint
		r.StartedAt, r.FinishedAt, r.DueAt, r.Tier = m.time(b.StartedAt), m.time(b.FinishedAt), m.time(b.Next.RetryAt), b.Next.Tier
		c := *b
		c.AttemptID, c.Outcome, c.Late, c.AdoptedFrom, c.Delivery, c.Error, c.StartedAt, c.FinishedAt, c.Next = uuid.Nil, 0, false, 0, 0, events.Error{}, 0, 0, events.Next{}
		return &c
	case *events.AttemptAbandoned:
		r.AttemptID, r.Cause, r.Losses, r.SoloLosses, r.BasedOn, r.Delivery = b.AttemptID, b.Cause.String(), m.small(b.Losses), m.small(b.SoloLosses), m.offset(b.BasedOn), m.small(b.Delivery)
		m.whole = m.whole || b.Detector != e.Worker
		c := *b
		c.AttemptID, c.Cause, c.Losses, c.SoloLosses, c.BasedOn, c.Delivery, c.Detector = uuid.Nil, 0, 0, 0, 0, 0, ""
		return &c
	case *events.StepCompleted:
		r.Step, r.NextStep = b.Step, b.NextStep
		c := *b
		c.Step, c.NextStep = "", ""
		return &c
	case *events.JobDeferred:
		r.Reason, r.DueAt, r.Tier = b.Reason.String(), m.time(b.Until), b.Tier
		c := *b
		c.Reason, c.Until, c.Tier = 0, 0, ""
		return &c
	case *events.JobParked:
		r.Reason = b.Reason.String()
		c := *b
		c.Reason = 0
		return &c
	case *events.JobResolved:
		r.Action, r.Actor, r.Note, r.CommandID = b.Verb.String(), b.Actor, b.Reason.String(), b.CommandID
		c := *b
		c.Verb, c.Actor, c.Reason, c.CommandID = 0, "", emptyText, uuid.Nil
		return &c
	case *events.JobTerminal:
		r.Outcome, r.Reason, r.Note = b.Outcome.String(), b.Reason.String(), b.Detail.String()
		m.whole = m.whole || b.Attempts != e.Number
		c := *b
		c.Outcome, c.Reason, c.Attempts, c.Detail = 0, 0, 0, emptyText
		return &c
	case *events.JobRedriven:
		r.CommandID, r.Actor = b.RedriveID, b.Actor
		c := *b
		c.RedriveID, c.Actor = uuid.Nil, ""
		return &c
	case *events.DuplicateSeen:
		r.FoundState, r.Action, r.FirstOperationID = m.state(b.FirstState), b.Action.String(), b.FirstOperationID
		if b.First != (events.Publication{}) {
			r.DuplicateOf = b.First.String()
			m.whole = m.whole || b.First.TopicID != e.Publication.TopicID || b.First.Topic != e.Publication.Topic || b.First.Topic == ""
		}
		c := *b
		c.First, c.FirstOperationID, c.FirstState, c.Action = events.Publication{}, "", 0, 0
		return &c
	case *events.TransitionRejected:
		r.Action, r.ExpectedState, r.FoundState, r.Note, r.CommandID = b.What, m.state(b.Expected), m.state(b.Found), b.Detail.String(), b.CommandID
		c := *b
		c.What, c.Expected, c.Found, c.Detail, c.CommandID = "", 0, 0, emptyText, uuid.Nil
		return &c
	case *events.GroupEvent:
		r.Action = b.Kind
		var words strings.Builder
		for i, f := range b.Fields {
			if i > 0 {
				words.WriteString(", ")
			}
			words.WriteString(f.Name + "=" + f.Value.String())
		}
		r.Note = words.String()
		c := *b
		c.Kind = ""
		return &c
	}
	return nil
}

// The methods below fit a value into its column. What does not fit makes the
// whole event go to rest as well.

func (m *mapper) small(v uint32) uint16 {
	if v > 1<<16-1 {
		m.whole = true
		return 1<<16 - 1
	}
	return uint16(v)
}

func (m *mapper) offset(v int64) uint64 {
	if v < 0 {
		m.whole = true
		return 0
	}
	return uint64(v)
}

func (m *mapper) time(v events.Time) int64 {
	if v < 0 || v > maxMillis {
		m.whole = true
		return 0
	}
	return int64(v)
}

func (m *mapper) state(s events.State) events.State {
	if s != 0 && !knownStates[s] {
		m.whole = true
		return 0
	}
	return s
}

var knownStates = func() (known [256]bool) {
	for _, s := range events.States() {
		known[s] = true
	}
	return known
}()

// parsePlace reads topic/partition/offset.
func parsePlace(s string) (topic string, partition int32, offset int64, ok bool) {
	i := strings.LastIndexByte(s, '/')
	if i < 0 {
		return "", 0, 0, false
	}
	j := strings.LastIndexByte(s[:i], '/')
	if j < 0 {
		return "", 0, 0, false
	}
	p, err1 := strconv.ParseInt(s[j+1:i], 10, 32)
	o, err2 := strconv.ParseInt(s[i+1:], 10, 64)
	return s[:j], int32(p), o, err1 == nil && err2 == nil
}

// Differs returns the names of the fields in which two rows differ.
func (r *Row) Differs(other *Row) []string {
	var names []string
	a, b := reflect.ValueOf(*r), reflect.ValueOf(*other)
	for i := range a.NumField() {
		if !reflect.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()) {
			names = append(names, a.Type().Field(i).Name)
		}
	}
	return names
}
