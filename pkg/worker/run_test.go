package worker

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/jobtrail/jobtrail/loadtest"
	"github.com/jobtrail/jobtrail/pkg/events"
	"github.com/jobtrail/jobtrail/pkg/retrytopics"
)

// The tests of this file run a whole worker on an in-process broker: quick, and
// able to fail any call on demand. The same worker runs on real servers in
// loadtest.

var fakeTopology = retrytopics.Topology{Group: "g", Jobs: []string{"j"}, Tiers: retrytopics.Tiers{0, time.Second}}

// fakeKafka starts a broker with the group's topics, and the group's commits at
// their start. close ends everything that it started.
func fakeKafka(t *testing.T) (c *kfake.Cluster, cl *kgo.Client, close func()) {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	cl, err = kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	close = func() { once.Do(func() { cl.Close(); c.Close() }) }
	t.Cleanup(close)
	adm := kadm.NewClient(cl)
	at := make(kadm.Offsets)
	for _, topic := range fakeTopology.Topics(1048588) {
		configs := make(map[string]*string)
		for k, v := range topic.Configs {
			configs[k] = &v
		}
		if _, err := adm.CreateTopic(t.Context(), 2, 1, configs, topic.Name); err != nil {
			t.Fatalf("creating %s: %v", topic.Name, err)
		}
	}
	for _, lane := range fakeTopology.Lanes() {
		for p := range int32(2) {
			at.AddOffset(lane, p, 0, -1)
		}
	}
	if err := adm.CommitAllOffsets(t.Context(), "g", at); err != nil {
		t.Fatal(err)
	}
	return c, cl, close
}

