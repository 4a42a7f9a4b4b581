package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"
	"pgregory.net/rapid"

	"github.com/jobtrail/jobtrail/pkg/events"
	"github.com/jobtrail/jobtrail/pkg/retrytopics"
	"github.com/jobtrail/jobtrail/pkg/sanitize"
)

type ownError struct{}

func (ownError) Error() string { return "own" }

func TestClassify(t *testing.T) {
	timedOut, stop := context.WithTimeoutCause(t.Context(), 0, errTimeout)
	defer stop()
	<-timedOut.Done()
	parent, stopParent := context.WithDeadline(t.Context(), time.Now())
	defer stopParent()
	<-parent.Done()
	alive := t.Context()
	fail := func(class events.ErrorClass) retrytopics.Failure { return retrytopics.Failure{Class: class} }
	for _, c := range []struct {
		name    string
		ctx     context.Context
		err     error
		outcome events.Outcome
		failure retrytopics.Failure
		typ     string
	}{
		{"plain", alive, errors.New("x"), events.OutcomeFailed, fail(events.ClassTransient), "*errors.errorString"},
		{"own type, wrapped", alive, fmt.Errorf("a: %w", fmt.Errorf("b: %w", ownError{})), events.OutcomeFailed, fail(events.ClassTransient), "worker.ownError"},
		{"joined", alive, errors.Join(ownError{}, io.EOF), events.OutcomeFailed, fail(events.ClassTransient), "worker.ownError"},
		{"several wrapped", alive, fmt.Errorf("%w and %w", ownError{}, io.EOF), events.OutcomeFailed, fail(events.ClassTransient), "worker.ownError"},
		{"permanent", alive, Permanent(ownError{}), events.OutcomeFailed, fail(events.ClassPermanent), "worker.ownError"},
		{"permanent, wrapped", alive, fmt.Errorf("a: %w", Permanent(fmt.Errorf("b: %w", ownError{}))), events.OutcomeFailed, fail(events.ClassPermanent), "worker.ownError"},
		{"permanent of backoff", alive, fmt.Errorf("a: %w", backoff.Permanent(ownError{})), events.OutcomeFailed, fail(events.ClassPermanent), "worker.ownError"},
		{"retry after", alive, fmt.Errorf("a: %w", RetryAfter(io.EOF, time.Minute)), events.OutcomeFailed,
			retrytopics.Failure{Class: events.ClassThrottled, RetryAfter: time.Minute}, "*errors.errorString"},
		{"named", alive, &Error{Class: events.ClassThrottled, Type: "http_429", Err: io.EOF}, events.OutcomeFailed, fail(events.ClassThrottled), "http_429"},
		{"named without a class", alive, &Error{Type: "exit_1", Err: io.EOF}, events.OutcomeFailed, fail(events.ClassTransient), "exit_1"},
		{"the outermost decides", alive, Permanent(RetryAfter(io.EOF, time.Minute)), events.OutcomeFailed, fail(events.ClassPermanent), "*worker.Error"},
		{"panic", alive, fmt.Errorf("a: %w", &panicError{value: 7}), events.OutcomeFailed, fail(events.ClassPanic), "int"},
		{"the attempt's timeout", timedOut, fmt.Errorf("calling: %w", timedOut.Err()), events.OutcomeTimedOut, fail(events.ClassTimeout), "timeout"},
		{"another error after the timeout", timedOut, io.EOF, events.OutcomeFailed, fail(events.ClassTransient), "*errors.errorString"},
		{"permanent after the timeout", timedOut, Permanent(timedOut.Err()), events.OutcomeFailed, fail(events.ClassPermanent), "context.deadlineExceededError"},
		{"the handler's own deadline", alive, context.DeadlineExceeded, events.OutcomeFailed, fail(events.ClassTransient), "context.deadlineExceededError"},
		{"a deadline of the context's parent", parent, context.DeadlineExceeded, events.OutcomeFailed, fail(events.ClassTransient), "context.deadlineExceededError"},
	} {
		outcome, failure, typ := classify(c.ctx, c.err)
		if outcome != c.outcome || failure != c.failure || typ != c.typ {
			t.Errorf("%s: %v, %+v, %s", c.name, outcome, failure, typ)
		}
	}
	if Permanent(nil) != nil || RetryAfter(nil, time.Second) != nil {
		t.Error("no error is one")
	}
}

