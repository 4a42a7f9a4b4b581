package events

import "strconv"

// The enums of events.proto: one published number and one name each. A number
// that this build does not know is kept and printed as a number.

// State is where a run of a job stands.
type State uint8

// The values of State.
const (
	StatePending      State = 1
	StateRunning      State = 2
	StateDeciding     State = 3
	StateRetryWaiting State = 4
	StateParked       State = 5
	StateSucceeded    State = 16
	StateFailed       State = 17
	StateCancelled    State = 18
	StateExpired      State = 19
	StateErased       State = 20
)

var stateNames = [...]string{0: "none", StatePending: "pending", StateRunning: "running", StateDeciding: "deciding", StateRetryWaiting: "retry_waiting", StateParked: "parked", StateSucceeded: "succeeded", StateFailed: "failed", StateCancelled: "cancelled", StateExpired: "expired", StateErased: "erased"}

// String returns the published name, in lower snake case; none for zero.
func (v State) String() string { return enumName(stateNames[:], uint8(v)) }

// StartCause says why an attempt was started.
type StartCause uint8

// The values of StartCause.
const (
	CauseFirst      StartCause = 1
	CauseRetry      StartCause = 2
	CauseRedelivery StartCause = 3
	CauseRedrive    StartCause = 4
	CauseResolve    StartCause = 5
)

var startCauseNames = [...]string{CauseFirst: "first", CauseRetry: "retry", CauseRedelivery: "redelivery", CauseRedrive: "redrive", CauseResolve: "resolve"}

// String returns the published name, in lower snake case; empty for zero.
func (v StartCause) String() string { return enumName(startCauseNames[:], uint8(v)) }

// Outcome says how an attempt ended.
type Outcome uint8

// The values of Outcome.
const (
	OutcomeSucceeded   Outcome = 1
	OutcomeFailed      Outcome = 2
	OutcomeTimedOut    Outcome = 3
	OutcomeInterrupted Outcome = 4
	OutcomeCancelled   Outcome = 5
)

var outcomeNames = [...]string{OutcomeSucceeded: "succeeded", OutcomeFailed: "failed", OutcomeTimedOut: "timed_out", OutcomeInterrupted: "interrupted", OutcomeCancelled: "cancelled"}

// String returns the published name, in lower snake case; empty for zero.
func (v Outcome) String() string { return enumName(outcomeNames[:], uint8(v)) }

// ErrorClass is the kind of an error: the only thing of it that reaches headers and metric labels.
type ErrorClass uint8

// The values of ErrorClass.
const (
	ClassTransient ErrorClass = 1
	ClassThrottled ErrorClass = 2
	ClassTimeout   ErrorClass = 3
	ClassPermanent ErrorClass = 4
	ClassMalformed ErrorClass = 5
	ClassPanic     ErrorClass = 6
	ClassCrash     ErrorClass = 7
)

var errorClassNames = [...]string{ClassTransient: "transient", ClassThrottled: "throttled", ClassTimeout: "timeout", ClassPermanent: "permanent", ClassMalformed: "malformed", ClassPanic: "panic", ClassCrash: "crash"}

// String returns the published name, in lower snake case; empty for zero.
func (v ErrorClass) String() string { return enumName(errorClassNames[:], uint8(v)) }

// AbandonCause says why a started attempt is taken to have no outcome.
type AbandonCause uint8

// The values of AbandonCause.
const (
	AbandonWorkerLost     AbandonCause = 1
	AbandonMovedAway      AbandonCause = 2
	AbandonDeadlinePassed AbandonCause = 3
	AbandonNotStarted     AbandonCause = 4
)

var abandonCauseNames = [...]string{AbandonWorkerLost: "worker_lost", AbandonMovedAway: "moved_away", AbandonDeadlinePassed: "deadline_passed", AbandonNotStarted: "not_started"}

// String returns the published name, in lower snake case; empty for zero.
func (v AbandonCause) String() string { return enumName(abandonCauseNames[:], uint8(v)) }

// DeferReason says why a job waits without an attempt.
type DeferReason uint8

