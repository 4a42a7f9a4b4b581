package events_test

import (
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/jobtrail/jobtrail/pkg/events"
)

// An event is written to the log and read back.
func Example() {
	started := &events.Event{
		MinReader: 1, Group: "shop", JobID: "order-7", JobType: "charge", Run: 1, Version: 1, State: events.StateRunning, Number: 1,
		Publication: events.Publication{Topic: "shop.jobs", Partition: 3, Offset: 41},
		Body:        &events.AttemptStarted{Cause: events.CauseFirst, Delivery: 1},
	}
	record := events.Append(nil, started)

	e, err := events.Decode(record)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(e.Type(), "of", e.JobID, "published at", e.Publication)
	if b, ok := e.Body.(*events.AttemptStarted); ok {
		fmt.Println("cause:", b.Cause)
	}
	// Output:
	// attempt_started of order-7 published at shop.jobs/3/41
	// cause: first
}

// Folding a run's events gives its state; what may not follow is refused.
func ExampleJob_Apply() {
	log := []*events.Event{
		{Run: 1, Version: 1, State: events.StateRunning, Number: 1, Body: &events.AttemptStarted{}},
		{Run: 1, Version: 2, State: events.StateDeciding, Number: 1, Body: &events.AttemptFinished{Outcome: events.OutcomeSucceeded}},
		{Run: 1, Version: 3, State: events.StateSucceeded, Number: 1, Body: &events.JobTerminal{Outcome: events.TerminalSucceeded, Attempts: 1}},
		{Run: 1, Version: 4, State: events.StateFailed, Number: 1, Body: &events.JobTerminal{Outcome: events.TerminalFailed}},
	}
	var job events.Job
	for _, e := range log {
		next, err := job.Apply(e)
		if refused, ok := errors.AsType[*events.TransitionError](err); ok {
			fmt.Println("refused:", refused.Why)
			continue
		}
		job = next
		fmt.Printf("version %d: %s\n", job.Version, job.State)
	}
	// Output:
	// version 1: running
	// version 2: deciding
	// version 3: succeeded
	// refused: the state machine forbids it
}

// Whoever reads a record again arrives at the same attempt id.
func ExampleAttemptID() {
	topic := uuid.MustParse("0b5c2f0e-8a6d-4c7b-9a10-3a7f2d8f5e01")
	fmt.Println(events.AttemptID("shop", topic, 3, 41, 1))
	fmt.Println(events.AttemptID("shop", topic, 3, 41, 2)) // delivered again
	// Output:
	// b34d12e5-9889-5124-a0db-a0fa5687ae3f
	// e77d52c3-2b80-5463-a48c-1c452eda6449
}

// A repeated publication of the same job has the same key.
func ExampleIdempotencyKey() {
	fmt.Println(events.IdempotencyKey("shop", "acme", "order-7", "charge"))
	// Output:
	// 1301ace2-6bdb-5237-af6a-6a2316941d2d
}