// TestAnErrorMayHaveNoCause: a handler that returns nothing but a class must not
// bring its worker down.
func TestAnErrorMayHaveNoCause(t *testing.T) {
	w, err := New(Config{Group: "g", Topics: []string{"j"}, Types: []Type{{Name: "j", Handler: HandlerFunc(func(context.Context, *Job) error { return nil })}}}, Deps{})
	if err != nil {
		t.Fatal(err)
	}
	r := w.outcome(t.Context(), &Error{Class: events.ClassThrottled, Type: "http_503"})
	if r.outcome != events.OutcomeFailed || r.err.Class != events.ClassThrottled || r.err.Type != "http_503" || r.err.Message.String() != "http_503" {
		t.Errorf("%+v", r)
	}
	r = w.outcome(t.Context(), fmt.Errorf("a: %w", &Error{Class: events.ClassPermanent}))
	if r.err.Class != events.ClassPermanent || r.err.Message.String() != "a: permanent" {
		t.Errorf("%+v", r)
	}
}

func TestPanicsBecomeErrors(t *testing.T) {
	for _, v := range []any{"text", 7, errors.New("x"), nil} {
		err := call(t.Context(), HandlerFunc(func(context.Context, *Job) error { panic(v) }), &Job{})
		outcome, failure, _ := classify(t.Context(), err)
		if outcome != events.OutcomeFailed || failure.Class != events.ClassPanic {
			t.Errorf("panic(%v): %v, %+v", v, outcome, failure)
		}
	}
}

func TestConfigDefaults(t *testing.T) {
	handler := HandlerFunc(func(context.Context, *Job) error { return nil })
	got, err := Config{Group: "g", Topics: []string{"j"}, Types: []Type{{Name: "a", Handler: handler}}}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	if got.Concurrency != 200 || got.UnknownTypes != UnknownToDLQ || got.Grace != 25*time.Second || got.DedupWindow != time.Hour || got.DedupMax != 200_000 ||
		got.Tiers.String() != retrytopics.DefaultTiers().String() || got.Types[0].Policy != retrytopics.DefaultPolicy() {
		t.Errorf("%+v", got)
	}
	own := retrytopics.DefaultPolicy()
	own.MaxAttempts = 9
	cfg := Config{Group: "g", Topics: []string{"j"}, Tiers: retrytopics.Tiers{0}, Concurrency: 3, UnknownTypes: SkipUnknown, Grace: time.Second, DedupWindow: time.Minute,
		DedupMax: 5, Slot: "s", CodeVersion: "v", Types: []Type{{Name: "a", Handler: handler, Policy: own, Concurrency: 2}}}
	got, err = cfg.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []*Config{&got, &cfg} {
		c.Types[0].Handler = nil
	}
	if !reflect.DeepEqual(got, cfg) {
		t.Errorf("%+v\nwant %+v", got, cfg)
	}
}

