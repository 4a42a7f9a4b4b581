package loadtest_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/jobtrail/jobtrail/internal/localstack/stacktest"
	"github.com/jobtrail/jobtrail/internal/operate"
	"github.com/jobtrail/jobtrail/loadtest"
	"github.com/jobtrail/jobtrail/pkg/events"
	"github.com/jobtrail/jobtrail/pkg/jobs"
	"github.com/jobtrail/jobtrail/pkg/retrytopics"
	"github.com/jobtrail/jobtrail/pkg/worker"
)

func TestMain(m *testing.M) { stacktest.Main(m) }

// group is a worker group with a job topic of its own.
type group struct {
	t          testing.TB
	brokers    []string
	store      string // ClickHouse; empty when there is none
	build      string // suffix of the projector's name, see built
	lack       string // the protection that workers lack, see protected
	newer      bool   // events of types that this build does not know are expected
	kafka      []kgo.Opt
	topo       retrytopics.Topology
	pub        *jobs.Publisher
	partitions int

	mu      sync.Mutex
	effects []loadtest.Effect
}

func newGroup(t testing.TB, partitions int) *group {
	t.Helper()
	return newGroupOf(t, "0s 1s 4s", partitions)
}

// newGroupOf makes a group with the retry tiers given.
func newGroupOf(t testing.TB, tiers string, partitions int) *group {
	t.Helper()
	shared := stacktest.ForTest(t)
	g := prepare(t, shared.Brokers, tiers)
	g.store = shared.ClickHouseAddr
	g.apply(partitions)
	return g
}

// newGroupOn makes a group on the brokers given.
func newGroupOn(t testing.TB, brokers []string, partitions int) *group {
	t.Helper()
	g := prepare(t, brokers, "0s 1s 4s")
	g.apply(partitions)
	return g
}

// prepare names a group, and makes nothing of it yet.
func prepare(t testing.TB, brokers []string, delays string) *group {
	t.Helper()
	name := "g" + fmt.Sprint(time.Now().UnixNano()%1e12)
	tiers, err := retrytopics.ParseTiers(delays)
	if err != nil {
		t.Fatal(err)
	}
	return &group{t: t, brokers: brokers, kafka: []kgo.Opt{kgo.SeedBrokers(brokers...)},
		topo: retrytopics.Topology{Group: name, Jobs: []string{name + "-jobs"}, Tiers: tiers}}
}

// sibling makes another group on the same job topics.
func (g *group) sibling() *group {
	g.t.Helper()
	other := &group{t: g.t, brokers: g.brokers, store: g.store, kafka: g.kafka, topo: g.topo}
	other.topo.Group += "b"
	other.apply(g.partitions)
	return other
}

// apply makes the group's topics.
func (g *group) apply(partitions int) {
	g.t.Helper()
	g.partitions = partitions
	cl, err := kgo.NewClient(g.kafka...)
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(cl.Close)
	ctx, cancel := context.WithTimeout(g.t.Context(), time.Minute)
	defer cancel()
	plan, err := operate.PlanTopics(ctx, cl, operate.TopicsRequest{Topology: g.topo, Partitions: partitions})
	if err != nil {
		g.t.Fatal(err)
	}
	if err := operate.ApplyTopics(ctx, cl, plan, func(operate.Step) {}); err != nil {
		g.t.Fatal(err)
	}
	if g.pub, err = jobs.New(jobs.Config{Topic: g.topo.Jobs[0]}, cl); err != nil {
		g.t.Fatal(err)
	}
}

// admin returns an admin client that ends with the test.
func (g *group) admin() *kadm.Client {
	g.t.Helper()
	cl, err := kgo.NewClient(g.kafka...)
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(cl.Close)
	return kadm.NewClient(cl)
}

// untilMembers waits until the group has n members.
func (g *group) untilMembers(n int, limit time.Duration) {
	g.t.Helper()
	admin := g.admin()
	for deadline := time.Now().Add(limit); ; <-time.After(50 * time.Millisecond) {
		groups, err := admin.DescribeConsumerGroups(g.t.Context(), g.topo.Group)
		if err != nil {
			g.t.Fatal(err)
		}
		if len(groups[g.topo.Group].Members) == n {
			return
		}
		if time.Now().After(deadline) {
			g.t.Fatalf("after %v the group has %d members, wanted %d", limit, len(groups[g.topo.Group].Members), n)
		}
	}
}

// effect is what a handler does in the world.
func (g *group) effect(j *worker.Job) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.effects = append(g.effects, loadtest.Effect{JobID: j.ID, AttemptID: j.AttemptID, At: events.TimeOf(time.Now())})
}

func (g *group) publish(list ...jobs.Job) {
	g.t.Helper()
	if _, err := g.pub.PublishAll(g.t.Context(), list); err != nil {
		g.t.Fatal(err)
	}
}

