package loadtest_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/jobtrail/jobtrail/internal/localstack"
	"github.com/jobtrail/jobtrail/internal/localstack/stacktest"
	"github.com/jobtrail/jobtrail/loadtest"
	"github.com/jobtrail/jobtrail/pkg/events"
	"github.com/jobtrail/jobtrail/pkg/jobs"
)

const twoPolicies = `repeat: {http: {url: "URL"}}
once: {http: {url: "URL"}, idempotent: false}
`

// TestKilledAfterTheSideEffect kills a worker between side effect and outcome.
func TestKilledAfterTheSideEffect(t *testing.T) {
	t.Parallel()
	defer within(t, t.Name())()
	g := newGroup(t, 2)
	w := newWitness(t, g)
	file := w.jobsFile(twoPolicies)
	hang := make(chan struct{})
	t.Cleanup(func() { close(hang) })
	first := func(c *call) int {
		if c.number == "1" {
			<-hang
		}
		return 200
	}
	w.on("repeat", first)
	w.on("once", first)
	p := g.worker(file)
	g.publish(jobs.Job{ID: "r", Type: "repeat", Value: []byte("r")}, jobs.Job{ID: "o", Type: "once", Value: []byte("o")})
	w.wait("r", 1, 30*time.Second)
	w.wait("o", 1, 30*time.Second)
	p.kill()
	p2 := g.worker(file)
	g.until(60*time.Second, "end of both jobs", terminals(2))
	p2.stop()
	s := g.check()
	if got := said(runOf(t, s, "r")); got != "started first, worker_lost, started redelivery, succeeded, terminal succeeded" {
		t.Errorf("the idempotent job: %s", got)
	}
	if got := said(runOf(t, s, "o")); got != "started first, worker_lost, job_parked" {
		t.Errorf("the other job: %s", got)
	}
	if n := len(w.of("r")); n != 2 {
		t.Errorf("the idempotent job was called %d times, wanted 2", n)
	}
	if n := len(w.of("o")); n != 1 {
		t.Errorf("the other job was called %d times, wanted 1", n)
	}
	if calls := w.of("r"); len(calls) == 2 && (calls[0].key != calls[1].key || calls[0].attempt == calls[1].attempt) {
		t.Errorf("the attempts have keys %s and %s, ids %s and %s", calls[0].key, calls[1].key, calls[0].attempt, calls[1].attempt)
	}
}

// TestPublishedTwice publishes jobs again while they run, wait for a retry, and
// have ended, also across a restart of the worker.
func TestPublishedTwice(t *testing.T) {
	t.Parallel()
	defer within(t, t.Name())()
	g := newGroup(t, 2)
	w := newWitness(t, g)
	file := w.jobsFile(`job: {http: {url: "URL"}, retry: {initial: 6s}}` + "\n")
	hang := make(chan struct{})
	w.on("job", func(c *call) int {
		switch {
		case c.job == "running":
			<-hang
		case c.job == "waiting" && c.number == "1":
			return 503
		}
		return 200
	})
	p := g.worker(file)
	list := []jobs.Job{{ID: "ended", Type: "job"}, {ID: "waiting", Type: "job"}, {ID: "running", Type: "job"}}
	g.publish(list...)
	g.until(30*time.Second, "start of all jobs", func(s *loadtest.Story) bool {
		waiting := 0
		for _, r := range s.Runs {
			if r.JobID == "waiting" && r.Job.State == events.StateRetryWaiting || r.JobID == "ended" && r.Job.State == events.StateSucceeded || r.JobID == "running" {
				waiting++
			}
		}
		return waiting == 3
	})
	g.publish(list...)
	g.until(20*time.Second, "three duplicates", func(s *loadtest.Story) bool { return len(s.Duplicates) == 3 })
	close(hang)
	p.stop()
	p = g.worker(file)
	g.publish(list...)
	g.until(40*time.Second, "six duplicates and the end of all jobs", func(s *loadtest.Story) bool {
		ended := 0
		for _, r := range s.Runs {
			ended += r.Terminals
		}
		return len(s.Duplicates) == 6 && ended == 3
	})
	p.stop()
	s := g.check()
	for id, n := range map[string]int{"ended": 1, "waiting": 2, "running": 1} {
		if got := len(w.of(id)); got != n {
			t.Errorf("%s was called %d times, wanted %d: %s", id, got, n, said(runOf(t, s, id)))
		}
	}
}