func TestConfigProblemsAreNamedAllAtOnce(t *testing.T) {
	bad := retrytopics.DefaultPolicy()
	bad.Timeout, bad.Jitter = -1, 3
	_, err := New(Config{Group: "a b", Concurrency: -1, UnknownTypes: "drop", Grace: -1, DedupWindow: -1, Tiers: retrytopics.Tiers{time.Second},
		Types: []Type{{Name: "x", Concurrency: -2, Policy: bad}, {Name: "x", Handler: HandlerFunc(nil)}, {}}}, Deps{})
	for _, want := range []string{`group "a b"`, "no job topic is named", "first tier must be 0s", "concurrency is -1", `unknown_types is "drop"`, "grace is -1ns",
		"the duplicate window (-1ns", `job type "x" is there twice`, `job type "x" has no handler`, `job type "x": concurrency is -2`, "timeout is -1ns",
		`job type "x": jitter is 3`, "job type 2 has no name"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	// A policy that is filled in part: every line says whose it is, and one what to
	// do.
	_, err = New(Config{Group: "g", Topics: []string{"j"}, Types: []Type{{Name: "x", Handler: HandlerFunc(nil), Policy: retrytopics.Policy{MaxAttempts: 2}}}}, Deps{})
	for line := range strings.SplitSeq(fmt.Sprint(err), "\n") {
		if !strings.HasPrefix(line, `job type "x": `) {
			t.Errorf("%q names no job type", line)
		}
	}
	if err == nil || !strings.Contains(err.Error(), `on_duplicate is ""`) || !strings.HasSuffix(err.Error(), "start from retrytopics.DefaultPolicy() and change what differs") {
		t.Errorf("%v", err)
	}
	if _, err := New(Config{Group: "g", Topics: []string{"j"}}, Deps{}); err == nil || err.Error() != "no job type is configured" {
		t.Errorf("%v", err)
	}
}

func TestCommitMetadata(t *testing.T) {
	m := commitMetadata{ok: true, replayFrom: 123, tickID: "boot-1z"}
	if got, err := parseMetadata(m.String()); err != nil || got != m {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := parseMetadata(""); err != nil || got.ok {
		t.Errorf("no metadata: %+v, %v", got, err)
	}
	if got, err := parseMetadata("v1;5;t;what a later build adds"); err != nil || got.replayFrom != 5 || got.tickID != "t" {
		t.Errorf("%+v, %v", got, err)
	}
	for _, text := range []string{"v2;1;t", "v1", "v1;1", "v1;x;t", "v1;-1;t", "v1;;t", "V1;1;t", "kgo", "v1;99999999999999999999;t", " "} {
		if got, err := parseMetadata(text); err == nil {
			t.Errorf("%q is read as %+v", text, got)
		}
	}
}

func TestMergeRanges(t *testing.T) {
	r := func(first, last int64) events.OffsetRange {
		return events.OffsetRange{Topic: "j", First: first, Last: last}
	}
	got := mergeRanges([]events.OffsetRange{r(10, 12), r(0, 3), r(13, 13), r(4, 4), r(20, 30), r(22, 25), r(29, 31), r(6, 6)}, 4)
	if want := []events.OffsetRange{r(4, 4), r(6, 6), r(10, 13), r(20, 31)}; !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	rapid.Check(t, func(t *rapid.T) {
		in := make(map[int64]bool)
		var rs []events.OffsetRange
		for range rapid.IntRange(0, 12).Draw(t, "n") {
			first := rapid.Int64Range(0, 60).Draw(t, "first")
			last := first + rapid.Int64Range(0, 9).Draw(t, "length")
			rs = append(rs, r(first, last))
			for o := first; o <= last; o++ {
				in[o] = true
			}
		}
		from := rapid.Int64Range(0, 40).Draw(t, "from")
		n := &lane{passed: mergeRanges(rs, from)}
		for i := 1; i < len(n.passed); i++ {
			if n.passed[i].First <= n.passed[i-1].Last+1 {
				t.Fatalf("%v is not merged", n.passed)
			}
		}
		for o := from; o < 80; o++ {
			if rapid.IntRange(0, 2).Draw(t, "given") > 0 && n.hasPassed(o) != in[o] {
				t.Fatalf("offset %d is passed: %v", o, !in[o])
			}
		}
	})
}

// testLedger returns a ledger that owns partition 0, recovered from nothing.
func testLedger(t *testing.T, change func(*Config)) (*ledger, *shard) {
	t.Helper()
	cfg := Config{Group: "g", Topics: []string{"j"}, Tiers: retrytopics.Tiers{0, time.Second, 8 * time.Second}, Types: []Type{{Name: "j", Handler: HandlerFunc(nil)}}}
	if change != nil {
		change(&cfg)
	}
	cfg, err := cfg.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	topo := retrytopics.Topology{Group: "g", Jobs: cfg.Topics, Tiers: cfg.Tiers}
	l := newLedger(cfg, topo, "host/1", sanitize.New(sanitize.Config{}))
	l.topicIDs = make(map[string]uuid.UUID)
	parts := make(map[string][]int32)
	for i, topic := range topo.Lanes() {
		l.topicIDs[topic] = uuid.UUID{15: byte(i + 1)}
		parts[topic] = []int32{0}
	}
	l.assign("m", parts)
	for topic := range parts {
		l.fetched(topic, 0, 0, commitMetadata{})
	}
	lanes, ok := l.complete(0)
	if !ok {
		t.Fatal("the shard is not complete")
	}
	s := l.form(lanes)
	l.recover(s, &newFold(newWindow(cfg.DedupWindow, cfg.DedupMax), 0).recovered, nil, windowNow)
	return l, s
}

func jobRecords(from, n int) []*kgo.Record {
	var records []*kgo.Record
	for i := from; i < from+n; i++ {
		records = append(records, &kgo.Record{Topic: "j", Offset: int64(i), Timestamp: windowNow.Time(), Value: []byte("value")})
	}
	return records
}

// land gives a batch's records offsets and commits it.
func land(l *ledger, b *batch, evidence *int64) []*attempt {
	for _, rec := range b.records {
		if rec.Topic == l.topo.Evidence() {
			rec.Offset = *evidence
			*evidence++
		}
	}
	for _, s := range b.checkpoints {
		s.checkpoint = false
	}
	return l.committed(b, true)
}

// TestReadAheadIsBounded: a lane is paused at its bound, in records or bytes, and
// resumed at half of it.
func TestReadAheadIsBounded(t *testing.T) {
	l, s := testLedger(t, func(c *Config) { c.Concurrency = 1000 })
	key := laneKey{"j", 0}
	n := l.lanes[key]
	l.deliver("j", 0, jobRecords(0, 1999), windowNow)
	if pause, resume := l.flow(); pause != nil || resume != nil {
		t.Errorf("below the bound: %v, %v", pause, resume)
	}
	l.deliver("j", 0, jobRecords(1999, 1), windowNow)
	if pause, _ := l.flow(); !reflect.DeepEqual(pause, map[string][]int32{"j": {0}}) {
		t.Errorf("at the bound: %v", pause)
	}
	if pause, resume := l.flow(); pause != nil || resume != nil {
		t.Errorf("paused already: %v, %v", pause, resume)
	}
	for i := 0; n.open > 1001; i++ {
		n.finish(n.entries[0])
		n.position()
	}
	if _, resume := l.flow(); resume != nil {
		t.Errorf("above half of the bound: %v", resume)
	}
	n.finish(n.entries[0])
	if _, resume := l.flow(); !reflect.DeepEqual(resume, map[string][]int32{"j": {0}}) {
		t.Errorf("at half of the bound: %v", resume)
	}
	big := &kgo.Record{Topic: "j", Offset: 5000, Timestamp: windowNow.Time(), Value: make([]byte, readAheadBytes)}
	l.deliver("j", 0, []*kgo.Record{big}, windowNow)
	if pause, _ := l.flow(); len(pause) != 1 {
		t.Errorf("with too many bytes: %v", pause)
	}
	// A lane that is to be read again is not fetched.
	l.release(map[string][]int32{"g.retry.8s": {0}})
	if q := &l.types["j"].ready; s.phase != shardLost || q.len() > 0 {
		t.Errorf("the shard is lost: %v, and %d of its jobs stay queued", s.phase == shardLost, q.len())
	}
	pause, _ := l.flow()
	for topic := range l.lanes {
		if topic.topic != "j" && !slices.Contains(pause[topic.topic], 0) {
			t.Errorf("%s goes on though its shard is lost", topic.topic)
		}
	}
}

// TestTierIsReadAheadWhenItsTimeHasCome: a tier is paused while many of its
// records wait, and read as any lane is once their time has come.
func TestTierIsReadAheadWhenItsTimeHasCome(t *testing.T) {
	l, _ := testLedger(t, func(c *Config) { c.Concurrency = 1000 })
	const topic = "g.retry.8s"
	hop := func(from, n int) (records []*kgo.Record) {
		for i := from; i < from+n; i++ {
			h := events.HopState{Format: 1, Run: 1, Version: 2, Number: 1, State: events.StateRetryWaiting, Cause: events.CauseRetry,
				Origin: events.Publication{Topic: "j", Offset: int64(i)}, OriginAt: windowNow}
			rec := retrytopics.Hop(&kgo.Record{Topic: "j", Headers: []kgo.RecordHeader{{Key: retrytopics.HeaderJobType, Value: []byte("j")}}}, topic, &h)
			rec.Offset, rec.Timestamp = int64(i), windowNow.Time()
			records = append(records, rec)
		}
		return records
	}
	l.deliver(topic, 0, hop(0, tierReadAhead-1), windowNow)
	if pause, _ := l.flow(); pause != nil {
		t.Errorf("below the bound: %v", pause)
	}
	l.deliver(topic, 0, hop(tierReadAhead-1, 1), windowNow)
	if pause, _ := l.flow(); !reflect.DeepEqual(pause, map[string][]int32{topic: {0}}) {
		t.Errorf("at the bound: %v", pause)
	}
	due := windowNow + 8000
	l.wakeUp(due)
	if n := l.types["j"].ready.len(); n != tierReadAhead {
		t.Fatalf("%d jobs are ready, wanted %d", n, tierReadAhead)
	}
	if _, resume := l.flow(); !reflect.DeepEqual(resume, map[string][]int32{topic: {0}}) {
		t.Errorf("when their time has come: %v", resume)
	}
	l.deliver(topic, 0, hop(tierReadAhead, l.ample()-tierReadAhead-1), due)
	if pause, _ := l.flow(); pause != nil {
		t.Errorf("with many that are due: %v", pause)
	}
	l.deliver(topic, 0, hop(l.ample()-1, 1), due)
	if pause, _ := l.flow(); len(pause) != 1 {
		t.Errorf("at the bound of any lane: %v", pause)
	}
}

// TestPositionPassesOnlyWhatIsFinished finishes records out of order.
func TestPositionPassesOnlyWhatIsFinished(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := &lane{}
		count := rapid.IntRange(1, 200).Draw(t, "records")
		open := make(map[int64]*entry)
		at := int64(0)
		for range count {
			at += rapid.Int64Range(0, 3).Draw(t, "hole")
			e := &entry{lane: n, rec: &kgo.Record{Offset: at}}
			n.entries = append(n.entries, e)
			n.open++
			open[at] = e
			at++
			n.next = at
		}
		for len(open) > 0 {
			offsets := make([]int64, 0, len(open))
			for o := range open {
				offsets = append(offsets, o)
			}
			slices.Sort(offsets)
			if n.position() != offsets[0] || n.positionAfter() != offsets[0] || n.open != len(open) {
				t.Fatalf("position %d, after %d, open %d; the first open offset is %d of %d", n.position(), n.positionAfter(), n.open, offsets[0], len(open))
			}
			o := rapid.SampledFrom(offsets).Draw(t, "finish")
			open[o].ending = true
			want := at
			for _, x := range offsets {
				if x != o {
					want = x
					break
				}
			}
			if n.positionAfter() != want || n.position() != offsets[0] {
				t.Fatalf("position %d, after %d, want %d and %d", n.position(), n.positionAfter(), offsets[0], want)
			}
			n.finish(open[o])
			delete(open, o)
		}
		if n.position() != at {
			t.Fatalf("position %d, want %d", n.position(), at)
		}
	})
}