// run runs a worker and returns a function that stops it.
func (g *group) run(cfg worker.Config) (stop func()) {
	g.t.Helper()
	cfg.Group, cfg.Topics, cfg.Tiers = g.topo.Group, g.topo.Jobs, g.topo.Tiers
	level := slog.LevelWarn
	if testing.Verbose() {
		level = slog.LevelInfo
	}
	w, err := worker.New(cfg, worker.Deps{Kafka: g.kafka, Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))})
	if err != nil {
		g.t.Fatal(err)
	}
	return runUntilStopped(g.t, w)
}

// runUntilStopped runs a worker and returns a function that stops it, which is
// called at the end of the test at the latest.
func runUntilStopped(t testing.TB, w *worker.Worker) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("the worker ended with %v", err)
			}
		case <-time.After(60 * time.Second):
			t.Error("the worker does not end")
		}
	})
	t.Cleanup(stop)
	return stop
}

// reached waits until cond holds of what is on record, or the limit. It returns
// what is on record then, and whether cond holds of it.
func (g *group) reached(limit time.Duration, cond func(*loadtest.Story) bool) (*loadtest.Dump, *loadtest.Story, bool) {
	g.t.Helper()
	for deadline := time.Now().Add(limit); ; <-time.After(200 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		d, err := loadtest.ReadDump(ctx, g.kafka, g.topo)
		cancel()
		if err != nil {
			g.t.Fatal(err)
		}
		s := loadtest.Tell(d, func(string, string, ...any) {})
		if ok := cond(s); ok || time.Now().After(deadline) {
			return d, s, ok
		}
	}
}

// until waits until cond holds of what is on record; what it must be is said
// when the limit passes.
func (g *group) until(limit time.Duration, what string, cond func(*loadtest.Story) bool) {
	g.t.Helper()
	d, s, ok := g.reached(limit, cond)
	if ok {
		return
	}
	for _, r := range d.Evidence {
		g.t.Logf("%d/%d %v v%d %v %s %+v", r.Partition, r.Offset, r.Event.Type(), r.Event.Version, r.Event.State, r.Event.JobID, r.Event.Body)
		if len(d.Evidence) > 200 {
			break
		}
	}
	for _, r := range s.Runs {
		if r.Job.State.Open() {
			g.t.Logf("job %s is %v: %s", r.JobID, r.Job.State, said(r))
		}
	}
	g.t.Fatalf("after %v: no %s", limit, what)
}

func terminals(n int) func(*loadtest.Story) bool {
	return func(s *loadtest.Story) bool {
		ended := 0
		for _, r := range s.Runs {
			ended += r.Terminals
			if r.Job.State == events.StateParked {
				ended++
			}
		}
		return ended+len(s.Duplicates) >= n
	}
}

