package worker

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/jobtrail/jobtrail/pkg/events"
	"github.com/jobtrail/jobtrail/pkg/sanitize"
)

func about(offset int64, version uint32, state events.State, b events.Body) *events.Event {
	return &events.Event{Publication: place("j", offset), Source: events.Source{Topic: "j", Partition: 1, Offset: offset}, Run: 1, Version: version, State: state, Worker: "host/1", Body: b}
}

func openEntry(offset int64, id uuid.UUID) events.OpenEntry {
	return events.OpenEntry{JobID: fmt.Sprint("job-", offset), Publication: place("j", offset), Run: 1, Version: 1, State: events.StateRunning, Number: 1,
		Source: events.Source{Topic: "j", Partition: 1, Offset: offset}, Delivery: 1, AttemptID: id, Worker: "host/1", StartedOffset: 3}
}

func foldAll(from int64, list ...*events.Event) *fold {
	f := newFold(newWindow(time.Hour, 100), from)
	for i, e := range list {
		f.apply(e, from+int64(i), windowNow)
	}
	return f
}

// TestFoldFollowsADelivery shows what each event makes of it.
func TestFoldFollowsADelivery(t *testing.T) {
	id, other := uuid.UUID{1}, uuid.UUID{2}
	start := about(5, 1, events.StateRunning, &events.AttemptStarted{AttemptID: id, Delivery: 1, Cohort: 4, Step: "s"})
	late := about(5, 0, 0, &events.AttemptFinished{AttemptID: id, Outcome: events.OutcomeSucceeded, Late: true})
	for _, c := range []struct {
		name  string
		list  []*events.Event
		phase phase
		late  bool
		never bool
	}{
		{"started", []*events.Event{start}, started, false, false},
		{"late outcome", []*events.Event{start, late}, started, true, false},
		{"late outcome of another attempt", []*events.Event{start, about(5, 0, 0, &events.AttemptFinished{AttemptID: other, Late: true})}, started, false, false},
		{"never called", []*events.Event{start, about(5, 0, 0, &events.AttemptAbandoned{AttemptID: id, Cause: events.AbandonNotStarted})}, started, false, true},
		{"finished", []*events.Event{start, about(5, 2, events.StateDeciding, &events.AttemptFinished{AttemptID: id})}, finished, false, false},
		{"late outcome after the end", []*events.Event{start, about(5, 2, events.StateDeciding, &events.AttemptFinished{AttemptID: id}), late}, finished, false, false},
		{"abandoned", []*events.Event{start, about(5, 2, events.StateRetryWaiting, &events.AttemptAbandoned{AttemptID: id, Losses: 1, Delivery: 1})}, abandoned, false, false},
		{"late outcome after abandonment", []*events.Event{start, about(5, 2, events.StateRetryWaiting, &events.AttemptAbandoned{AttemptID: id, Delivery: 1}), late}, abandoned, false, false},
		{"abandoned and decided", []*events.Event{start, about(5, 2, events.StateDeciding, &events.AttemptAbandoned{AttemptID: id})}, finished, false, false},
		{"late outcome of the attempt before", []*events.Event{start, about(5, 2, events.StateRetryWaiting, &events.AttemptAbandoned{AttemptID: id, Delivery: 1}),
			about(5, 3, events.StateRunning, &events.AttemptStarted{AttemptID: other, Delivery: 2}), late}, started, false, false},
		{"deferred", []*events.Event{about(5, 1, events.StatePending, &events.JobDeferred{})}, finished, false, false},
		{"duplicate", []*events.Event{about(5, 0, 0, &events.DuplicateSeen{Action: events.DuplicateRejected})}, finished, false, false},
		{"duplicate that is run", []*events.Event{about(5, 0, 0, &events.DuplicateSeen{Action: events.DuplicateRun}), start}, started, false, false},
		{"rejected", []*events.Event{about(5, 0, 0, &events.TransitionRejected{})}, finished, false, false},
	} {
		f := foldAll(0, c.list...)
		p := f.lanes["j"].known[5]
		if p == nil || p.phase != c.phase || (p.late != nil) != c.late || p.notStarted != c.never {
			t.Errorf("%s: %+v", c.name, p)
			continue
		}
		if f.count != len(c.list) || f.end != int64(len(c.list)) {
			t.Errorf("%s: %d events up to %d", c.name, f.count, f.end)
		}
	}
	p := foldAll(0, start).lanes["j"].known[5]
	if p.attemptID != id || p.delivery != 1 || p.cohort != 4 || p.step != "s" || p.worker != "host/1" || p.startedOffset != 0 || p.job != (events.Job{Run: 1, Version: 1, State: events.StateRunning}) {
		t.Errorf("%+v", p)
	}
}