// suspectsOf makes every job of a ledger one that has lost so many workers.
func suspectsOf(l *ledger, n *lane, losses func(i int) uint32) {
	for i, rec := range jobRecords(int(n.next), 100) {
		e := &entry{lane: n, rec: rec, typ: l.types["j"]}
		e.losses = losses(i)
		n.entries = append(n.entries, e)
		n.open++
		n.next = rec.Offset + 1
		l.enqueue(e)
	}
}

// TestSuspectsRunInSmallCohorts: after the first loss a job runs as before, after
// the second among 32, after the third among 4, then alone; cohorts take turns
// with normal work and run beside nothing else.
func TestSuspectsRunInSmallCohorts(t *testing.T) {
	for losses, want := range map[uint32]uint32{0: 0, 1: 0, 2: 32, 3: 4, 4: 1, 5: 1, 99: 1} {
		if got := suspicion(losses); got != want {
			t.Errorf("after %d losses a job runs among %d, want %d", losses, got, want)
		}
	}
	l, s := testLedger(t, nil)
	n := s.lanes[0]
	suspectsOf(l, n, func(i int) uint32 { return uint32(i % 5) }) // 20 of each: 40 innocent, then 32, 4, alone
	now := windowNow
	var turns []string
	for range 1000 {
		started := l.admit(now, 1000)
		if len(started) == 0 {
			if len(l.suspects) == 0 && l.running == 0 {
				break
			}
			now += 100
			continue
		}
		size := started[0].cohort
		for _, e := range started {
			if e.cohort != size || suspicion(e.losses) != size {
				t.Fatalf("a job with %d losses runs in a cohort of %d beside one of %d", e.losses, e.cohort, size)
			}
		}
		if size > 0 && len(started) > int(size) {
			t.Fatalf("%d jobs run in a cohort of %d", len(started), size)
		}
		turns = append(turns, fmt.Sprintf("%d/%d", len(started), size))
		if size == 0 {
			suspectsOf(l, n, func(int) uint32 { return 0 })
			if more := l.admit(now, 1000); len(more) > 0 && more[0].cohort > 0 {
				t.Fatal("suspects run beside normal work")
			} else {
				started = append(started, more...)
			}
		} else if more := l.admit(now, 1000); len(more) > 0 {
			t.Fatalf("%d jobs run beside a cohort", len(more))
		}
		for _, e := range started {
			l.free(e.typ)
			n.finish(e)
		}
		if size == 0 {
			for _, q := range l.types {
				q.ready = queue{}
			}
		}
	}
	if l.running != 0 || len(l.suspects) != 0 {
		t.Fatalf("%d run and %d wait after %v", l.running, len(l.suspects), turns)
	}
	count := make(map[string]int)
	for _, turn := range turns {
		count[turn]++
	}
	if count["20/32"] != 1 || count["4/4"] != 5 || count["1/1"] != 20 {
		t.Errorf("the turns were %v", turns)
	}
}

