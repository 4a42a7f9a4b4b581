package projector

import (
	"fmt"

	"github.com/google/uuid"

	"github.com/jobtrail/jobtrail/pkg/events"
	"github.com/jobtrail/jobtrail/pkg/sanitize"
)

var emptyText sanitize.Text

// Restore returns the event that r is the row of. Of a Checkpoint and a
// DedupPage it returns the common fields and an empty body.
func Restore(r *Row) (*events.Event, error) {
	e := &events.Event{
		MinReader: uint32(r.MinReader), OccurredAt: events.Time(r.OccurredAt), Group: r.WorkerGroup, TenantID: r.TenantID, JobID: r.JobID, JobType: r.JobType, OperationID: r.OperationID,
		Run: uint32(r.Run), Version: r.Version, State: r.State, Number: uint32(r.Number), TraceID: r.TraceID, Worker: r.Worker, Generation: r.Generation, CodeVersion: r.CodeVersion,
	}
	if r.OriginTopic != "" || r.OriginTopicID != uuid.Nil {
		e.Publication = events.Publication{TopicID: r.OriginTopicID, Topic: r.OriginTopic, Partition: int32(r.Partition), Offset: int64(r.OriginOffset)}
		e.OriginAt = events.Time(r.OriginAt)
	}
	if r.SourceTopic != "" {
		e.Source = events.Source{Topic: r.SourceTopic, Partition: int32(r.Partition), Offset: int64(r.SourceOffset)}
	}
	e.Body = restoreBody(r, e)
	if len(r.Rest) == 0 || r.Type == events.TypeCheckpoint || r.Type == events.TypeDedupPage {
		return e, nil
	}
	rest, err := events.Decode(r.Rest)
	if err != nil {
		return nil, fmt.Errorf("restoring the event at %s/%d/%d: %w", r.LogID, r.Partition, r.Offset, err)
	}
	if rest.Group != "" {
		return rest, nil
	}
	// Encodings that follow one another are one message.
	merged, err := events.Decode(append(events.Append(nil, e), r.Rest...))
	if err != nil {
		return nil, fmt.Errorf("restoring the event at %s/%d/%d: %w", r.LogID, r.Partition, r.Offset, err)
	}
	return merged, nil
}

func restoreBody(r *Row, e *events.Event) events.Body {
	switch r.Type {
	case events.TypeAttemptStarted:
		return &events.AttemptStarted{AttemptID: r.AttemptID, Step: r.Step, Cause: number(startCauses, r.Cause), Cohort: uint32(r.Cohort), EnqueuedAt: events.Time(r.EnqueuedAt),
			Deadline: events.Time(r.Deadline), IdempotencyKey: events.IdempotencyKey(e.Group, e.TenantID, e.JobID, r.Step), Delivery: uint32(r.Delivery)}
	case events.TypeAttemptFinished:
		return &events.AttemptFinished{AttemptID: r.AttemptID, Outcome: number(outcomes, r.Outcome),
			Error:     events.Error{Class: number(errorClasses, r.ErrorClass), Type: r.ErrorType, Message: sanitize.Clean(r.ErrorMessage), Fingerprint: r.Fingerprint},
			StartedAt: events.Time(r.StartedAt), FinishedAt: events.Time(r.FinishedAt), Next: events.Next{RetryAt: events.Time(r.DueAt), Tier: r.Tier},
			Late: r.Late, AdoptedFrom: int64(r.BasedOn), Delivery: uint32(r.Delivery)}
	case events.TypeAttemptAbandoned:
		return &events.AttemptAbandoned{AttemptID: r.AttemptID, Cause: number(abandonCauses, r.Cause), Losses: uint32(r.Losses), SoloLosses: uint32(r.SoloLosses), Detector: r.Worker,
			BasedOn: int64(r.BasedOn), Delivery: uint32(r.Delivery)}
	case events.TypeStepCompleted:
		return &events.StepCompleted{Step: r.Step, NextStep: r.NextStep}
	case events.TypeJobDeferred:
		return &events.JobDeferred{Reason: number(deferReasons, r.Reason), Until: events.Time(r.DueAt), Tier: r.Tier}
	case events.TypeJobParked:
		return &events.JobParked{Reason: number(parkReasons, r.Reason)}
	case events.TypeJobResolved:
		return &events.JobResolved{Verb: number(resolveVerbs, r.Action), Actor: r.Actor, Reason: sanitize.Clean(r.Note), CommandID: r.CommandID}
	case events.TypeJobTerminal:
		return &events.JobTerminal{Outcome: number(terminalOutcomes, r.Outcome), Reason: number(terminalReasons, r.Reason), Attempts: uint32(r.Number), Detail: sanitize.Clean(r.Note)}
	case events.TypeJobRedriven:
		return &events.JobRedriven{RedriveID: r.CommandID, Actor: r.Actor}
	case events.TypeDuplicateSeen:
		b := &events.DuplicateSeen{FirstOperationID: r.FirstOperationID, FirstState: r.FoundState, Action: number(duplicateActions, r.Action)}
		if topic, partition, offset, ok := parsePlace(r.DuplicateOf); ok {
			b.First = events.Publication{TopicID: e.Publication.TopicID, Topic: topic, Partition: partition, Offset: offset}
		}
		return b
	case events.TypeTransitionRejected:
		return &events.TransitionRejected{What: r.Action, Expected: r.ExpectedState, Found: r.FoundState, Detail: sanitize.Clean(r.Note), CommandID: r.CommandID}
	case events.TypeGroupEvent:
		return &events.GroupEvent{Kind: r.Action}
	case events.TypeCheckpoint:
		return &events.Checkpoint{}
	case events.TypeDedupPage:
		return &events.DedupPage{}
	}
	return nil
}

// The published names of each enum, and their numbers.
var (
	startCauses      = numbers[events.StartCause]()
	outcomes         = numbers[events.Outcome]()
	errorClasses     = numbers[events.ErrorClass]()
	abandonCauses    = numbers[events.AbandonCause]()
	deferReasons     = numbers[events.DeferReason]()
	parkReasons      = numbers[events.ParkReason]()
	resolveVerbs     = numbers[events.ResolveVerb]()
	terminalOutcomes = numbers[events.TerminalOutcome]()
	terminalReasons  = numbers[events.TerminalReason]()
	duplicateActions = numbers[events.DuplicateAction]()
)

type enum interface {
	~uint8
	String() string
}

func numbers[E enum]() map[string]E {
	m := make(map[string]E, 256)
	for i := range 256 {
		m[E(i).String()] = E(i)
	}
	return m
}

func number[E enum](of map[string]E, name string) E { return of[name] }