// runJobs publishes n jobs, runs a worker until each has succeeded, and returns
// the side effects. Two of them fail once, and two end their goroutine.
func runJobs(t *testing.T, c *kfake.Cluster, cl *kgo.Client, n int) []loadtest.Effect {
	t.Helper()
	for i := range n {
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "j", Partition: int32(i % 2), Value: fmt.Append(nil, i)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	var mu sync.Mutex
	var effects []loadtest.Effect
	good := make(map[string]bool)
	all := make(chan struct{})
	policy := retrytopics.DefaultPolicy()
	policy.Initial = 10 * time.Millisecond
	w, err := New(Config{Group: "g", Topics: fakeTopology.Jobs, Tiers: fakeTopology.Tiers, Types: []Type{{Name: "j", Policy: policy, Handler: HandlerFunc(func(_ context.Context, job *Job) error {
		mu.Lock()
		defer mu.Unlock()
		effects = append(effects, loadtest.Effect{JobID: job.ID, AttemptID: job.AttemptID, At: events.TimeOf(time.Now())})
		switch {
		case job.Attempt == 1 && job.Publication.Offset == 3:
			return errors.New("once")
		case job.Attempt == 1 && job.Publication.Offset == 5:
			runtime.Goexit()
		}
		if good[job.ID] = true; len(good) == n && all != nil {
			close(all)
			all = nil
		}
		return nil
	})}}}, Deps{Kafka: []kgo.Opt{kgo.SeedBrokers(c.ListenAddrs()...)}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	done := all
	go func() { ended <- w.Run(ctx) }()
	select {
	case <-done:
	case err := <-ended:
		t.Fatalf("the worker ended: %v", err)
	case <-time.After(60 * time.Second):
		mu.Lock()
		defer mu.Unlock()
		t.Fatalf("%d of %d jobs are done", len(good), n)
	}
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	return effects
}

// judgeFake holds what is on the topics against what was published and done.
func judgeFake(t *testing.T, c *kfake.Cluster, n int, effects []loadtest.Effect) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	d, err := loadtest.ReadDump(ctx, []kgo.Opt{kgo.SeedBrokers(c.ListenAddrs()...)}, fakeTopology)
	if err != nil {
		t.Fatal(err)
	}
	violations, story := loadtest.Check(d, effects)
	for _, v := range violations {
		t.Error(v)
	}
	if len(story.Runs) != n {
		t.Errorf("%d runs are on record, want %d", len(story.Runs), n)
	}
}

// asksForNewest reports whether a request asks for the record of the newest time.
func asksForNewest(r kmsg.Request) bool {
	const newest = -3
	q, ok := r.(*kmsg.ListOffsetsRequest)
	return ok && len(q.Topics) > 0 && len(q.Topics[0].Partitions) > 0 && q.Topics[0].Partitions[0].Timestamp == newest
}

// TestRunLeavesNothingBehind runs jobs, drains, and looks for goroutines.
func TestRunLeavesNothingBehind(t *testing.T) {
	before := goleak.IgnoreCurrent()
	c, cl, closeAll := fakeKafka(t)
	effects := runJobs(t, c, cl, 40)
	judgeFake(t, c, 40, effects)
	closeAll()
	goleak.VerifyNone(t, before)
}

// TestEveryCallMayFail fails the calls of a worker, one kind after the other: its
// jobs succeed nevertheless, each once on record. What times out may have been
// done: such an answer comes after the broker has acted.
func TestEveryCallMayFail(t *testing.T) {
	for _, c := range []struct {
		name  string
		key   kmsg.Key
		fault kfake.Fault
	}{
		{"the group moves on", kmsg.TxnOffsetCommit, kfake.Fault{Err: kerr.StaleMemberEpoch, Count: 3}},
		{"the member is unknown for a moment", kmsg.TxnOffsetCommit, kfake.Fault{Err: kerr.UnknownMemberID, Count: 2}},
		{"the coordinator loads", kmsg.TxnOffsetCommit, kfake.Fault{Err: kerr.CoordinatorLoadInProgress, Count: 3}},
		{"a commit is refused", kmsg.TxnOffsetCommit, kfake.Fault{Err: kerr.InvalidTxnState, Count: 1}},
		{"a transaction ends, but the answer is lost", kmsg.EndTxn, kfake.Fault{Err: kerr.RequestTimedOut, TopLevel: true, Count: 2}},
		{"a transaction does not end", kmsg.EndTxn, kfake.Fault{Err: kerr.UnknownServerError, TopLevel: true, Count: 2}},
		{"the producer is fenced at the end", kmsg.EndTxn, kfake.Fault{Err: kerr.ProducerFenced, TopLevel: true, Count: 1}},
		{"the leader moves", kmsg.Produce, kfake.Fault{Err: kerr.NotLeaderForPartition, Topic: "g.evidence", Count: 1}},
		{"the producer is fenced", kmsg.Produce, kfake.Fault{Err: kerr.ProducerFenced, Topic: "g.evidence", Count: 1}},
		{"the producer's epoch is old", kmsg.Produce, kfake.Fault{Err: kerr.InvalidProducerEpoch, Topic: "g.evidence", Count: 1}},
		{"writes are not authorized for a while", kmsg.Produce, kfake.Fault{Err: kerr.TopicAuthorizationFailed, Topic: "g.evidence", Count: 3}},
		{"a retry cannot be written", kmsg.Produce, kfake.Fault{Err: kerr.UnknownServerError, Topic: "g.retry.0s", Count: 1}},
		{"a producer id is not given at once", kmsg.InitProducerID, kfake.Fault{Err: kerr.CoordinatorLoadInProgress, TopLevel: true, Count: 3}},
		{"commits are not stable yet", kmsg.OffsetFetch, kfake.Fault{Err: kerr.UnstableOffsetCommit, Count: 3}},
		{"offsets cannot be listed", kmsg.ListOffsets, kfake.Fault{Err: kerr.NotLeaderForPartition, Topic: "g.evidence", Count: 3}},
		{"the clock cannot be measured at first", kmsg.ListOffsets, kfake.Fault{Err: kerr.UnknownServerError, Topic: "g.evidence", Count: 2, When: asksForNewest}},
		{"fetching fails", kmsg.Fetch, kfake.Fault{Err: kerr.NotLeaderForPartition, Topic: "j", Count: 3}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cluster, cl, _ := fakeKafka(t)
			fault := c.fault
			fault.Keys = []kmsg.Key{c.key}
			h := cluster.Fault(fault)
			effects := runJobs(t, cluster, cl, 30)
			if h.Hits() == 0 {
				t.Error("the fault never fired")
			}
			judgeFake(t, cluster, 30, effects)
			t.Logf("%d faults, %d attempts", h.Hits(), len(effects))
		})
	}
}

// TestAWrongClockHoldsJobs: beyond 30 s a worker starts nothing, is not ready and
// says why; once the clock is right it goes on by itself.
func TestAWrongClockHoldsJobs(t *testing.T) {
	c, cl, _ := fakeKafka(t)
	var wrong atomic.Bool
	wrong.Store(true)
	c.ControlKey(int16(kmsg.ListOffsets), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		ask := req.(*kmsg.ListOffsetsRequest)
		if !wrong.Load() || !asksForNewest(ask) {
			return nil, nil, false
		}
		resp := ask.ResponseKind().(*kmsg.ListOffsetsResponse)
		for _, t := range ask.Topics {
			rt := kmsg.NewListOffsetsResponseTopic()
			rt.Topic = t.Topic
			for _, p := range t.Partitions {
				rp := kmsg.NewListOffsetsResponseTopicPartition()
				rp.Partition, rp.Offset, rp.Timestamp = p.Partition, 0, time.Now().Add(-45*time.Second).UnixMilli()
				rt.Partitions = append(rt.Partitions, rp)
			}
			resp.Topics = append(resp.Topics, rt)
		}
		return resp, nil, true
	})
	if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "j", Value: []byte("1")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	ran := make(chan struct{})
	reg := prometheus.NewRegistry()
	w, err := New(Config{Group: "g", Topics: fakeTopology.Jobs, Tiers: fakeTopology.Tiers, Types: []Type{{Name: "j", Handler: HandlerFunc(func(context.Context, *Job) error {
		close(ran)
		return nil
	})}}}, Deps{Kafka: []kgo.Opt{kgo.SeedBrokers(c.ListenAddrs()...)}, Registry: reg})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	deadline := time.After(30 * time.Second)
	for skew := 0.0; skew > -44; skew = gauge(t, reg, "jobtrail_worker_clock_skew_seconds") {
		select {
		case <-deadline:
			t.Fatalf("the clock is not measured: %v", skew)
		case <-time.After(20 * time.Millisecond):
		}
	}
	select {
	case <-ran:
		t.Fatal("a job was started")
	case <-time.After(time.Second): // it would be started within milliseconds
	}
	if err := w.Ready(); err == nil || !strings.Contains(err.Error(), "clock") || gauge(t, reg, "jobtrail_worker_ready") != 0 {
		t.Errorf("the worker is ready: %v", err)
	}
	wrong.Store(false)
	select {
	case <-ran:
	case <-time.After(30 * time.Second):
		t.Fatal("the clock is right, and nothing is started")
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func gauge(t *testing.T, reg *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}
