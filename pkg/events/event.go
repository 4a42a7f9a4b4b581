package events

import (
	"time"

	"github.com/google/uuid"

	"github.com/jobtrail/jobtrail/pkg/sanitize"
)

// Time is a point in time in milliseconds since the Unix epoch; 0 is "not set".
type Time int64

// TimeOf returns t in milliseconds, rounded down; 0 for the zero time.
func TimeOf(t time.Time) Time {
	if t.IsZero() {
		return 0
	}
	return Time(t.UnixMilli())
}

// Time returns t as a time.Time in UTC, the zero time for 0.
func (t Time) Time() time.Time {
	if t == 0 {
		return time.Time{}
	}
	return time.UnixMilli(int64(t)).UTC()
}

// Add returns t+d, with d rounded up to whole milliseconds so that nothing
// computed from it is early.
func (t Time) Add(d time.Duration) Time {
	return t + Time((d+time.Millisecond-1)/time.Millisecond)
}

// Sub returns t-u.
func (t Time) Sub(u Time) time.Duration { return time.Duration(t-u) * time.Millisecond }

// Publication is the place of a job record in a job topic. The same job id
// published twice is one job with two publications.
type Publication struct {
	TopicID   uuid.UUID
	Topic     string
	Partition int32
	Offset    int64
}

// Source is a record's place by topic name.
type Source struct {
	Topic     string
	Partition int32
	Offset    int64
}

// Event is one record of the evidence log: what it is about, and a Body that
// says what happened. Its fields are those of message Event in events.proto.
type Event struct {
	MinReader   uint32
	OccurredAt  Time
	Group       string
	TenantID    string
	JobID       string
	JobType     string
	OperationID string
	Publication Publication
	Run         uint32
	Version     uint32
	State       State
	Number      uint32
	OriginAt    Time
	TraceID     [16]byte
	Source      Source
	Worker      string
	Generation  uint32
	CodeVersion string

	// Body is one of the event types of this package; nil when the log holds a
	// type that this build does not know.
	Body Body

	// Unknown holds fields that this build does not know, as they came.
	Unknown []byte
}

// Type returns the type of the event's body, TypeUnknown without one.
func (e *Event) Type() Type {
	if e.Body == nil {
		return TypeUnknown
	}
	return e.Body.Type()
}

// Body is what an event says. The set of bodies is closed.
type Body interface {
	message
	// Type returns the event's type.
	Type() Type
}

// Type is the type of an event. Its number plus 32 is the field number of the
// body in events.proto.
type Type uint8

// The event types.
const (
	TypeUnknown            Type = 0
	TypeAttemptStarted     Type = 1
	TypeAttemptFinished    Type = 2
	TypeAttemptAbandoned   Type = 3
	TypeStepCompleted      Type = 4
	TypeJobDeferred        Type = 5
	TypeJobParked          Type = 6
	TypeJobResolved        Type = 7
	TypeJobTerminal        Type = 8
	TypeJobRedriven        Type = 9
	TypeDuplicateSeen      Type = 10
	TypeTransitionRejected Type = 11
	TypeCheckpoint         Type = 12
	TypeGroupEvent         Type = 13
	TypeDedupPage          Type = 14
)

var typeNames = [...]string{
	"unknown", "attempt_started", "attempt_finished", "attempt_abandoned", "step_completed", "job_deferred", "job_parked", "job_resolved",
	"job_terminal", "job_redriven", "duplicate_seen", "transition_rejected", "checkpoint", "group_event", "dedup_page",
}

// String returns the published name, in lower snake case.
func (t Type) String() string { return enumName(typeNames[:], uint8(t)) }