// TestSuspectsAndNormalWorkTakeTurns: neither starves.
func TestSuspectsAndNormalWorkTakeTurns(t *testing.T) {
	l, s := testLedger(t, func(c *Config) { c.Concurrency = 2 })
	suspectsOf(l, s.lanes[0], func(i int) uint32 { return uint32(i%2) * 4 })
	now := windowNow
	var running []*entry
	var kinds []bool
	for range 4000 {
		now += 50
		if len(running) > 0 {
			l.free(running[0].typ)
			running = running[1:]
		}
		for _, e := range l.admit(now, 1000) {
			running = append(running, e)
			kinds = append(kinds, e.cohort > 0)
		}
	}
	alone, changes := 0, 0
	for i, suspect := range kinds {
		if suspect {
			alone++
		}
		if i > 0 && suspect != kinds[i-1] {
			changes++
		}
	}
	if alone != 50 || len(kinds) != 100 || changes < 4 {
		t.Errorf("%d of %d jobs ran alone, with %d changes of turn", alone, len(kinds), changes)
	}
}

// TestOnlyLossesAloneCount plays a job that takes its worker down each time it
// runs beside one that does not.
func TestOnlyLossesAloneCount(t *testing.T) {
	l, s := testLedger(t, nil)
	evidence := int64(0)
	n := s.lanes[0]
	l.deliver("j", 0, jobRecords(0, 1), windowNow)
	now := windowNow
	var seen []string
	for range 20 {
		start := land(l, l.collect(now), &evidence)
		for _, a := range start {
			// The worker is lost, and the next owner finds the attempt.
			e := a.entry
			l.free(e.typ)
			delete(l.attempts, a.id)
			e.worker, e.orphaned = "host/gone", events.AbandonWorkerLost
			l.orphans = append(l.orphans, e)
			seen = append(seen, fmt.Sprint(e.cohort))
		}
		now += 5000
		if n.open == 0 {
			break
		}
	}
	if want := []string{"0", "0", "32", "4", "1", "1"}; !slices.Equal(seen, want) || n.open != 0 {
		t.Errorf("it ran among %v, want %v", seen, want)
	}
}

