package projectortest

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/jobtrail/jobtrail/internal/projector"
	"github.com/jobtrail/jobtrail/pkg/events"
	"github.com/jobtrail/jobtrail/pkg/sanitize"
)

// WriteMix writes n events, or a few more, to a worker group's log as a busy
// worker does: of finished jobs, one in ten was retried. The last job is of now,
// and between two lies every. The producer places records itself.
func WriteMix(tb testing.TB, producer *kgo.Client, group string, partitions, n int, every time.Duration) {
	tb.Helper()
	var encoder events.Encoder
	written := 0
	topic := uuid.New()
	message := sanitize.Clean("503 Service Unavailable")
	now := events.TimeOf(time.Now())
	for job := 0; written < n; job++ {
		part := int32(job % partitions)
		at := now - events.Time((n/3-job)*int(every.Milliseconds()))
		e := events.Event{MinReader: 1, OccurredAt: at, Group: group, TenantID: []string{"acme", "globex", "initech"}[job/3%3], JobID: uuid.NewString(), JobType: []string{"charge-card", "ship", "mail"}[job%3],
			OperationID: fmt.Sprint("order-", job/3), Publication: events.Publication{TopicID: topic, Topic: "shop.jobs", Partition: part, Offset: int64(job)}, Run: 1, Version: 1, Number: 1, OriginAt: at - 40, TraceID: uuid.New(),
			Source: events.Source{Topic: "shop.jobs", Partition: part, Offset: int64(job)}, Worker: "worker-1/0011aabb", Generation: 7, CodeVersion: "v1.2.3"}
		put := func(body events.Body, state events.State) {
			written++
			e.Body, e.State = body, state
			producer.Produce(tb.Context(), &kgo.Record{Topic: projector.EvidenceTopic(group), Partition: part, Value: encoder.Append(nil, &e)}, func(_ *kgo.Record, err error) {
				if err != nil {
					tb.Errorf("writing to the log: %v", err)
				}
			})
			e.Version++
		}
		key := events.IdempotencyKey(e.Group, e.TenantID, e.JobID, "")
		id := uuid.New()
		put(&events.AttemptStarted{AttemptID: id, Cause: events.CauseFirst, EnqueuedAt: at - 30, Delivery: 1, IdempotencyKey: key}, events.StateRunning)
		if job%10 == 0 {
			put(&events.AttemptFinished{AttemptID: id, Outcome: events.OutcomeFailed, Error: events.Error{Class: events.ClassTransient, Type: "http_503", Message: message, Fingerprint: 5},
				StartedAt: at, FinishedAt: at + 12, Delivery: 1, Next: events.Next{RetryAt: at + 1000, Tier: group + ".retry.1s"}}, events.StateRetryWaiting)
			e.Number++
			id = uuid.New()
			put(&events.AttemptStarted{AttemptID: id, Cause: events.CauseRetry, EnqueuedAt: at, Delivery: 1, IdempotencyKey: key}, events.StateRunning)
		}
		put(&events.AttemptFinished{AttemptID: id, Outcome: events.OutcomeSucceeded, StartedAt: at, FinishedAt: at + 12, Delivery: 1}, events.StateDeciding)
		put(&events.JobTerminal{Outcome: events.TerminalSucceeded, Attempts: e.Number}, events.StateSucceeded)
	}
	if err := producer.Flush(tb.Context()); err != nil {
		tb.Fatal(err)
	}
}
