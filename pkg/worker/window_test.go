package worker

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/jobtrail/jobtrail/pkg/events"
)

const windowNow = events.Time(1_800_000_000_000)

func place(topic string, offset int64) events.Publication {
	return events.Publication{TopicID: uuid.UUID{topic[0]}, Topic: topic, Partition: 1, Offset: offset}
}

// TestWindowRemembersTheNewest plays random touches against a plain list.
func TestWindowRemembersTheNewest(t *testing.T) {
	type known struct {
		job    string
		offset int64
		state  events.State
		at     int64
	}
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.IntRange(1, 40).Draw(t, "most")
		keep := time.Duration(rapid.IntRange(1, 60).Draw(t, "keep")) * time.Second
		w := newWindow(keep, most)
		var model []known // oldest first
		now := windowNow
		for i := range rapid.IntRange(1, 400).Draw(t, "touches") {
			now += events.Time(rapid.IntRange(0, 3000).Draw(t, "ms"))
			job := fmt.Sprint("job-", rapid.IntRange(0, 60).Draw(t, "job"))
			state := events.State(rapid.SampledFrom([]int{0, 1, 2, 16, 17}).Draw(t, "state"))
			w.touch("t", job, "type", place("j", int64(i)), state, now)
			at := int64(now / 1000)
			k := slices.IndexFunc(model, func(k known) bool { return k.job == job })
			switch {
			case k >= 0 && model[k].at == at:
				model[k] = known{job, int64(i), state, at}
			case k >= 0:
				model = slices.Delete(model, k, k+1)
				fallthrough
			default:
				model = append(model, known{job, int64(i), state, at})
			}
			for len(model) > most || now.Sub(events.Time(model[0].at)*1000) > keep {
				model = model[1:]
			}
			if w.size != len(model) {
				t.Fatalf("%d entries, want %d", w.size, len(model))
			}
		}
		for i := range 61 {
			job := fmt.Sprint("job-", i)
			got, ok := w.look("t", job, now)
			k := slices.IndexFunc(model, func(k known) bool { return k.job == job })
			if ok != (k >= 0) {
				t.Fatalf("%s is known: %v, want %v", job, ok, k >= 0)
			}
			if ok && (got.offset() != model[k].offset || got.state() != model[k].state || int64(got.lastAt) != model[k].at || !w.same(got, place("j", got.offset()))) {
				t.Fatalf("%s is %+v, want %+v", job, got, model[k])
			}
		}
		if _, ok := w.look("other", "job-1", now); ok {
			t.Fatal("a job of another tenant is known")
		}
		var dirty int
		for n := w.oldest; n != 0; n = w.at(n).after {
			if w.at(n).dirty() {
				dirty++
			}
		}
		if dirty != w.changes {
			t.Fatalf("%d entries have changed, %d are counted", dirty, w.changes)
		}
	})
}

// TestWindowKeepsTheLatestPublication: what happens to an older copy does not
// displace what is known of the latest.
func TestWindowKeepsTheLatestPublication(t *testing.T) {
	touch := func(w *window, topic string, offset int64, state events.State) {
		w.touch("", "job", "type", place(topic, offset), state, windowNow)
	}
	for _, c := range []struct {
		name string
		play func(*window)
		want events.Publication
	}{
		{"an older copy of the topic", func(w *window) { touch(w, "j", 5, events.StateRunning); touch(w, "j", 3, events.StateFailed) }, place("j", 5)},
		{"a newer copy of the topic", func(w *window) { touch(w, "j", 3, events.StateRunning); touch(w, "j", 5, 0) }, place("j", 5)},
		{"another topic while it is open", func(w *window) { touch(w, "j", 5, events.StateRunning); touch(w, "k", 9, events.StateFailed) }, place("j", 5)},
		{"another topic when it has ended", func(w *window) { touch(w, "j", 5, events.StateFailed); touch(w, "k", 1, events.StateRunning) }, place("k", 1)},
	} {
		w := newWindow(time.Hour, 10)
		c.play(w)
		if got, ok := w.look("", "job", windowNow); !ok || w.publication(got) != c.want {
			t.Errorf("%s: %v, %v, want %v", c.name, w.publication(got), ok, c.want)
		}
	}
}

// TestWindowOffKeepsNothing: without a window no id is remembered.
func TestWindowOffKeepsNothing(t *testing.T) {
	w := newWindow(time.Hour, 0)
	w.touch("", "job", "type", place("j", 1), events.StateRunning, windowNow)
	if _, ok := w.look("", "job", windowNow); ok || w.size != 0 {
		t.Error("an id is remembered")
	}
}