// TestRefusedRecordsAreFound: the brokers refuse one record of many for its size;
// the search ends with it alone, and it then ends as oversize.
func TestRefusedRecordsAreFound(t *testing.T) {
	l, s := testLedger(t, func(c *Config) { c.UnknownTypes = UnknownToDLQ; c.Types[0].Name = "other" })
	l.deliver("j", 0, jobRecords(0, 300), windowNow) // of an unknown type: 300 dead-letter records
	evidence := int64(0)
	var terminals, dead, ticks int
	for n := s.lanes[0]; n.open > 0; ticks++ {
		if ticks > 200 {
			t.Fatal("the search does not end")
		}
		b := l.collect(windowNow)
		refused := slices.ContainsFunc(b.records, func(r *kgo.Record) bool { return r.Topic == "g.dlq" && strings.Contains(originOf(r), "j/0/177") })
		if refused {
			if !l.refused(b) {
				t.Fatal("the record cannot be got rid of")
			}
			l.aborted(b)
			if at := s.lanes[0].positionAfter(); at != s.lanes[0].position() {
				t.Fatalf("after an aborted tick the next one would commit %d, but %d is open", at, s.lanes[0].position())
			}
			continue
		}
		for _, e := range b.said {
			if term, ok := e.Body.(*events.JobTerminal); ok {
				terminals++
				if want := e.Publication.Offset == 177; want != (term.Reason == events.ReasonOversize) || want != (len(term.ValueSHA256) == 32) {
					t.Errorf("the job at %d ended as %v", e.Publication.Offset, term.Reason)
				}
			}
		}
		for _, r := range b.records {
			if r.Topic == "g.dlq" {
				dead++
			}
		}
		land(l, b, &evidence)
	}
	if terminals != 300 || dead != 299 || ticks > 60 {
		t.Errorf("%d terminals and %d dead-letter records in %d ticks", terminals, dead, ticks)
	}
}

func originOf(r *kgo.Record) string {
	for _, h := range r.Headers {
		if h.Key == retrytopics.HeaderOrigin {
			return string(h.Value)
		}
	}
	return ""
}

