package projectortest

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/jobtrail/jobtrail/pkg/events"
	"github.com/jobtrail/jobtrail/pkg/sanitize"
)

// TopicID is the id of the job topic of every history.
var TopicID = uuid.MustParse("0b5c2f0e-8a6d-4c7b-9a10-3a7f2d8f5e01")

// History makes the events of one publication, as its owner would write them:
// versions, states and numbers follow from events.Job.Apply, which also refuses
// what is illegal. The fields are set before the first event and may be changed
// between events.
type History struct {
	Group, Tenant, Job, Type, Operation string
	Pub                                 events.Publication
	Origin                              events.Time
	Worker                              string
	// Clock is the worker's time of the next event; every event moves it on by a
	// millisecond.
	Clock  events.Time
	Events []*events.Event

	t        testing.TB
	at       events.Job
	delivery uint32
	attempt  uuid.UUID
	step     string
}

// NewHistory begins the history of a publication in the topic "jobs".
func NewHistory(t testing.TB, group, tenant, operation, job, typ string, partition int32, offset int64) *History {
	now := events.TimeOf(time.Now())
	return &History{Group: group, Tenant: tenant, Operation: operation, Job: job, Type: typ, Pub: events.Publication{TopicID: TopicID, Topic: "jobs", Partition: partition, Offset: offset},
		Origin: now - 1000, Worker: "host-1/aaaa0001", Clock: now, t: t, at: events.Job{}}
}

// Attempt returns the id of the latest attempt.
func (h *History) Attempt() uuid.UUID { return h.attempt }

// fact appends an event of version 0.
func (h *History) fact(run uint32, body events.Body) *events.Event {
	h.Clock++
	e := &events.Event{MinReader: 1, OccurredAt: h.Clock, Group: h.Group, TenantID: h.Tenant, JobID: h.Job, JobType: h.Type, OperationID: h.Operation, Publication: h.Pub, Run: run,
		Number: h.at.Number, OriginAt: h.Origin, Source: events.Source{Topic: h.Pub.Topic, Partition: h.Pub.Partition, Offset: h.Pub.Offset}, Worker: h.Worker, Generation: 3, CodeVersion: "v1",
		TraceID: [16]byte{1, 2, 3}, Body: body}
	if run == 0 {
		e.Number = 0
	}
	h.Events = append(h.Events, e)
	return e
}

// step appends the next version.
func (h *History) next(state events.State, body events.Body) *events.Event {
	h.t.Helper()
	run := max(h.at.Run, 1)
	e := h.fact(run, body)
	e.Version, e.State, e.Number = h.at.Version+1, state, h.at.Number
	switch b := body.(type) {
	case *events.AttemptStarted:
		e.Number++
	case *events.JobRedriven:
		e.Run, e.Version, e.Number = h.at.Run+1, 1, 0
	case *events.JobTerminal:
		b.Attempts = e.Number
	}
	after, err := h.at.Apply(e)
	if err != nil {
		h.t.Fatalf("making a history: %v", err)
	}
	h.at = after
	return e
}

// Started starts an attempt.
func (h *History) Started(cause events.StartCause) *events.Event {
	h.t.Helper()
	h.delivery++
	h.attempt = events.AttemptID(h.Group, h.Pub.TopicID, h.Pub.Partition, h.Pub.Offset, h.delivery)
	return h.next(events.StateRunning, &events.AttemptStarted{AttemptID: h.attempt, Step: h.step, Cause: cause, EnqueuedAt: h.Clock - 5, Delivery: h.delivery,
		IdempotencyKey: events.IdempotencyKey(h.Group, h.Tenant, h.Job, h.step)})
}

func (h *History) finished(outcome events.Outcome, class events.ErrorClass, message string) *events.AttemptFinished {
	b := &events.AttemptFinished{AttemptID: h.attempt, Outcome: outcome, StartedAt: h.Clock, FinishedAt: h.Clock + 20, Delivery: h.delivery}
	if class != 0 {
		text := sanitize.Clean(message)
		b.Error = events.Error{Class: class, Type: "http_503", Message: text, Fingerprint: sanitize.Fingerprint(text)}
	}
	h.Clock += 20
	return b
}

// Succeeded ends the attempt well.
func (h *History) Succeeded() *events.Event {
	h.t.Helper()
	return h.next(events.StateDeciding, h.finished(events.OutcomeSucceeded, 0, ""))
}

