package projector_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/jobtrail/jobtrail/internal/projector"
	"github.com/jobtrail/jobtrail/internal/projector/projectortest"
	"github.com/jobtrail/jobtrail/pkg/events"
	"github.com/jobtrail/jobtrail/pkg/sanitize"
)

// BenchmarkProject measures the whole way: from the log on a real broker into
// all tables of a real server, both on this machine.
func BenchmarkProject(b *testing.B) {
	for _, partitions := range []int32{1, 6} {
		b.Run(fmt.Sprintf("partitions=%d", partitions), func(b *testing.B) {
			const n = 300_000
			var total time.Duration
			for range b.N {
				w := projectortest.New(b, partitions)
				writeMix(b, w, partitions, n)
				begun := time.Now()
				p := w.Project(func(c *projector.Config) { c.BatchWait, c.PositionEvery = time.Second, 2*time.Second })
				// A cheap question: the machine is the server's too.
				w.Eventually("everything is acknowledged", func() bool { return w.Count("SELECT sum(row_count) FROM DB.batches") >= n })
				total += time.Since(begun)
				p.Stop()
			}
			b.ReportMetric(float64(b.N)*n/total.Seconds(), "events/s")
		})
	}
}

// writeMix writes n events as a busy worker does: one job in ten is retried.
func writeMix(b *testing.B, w *projectortest.World, partitions int32, n int) {
	b.Helper()
	producer, err := w.Kafka(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.MaxBufferedRecords(100_000))
	if err != nil {
		b.Fatal(err)
	}
	defer producer.Close()
	var encoder events.Encoder
	written := 0
	topic := uuid.New()
	now := events.TimeOf(time.Now())
	for job := 0; written < n; job++ {
		part := int32(job) % partitions
		p := events.Publication{TopicID: topic, Topic: "shop.jobs", Partition: part, Offset: int64(job)}
		e := events.Event{MinReader: 1, OccurredAt: now, Group: w.Group, TenantID: []string{"acme", "globex", "initech"}[job%3], JobID: uuid.NewString(), JobType: []string{"charge-card", "ship", "mail"}[job%3],
			OperationID: uuid.NewString(), Publication: p, Run: 1, Version: 1, Number: 1, OriginAt: now - 40, TraceID: uuid.New(), Source: events.Source{Topic: p.Topic, Partition: part, Offset: p.Offset},
			Worker: "worker-1/0011aabb", Generation: 7, CodeVersion: "v1.2.3"}
		put := func(body events.Body, state events.State) {
			if written == n {
				return
			}
			written++
			e.Body, e.State = body, state
			producer.Produce(b.Context(), &kgo.Record{Topic: projector.EvidenceTopic(w.Group), Partition: part, Value: encoder.Append(nil, &e)}, func(_ *kgo.Record, err error) {
				if err != nil {
					b.Errorf("writing to the log: %v", err)
				}
			})
			e.Version++
		}
		id := uuid.New()
		key := events.IdempotencyKey(w.Group, e.TenantID, e.JobID, "")
		put(&events.AttemptStarted{AttemptID: id, Cause: events.CauseFirst, EnqueuedAt: now - 30, Delivery: 1, IdempotencyKey: key}, events.StateRunning)
		if job%10 == 0 {
			put(&events.AttemptFinished{AttemptID: id, Outcome: events.OutcomeFailed, Error: events.Error{Class: events.ClassTransient, Type: "http_503", Message: sanitize.Clean("503 Service Unavailable"), Fingerprint: 5},
				StartedAt: now, FinishedAt: now + 12, Delivery: 1, Next: events.Next{RetryAt: now + 1000, Tier: w.Group + ".retry.1s"}}, events.StateRetryWaiting)
			e.Number++
			id = uuid.New()
			put(&events.AttemptStarted{AttemptID: id, Cause: events.CauseRetry, EnqueuedAt: now, Delivery: 1, IdempotencyKey: key}, events.StateRunning)
		}
		put(&events.AttemptFinished{AttemptID: id, Outcome: events.OutcomeSucceeded, StartedAt: now, FinishedAt: now + 12, Delivery: 1}, events.StateDeciding)
		put(&events.JobTerminal{Outcome: events.TerminalSucceeded, Attempts: e.Number}, events.StateSucceeded)
	}
	if err := producer.Flush(b.Context()); err != nil {
		b.Fatal(err)
	}
}
