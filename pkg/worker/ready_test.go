package worker

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/jobtrail/jobtrail/pkg/retrytopics"
)

// idle runs a worker without jobs until the end of the test.
func idle(t *testing.T, brokers []string) (w *Worker, log *lines, ended chan error) {
	t.Helper()
	log = &lines{}
	w, err := New(Config{Group: "g", Topics: fakeTopology.Jobs, Tiers: fakeTopology.Tiers, Grace: time.Millisecond, Types: []Type{{Name: "j", Policy: retrytopics.DefaultPolicy(),
		Handler: HandlerFunc(func(context.Context, *Job) error { return nil })}}},
		Deps{Kafka: []kgo.Opt{kgo.SeedBrokers(brokers...), kgo.MetadataMinAge(50 * time.Millisecond), kgo.MetadataMaxAge(200 * time.Millisecond)}, Log: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended = make(chan error, 1)
	done := make(chan struct{})
	go func() { ended <- w.Run(ctx); close(done) }()
	t.Cleanup(func() {
		stop()
		select {
		case <-done:
		case <-time.After(time.Minute):
			t.Error("the worker did not end")
		}
	})
	return w, log, ended
}

// readyPartitions is what the metric says.
func readyPartitions(t *testing.T, w *Worker) float64 {
	t.Helper()
	families, err := w.deps.Registry.(*prometheus.Registry).Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "jobtrail_worker_partitions_ready" {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatal("no metric partitions_ready")
	return 0
}

func becomes(t *testing.T, what string, f func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !f() {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
		<-tick.C
	}
}

// An idle worker writes nothing, and notices all the same.
func TestAnIdleWorkerIsNotReadyWithoutBrokers(t *testing.T) {
	t.Parallel()
	c, _, closeAll := fakeKafka(t)
	w, log, _ := idle(t, c.ListenAddrs())
	becomes(t, "ready", func() bool { return w.Ready() == nil })
	closeAll()
	becomes(t, "not ready", func() bool { return w.Ready() != nil })
	becomes(t, "a line in the log", func() bool { return strings.Contains(log.String(), "the brokers do not answer") })
}

// A rollout waits for every worker, and there may be more than partitions.
func TestASpareWorkerIsReadyAfterASession(t *testing.T) {
	t.Parallel()
	c, _, _ := fakeKafka(t)
	for range 2 {
		w, _, _ := idle(t, c.ListenAddrs())
		becomes(t, "ready", func() bool { return w.Ready() == nil })
	}
	spare, _, _ := idle(t, c.ListenAddrs())
	became := func(ago time.Duration) bool {
		spare.mu.Lock()
		defer spare.mu.Unlock()
		if spare.member.IsZero() || len(spare.l.lanes) > 0 {
			return false
		}
		spare.member = time.Now().Add(-ago)
		return true
	}
	becomes(t, "a member without a partition", func() bool { return became(0) })
	if err := spare.Ready(); err == nil {
		t.Error("ready at once: its partitions may be those of a worker that has died")
	}
	if !became(spare.session + spareAfter + time.Millisecond) {
		t.Fatal("it has a partition now")
	}
	becomes(t, "ready", func() bool { return spare.Ready() == nil })
}

// Somebody adds partitions to the job topic only.
func TestLanesThatCannotFormAreSaidOnce(t *testing.T) {
	t.Parallel()
	c, cl, _ := fakeKafka(t)
	w, log, _ := idle(t, c.ListenAddrs())
	becomes(t, "ready", func() bool { return w.Ready() == nil && readyPartitions(t, w) == 2 })
	if _, err := kadm.NewClient(cl).UpdatePartitions(t.Context(), 3, "j"); err != nil {
		t.Fatal(err)
	}
	becomes(t, "not ready", func() bool { return w.Ready() != nil })
	becomes(t, "no partition is said to be ready", func() bool { return readyPartitions(t, w) == 0 })
	const want = "topic j has partition 2 and other topics of group g lack it"
	if err := w.Ready(); !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "jobtrail doctor") {
		t.Errorf("got %v", err)
	}
	var tries atomic.Int32
	c.ControlKey(int16(kmsg.OffsetFetch), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		tries.Add(1)
		return nil, nil, false
	})
	becomes(t, "tried again twice", func() bool { return tries.Load() >= 2 })
	text := log.String()
	if n := strings.Count(text, want); n != 1 {
		t.Errorf("it is said %d times:\n%s", n, text)
	}
	if n := strings.Count(text, "partitions lost"); n > 1 {
		t.Errorf("%d lines about lost partitions:\n%s", n, text)
	}
}

func TestMissingTopicsAreOneSentence(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(6, "j"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	_, _, ended := idle(t, c.ListenAddrs())
	select {
	case err := <-ended:
		const want = "6 topics of group g missing; make what is missing with: jobtrail topics apply --group g --jobs j --partitions 6 --tiers '0s 1s'"
		if err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	case <-time.After(time.Minute):
		t.Fatal("the worker did not end")
	}
}