// TestStalledAndReplaced stops a worker past its session while another takes
// over, and lets it go on.
func TestStalledAndReplaced(t *testing.T) {
	t.Parallel()
	defer within(t, t.Name())()
	g := newGroup(t, 2)
	w := newWitness(t, g)
	file := w.jobsFile(`job: {http: {url: "URL"}}` + "\n")
	hang := make(chan struct{})
	w.on("job", func(c *call) int {
		if c.number == "1" {
			<-hang
		}
		return 200
	})
	p := g.worker(file)
	g.publish(jobs.Job{ID: "j", Type: "job"})
	w.wait("j", 1, 30*time.Second)
	p.signal(syscall.SIGSTOP)
	p2 := g.worker(file)
	w.wait("j", 2, 40*time.Second) // another took over
	g.until(20*time.Second, "end of the job", terminals(1))
	close(hang) // the first call ends as well
	p.signal(syscall.SIGCONT)
	g.until(30*time.Second, "a late outcome", func(s *loadtest.Story) bool { return len(runOf(t, s, "j").Late) == 1 })
	p.stop()
	p2.stop()
	s := g.check()
	if got := said(runOf(t, s, "j")); got != "started first, worker_lost, started redelivery, succeeded, terminal succeeded, (succeeded)" {
		t.Errorf("the job: %s", got)
	}
}

// TestTerminatedUnderLoad ends workers in order while short jobs run: nothing is
// lost and nothing is repeated.
func TestTerminatedUnderLoad(t *testing.T) {
	t.Parallel()
	defer within(t, t.Name())()
	g := newGroup(t, 2)
	w := newWitness(t, g)
	file := w.jobsFile(`job: {http: {url: "URL"}}` + "\n")
	w.on("job", func(*call) int {
		time.Sleep(150 * time.Millisecond) //nolint:forbidigo // the job's own time
		return 200
	})
	const n = 600
	p := g.worker(file)
	sent := 0
	for round := range 3 {
		for range n / 3 {
			g.publish(jobs.Job{ID: fmt.Sprint("job-", sent), Type: "job"})
			sent++
		}
		w.wait(fmt.Sprint("job-", round*n/3), 1, 40*time.Second)
		next := g.worker(file)
		p.stop()
		p = next
	}
	g.until(60*time.Second, "end of all jobs", terminals(n))
	p.stop()
	s := g.check()
	if len(s.Attempts) != n {
		t.Errorf("%d attempts for %d jobs", len(s.Attempts), n)
	}
}

// TestBrokerKilled kills the only broker under load and restarts it.
func TestBrokerKilled(t *testing.T) {
	t.Parallel()
	defer within(t, t.Name())()
	stack := stacktest.Private(t, localstack.Config{WithoutClickHouse: true})
	g := newGroupOn(t, stack.Brokers(), 2)
	w := newWitness(t, g)
	file := w.jobsFile(`job: {http: {url: "URL"}}` + "\n")
	w.on("job", func(c *call) int {
		time.Sleep(100 * time.Millisecond) //nolint:forbidigo // the job's own time
		if c.attempt[0] < 64 && c.number == "1" {
			return 503
		}
		return 200
	})
	p := g.worker(file)
	const n = 400
	for i := range n {
		g.publish(jobs.Job{ID: fmt.Sprint("job-", i), Type: "job"})
		if i == n/2 {
			if err := stack.Kafka.Kill(); err != nil {
				t.Fatal(err)
			}
			begun := time.Now()
			if err := stack.Kafka.Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
			t.Logf("the broker was away for %v", time.Since(begun).Round(time.Millisecond))
		}
	}
	g.until(120*time.Second, "end of all jobs", terminals(n))
	p.stop()
	g.check()
}