// pagesOf is a log of pages.
type pagesOf map[int64]*events.DedupPage

func (log pagesOf) write(t require, w *window) (rewrite bool) {
	pages, rewrite := w.changed()
	var offsets []int64
	for _, p := range pages {
		raw := events.Append(nil, &events.Event{Body: p})
		e, err := events.Decode(raw)
		if err != nil {
			t.Fatalf("%v", err)
		}
		at := int64(len(log))
		log[at] = e.Body.(*events.DedupPage)
		offsets = append(offsets, at)
	}
	w.listedNow(pages, offsets, rewrite)
	return rewrite
}

func (log pagesOf) read(w *window, now events.Time) *window {
	again := newWindow(w.keep, w.most)
	for _, at := range w.pages {
		again.load(log[at], at)
	}
	again.settle(now)
	return again
}

type require interface{ Fatalf(string, ...any) }

func sameWindows(t require, w, again *window) {
	for n := w.oldest; n != 0; n = w.at(n).after {
		e := w.at(n)
		m, _ := again.find(e.job)
		if e.state() == 0 {
			// Nothing is on record of it; what was before it has ended.
			if m != 0 && again.publication(*again.at(m)) != w.publication(*e) && !again.at(m).state().Final() {
				t.Fatalf("%+v is recovered as %+v", e, again.at(m))
			}
			continue
		}
		if m == 0 {
			// Which ids of the oldest second make room for others is open.
			if again.size < w.most || e.lastAt > again.at(again.oldest).lastAt {
				t.Fatalf("%+v is not recovered", e)
			}
			continue
		}
		got := again.at(m)
		if again.publication(*got) != w.publication(*e) || got.state() != e.state() || got.lastAt != e.lastAt || got.typ() != e.typ() {
			t.Fatalf("%+v is recovered as %+v", e, got)
		}
	}
	if again.listed != w.listed || !slices.Equal(again.pages, w.pages) {
		t.Fatalf("%d entries are listed in %v, want %d in %v", again.listed, again.pages, w.listed, w.pages)
	}
	last := uint32(0)
	for n := again.oldest; n != 0; n = again.at(n).after {
		if again.at(n).lastAt < last {
			t.Fatalf("the entries are out of order")
		}
		last = again.at(n).lastAt
	}
}

func TestPagesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWindow(time.Hour, rapid.IntRange(5, 60).Draw(t, "most"))
		log := make(pagesOf)
		now := windowNow
		for i := range rapid.IntRange(1, 300).Draw(t, "touches") {
			now += events.Time(rapid.IntRange(0, 900).Draw(t, "ms"))
			state := events.State(rapid.SampledFrom([]int{1, 2, 16, 17}).Draw(t, "state"))
			topic := rapid.SampledFrom([]string{"j", "k"}).Draw(t, "topic")
			job := fmt.Sprint(rapid.IntRange(0, 80).Draw(t, "job"))
			if seen, ok := w.look("t", job, now); ok && seen.state().Final() && rapid.Bool().Draw(t, "given") {
				state = 0
			}
			w.touch("t", job, rapid.SampledFrom([]string{"a", "b"}).Draw(t, "type"), place(topic, int64(i)), state, now)
			if rapid.IntRange(0, 20).Draw(t, "checkpoint") == 0 {
				log.write(t, w)
			}
		}
		log.write(t, w)
		if pages, _ := w.changed(); len(pages) > 0 {
			t.Fatalf("%d pages are still to be written", len(pages))
		}
		sameWindows(t, w, log.read(w, now))
	})
}

// TestPagesDoNotRecallWhatIsOver: a job that is published again after it failed is
// a new one, also for an owner that knows it from pages written in between.
func TestPagesDoNotRecallWhatIsOver(t *testing.T) {
	w := newWindow(time.Hour, 10)
	log := make(pagesOf)
	w.touch("", "job", "type", place("k", 0), events.StateRetryWaiting, windowNow)
	log.write(t, w)
	w.touch("", "job", "type", place("k", 0), events.StateFailed, windowNow)
	w.touch("", "job", "type", place("j", 23), 0, windowNow) // given to the owner, not started yet
	log.write(t, w)
	again := log.read(w, windowNow)
	if got, ok := again.look("", "job", windowNow); ok && !again.same(got, place("j", 23)) && !got.state().Final() {
		t.Errorf("the failed job is recalled as %v, so its next publication would be refused", got.state())
	}
}