// TestForgedStatesOnJobTopicsAreIgnored: only the group's own topics carry runs,
// and there a record without a valid state ends as malformed.
func TestForgedStatesOnJobTopicsAreIgnored(t *testing.T) {
	l, s := testLedger(t, nil)
	forged := events.HopState{Format: 1, Run: 9, Version: 77, Number: 5, Losses: 4, SoloLosses: 2, BudgetUsed: 4, Origin: place("k", 3), State: events.StateRetryWaiting}
	rec := jobRecords(0, 1)[0]
	rec.Headers = []kgo.RecordHeader{{Key: retrytopics.HeaderState, Value: forged.Append(nil)}, {Key: retrytopics.HeaderJobID, Value: []byte("mine")}}
	l.deliver("j", 0, []*kgo.Record{rec}, windowNow)
	e := s.lanes[0].entries[0]
	if e.job != (events.Job{Run: 1, State: events.StatePending}) || e.losses != 0 || e.solo != 0 || e.budget != 0 || e.publication.Topic != "j" || e.meta.JobID != "mine" || e.kind != noVerdict {
		t.Errorf("%+v of %+v", e.progress, e.meta)
	}
	bare := &kgo.Record{Topic: "g.retry.0s", Timestamp: windowNow.Time()}
	l.deliver("g.retry.0s", 0, []*kgo.Record{bare}, windowNow)
	e = l.lanes[laneKey{"g.retry.0s", 0}].entries[0]
	if e.kind != malformed || e.publication.Topic != "g.retry.0s" || e.job.Run != 1 {
		t.Errorf("%v, %+v", e.kind, e.progress)
	}
	hop := retrytopics.Hop(rec, "g.retry.0s", &forged)
	hop.Offset, hop.Timestamp = 1, windowNow.Time()
	l.deliver("g.retry.0s", 0, []*kgo.Record{hop}, windowNow)
	e = l.lanes[laneKey{"g.retry.0s", 0}].entries[1]
	if e.job != (events.Job{Run: 9, Version: 77, State: events.StateRetryWaiting, Number: 5}) || e.losses != 4 || e.publication != forged.Origin {
		t.Errorf("%+v", e.progress)
	}
}

// TestOriginTimesAreSensible: the first owner clamps what a producer's clock says.
func TestOriginTimesAreSensible(t *testing.T) {
	const dayMs = 24 * 3600 * 1000
	for stamp, want := range map[events.Time]events.Time{windowNow - 5: windowNow - 5, windowNow - 500*dayMs: windowNow - 400*dayMs, windowNow + 9*dayMs: windowNow + dayMs, 1: windowNow - 400*dayMs} {
		l, s := testLedger(t, nil)
		rec := jobRecords(0, 1)[0]
		rec.Timestamp = stamp.Time()
		l.deliver("j", 0, []*kgo.Record{rec}, windowNow)
		if got := s.lanes[0].entries[0].originAt; got != want {
			t.Errorf("a record of %d has the origin time %d, want %d", stamp, got, want)
		}
	}
}

func TestQueueIsFirstInFirstOut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q queue
		var model []*entry
		for range rapid.IntRange(1, 4000).Draw(t, "steps") {
			if len(model) == 0 || rapid.IntRange(0, 2).Draw(t, "push") > 0 {
				e := new(entry)
				q.push(e)
				model = append(model, e)
			} else if got := q.pop(); got != model[0] {
				t.Fatal("out of order")
			} else {
				model = model[1:]
			}
			if q.len() != len(model) {
				t.Fatalf("%d entries, want %d", q.len(), len(model))
			}
		}
	})
}

// TestWakeUpsAreNeverEarly: entries wait until the log time at which they are due.
func TestWakeUpsAreNeverEarly(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l, s := testLedger(t, func(c *Config) { c.Concurrency = math.MaxInt32 })
		due := make(map[int64]events.Time)
		var records []*kgo.Record
		for i := range rapid.IntRange(1, 40).Draw(rt, "records") {
			rec := jobRecords(i, 1)[0]
			due[int64(i)] = windowNow + events.Time(rapid.Int64Range(-2000, 30_000).Draw(rt, "due"))
			rec.Headers = []kgo.RecordHeader{{Key: retrytopics.HeaderNotBefore, Value: retrytopics.FormatTime(due[int64(i)])}}
			records = append(records, rec)
		}
		l.deliver("j", 0, records, windowNow)
		evidence := int64(0)
		now := windowNow
		for range 60 {
			b := l.collect(now)
			for _, e := range b.said {
				at := e.Publication.Offset
				switch body := e.Body.(type) {
				case *events.AttemptStarted:
					if now < due[at] {
						rt.Fatalf("the job at %d is started %v early", at, due[at].Sub(now))
					}
				case *events.JobDeferred:
					if tier, _ := l.topo.TierOf(body.Tier); now.Add(tier) > due[at] || body.Until != due[at] {
						rt.Fatalf("the job at %d, due in %v, hops by %s until %d", at, due[at].Sub(now), body.Tier, body.Until)
					}
					if due[at].Sub(now) <= time.Second {
						rt.Fatalf("the job at %d hops for the last %v", at, due[at].Sub(now))
					}
				}
			}
			for _, a := range land(l, b, &evidence) {
				l.ended(a, &result{outcome: events.OutcomeSucceeded})
			}
			next := l.nextWake()
			if next == 0 {
				break
			}
			now = next
		}
		land(l, l.collect(now), &evidence)
		if s.lanes[0].open != 0 {
			rt.Fatalf("%d jobs still wait", s.lanes[0].open)
		}
	})
}