// TestBadRecords publishes what no producer should: everything ends in the
// dead-letter topic with its bytes, and good jobs go on.
func TestBadRecords(t *testing.T) {
	t.Parallel()
	defer within(t, t.Name())()
	g := newGroup(t, 2)
	w := newWitness(t, g)
	file := w.jobsFile(`job: {http: {url: "URL"}}` + "\n")
	header := func(kv ...string) (hs []kgo.RecordHeader) {
		for i := 0; i < len(kv); i += 2 {
			hs = append(hs, kgo.RecordHeader{Key: kv[i], Value: []byte(kv[i+1])})
		}
		return hs
	}
	forged := events.HopState{Format: 1, Run: 7, Version: 40, BudgetUsed: 99, Origin: events.Publication{Topic: "elsewhere"}}
	topic := g.topo.Jobs[0]
	records := []*kgo.Record{
		{Topic: topic, Value: []byte("no header at all")}, // the type is the topic's name: unknown
		{Topic: topic, Value: []byte("unknown"), Headers: header("job-type", "nobody", "job-id", "unknown")},
		{Topic: topic, Value: []byte("control"), Headers: header("job-type", "job", "job-id", "a\x00b")},
		{Topic: topic, Value: []byte("time"), Headers: header("job-type", "job", "not-before", "tomorrow")},
		{Topic: topic, Value: []byte("twice"), Headers: header("job-type", "job", "job-id", "x", "job-id", "y")},
		{Topic: topic, Value: nil, Key: nil, Headers: header("job-type", "job", "job-id", "null")},
		{Topic: topic, Value: []byte("forged"), Headers: header("job-type", "job", "job-id", "forged", "jobtrail-state", string(forged.Append(nil)), "jobtrail-origin", "x/1/2", "keep", "me")},
		{Topic: g.topo.Retry(time.Second), Value: []byte("stray"), Headers: header("job-type", "job", "job-id", "stray")},
		{Topic: g.topo.Retry(0), Value: []byte("garbage"), Headers: header("job-type", "job", "job-id", "garbage", "jobtrail-state", "\xff\xff\xff")},
		{Topic: g.topo.Commands(), Value: []byte("no command")},
		{Topic: topic, Value: []byte("good"), Headers: header("job-type", "job", "job-id", "good")},
	}
	cl, err := kgo.NewClient(append(g.kafka, kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if err := cl.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	p := g.worker(file)
	g.until(30*time.Second, "end of all jobs", terminals(10))
	p.stop()
	s := g.check()
	want := map[string]string{"unknown": "unknown_type", "stray": "malformed", "garbage": "malformed", "forged": "", "null": "", "good": ""}
	reasons := make(map[string]int)
	for _, r := range s.Runs {
		reasons[r.Reason.String()]++
		if reason, ok := want[r.JobID]; ok && r.Reason.String() != reason {
			t.Errorf("%s ended as %v (%v), wanted %q", r.JobID, r.Job.State, r.Reason, reason)
		}
	}
	if reasons["malformed"] != 5 || reasons["unknown_type"] != 2 || reasons[""] != 3 {
		t.Errorf("the jobs ended for %v", reasons)
	}
	calls := w.of("forged")
	if len(calls) != 1 {
		t.Errorf("the job with forged headers was called %d times", len(calls))
	}
	if r := runOf(t, s, "forged"); r.Run != 1 || r.Records[0].Event.Version != 1 || r.Publication.Topic != topic {
		t.Errorf("the job with forged headers has run %d of %v", r.Run, r.Publication)
	}
}

// TestTwoGroups runs two groups on one topic: each runs every job once.
func TestTwoGroups(t *testing.T) {
	t.Parallel()
	defer within(t, t.Name())()
	g := newGroup(t, 2)
	other := g.sibling()
	var stops []*process
	var ws []*witness
	for _, x := range []*group{g, other} {
		w := newWitness(t, x)
		w.on("job", func(c *call) int {
			if len(w.of(c.job)) == 1 {
				return 500
			}
			return 200
		})
		ws = append(ws, w)
		stops = append(stops, x.worker(w.jobsFile(`job: {http: {url: "URL"}}`+"\n")))
	}
	const n = 50
	for i := range n {
		g.publish(jobs.Job{ID: fmt.Sprint("job-", i), Type: "job"})
	}
	for _, x := range []*group{g, other} {
		x.until(40*time.Second, "end of all jobs", terminals(n))
	}
	for i, x := range []*group{g, other} {
		stops[i].stop()
		x.check()
		if got := ws[i].total(); got != 2*n {
			t.Errorf("group %s made %d calls, wanted %d", x.topo.Group, got, 2*n)
		}
	}
}
