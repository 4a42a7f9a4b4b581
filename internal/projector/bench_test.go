package projector

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/jobtrail/jobtrail/pkg/events"
	"github.com/jobtrail/jobtrail/pkg/sanitize"
)

// mix returns n records as a busy worker writes them: mostly started,
// finished, terminal, some of them retried.
func mix(n int) []*kgo.Record {
	topic := uuid.New()
	now := time.Now()
	records := make([]*kgo.Record, 0, n)
	for job := 0; len(records) < n; job++ {
		p := events.Publication{TopicID: topic, Topic: "shop.jobs", Partition: 3, Offset: int64(job)}
		at := events.TimeOf(now) + events.Time(job/10)
		e := events.Event{MinReader: 1, OccurredAt: at, Group: "shop", TenantID: []string{"acme", "globex", "initech"}[job%3], JobID: uuid.NewString(), JobType: []string{"charge-card", "ship", "mail"}[job%3],
			OperationID: uuid.NewString(), Publication: p, Run: 1, Version: 1, State: events.StateRunning, Number: 1, OriginAt: at - 40, TraceID: uuid.New(), Source: events.Source{Topic: p.Topic, Partition: 3, Offset: p.Offset},
			Worker: "worker-1/0011aabb", Generation: 7, CodeVersion: "v1.2.3"}
		id := uuid.New()
		put := func(b events.Body, state events.State) {
			e.Body, e.State = b, state
			records = append(records, &kgo.Record{Topic: "shop.evidence", Partition: 3, Offset: int64(len(records)), Timestamp: now, Value: events.Append(nil, &e)})
			e.Version++
		}
		put(&events.AttemptStarted{AttemptID: id, Cause: events.CauseFirst, EnqueuedAt: at - 30, Delivery: 1, IdempotencyKey: events.IdempotencyKey("shop", e.TenantID, e.JobID, "")}, events.StateRunning)
		if job%10 == 0 {
			text := sanitize.Clean("503 Service Unavailable")
			put(&events.AttemptFinished{AttemptID: id, Outcome: events.OutcomeFailed, Error: events.Error{Class: events.ClassTransient, Type: "http_503", Message: text, Fingerprint: 5}, StartedAt: at, FinishedAt: at + 12, Delivery: 1,
				Next: events.Next{RetryAt: at + 1000, Tier: "shop.retry.1s"}}, events.StateRetryWaiting)
			e.Number++
			put(&events.AttemptStarted{AttemptID: uuid.New(), Cause: events.CauseRetry, EnqueuedAt: at, Delivery: 1, IdempotencyKey: events.IdempotencyKey("shop", e.TenantID, e.JobID, "")}, events.StateRunning)
		}
		put(&events.AttemptFinished{AttemptID: id, Outcome: events.OutcomeSucceeded, StartedAt: at, FinishedAt: at + 12, Delivery: 1}, events.StateDeciding)
		put(&events.JobTerminal{Outcome: events.TerminalSucceeded, Attempts: e.Number}, events.StateSucceeded)
	}
	return records[:n]
}

// BenchmarkEncode is decode, map and append: what a record costs before it is
// sent.
func BenchmarkEncode(b *testing.B) {
	records := mix(20_000)
	c := encoder{log: uuid.New(), partition: 3, clean: sanitize.New(sanitize.Config{})}
	cols := newColumns()
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		cols.reset()
		batch := &batch{cols: cols}
		for _, rec := range records {
			c.add(batch, rec)
		}
		n += len(records)
		if batch.Poison > 0 {
			b.Fatal(batch.poison[0].reason)
		}
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "records/s")
	b.ReportMetric(float64(cols.bytes)/float64(cols.rows), "B/row")
}