// The values of DeferReason.
const (
	DeferTier      DeferReason = 1
	DeferNotBefore DeferReason = 2
	DeferBreaker   DeferReason = 3
	DeferPaused    DeferReason = 4
	DeferTenantCap DeferReason = 5
	DeferSuspect   DeferReason = 6
)

var deferReasonNames = [...]string{DeferTier: "tier", DeferNotBefore: "not_before", DeferBreaker: "breaker", DeferPaused: "paused", DeferTenantCap: "tenant_cap", DeferSuspect: "suspect"}

// String returns the published name, in lower snake case; empty for zero.
func (v DeferReason) String() string { return enumName(deferReasonNames[:], uint8(v)) }

// ParkReason says what a parked job waits for.
type ParkReason uint8

// The values of ParkReason.
const (
	ParkAbandoned   ParkReason = 1
	ParkInterrupted ParkReason = 2
)

var parkReasonNames = [...]string{ParkAbandoned: "abandoned", ParkInterrupted: "interrupted"}

// String returns the published name, in lower snake case; empty for zero.
func (v ParkReason) String() string { return enumName(parkReasonNames[:], uint8(v)) }

// ResolveVerb is an operator's decision on a parked job.
type ResolveVerb uint8

// The values of ResolveVerb.
const (
	ResolveSucceeded ResolveVerb = 1
	ResolveFailed    ResolveVerb = 2
	ResolveRetry     ResolveVerb = 3
)

var resolveVerbNames = [...]string{ResolveSucceeded: "succeeded", ResolveFailed: "failed", ResolveRetry: "retry"}

// String returns the published name, in lower snake case; empty for zero.
func (v ResolveVerb) String() string { return enumName(resolveVerbNames[:], uint8(v)) }

// TerminalOutcome says how a run ended.
type TerminalOutcome uint8

// The values of TerminalOutcome.
const (
	TerminalSucceeded TerminalOutcome = 1
	TerminalFailed    TerminalOutcome = 2
	TerminalCancelled TerminalOutcome = 3
	TerminalExpired   TerminalOutcome = 4
	TerminalErased    TerminalOutcome = 5
)

var terminalOutcomeNames = [...]string{TerminalSucceeded: "succeeded", TerminalFailed: "failed", TerminalCancelled: "cancelled", TerminalExpired: "expired", TerminalErased: "erased"}

// String returns the published name, in lower snake case; empty for zero.
func (v TerminalOutcome) String() string { return enumName(terminalOutcomeNames[:], uint8(v)) }

// TerminalReason says why a run got no further attempt; zero when it succeeded.
type TerminalReason uint8

// The values of TerminalReason.
const (
	ReasonExhausted   TerminalReason = 1
	ReasonPermanent   TerminalReason = 2
	ReasonMalformed   TerminalReason = 3
	ReasonUnknownType TerminalReason = 4
	ReasonOversize    TerminalReason = 5
	ReasonCrashLoop   TerminalReason = 6
	ReasonDeadline    TerminalReason = 7
	ReasonOperator    TerminalReason = 8
)

var terminalReasonNames = [...]string{ReasonExhausted: "exhausted", ReasonPermanent: "permanent", ReasonMalformed: "malformed", ReasonUnknownType: "unknown_type", ReasonOversize: "oversize", ReasonCrashLoop: "crash_loop", ReasonDeadline: "deadline", ReasonOperator: "operator"}

// String returns the published name, in lower snake case; empty for zero.
func (v TerminalReason) String() string { return enumName(terminalReasonNames[:], uint8(v)) }

// DuplicateAction says what was done with a second publication of a job.
type DuplicateAction uint8

// The values of DuplicateAction.
const (
	DuplicateRejected    DuplicateAction = 1
	DuplicateRun         DuplicateAction = 2
	DuplicateIDCollision DuplicateAction = 3
)

var duplicateActionNames = [...]string{DuplicateRejected: "rejected", DuplicateRun: "run", DuplicateIDCollision: "id_collision"}

// String returns the published name, in lower snake case; empty for zero.
func (v DuplicateAction) String() string { return enumName(duplicateActionNames[:], uint8(v)) }

func enumName(names []string, v uint8) string {
	if int(v) < len(names) && (names[v] != "" || v == 0) {
		return names[v]
	}
	return strconv.Itoa(int(v))
}
