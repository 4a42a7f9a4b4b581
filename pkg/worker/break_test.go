package worker

import (
	"flag"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/jobtrail/jobtrail/pkg/events"
)

// breaks are protections taken out of a simulation, one at a time; the zero value
// leaves all of them in. They act where the ledger meets the world, so that the
// ledger itself knows nothing of them.
type breaks struct {
	config     func(*Config)
	recovered  func(*simWorker, *recovered) // before a shard gets what was replayed
	replayFrom func(int64) int64
	deciding   func(*simWorker)
	checkpoint func(*checkpointWrite)
	position   func(*lane, int64) int64
	aborted    func(*simWorker)
	committed  func(*simWorker)
	unfenced   bool        // a commit of a member that the group has left behind counts
	ahead      events.Time // how far a worker's clock is ahead of the log
}

func eachKnown(r *recovered, fn func(*progress)) {
	for _, n := range r.lanes {
		for _, p := range n.known {
			fn(p)
		}
	}
}

var breakRuns = flag.Int("break.n", 3000, "histories in which a broken protection must show")

// TestEveryProtectionIsNeeded takes out one protection after the other: each time
// some history must be judged wrong.
func TestEveryProtectionIsNeeded(t *testing.T) {
	for _, c := range []struct {
		name string
		breaks
	}{
		{"late outcomes are not adopted", breaks{recovered: func(_ *simWorker, r *recovered) {
			eachKnown(r, func(p *progress) { p.late = nil })
		}}},
		{"what was never called is taken for lost", breaks{recovered: func(_ *simWorker, r *recovered) {
			eachKnown(r, func(p *progress) { p.notStarted = false })
		}}},
		{"replay is ignored", breaks{recovered: func(_ *simWorker, r *recovered) { clear(r.lanes) }}},
		{"finished deliveries are forgotten in replay", breaks{recovered: func(_ *simWorker, r *recovered) {
			for _, n := range r.lanes {
				for offset, p := range n.known {
					if p.phase == finished {
						delete(n.known, offset)
					}
				}
			}
		}}},
		{"versions come from the record, not from replay", breaks{recovered: func(_ *simWorker, r *recovered) {
			eachKnown(r, func(p *progress) { p.job = events.Job{} })
		}}},
		{"the delivery is not counted up", breaks{recovered: func(_ *simWorker, r *recovered) {
			eachKnown(r, func(p *progress) { p.delivery = 0 })
		}}},
		{"an abandoned attempt costs budget", breaks{recovered: func(_ *simWorker, r *recovered) {
			eachKnown(r, func(p *progress) { p.budget++ })
		}}},
		{"losses are forgotten", breaks{recovered: func(_ *simWorker, r *recovered) {
			eachKnown(r, func(p *progress) { p.losses = 0 })
		}}},
		{"every loss counts as one alone", breaks{recovered: func(_ *simWorker, r *recovered) {
			eachKnown(r, func(p *progress) { p.cohort = cohortAlone })
		}}},
		{"suspects are not set apart", breaks{committed: func(w *simWorker) {
			for _, e := range w.l.suspects {
				e.typ.ready.push(e)
			}
			w.l.suspects = nil
		}, recovered: func(_ *simWorker, r *recovered) {
			eachKnown(r, func(p *progress) { p.losses += 2 })
		}}},
		{"running handlers are not taken over again", breaks{recovered: func(w *simWorker, _ *recovered) { clear(w.l.attempts) }}},
		{"replay begins too late", breaks{replayFrom: func(at int64) int64 { return at + 1 }}},
		{"a checkpoint lacks the open entries", breaks{checkpoint: func(c *checkpointWrite) {
			for _, p := range c.parts {
				p.Open = nil
			}
		}}},
		{"a checkpoint lacks the finished ranges", breaks{checkpoint: func(c *checkpointWrite) {
			for _, p := range c.parts {
				p.Finished = nil
			}
		}}},
		{"a checkpoint lacks late outcomes", breaks{checkpoint: func(c *checkpointWrite) {
			for _, p := range c.parts {
				for i := range p.Open {
					p.Open[i].Late = nil
				}
			}
		}}},
		{"a checkpoint lacks what was never called", breaks{checkpoint: func(c *checkpointWrite) {
			for _, p := range c.parts {
				for i := range p.Open {
					p.Open[i].NotStarted = false
				}
			}
		}}},
		{"a checkpoint lacks what ran before", breaks{checkpoint: func(c *checkpointWrite) {
			for _, p := range c.parts {
				for i := range p.Open {
					p.Open[i].Number = 0
				}
			}
		}}},
		{"the position is one too far", breaks{position: func(_ *lane, at int64) int64 { return at + 1 }}},
		{"the position passes what is open", breaks{position: func(n *lane, _ int64) int64 { return n.next }}},
		{"the member fence is off", breaks{unfenced: true}},
		{"an aborted tick loses its results", breaks{aborted: func(w *simWorker) { w.l.results = nil }}},
		{"an aborted tick loses its orphans", breaks{aborted: func(w *simWorker) { w.l.orphans = nil }}},
		{"an aborted tick loses its hops", breaks{aborted: func(w *simWorker) { w.l.moves = nil }}},
		{"attempts that were not called are forgotten", breaks{committed: func(w *simWorker) { w.l.unstarted = nil }}},
		{"late outcomes are not told", breaks{deciding: func(w *simWorker) {
			w.l.results = slices.DeleteFunc(w.l.results, func(a *attempt) bool { return a.entry.lane.shard.phase == shardLost })
		}}},
		{"duplicates are not looked for", breaks{config: func(c *Config) { c.DedupMax = 0 }}},
		{"the duplicate window is short", breaks{config: func(c *Config) { c.DedupWindow = 500 * time.Millisecond }}},
		{"the duplicate window is not recovered", breaks{recovered: func(_ *simWorker, r *recovered) {
			r.window = newWindow(r.window.keep, r.window.most)
		}}},
		{"the duplicate window's pages are not listed", breaks{checkpoint: func(c *checkpointWrite) { c.pages, c.known = nil, nil }}},
		{"what must be parked is repeated", breaks{config: func(c *Config) { c.Types[1].Policy.Idempotent = true }}},
		{"the clock is ahead", breaks{ahead: 700}},
		{"attempt ids do not name the delivery", breaks{recovered: func(_ *simWorker, r *recovered) {
			eachKnown(r, func(p *progress) { p.attemptID = uuid.UUID{} })
		}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for seed := uint64(1); seed <= uint64(*breakRuns); seed++ {
				if v := breakOne(t, seed, c.breaks); v != "" {
					t.Logf("history %d: %s", seed, v)
					return
				}
			}
			t.Errorf("%d histories show nothing", *breakRuns)
		})
	}
}

// breakOne plays a history with a protection taken out and returns what is wrong
// with it. A panic of the ledger is wrong, too.
func breakOne(t *testing.T, seed uint64, b breaks) (wrong string) {
	defer func() {
		if v := recover(); v != nil {
			wrong = "panic"
		}
	}()
	s := newSim(t, seed, false, b)
	if v := s.run(); len(v) > 0 {
		return v[0]
	}
	return ""
}