func newBody(t Type) Body {
	switch t {
	case TypeAttemptStarted:
		return new(AttemptStarted)
	case TypeAttemptFinished:
		return new(AttemptFinished)
	case TypeAttemptAbandoned:
		return new(AttemptAbandoned)
	case TypeStepCompleted:
		return new(StepCompleted)
	case TypeJobDeferred:
		return new(JobDeferred)
	case TypeJobParked:
		return new(JobParked)
	case TypeJobResolved:
		return new(JobResolved)
	case TypeJobTerminal:
		return new(JobTerminal)
	case TypeJobRedriven:
		return new(JobRedriven)
	case TypeDuplicateSeen:
		return new(DuplicateSeen)
	case TypeTransitionRejected:
		return new(TransitionRejected)
	case TypeCheckpoint:
		return new(Checkpoint)
	case TypeGroupEvent:
		return new(GroupEvent)
	case TypeDedupPage:
		return new(DedupPage)
	}
	return nil
}

// Error is what may be written down of an error.
type Error struct {
	Class ErrorClass
	// Type is a Go type, an HTTP status or an exit code; never error text.
	Type        string
	Message     sanitize.Text
	Fingerprint uint64
}

// AttemptStarted is committed before the handler runs.
type AttemptStarted struct {
	AttemptID uuid.UUID
	Step      string
	Cause     StartCause
	// Cohort is the most attempts that may run beside it in the process, itself
	// included; 0 means the job is no suspect.
	Cohort         uint32
	EnqueuedAt     Time
	Deadline       Time
	IdempotencyKey uuid.UUID
	Delivery       uint32
	unknown        []byte
}

// AttemptFinished is written when the handler's outcome is known.
type AttemptFinished struct {
	AttemptID  uuid.UUID
	Outcome    Outcome
	Error      Error
	StartedAt  Time
	FinishedAt Time
	Next       Next
	// Late is set by a worker that had lost the partition.
	Late bool
	// AdoptedFrom is the evidence offset of the late fact that the owner took
	// over, plus one; 0 when it is the owner's own result.
	AdoptedFrom int64
	Delivery    uint32
	unknown     []byte
}

// Next is the retry that follows an attempt; the zero Next is none.
type Next struct {
	// RetryAt is the earliest start of the next attempt, in log time.
	RetryAt Time
	// Tier is the topic that carries it.
	Tier string
}

// AttemptAbandoned closes an attempt that started and has no outcome.
type AttemptAbandoned struct {
	AttemptID  uuid.UUID
	Cause      AbandonCause
	Losses     uint32
	SoloLosses uint32
	Detector   string
	// BasedOn is the evidence offset of the AttemptStarted, plus one; 0 when the
	// worker knows it from memory.
	BasedOn  int64
	Delivery uint32
	unknown  []byte
}

// StepCompleted hands a multi-step job to its next step.
type StepCompleted struct {
	Step     string
	NextStep string
	unknown  []byte
}

// JobDeferred is a hop or a hold without an attempt.
type JobDeferred struct {
	Reason  DeferReason
	Until   Time
	Tier    string
	unknown []byte
}

// JobParked says that the job waits for a decision.
type JobParked struct {
	Reason  ParkReason
	unknown []byte
}

// JobResolved is the decision on a parked job.
type JobResolved struct {
	Verb      ResolveVerb
	Actor     string
	Reason    sanitize.Text
	CommandID uuid.UUID
	unknown   []byte
}

// JobTerminal says that no further attempt will be scheduled in this run.
type JobTerminal struct {
	Outcome     TerminalOutcome
	Reason      TerminalReason
	Attempts    uint32
	ValueSHA256 []byte
	ValueSize   int64
	// Detail says what is wrong with a record that ended without an attempt.
	Detail  sanitize.Text
	unknown []byte
}

// JobRedriven opens the next run of a terminal job.
type JobRedriven struct {
	RedriveID uuid.UUID
	Actor     string
	unknown   []byte
}

// DuplicateSeen says that the job id came again.
type DuplicateSeen struct {
	First            Publication
	FirstOperationID string
	FirstState       State
	Action           DuplicateAction
	unknown          []byte
}

// TransitionRejected says that the state machine forbade something.
type TransitionRejected struct {
	What      string
	Expected  State
	Found     State
	Detail    sanitize.Text
	CommandID uuid.UUID
	unknown   []byte
}

