//go:build scale

package loadtest_test

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/jobtrail/jobtrail/internal/projector"
	"github.com/jobtrail/jobtrail/pkg/events"
	"github.com/jobtrail/jobtrail/pkg/sanitize"
)

var scaleEvents = flag.Int("events", 5_000_000, "events in the log before the rebuild begins")

// TestRebuildAtScale rebuilds a store of many events while 200 jobs a second go
// on, and measures time and memory.
func TestRebuildAtScale(t *testing.T) {
	g := newGroup(t, 6)
	big := g.sibling() // its log is written by the test
	begun := time.Now()
	writeHistory(t, big, *scaleEvents)
	t.Logf("%d events were written in %v", *scaleEvents, time.Since(begun).Round(time.Second))
	w := newWitness(t, g)
	p := g.worker(w.jobsFile(`job: {http: {url: "URL"}}` + "\n"))
	pr := start(t, "projector", append(g.env(), "JOBTRAIL_GROUPS="+g.topo.Group+","+big.topo.Group)...)
	pr.says("projecting", 1, 60*time.Second)
	conn := g.conn()
	begun = time.Now()
	for g.number(conn, "SELECT sum(row_count) FROM DB.batches") < uint64(*scaleEvents) {
		if time.Since(begun) > 30*time.Minute {
			t.Fatal("the projector does not come to the log's end")
		}
		<-time.After(time.Second)
	}
	t.Logf("they were projected in %v", time.Since(begun).Round(time.Second))
	stop := g.rate(200)
	begun = time.Now()
	r := startWith(t, "jobtrail", []string{"rebuild", "-o", "table"}, g.env()...)
	peak := 0
	for running := true; running; {
		select {
		case <-r.done:
			running = false
		case <-time.After(500 * time.Millisecond):
			peak = max(peak, peakMemory(r.cmd.Process.Pid))
		}
		if time.Since(begun) > 60*time.Minute {
			t.Fatal("the rebuild does not end")
		}
	}
	r.mu.Lock()
	t.Logf("what it said:\n%s", strings.Join(r.lines, "\n"))
	r.mu.Unlock()
	if code := r.exit(0); code != 0 {
		t.Fatalf("the rebuild ended with %d", code)
	}
	took := time.Since(begun)
	n := stop()
	// Not from the topics: reading them whole takes longer than the jobs.
	ended := fmt.Sprintf("SELECT count() FROM DB.v_jobs WHERE worker_group = '%s' AND state = 'succeeded'", g.topo.Group)
	for deadline := time.Now().Add(3 * time.Minute); g.number(conn, ended) < uint64(n); <-time.After(time.Second) {
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d jobs have ended", g.number(conn, ended), n)
		}
	}
	p.stop()
	t.Logf("rebuilt in %v with %d MB at most, while %d jobs ran (%.0f/s)", took.Round(time.Second), peak/1024, n, float64(n)/took.Seconds())
	if rate := float64(n) / took.Seconds(); rate < 150 {
		t.Errorf("only %.0f jobs a second went on", rate)
	}
	// The old generation is taken to the log's end, and the two are compared whole.
	back := startWith(t, "jobtrail", []string{"rebuild", "rollback"}, g.env()...)
	if code := back.exit(10 * time.Minute); code != 0 {
		t.Fatalf("the rollback ended with %d", code)
	}
	pr.stop()
	if events := g.number(conn, "SELECT count() FROM A.evidence FINAL"); events < uint64(*scaleEvents+3*n) {
		t.Errorf("the store holds %d events of %d", events, *scaleEvents+3*n)
	}
	g.sameGenerations(conn)
	t.Logf("both generations hold %d events and %d runs", g.number(conn, "SELECT count() FROM B.evidence FINAL"), g.number(conn, "SELECT count() FROM B.v_jobs"))
}

// peakMemory returns VmHWM of a process in KiB.
func peakMemory(pid int) int {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(raw)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, _ := strconv.Atoi(strings.Fields(rest)[0])
			return n
		}
	}
	return 0
}

// writeHistory writes n events of finished jobs, of which one in ten was
// retried, to the log of a group.
func writeHistory(t *testing.T, g *group, n int) {
	t.Helper()
	producer, err := kgo.NewClient(append(g.kafka, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MaxBufferedRecords(100_000), kgo.ProducerBatchCompression(kgo.SnappyCompression()))...)
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	var encoder events.Encoder
	written := 0
	topic := uuid.New()
	message := sanitize.Clean("503 Service Unavailable")
	for job := 0; written < n; job++ {
		part := int32(job % g.partitions)
		// A job each 20 ms up to now: months of history.
		at := events.TimeOf(time.Now()) - events.Time((n/3-job)*20)
		e := events.Event{MinReader: 1, OccurredAt: at, Group: g.topo.Group, TenantID: []string{"acme", "globex", "initech"}[job/3%3], JobID: uuid.NewString(), JobType: []string{"charge-card", "ship", "mail"}[job%3],
			OperationID: fmt.Sprint("order-", job/3), Publication: events.Publication{TopicID: topic, Topic: "shop.jobs", Partition: part, Offset: int64(job)}, Run: 1, Version: 1, Number: 1, OriginAt: at - 40, TraceID: uuid.New(),
			Source: events.Source{Topic: "shop.jobs", Partition: part, Offset: int64(job)}, Worker: "worker-1/0011aabb", Generation: 7, CodeVersion: "v1.2.3"}
		put := func(body events.Body, state events.State) {
			written++
			e.Body, e.State = body, state
			producer.Produce(t.Context(), &kgo.Record{Topic: projector.EvidenceTopic(g.topo.Group), Partition: part, Value: encoder.Append(nil, &e)}, func(_ *kgo.Record, err error) {
				if err != nil {
					t.Errorf("writing to the log: %v", err)
				}
			})
			e.Version++
		}
		key := events.IdempotencyKey(e.Group, e.TenantID, e.JobID, "")
		id := uuid.New()
		put(&events.AttemptStarted{AttemptID: id, Cause: events.CauseFirst, EnqueuedAt: at - 30, Delivery: 1, IdempotencyKey: key}, events.StateRunning)
		if job%10 == 0 {
			put(&events.AttemptFinished{AttemptID: id, Outcome: events.OutcomeFailed, Error: events.Error{Class: events.ClassTransient, Type: "http_503", Message: message, Fingerprint: 5},
				StartedAt: at, FinishedAt: at + 12, Delivery: 1, Next: events.Next{RetryAt: at + 1000, Tier: g.topo.Group + ".retry.1s"}}, events.StateRetryWaiting)
			e.Number++
			id = uuid.New()
			put(&events.AttemptStarted{AttemptID: id, Cause: events.CauseRetry, EnqueuedAt: at, Delivery: 1, IdempotencyKey: key}, events.StateRunning)
		}
		put(&events.AttemptFinished{AttemptID: id, Outcome: events.OutcomeSucceeded, StartedAt: at, FinishedAt: at + 12, Delivery: 1}, events.StateDeciding)
		put(&events.JobTerminal{Outcome: events.TerminalSucceeded, Attempts: e.Number}, events.StateSucceeded)
	}
	if err := producer.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}
