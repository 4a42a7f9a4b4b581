package evidence

import "time"

// Verdict is how an operation or a job stands, in one word.
type Verdict string

// The verdicts, in the order in which they outweigh each other.
const (
	NeedsDecision         Verdict = "needs_decision"
	InProgress            Verdict = "in_progress"
	Failed                Verdict = "failed"
	SucceededAfterRetries Verdict = "succeeded_after_retries"
	Succeeded             Verdict = "succeeded"
	Unknown               Verdict = "unknown"
)

// Flags of a run.
const (
	// FlagDuplicateOf: the publication repeats a job that was known already.
	FlagDuplicateOf = "duplicate_of"
	// FlagLate: a worker told the outcome of an attempt after it had lost the
	// partition.
	FlagLate = "late"
	// FlagOverlapped: two attempts of the run ran at the same time.
	FlagOverlapped = "overlapped"
	// FlagConflictingOutcomes: an attempt has two different outcomes, or one
	// succeeded late in a run that ended without success.
	FlagConflictingOutcomes = "conflicting_outcomes"
	// FlagConflict: two events claim the same version of the run.
	FlagConflict = "conflict"
	// FlagIncomplete: versions or attempts of the run are missing.
	FlagIncomplete = "incomplete"
	// FlagIDCollision: the job id was used with two job types.
	FlagIDCollision = "id_collision"
	// FlagSplitIdentity: the job id was published to two partitions.
	FlagSplitIdentity = "split_identity"
	// FlagRejected: something that was asked of the run was refused.
	FlagRejected = "rejected"
)

// Operation is the answer to what happened to a customer's operation.
type Operation struct {
	OperationID string  `json:"operation_id"`
	TenantID    string  `json:"tenant_id"`
	Verdict     Verdict `json:"verdict"`
	Sentence    string  `json:"sentence"`
	// CompleteUpTo is the time up to which every event is in the store; nil when
	// that is not known.
	CompleteUpTo *time.Time `json:"complete_up_to"`
	Jobs         []Run      `json:"jobs"`

	Retries []RetryCount `json:"-"`
	// Groups are the worker groups that ran the jobs.
	Groups []string `json:"-"`

	read places
}

// Run is one run of a publication of a job.
type Run struct {
	JobID       string    `json:"job_id"`
	JobType     string    `json:"job_type"`
	Publication string    `json:"publication"` // topic/partition/offset
	Run         int       `json:"run"`         // 0: a duplicate that was not run
	State       string    `json:"state"`
	Attempts    []Attempt `json:"attempts"`
	Terminal    *Terminal `json:"terminal"`
	Flags       []string  `json:"flags"`

	OperationID string       `json:"-"`
	TenantID    string       `json:"-"`
	WorkerGroup string       `json:"-"`
	OriginAt    time.Time    `json:"-"`
	FirstAt     time.Time    `json:"-"` // log time of the first event
	LastAt      time.Time    `json:"-"`
	WaitsUntil  *time.Time   `json:"-"` // in retry_waiting and deferred
	ParkReason  string       `json:"-"`
	DuplicateOf string       `json:"-"` // the first publication
	FirstOp     string       `json:"-"` // its operation
	FirstState  string       `json:"-"` // its state when the duplicate was seen
	Missing     []string     `json:"-"` // what is missing, in words
	History     []Transition `json:"-"`
	TraceID     string       `json:"-"`

	origin publication
}

// Attempt is one execution of a handler. Times are log times.
type Attempt struct {
	AttemptID    string     `json:"attempt_id"`
	Number       int        `json:"number"`
	Step         string     `json:"step"`
	Worker       string     `json:"worker"`
	Cause        string     `json:"cause"`
	StartedAt    *time.Time `json:"started_at"`
	FinishedAt   *time.Time `json:"finished_at"`
	Outcome      *string    `json:"outcome"` // nil while it runs or when it was abandoned
	LateOutcome  *string    `json:"late_outcome"`
	ErrorClass   *string    `json:"error_class"`
	ErrorMessage *string    `json:"error_message"`
	Abandoned    *string    `json:"abandoned"` // the cause

	// EndedAt is when the handler ended, as far as anybody knows: also by a late
	// outcome.
	EndedAt *time.Time `json:"-"`
	Adopted bool       `json:"-"` // the outcome was taken over from a late fact
}

// Terminal is the end of a run.
type Terminal struct {
	Outcome string    `json:"outcome"`
	Reason  string    `json:"reason"`
	At      time.Time `json:"at"`
	// Detail says what is wrong with a record that could not run.
	Detail string `json:"-"`
}

// Transition is one event of a run that changed its state.
type Transition struct {
	Version int       `json:"version"`
	At      time.Time `json:"at"`
	Type    string    `json:"type"`
	State   string    `json:"state"`
	Detail  string    `json:"detail"`
}

// RetryCount is how many attempts after the first a cause made, and what had
// gone wrong before.
type RetryCount struct {
	Cause string `json:"cause"`
	After string `json:"after"` // outcome and error class of the attempt before
	Count int    `json:"count"`
}