// Checkpoint bounds replay. Its parts are valid only together.
type Checkpoint struct {
	ID         uuid.UUID
	Part       uint32
	Parts      uint32
	Committed  []Source
	Open       []OpenEntry
	Finished   []OffsetRange
	DedupPages []int64
	Marks      []Mark

	committedRest [][]byte // unknown fields of the elements of Committed
	unknown       []byte
}

// OpenEntry is a delivery that is not finished.
type OpenEntry struct {
	TenantID      string
	JobID         string
	JobType       string
	OperationID   string
	Publication   Publication
	Run           uint32
	Version       uint32
	State         State
	Number        uint32
	Step          string
	OriginAt      Time
	Source        Source
	Delivery      uint32
	BudgetUsed    uint32
	Losses        uint32
	SoloLosses    uint32
	Cohort        uint32
	AttemptID     uuid.UUID
	Worker        string
	StartedOffset int64
	StartedAt     Time
	Late          *AttemptFinished
	LateOffset    int64
	// NotStarted is set when a late fact says that the handler was never called.
	NotStarted bool
	unknown    []byte
}

// OffsetRange is a range of offsets of a topic in the shard's partition, both
// ends included.
type OffsetRange struct {
	Topic   string
	First   int64
	Last    int64
	unknown []byte
}

// Mark ends a waiting job when its record comes by.
type Mark struct {
	Publication Publication
	Run         uint32
	State       State
	Actor       string
	CommandID   uuid.UUID
	unknown     []byte
}

// DedupPage lists entries of the duplicate window, one element a column.
type DedupPage struct {
	Job     []uint64
	JobType []uint32
	Topic   []uint32
	Offset  []int64
	State   []State
	LastAt  []uint32
	Topics  []Publication

	topicsRest [][]byte // unknown fields of the elements of Topics
	unknown    []byte
}

// GroupEvent is about the group, not about a job.
type GroupEvent struct {
	Kind    string
	Fields  []GroupField
	unknown []byte
}

// GroupField is a named value of a GroupEvent.
type GroupField struct {
	Name    string
	Value   sanitize.Text
	unknown []byte
}

// HopState is what a record carries between the group's own topics, in the
// header jobtrail-state.
type HopState struct {
	Format     uint32
	Run        uint32
	Version    uint32
	Number     uint32
	BudgetUsed uint32
	Losses     uint32
	SoloLosses uint32
	Step       string
	StepOutput []byte
	NotBefore  Time
	Origin     Publication
	OriginAt   Time
	ErrorClass ErrorClass
	AttemptID  uuid.UUID
	Cause      StartCause
	Reason     TerminalReason
	ParkReason ParkReason
	State      State
	unknown    []byte
}

// Type implements Body.
func (*AttemptStarted) Type() Type { return TypeAttemptStarted }

// Type implements Body.
func (*AttemptFinished) Type() Type { return TypeAttemptFinished }

// Type implements Body.
func (*AttemptAbandoned) Type() Type { return TypeAttemptAbandoned }

// Type implements Body.
func (*StepCompleted) Type() Type { return TypeStepCompleted }

// Type implements Body.
func (*JobDeferred) Type() Type { return TypeJobDeferred }

// Type implements Body.
func (*JobParked) Type() Type { return TypeJobParked }

// Type implements Body.
func (*JobResolved) Type() Type { return TypeJobResolved }

// Type implements Body.
func (*JobTerminal) Type() Type { return TypeJobTerminal }

// Type implements Body.
func (*JobRedriven) Type() Type { return TypeJobRedriven }

// Type implements Body.
func (*DuplicateSeen) Type() Type { return TypeDuplicateSeen }

// Type implements Body.
func (*TransitionRejected) Type() Type { return TypeTransitionRejected }

// Type implements Body.
func (*Checkpoint) Type() Type { return TypeCheckpoint }

// Type implements Body.
func (*GroupEvent) Type() Type { return TypeGroupEvent }

// Type implements Body.
func (*DedupPage) Type() Type { return TypeDedupPage }