// TestPagesAreRewritten: superseded entries do not pile up.
func TestPagesAreRewritten(t *testing.T) {
	const ids = 3000
	w := newWindow(time.Hour, ids)
	log := make(pagesOf)
	rewritten := 0
	for round := range 20 {
		now := windowNow + events.Time(round*1000)
		for i := range ids {
			w.touch("", fmt.Sprint(i), "type", place("j", int64(round*ids+i)), events.StateRunning, now)
		}
		if log.write(t, w) {
			rewritten++
			if len(w.pages) != 1 || w.listed != ids {
				t.Fatalf("after a rewrite %d entries are listed in %d pages", w.listed, len(w.pages))
			}
		}
		if w.listed > 3*ids+pageEntries {
			t.Fatalf("%d entries are listed for %d ids", w.listed, ids)
		}
		sameWindows(t, w, log.read(w, now))
	}
	if rewritten == 0 {
		t.Error("the pages were never rewritten")
	}
}

// TestBrokenPagesAreReadAsFarAsTheyGo: columns of unequal length, and topics that
// the page does not have.
func TestBrokenPagesAreReadAsFarAsTheyGo(t *testing.T) {
	w := newWindow(time.Hour, 10)
	w.load(&events.DedupPage{Job: []uint64{1, 2, 3}, JobType: []uint32{1, 1, 1}, Topic: []uint32{0, 7, 0}, Offset: []int64{1, 2}, State: []events.State{2, 2, 2},
		LastAt: []uint32{9, 9, 9}, Topics: []events.Publication{place("j", 0)}}, 5)
	if n, _ := w.find(1); n == 0 || w.size != 1 {
		t.Errorf("%d entries are read", w.size)
	}
}

func heapBytes() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestWindowLoadsMoreThanItKeeps loads pages of a larger window: the newest ids
// stay.
func TestWindowLoadsMoreThanItKeeps(t *testing.T) {
	large := newWindow(time.Hour, 5000)
	fill(large, 5000)
	pages, _ := large.changed()
	small := newWindow(time.Hour, 10)
	for i, page := range pages {
		small.load(page, int64(i))
	}
	small.settle(windowNow + 5000)
	if small.size != 10 {
		t.Errorf("the window holds %d ids, wanted 10", small.size)
	}
	for _, n := range []int{0, 4989, 4990, 4999} {
		if _, ok := small.look("tenant", fmt.Sprint("job-", n), windowNow+5000); ok != (n >= 4990) {
			t.Errorf("job-%d: in the window %v, wanted %v", n, ok, n >= 4990)
		}
	}
}

func fill(w *window, n int) {
	for i := range n {
		w.touch("tenant", fmt.Sprint("job-", i), "type", events.Publication{Topic: "j", Offset: int64(i)}, events.StateSucceeded, windowNow+events.Time(i))
	}
}

// TestWindowIsSmall holds an entry of the window to 40 bytes, everything
// included, also while old ones make room for new ones.
func TestWindowIsSmall(t *testing.T) {
	const n = 200_000
	before := heapBytes()
	w := newWindow(time.Hour, n)
	fill(w, n+n/4)
	size := float64(heapBytes()-before)/n + float64(unsafe.Sizeof(windowEntry{}))*float64(len(w.entries))/n
	t.Logf("%.1f bytes an entry", size)
	if w.size != n || size > 40 {
		t.Errorf("each of %d entries takes %.1f bytes, 40 are allowed", w.size, size)
	}
	runtime.KeepAlive(w)
}

func BenchmarkWindowTouch(b *testing.B) {
	const n = 200_000
	w := newWindow(time.Hour, n)
	fill(w, n)
	names := make([]string, 2*n)
	for i := range names {
		names[i] = fmt.Sprint("job-", i)
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		w.touch("tenant", names[i%len(names)], "type", events.Publication{Topic: "j", Offset: int64(i)}, events.StateSucceeded, windowNow+events.Time(n+i))
		i++
	}
}

func BenchmarkWindowRecover(b *testing.B) {
	w := newWindow(time.Hour, 200_000)
	fill(w, 200_000)
	pages, _ := w.changed()
	b.ReportAllocs()
	for b.Loop() {
		again := newWindow(time.Hour, 200_000)
		for i, p := range pages {
			again.load(p, int64(i))
		}
		again.settle(windowNow)
		if again.size != w.size {
			b.Fatalf("%d entries", again.size)
		}
	}
}