// TestFoldTakesCheckpointsWhole: the parts of a checkpoint replace what was before
// them, but only together, and keep what others wrote between them.
func TestFoldTakesCheckpointsWhole(t *testing.T) {
	id, gone, never := uuid.UUID{1}, uuid.UUID{2}, uuid.UUID{3}
	before := about(1, 1, events.StateRunning, &events.AttemptStarted{AttemptID: gone})
	part := func(of uuid.UUID, n, parts uint32, open ...events.OpenEntry) *events.Event {
		return &events.Event{Body: &events.Checkpoint{ID: of, Part: n, Parts: parts, Open: open, Finished: []events.OffsetRange{{Topic: "j", First: int64(100 * n), Last: int64(100*n + 5)}},
			Committed: []events.Source{{Topic: "j", Offset: 5}}, DedupPages: []int64{int64(n)}}}
	}
	a, b := uuid.UUID{0xa}, uuid.UUID{0xb}
	late := about(6, 0, 0, &events.AttemptFinished{AttemptID: id, Outcome: events.OutcomeSucceeded, Late: true})
	missed := about(7, 0, 0, &events.AttemptAbandoned{AttemptID: never, Cause: events.AbandonNotStarted})

	f := foldAll(10, before, part(a, 0, 3, openEntry(6, id)), late, part(a, 1, 3, openEntry(7, never)), missed, part(a, 2, 3))
	if f.from != 11 || len(f.lanes["j"].known) != 2 || len(f.lanes["j"].passed) != 3 || !reflect.DeepEqual(f.pages, []int64{0, 1, 2}) {
		t.Fatalf("from %d, %+v, pages %v", f.from, f.lanes["j"], f.pages)
	}
	if p := f.lanes["j"].known[6]; p.late == nil || p.lateOffset != 12 {
		t.Errorf("the late outcome between the parts is lost: %+v", p)
	}
	if p := f.lanes["j"].known[7]; !p.notStarted {
		t.Errorf("that an attempt was never called is lost: %+v", p)
	}

	for name, list := range map[string][]*events.Event{
		"a part is missing":      {before, part(a, 0, 2, openEntry(6, id))},
		"the first is missing":   {before, part(a, 1, 2, openEntry(6, id))},
		"one is skipped":         {before, part(a, 0, 3, openEntry(6, id)), part(a, 2, 3)},
		"parts of two":           {before, part(a, 0, 2, openEntry(6, id)), part(b, 1, 2)},
		"another begins in vain": {before, part(a, 0, 2), part(b, 0, 2), part(a, 1, 2)},
	} {
		f := foldAll(10, list...)
		if f.from != 10 || f.lanes["j"] == nil || f.lanes["j"].known[1] == nil || len(f.lanes["j"].known) != 1 || len(f.pages) != 0 {
			t.Errorf("%s: from %d, %+v", name, f.from, f.lanes["j"])
		}
	}
	f = foldAll(10, part(a, 0, 2), part(b, 0, 1, openEntry(6, id)), before)
	if f.from != 11 || len(f.lanes["j"].known) != 2 {
		t.Errorf("a whole one after half of another: from %d, %+v", f.from, f.lanes["j"])
	}
}

// TestCheckpointPartsAreBounded: no part is larger than what a topic takes, also
// with the longest names and messages; and folding them gives the memory back.
func TestCheckpointPartsAreBounded(t *testing.T) {
	l, s := testLedger(t, nil)
	n := s.lanes[0]
	long := strings.Repeat("x", 200)
	message := sanitize.Clean(strings.Repeat("words and ", 110))
	const count = 1500
	for i := range int64(count) {
		p := fromOpen(&events.OpenEntry{Publication: place("j", i), Run: 1, Version: 1, State: events.StateRunning, Number: 1, Step: long, AttemptID: uuid.UUID{1, byte(i), byte(i >> 8)},
			Delivery: 1, Worker: long, StartedOffset: i, NotStarted: i%2 == 1})
		p.publication.Topic = strings.Repeat("t", 249)
		if i%2 == 0 {
			p.late = &events.AttemptFinished{AttemptID: p.attemptID, Outcome: events.OutcomeFailed, Error: events.Error{Class: events.ClassTransient, Type: long, Message: message}, Late: true}
			p.lateOffset = i
		}
		n.known[i] = p
	}
	parts := l.snapshot(s, uuid.UUID{1})
	if len(parts) < 2 {
		t.Fatalf("%d parts", len(parts))
	}
	f := newFold(newWindow(time.Hour, 100), 0)
	for i, part := range parts {
		raw := events.Append(nil, &events.Event{Group: l.cfg.Group, Worker: l.worker, Body: part})
		if len(raw) > checkpointPartBytes+2048 {
			t.Errorf("part %d takes %d bytes", i, len(raw))
		}
		e, err := events.Decode(raw)
		if err != nil {
			t.Fatal(err)
		}
		f.apply(e, int64(i), windowNow)
	}
	if len(f.lanes["j"].known) != count {
		t.Fatalf("%d deliveries are recovered", len(f.lanes["j"].known))
	}
	for offset, want := range n.known {
		if got := f.lanes["j"].known[offset]; !reflect.DeepEqual(got, want) {
			t.Fatalf("%+v is recovered as %+v", want, got)
		}
	}
	if at := positions(parts); at["j"] != 0 || len(at) != len(s.lanes) {
		t.Errorf("positions %v", at)
	}
}