// check holds everything against the promises, in the topics and, after the
// projector has come to their end, in the store.
func (g *group) check() *loadtest.Story {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	d, err := loadtest.ReadDump(ctx, g.kafka, g.topo)
	if err != nil {
		g.t.Fatal(err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	violations, story := loadtest.Check(d, g.effects)
	if g.store != "" {
		pr := g.projector()
		violations = append(violations, g.stored(d, 60*time.Second)...)
		pr.stop()
	}
	if g.newer {
		violations = slices.DeleteFunc(violations, func(v string) bool { return strings.HasSuffix(v, "is of an unknown type") })
	}
	for i, v := range violations {
		if i == 20 {
			g.t.Errorf("… %d violations in all", len(violations))
			break
		}
		g.t.Error(v)
	}
	return story
}

func policy(change func(*retrytopics.Policy)) retrytopics.Policy {
	p := retrytopics.DefaultPolicy()
	p.Initial, p.MaxAttempts = time.Second, 3
	if change != nil {
		change(&p)
	}
	return p
}

// TestEveryKindOfJob runs one job of each kind to its end.
func TestEveryKindOfJob(t *testing.T) {
	g := newGroup(t, 2)
	flaky := worker.HandlerFunc(func(_ context.Context, j *worker.Job) error {
		g.effect(j)
		if j.Attempt < 3 {
			return errors.New("not yet")
		}
		return nil
	})
	types := []worker.Type{
		{Name: "good", Policy: policy(nil), Handler: worker.HandlerFunc(func(_ context.Context, j *worker.Job) error { g.effect(j); return nil })},
		{Name: "flaky", Policy: policy(nil), Handler: flaky},
		{Name: "bad", Policy: policy(nil), Handler: worker.HandlerFunc(func(context.Context, *worker.Job) error { return worker.Permanent(errors.New("no such account")) })},
		{Name: "hopeless", Policy: policy(func(p *retrytopics.Policy) { p.MaxAttempts = 2 }), Handler: worker.HandlerFunc(func(context.Context, *worker.Job) error { return errors.New("down") })},
		{Name: "panics", Policy: policy(func(p *retrytopics.Policy) { p.MaxAttempts = 1 }), Handler: worker.HandlerFunc(func(context.Context, *worker.Job) error { panic("boom") })},
		{Name: "slow", Policy: policy(func(p *retrytopics.Policy) { p.MaxAttempts, p.Timeout = 1, 300*time.Millisecond }), Handler: worker.HandlerFunc(func(ctx context.Context, _ *worker.Job) error { <-ctx.Done(); return ctx.Err() })},
	}
	stop := g.run(worker.Config{Types: types, Concurrency: 50})
	list := []jobs.Job{{ID: "unknown-1", Type: "nobody", Value: []byte("x")}}
	for _, typ := range types {
		list = append(list, jobs.Job{ID: typ.Name + "-1", Type: typ.Name, OperationID: "op-" + typ.Name, Value: []byte("payload of " + typ.Name)})
	}
	list = append(list, jobs.Job{ID: "late-1", Type: "good", Deadline: time.Now().Add(-time.Minute)})
	list = append(list, jobs.Job{ID: "soon-1", Type: "good", NotBefore: time.Now().Add(3 * time.Second)})
	g.publish(list...)
	g.publish(jobs.Job{ID: "good-1", Type: "good", OperationID: "op-again"})
	g.until(40*time.Second, "end of all jobs", terminals(len(list)+1))
	stop()
	story := g.check()
	want := map[string]struct {
		state    events.State
		reason   events.TerminalReason
		attempts uint32
	}{
		"good-1": {events.StateSucceeded, 0, 1}, "flaky-1": {events.StateSucceeded, 0, 3}, "bad-1": {events.StateFailed, events.ReasonPermanent, 1},
		"hopeless-1": {events.StateFailed, events.ReasonExhausted, 2}, "panics-1": {events.StateFailed, events.ReasonExhausted, 1},
		"slow-1": {events.StateFailed, events.ReasonExhausted, 1}, "unknown-1": {events.StateFailed, events.ReasonUnknownType, 0},
		"late-1": {events.StateExpired, events.ReasonDeadline, 0}, "soon-1": {events.StateSucceeded, 0, 1},
	}
	for _, r := range story.Runs {
		w, ok := want[r.JobID]
		if !ok {
			t.Errorf("unexpected job %s", r.JobID)
			continue
		}
		delete(want, r.JobID)
		if r.Job.State != w.state || r.Reason != w.reason || r.Job.Number != w.attempts {
			t.Errorf("%s ended as %v (%v) after %d attempts, wanted %v (%v) after %d", r.JobID, r.Job.State, r.Reason, r.Job.Number, w.state, w.reason, w.attempts)
		}
	}
	for id := range want {
		t.Errorf("nothing is on record of %s", id)
	}
	if len(story.Duplicates) != 1 {
		t.Errorf("%d duplicates are on record, wanted 1", len(story.Duplicates))
	}
}

// TestWorkersComeAndGo has workers join and leave while jobs of all kinds run.
func TestWorkersComeAndGo(t *testing.T) {
	g := newGroup(t, 4)
	handler := worker.HandlerFunc(func(ctx context.Context, j *worker.Job) error {
		g.effect(j)
		select {
		case <-time.After(time.Duration(20+int(j.AttemptID[3])) * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
		if j.AttemptID[5] < 40 {
			return errors.New("by chance")
		}
		return nil
	})
	cfg := worker.Config{Concurrency: 100, Types: []worker.Type{{Name: "work", Handler: handler, Policy: policy(func(p *retrytopics.Policy) { p.MaxAttempts = 4 })}}}
	const n = 1200
	stops := []func(){g.run(cfg)}
	for i := range n {
		g.publish(jobs.Job{ID: fmt.Sprintf("job-%d", i), Type: "work", Value: []byte("x")})
		switch {
		case i%600 == 300:
			stops = append(stops, g.run(cfg))
		case i%600 == 599:
			stops[0]()
			stops = stops[1:]
		}
	}
	if len(stops) == 0 {
		stops = append(stops, g.run(cfg))
	}
	g.until(90*time.Second, "end of all jobs", terminals(n))
	for _, stop := range stops {
		stop()
	}
	story := g.check()
	abandoned := 0
	for _, r := range story.Runs {
		for _, e := range r.Ended {
			// Where the brokers are slow a tick may outlast the lease: then the handler
			// was never called, and the attempt is given back.
			if b, ok := e.Event.Body.(*events.AttemptAbandoned); ok && b.Cause != events.AbandonNotStarted {
				abandoned++
				t.Errorf("job %s was abandoned (%v) although every worker drained", r.JobID, b.Cause)
			}
		}
	}
	t.Logf("%d runs, %d attempts, %d abandoned", len(story.Runs), len(story.Attempts), abandoned)
}