// Retry ends the attempt badly, with a retry to follow.
func (h *History) Retry(outcome events.Outcome, class events.ErrorClass, message string) *events.Event {
	h.t.Helper()
	b := h.finished(outcome, class, message)
	b.Next = events.Next{RetryAt: h.Clock + 1000, Tier: h.Group + ".retry.1s"}
	return h.next(events.StateRetryWaiting, b)
}

// GaveUp ends the attempt badly, with no retry to follow.
func (h *History) GaveUp(outcome events.Outcome, class events.ErrorClass, message string) *events.Event {
	h.t.Helper()
	return h.next(events.StateDeciding, h.finished(outcome, class, message))
}

// Late tells the outcome of an attempt after the partition was lost: a fact.
func (h *History) Late(attempt uuid.UUID, outcome events.Outcome) *events.Event {
	b := h.finished(outcome, 0, "")
	b.AttemptID, b.Late = attempt, true
	return h.fact(h.at.Run, b)
}

// Adopted ends the attempt with the outcome of a late fact.
func (h *History) Adopted(outcome events.Outcome, offset int64) *events.Event {
	h.t.Helper()
	b := h.finished(outcome, 0, "")
	b.AdoptedFrom = offset + 1
	return h.next(events.StateDeciding, b)
}

// Abandoned closes the attempt without an outcome.
func (h *History) Abandoned(cause events.AbandonCause, to events.State) *events.Event {
	h.t.Helper()
	return h.next(to, &events.AttemptAbandoned{AttemptID: h.attempt, Cause: cause, Losses: 1, Detector: h.Worker, BasedOn: 1, Delivery: h.delivery})
}

// NotStarted is the fact that the attempt's handler never ran.
func (h *History) NotStarted() *events.Event {
	return h.fact(h.at.Run, &events.AttemptAbandoned{AttemptID: h.attempt, Cause: events.AbandonNotStarted, Detector: h.Worker, Delivery: h.delivery})
}

// Parked waits for a decision.
func (h *History) Parked(reason events.ParkReason) *events.Event {
	h.t.Helper()
	return h.next(events.StateParked, &events.JobParked{Reason: reason})
}

// Resolved decides.
func (h *History) Resolved(verb events.ResolveVerb, actor, why string) *events.Event {
	h.t.Helper()
	to := events.StateDeciding
	if verb == events.ResolveRetry {
		to = events.StateRetryWaiting
	}
	return h.next(to, &events.JobResolved{Verb: verb, Actor: actor, Reason: sanitize.Clean(why), CommandID: uuid.New()})
}

// Deferred waits without an attempt.
func (h *History) Deferred(reason events.DeferReason, until events.Time) *events.Event {
	h.t.Helper()
	state := events.StatePending
	if h.at.State != 0 {
		state = h.at.State
	}
	return h.next(state, &events.JobDeferred{Reason: reason, Until: until, Tier: h.Group + ".retry.1s"})
}

// StepCompleted hands over to the next step.
func (h *History) StepCompleted(step, next string) *events.Event {
	h.t.Helper()
	h.step = next
	return h.next(events.StatePending, &events.StepCompleted{Step: step, NextStep: next})
}

// Terminal ends the run.
func (h *History) Terminal(outcome events.TerminalOutcome, reason events.TerminalReason) *events.Event {
	h.t.Helper()
	return h.next(outcome.FinalState(), &events.JobTerminal{Outcome: outcome, Reason: reason})
}

// Redriven opens the next run.
func (h *History) Redriven(actor string) *events.Event {
	h.t.Helper()
	return h.next(events.StatePending, &events.JobRedriven{RedriveID: uuid.New(), Actor: actor})
}

// Rejected is the fact that something asked of the run was refused.
func (h *History) Rejected(what string, expected events.State) *events.Event {
	return h.fact(h.at.Run, &events.TransitionRejected{What: what, Expected: expected, Found: h.at.State, Detail: sanitize.Clean("not in that state"), CommandID: uuid.New()})
}

// DuplicateOf is the fact that this publication repeats another one.
func (h *History) DuplicateOf(first *History, action events.DuplicateAction) *events.Event {
	return h.fact(0, &events.DuplicateSeen{First: first.Pub, FirstOperationID: first.Operation, FirstState: first.at.State, Action: action})
}

// Good is the history of a job that succeeds at once.
func (h *History) Good() *History {
	h.t.Helper()
	h.Started(events.CauseFirst)
	h.Succeeded()
	h.Terminal(events.TerminalSucceeded, 0)
	return h
}
