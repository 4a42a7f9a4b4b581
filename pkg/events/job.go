package events

import (
	"fmt"
	"slices"
)

// Job is where one run of a publication stands: what folding its events gives.
// The zero Job is a publication of which nothing is on record.
type Job struct {
	Run     uint32
	Version uint32
	State   State
	// Number counts the attempts started in the run.
	Number uint32
}

// Final reports whether no further attempt follows in the run.
func (s State) Final() bool { return s >= StateSucceeded }

// Open reports whether the run has begun or waits, and has not ended.
func (s State) Open() bool { return s >= StatePending && s <= StateParked }

// TransitionError says that an event may not follow what is on record.
type TransitionError struct {
	From Job
	Type Type
	To   State
	// Why says what is wrong, in words.
	Why string
}

// Error implements error.
func (e *TransitionError) Error() string {
	return fmt.Sprintf("%s to %s in state %s at run %d version %d: %s", e.Type, e.To, e.From.State, e.From.Run, e.From.Version, e.Why)
}

// transitions is the state machine: from a state, by an event type, to any of
// the listed states. What is not listed is illegal.
var transitions = map[State]map[Type][]State{
	StatePending: {
		TypeAttemptStarted: {StateRunning},
		TypeJobDeferred:    {StatePending},
		TypeJobTerminal:    finals,
	},
	StateRunning: {
		TypeAttemptFinished:  {StateDeciding, StateRetryWaiting},
		TypeAttemptAbandoned: {StateRetryWaiting, StateDeciding},
		TypeJobTerminal:      finals,
	},
	StateDeciding: {
		TypeStepCompleted: {StatePending},
		TypeJobParked:     {StateParked},
		TypeJobTerminal:   finals,
	},
	StateRetryWaiting: {
		TypeAttemptStarted: {StateRunning},
		TypeJobDeferred:    {StateRetryWaiting},
		TypeJobTerminal:    finals,
	},
	StateParked: {
		TypeJobResolved: {StateRetryWaiting, StateDeciding},
		TypeJobTerminal: finals,
	},
	StateFailed:    {TypeJobRedriven: {StatePending}},
	StateCancelled: {TypeJobRedriven: {StatePending}},
	StateExpired:   {TypeJobRedriven: {StatePending}},
}

// States returns every state, in the order of their numbers.
func States() []State {
	return append([]State{StatePending, StateRunning, StateDeciding, StateRetryWaiting, StateParked}, finals...)
}

// LeadsTo returns the states that an event of type t may lead to from a state;
// none when the event is illegal there.
func LeadsTo(from State, t Type) []State { return slices.Clone(transitions[from][t]) }

var finals = []State{StateSucceeded, StateFailed, StateCancelled, StateExpired, StateErased}

// FinalState returns the state that a run ends in.
func (o TerminalOutcome) FinalState() State {
	if o < TerminalSucceeded || o > TerminalErased {
		return 0
	}
	return finals[o-TerminalSucceeded]
}

// Apply returns the job after e, or a *TransitionError and the job unchanged
// when e may not follow what is on record: a version that is not the next one,
// a state that the event does not lead to, a second terminal. It is the one
// place that controls state; the owner asks it before it writes, and readers
// ask it to check what was written. Facts, of version 0, change nothing.
func (j Job) Apply(e *Event) (Job, error) {
	if e.Version == 0 {
		return j, nil
	}
	refuse := func(why string) (Job, error) {
		return j, &TransitionError{From: j, Type: e.Type(), To: e.State, Why: why}
	}
	from, next := j, j
	switch {
	case j.Run == 0:
		if e.Run == 0 {
			return refuse("runs count from 1")
		}
		from = Job{Run: e.Run, State: StatePending}
		next = from
		if e.Type() == TypeJobRedriven {
			// A run opened by a redrive may be all that is on record.
			if e.Run == 1 {
				return refuse("a redrive opens a run after the first")
			}
			from.State = StateFailed
		}
	case e.Type() == TypeJobRedriven:
		if e.Run != j.Run+1 {
			return refuse(fmt.Sprintf("the next run is %d, not %d", j.Run+1, e.Run))
		}
		next = Job{Run: e.Run}
	case e.Run != j.Run:
		return refuse(fmt.Sprintf("the event is of run %d", e.Run))
	}
	if e.Version != next.Version+1 {
		return refuse(fmt.Sprintf("the next version is %d, not %d", next.Version+1, e.Version))
	}
	if !leadsTo(from.State, e.Type(), e.State) {
		return refuse("the state machine forbids it")
	}
	switch b := e.Body.(type) {
	case *AttemptStarted:
		next.Number++
	case *AttemptFinished:
		if b.Outcome == OutcomeSucceeded && e.State != StateDeciding {
			return refuse("a success is never retried")
		}
		if (e.State == StateRetryWaiting) != (b.Next != Next{}) {
			return refuse("a retry is announced exactly when the job waits for one")
		}
		if b.Late {
			return refuse("a late outcome is a fact and has no version")
		}
	case *JobTerminal:
		if b.Outcome.FinalState() != e.State {
			return refuse("the outcome does not fit the state")
		}
	}
	if e.Number != next.Number {
		return refuse(fmt.Sprintf("%d attempts were started, not %d", next.Number, e.Number))
	}
	next.Version, next.State = e.Version, e.State
	return next, nil
}

func leadsTo(from State, t Type, to State) bool {
	return slices.Contains(transitions[from][t], to)
}