// TestDrainStopsAdmission: a shard that is to be given away starts nothing, and is
// busy until its handlers' outcomes and a last checkpoint are on record.
func TestDrainStopsAdmission(t *testing.T) {
	l, s := testLedger(t, func(c *Config) { c.Concurrency = 1 })
	parts := make(map[string][]int32)
	for key := range l.lanes {
		parts[key.topic] = []int32{0}
	}
	evidence := int64(0)
	l.deliver("j", 0, jobRecords(0, 3), windowNow)
	running := land(l, l.collect(windowNow), &evidence)
	if len(running) != 1 {
		t.Fatalf("%d attempts run", len(running))
	}
	if !l.drain(parts) {
		t.Error("nothing is under way")
	}
	land(l, l.collect(windowNow), &evidence)
	if !l.drain(parts) {
		t.Error("the running handler is forgotten")
	}
	l.deliver("j", 0, jobRecords(3, 3), windowNow)
	if n := s.lanes[0]; n.next != 3 {
		t.Errorf("a draining shard takes records up to %d", n.next)
	}
	l.ended(running[0], &result{outcome: events.OutcomeSucceeded})
	if start := land(l, l.collect(windowNow), &evidence); len(start) > 0 {
		t.Errorf("%d handlers are called while the shard drains", len(start))
	}
	if l.drain(parts) {
		t.Error("the shard is busy for ever")
	}
	if got := s.lanes[0].committed; got != 1 {
		t.Errorf("the position is %d", got)
	}
}

// TestCopiesFollowTheStateOfTheFirst: a second publication is refused while the
// first is open, parked or succeeded, and run once it has failed, by the owner
// that saw it end and by one that recovered.
func TestCopiesFollowTheStateOfTheFirst(t *testing.T) {
	failure := func(class events.ErrorClass) *result {
		return &result{outcome: events.OutcomeFailed, err: events.Error{Class: class}, failure: retrytopics.Failure{Class: class}}
	}
	for _, c := range []struct {
		name    string
		end     *result
		park    bool
		refused bool
	}{
		{"running", nil, false, true},
		{"succeeded", &result{outcome: events.OutcomeSucceeded}, false, true},
		{"waiting for a retry", failure(events.ClassTransient), false, true},
		{"parked", &result{outcome: events.OutcomeInterrupted}, true, true},
		{"failed", failure(events.ClassPermanent), false, false},
	} {
		for _, recovered := range []bool{false, true} {
			l, s := testLedger(t, func(cfg *Config) {
				cfg.Types[0].Policy = retrytopics.DefaultPolicy()
				cfg.Types[0].Policy.Idempotent = !c.park
			})
			named := func(offset int) []*kgo.Record {
				records := jobRecords(offset, 1)
				records[0].Headers = []kgo.RecordHeader{{Key: retrytopics.HeaderJobID, Value: []byte("job")}}
				return records
			}
			evidence := int64(0)
			var log []*events.Event
			commit := func() []*attempt {
				b := l.collect(windowNow)
				log = append(log, b.said...)
				return land(l, b, &evidence)
			}
			l.deliver("j", 0, named(0), windowNow)
			start := commit()
			if len(start) != 1 {
				t.Fatalf("%s: %d attempts", c.name, len(start))
			}
			if c.end != nil {
				l.ended(start[0], c.end)
				commit()
			}
			if recovered {
				f := newFold(newWindow(time.Hour, 10), 0)
				for i, e := range log {
					f.apply(e, int64(i), windowNow)
				}
				s.window = f.window
			}
			l.deliver("j", 0, named(1), windowNow)
			begun := len(log)
			again := commit()
			refused := false
			for _, e := range log[begun:] {
				b, ok := e.Body.(*events.DuplicateSeen)
				refused = refused || ok && b.Action == events.DuplicateRejected && b.First.Offset == 0
			}
			if refused != c.refused || (len(again) == 1) == c.refused {
				t.Errorf("%s, recovered %v: the copy is refused: %v, and %d handlers are called", c.name, recovered, refused, len(again))
			}
		}
	}
}
