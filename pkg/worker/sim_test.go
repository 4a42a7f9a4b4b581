package worker

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/jobtrail/jobtrail/loadtest"
	"github.com/jobtrail/jobtrail/pkg/events"
	"github.com/jobtrail/jobtrail/pkg/retrytopics"
	"github.com/jobtrail/jobtrail/pkg/sanitize"
)

var (
	simRuns = flag.Int("sim.n", 2000, "histories to simulate")
	simSeed = flag.Uint64("sim.seed", 0, "simulate this one history, and print it")
)

// sim is a world under a seed: a log, a clock, a group, and workers that are
// nothing but ledgers. Transactions are atomic; what can go wrong around them
// goes wrong by chance: crashes, rebalances, stalls, lost answers, duplicates.
type sim struct {
	t    *testing.T
	r    *rand.Rand
	now  events.Time
	topo retrytopics.Topology
	ids  map[string]uuid.UUID
	cfg  Config
	log  map[laneKey][]*kgo.Record // records of every topic; nil stands for a marker
	seen map[laneKey]commit
	// evidence holds the events of the evidence topic's records, by partition.
	evidence [simShards][]*events.Event
	// owner is the member that the brokers give a partition number to.
	owner      map[int32]int
	generation int32
	workers    []*simWorker
	born       int
	effects    []loadtest.Effect
	faults     int
	ticks      int
	said       bool
	quiet      bool
	pace       float64     // how often workers come, stall and go, and how slowly they read
	busy       events.Time // how long jobs are published and faults happen, in ms
	lanes      []laneKey
	broken     breaks
	tales      tales
}

type simWorker struct {
	id       int
	l        *ledger
	member   string
	knows    int32 // the generation it knows
	stalled  events.Time
	running  []*simAttempt
	expelled bool // the group took it for dead, and it has not learned that
	has      map[int32]bool
	draining map[int32]events.Time
	fed      map[laneKey]int64

	recoveries []recovery
	missed     map[uuid.UUID]bool // attempts whose lane was lost before they could be called
	ended      map[uuid.UUID]bool // attempts whose handler returned
}

type recovery struct {
	shard *shard
	found *recovered
	at    events.Time
}

type simAttempt struct {
	a    *attempt
	ends events.Time
}

func (s *sim) say(format string, args ...any) {
	if s.said {
		s.t.Logf("%d "+format, append([]any{s.now - simEpoch}, args...)...)
	}
}

var simSanitizer = sanitize.New(sanitize.Config{})

const (
	simEpoch   = 1_800_000_000_000
	simSession = 3000
	simShards  = 2
)

func newSim(t *testing.T, seed uint64, said bool, broken breaks) *sim {
	tiers := retrytopics.Tiers{0, time.Second, 4 * time.Second}
	s := &sim{t: t, r: rand.New(rand.NewPCG(seed, 7)), now: simEpoch, said: said, broken: broken,
		topo: retrytopics.Topology{Group: "g", Jobs: []string{"j", "k"}, Tiers: tiers}, ids: make(map[string]uuid.UUID),
		log: make(map[laneKey][]*kgo.Record), seen: make(map[laneKey]commit), owner: make(map[int32]int)}
	for i, topic := range append(s.topo.Lanes(), s.topo.Evidence(), s.topo.DLQ(), s.topo.Parked()) {
		s.ids[topic] = uuid.UUID{15: byte(i + 1)}
	}
	p := retrytopics.DefaultPolicy()
	p.MaxAttempts = 3
	park := p
	park.Idempotent = false
	again := p
	again.OnDuplicate = retrytopics.RunDuplicates
	cfg, err := Config{Group: "g", Topics: s.topo.Jobs, Tiers: tiers, Concurrency: 1 + s.r.IntN(8), CodeVersion: "sim", DedupMax: 300, Types: []Type{
		{Name: "j", Policy: p, Handler: HandlerFunc(nil), Concurrency: s.r.IntN(4)}, {Name: "park", Policy: park, Handler: HandlerFunc(nil)},
		{Name: "again", Policy: again, Handler: HandlerFunc(nil)}}}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	if broken.config != nil {
		broken.config(&cfg)
	}
	s.cfg = cfg
	for _, topic := range s.topo.Lanes() {
		for p := range int32(simShards) {
			s.lanes = append(s.lanes, laneKey{topic, p})
		}
	}
	// Most histories are short and full of faults; a few are long, so that
	// checkpoints, pages and suspects get old.
	switch {
	case s.r.IntN(100) == 0:
		s.busy, s.pace = 30_000, 1+3*float64(s.r.IntN(2))
	default:
		s.busy, s.pace = events.Time(300+s.r.IntN(1700)), float64(3+s.r.IntN(8))
	}
	return s
}

func (s *sim) chance(p float64) bool { return !s.quiet && s.r.Float64() < p }

// publish appends a job record.
func (s *sim) publish(n int) {
	types := []string{"j", "j", "j", "park", "again", "nobody"}
	rec := &kgo.Record{Topic: s.topo.Jobs[s.r.IntN(2)], Partition: int32(s.r.IntN(simShards)), Value: []byte(fmt.Sprint("payload ", n))}
	id := fmt.Sprint("job-", n)
	if s.chance(0.1) {
		id = fmt.Sprint("job-", s.r.IntN(n+1)) // a duplicate, perhaps in another partition
	}
	add := func(k, v string) { rec.Headers = append(rec.Headers, kgo.RecordHeader{Key: k, Value: []byte(v)}) }
	add(retrytopics.HeaderJobID, id)
	add(retrytopics.HeaderJobType, types[s.r.IntN(len(types))])
	if s.chance(0.1) {
		add(retrytopics.HeaderNotBefore, string(retrytopics.FormatTime(s.now+events.Time(s.r.IntN(9000)))))
	}
	if s.chance(0.05) {
		add(retrytopics.HeaderDeadline, string(retrytopics.FormatTime(s.now+events.Time(s.r.IntN(5000)))))
	}
	if s.chance(0.03) {
		add(retrytopics.HeaderOperationID, "br\x01ken")
	}
	s.append(rec)
}

func (s *sim) append(rec *kgo.Record) {
	key := laneKey{rec.Topic, rec.Partition}
	rec.Offset, rec.Timestamp = int64(len(s.log[key])), s.now.Time()
	// What the log holds is its own: a ledger uses its records again.
	kept := *rec
	kept.Value = slices.Clone(rec.Value)
	s.log[key] = append(s.log[key], &kept)
	if rec.Topic == s.topo.Evidence() {
		e, err := events.Decode(kept.Value)
		if err != nil {
			s.t.Fatal(err)
		}
		s.evidence[rec.Partition] = append(s.evidence[rec.Partition], e)
	}
}

func (s *sim) worker() {
	s.born++
	w := &simWorker{id: s.born, member: fmt.Sprint("m", s.born), has: make(map[int32]bool), draining: make(map[int32]events.Time), fed: make(map[laneKey]int64),
		missed: make(map[uuid.UUID]bool), ended: make(map[uuid.UUID]bool)}
	w.l = newLedger(s.cfg, s.topo, fmt.Sprint("host/", s.born), simSanitizer)
	w.l.topicIDs, w.l.maxBytes = s.ids, map[string]int{}
	s.workers = append(s.workers, w)
	s.say("worker %d starts", w.id)
}

// rebalance spreads the partition numbers over the workers that the brokers
// believe in. Owners that live drain first, by chance.
func (s *sim) rebalance() {
	var live []*simWorker
	for _, w := range s.workers {
		if w.stalled <= s.now {
			live = append(live, w)
		} else {
			w.expelled = true
		}
	}
	s.generation++
	for p := range int32(simShards) {
		if len(live) == 0 {
			s.owner[p] = 0
			continue
		}
		s.owner[p] = live[s.r.IntN(len(live))].id
	}
	s.say("generation %d: %v", s.generation, s.owner)
}

func (s *sim) parts(p int32) map[string][]int32 {
	m := make(map[string][]int32)
	for _, topic := range s.topo.Lanes() {
		m[topic] = []int32{p}
	}
	return m
}

// meet lets a worker learn what the brokers decided.
func (s *sim) meet(w *simWorker) {
	w.knows = s.generation
	if w.expelled {
		w.expelled = false
		w.member += "'"
		for p := range int32(simShards) {
			if w.has[p] {
				s.say("worker %d learns that it lost %d", w.id, p)
				w.l.release(s.parts(p))
				delete(w.has, p)
			}
		}
	}
	w.recoveries = slices.DeleteFunc(w.recoveries, func(r recovery) bool {
		if r.at > s.now {
			return false
		}
		if s.broken.recovered != nil {
			s.broken.recovered(w, r.found)
		}
		s.tales.recoveries = append(s.tales.recoveries, simRecovery{w.l.worker, r.shard.partition, r.found.from, r.found.end, int64(len(s.log[laneKey{s.topo.Evidence(), r.shard.partition}]))})
		w.l.recover(r.shard, r.found, nil, s.now)
		return true
	})
	for p := range int32(simShards) {
		mine := s.owner[p] == w.id
		switch {
		case w.has[p] && !mine:
			s.say("worker %d loses %d", w.id, p)
			w.l.release(s.parts(p))
			delete(w.has, p)
		case !w.has[p] && mine && !s.held(p, w):
			s.say("worker %d gets %d", w.id, p)
			w.has[p] = true
			w.l.assign(w.member, s.parts(p))
			for _, topic := range s.topo.Lanes() {
				key := laneKey{topic, p}
				c := s.seen[key]
				w.l.fetched(topic, p, c.offset, c.metadata)
				w.fed[key] = c.offset
			}
			lanes, ok := w.l.complete(p)
			if !ok {
				s.t.Fatalf("partition %d is not complete", p)
			}
			shard := w.l.form(lanes)
			// What is appended between the end of the replay and its use is not known.
			w.recoveries = append(w.recoveries, recovery{shard, s.replay(p, lanes[0].metadata), s.now + events.Time(s.r.IntN(200))})
		}
	}
}

// held reports whether another live worker still holds the partition: the
// brokers give it away only after that one has let go or is taken for dead.
func (s *sim) held(p int32, but *simWorker) bool {
	for _, w := range s.workers {
		if w != but && w.has[p] && w.stalled <= s.now && !w.expelled {
			return true
		}
	}
	return false
}

func (s *sim) replay(p int32, m commitMetadata) *recovered {
	records := s.log[laneKey{s.topo.Evidence(), p}]
	if s.broken.replayFrom != nil {
		m.replayFrom = s.broken.replayFrom(m.replayFrom)
	}
	f := newFold(newWindow(s.cfg.DedupWindow, s.cfg.DedupMax), m.replayFrom)
	loaded := false
	for _, rec := range records[min(m.replayFrom, int64(len(records))):] {
		e := s.evidence[p][rec.Offset]
		f.apply(e, rec.Offset, events.TimeOf(rec.Timestamp))
		if len(f.pages) > 0 {
			if !loaded {
				for _, at := range f.pages {
					page := s.evidence[p][at]
					f.window.load(page.Body.(*events.DedupPage), at)
				}
				loaded = true
			} else {
				f.window.pages = slices.Clone(f.pages)
			}
			f.pages = nil
		}
	}
	f.end = int64(len(records))
	f.window.settle(s.now)
	return &f.recovered
}

// feed gives a worker some of what it may read.
func (s *sim) feed(w *simWorker) {
	for _, key := range s.lanes {
		n := w.l.lanes[key]
		records := s.log[key]
		from := w.fed[key]
		if n == nil || n.lost || !n.fetched || from >= int64(len(records)) {
			continue
		}
		to := min(int64(len(records)), from+int64(1+s.r.IntN(20)))
		w.l.deliver(key.topic, key.partition, records[from:to], s.now)
		w.fed[key] = to
	}
}

// tick runs one transaction of a worker, with what may go wrong.
func (s *sim) tick(w *simWorker) (crashed bool) {
	w.l.generation = uint32(w.knows)
	if s.broken.deciding != nil {
		s.broken.deciding(w)
	}
	b := w.l.collect(s.now + s.broken.ahead)
	if b.empty() && len(b.units) == 0 {
		w.l.recycle(b)
		return false
	}
	if b.empty() {
		b.shards, b.positions = nil, nil
		s.launch(w, w.l.committed(b, true))
		return false
	}
	s.ticks++
	var checkpoints []checkpointWrite
	for _, sh := range b.checkpoints {
		c := w.l.checkpoint(sh)
		if s.broken.checkpoint != nil {
			s.broken.checkpoint(&c)
		}
		checkpoints = append(checkpoints, c)
	}
	fenced := false
	for _, c := range b.positions {
		if w.expelled || s.owner[c.lane.partition] != w.id && w.knows != s.generation {
			fenced = true
		}
	}
	fenced = fenced && !s.broken.unfenced
	if fenced || s.chance(0.05) {
		s.faults++
		s.say("worker %d: tick aborted (fenced %v)", w.id, fenced)
		w.l.aborted(b)
		if s.broken.aborted != nil {
			s.broken.aborted(w)
		}
		return false
	}
	id := fmt.Sprint(w.id, "-", s.r.Uint64())
	for i := range checkpoints {
		c := &checkpoints[i]
		write := func(body events.Body) int64 {
			e := c.about
			e.Body = body
			rec := &kgo.Record{Topic: s.topo.Evidence(), Partition: c.shard.partition, Value: events.Append(nil, &e)}
			s.append(rec)
			return rec.Offset
		}
		for _, page := range c.pages {
			c.pageOffsets = append(c.pageOffsets, write(page))
		}
		c.parts[0].DedupPages = append(append([]int64(nil), c.known...), c.pageOffsets...)
		for k, part := range c.parts {
			at := write(part)
			if k == 0 {
				c.offset = at
			}
			c.end = at + 1
		}
	}
	for _, rec := range b.records {
		s.append(rec)
	}
	defer w.l.recycle(b)
	for _, c := range b.positions {
		from := c.lane.shard.replayFrom
		for _, x := range checkpoints {
			if x.shard == c.lane.shard {
				from = x.offset
			}
		}
		if before := s.seen[c.lane.laneKey]; c.offset < before.offset {
			s.tales.wrong = append(s.tales.wrong, fmt.Sprintf("I5: the position of %v goes back from %d to %d", c.lane.laneKey, before.offset, c.offset))
		}
		if s.broken.position != nil {
			c.offset = s.broken.position(c.lane, c.offset)
		}
		s.seen[c.lane.laneKey] = commit{c.offset, commitMetadata{ok: true, replayFrom: from, tickID: id}}
	}
	if s.chance(0.01) {
		s.faults++
		s.say("worker %d crashes after its tick", w.id)
		return true
	}
	for _, c := range checkpoints {
		c.shard.replayFrom, c.shard.checkpoint = c.offset, false
		c.shard.logEnd = max(c.shard.logEnd, c.end)
		c.shard.window.listedNow(c.pages, c.pageOffsets, c.rewrite)
	}
	leased := true
	if s.chance(0.02) {
		s.faults++
		leased = false
	}
	if s.chance(0.02 * s.pace) {
		// The group takes or gives lanes while the transaction ends.
		s.faults++
		s.rebalance()
		s.meet(w)
		s.now += 200 // what it got is recovered by then
		s.meet(w)
		s.feed(w)
	}
	start := w.l.committed(b, leased)
	if !leased && len(start) > 0 {
		s.tales.wrong = append(s.tales.wrong, fmt.Sprintf("L1: worker %d calls %d handlers though its lease has run out", w.id, len(start)))
	}
	s.launch(w, start)
	for i := range b.units {
		if u := &b.units[i]; u.then == thenStart && u.e.lane.shard.phase == shardLost {
			w.missed[u.next.attemptID] = true
		}
	}
	if s.broken.committed != nil {
		s.broken.committed(w)
	}
	return false
}

func (s *sim) launch(w *simWorker, start []*attempt) {
	for _, a := range start {
		s.overlaps(w, a)
		s.effects = append(s.effects, loadtest.Effect{JobID: a.entry.meta.JobID, AttemptID: a.id, At: s.now})
		w.running = append(w.running, &simAttempt{a, s.now + events.Time(1+s.r.IntN(2500))})
	}
}

// end lets handlers return whose time has come.
func (s *sim) end(w *simWorker) {
	w.running = slices.DeleteFunc(w.running, func(x *simAttempt) bool {
		if x.ends > s.now {
			return false
		}
		r := &result{outcome: events.OutcomeSucceeded, startedAt: s.now, finishedAt: s.now}
		switch k := s.r.IntN(10); {
		case k < 2:
			r.outcome, r.err.Class, r.failure.Class = events.OutcomeFailed, events.ClassTransient, events.ClassTransient
		case k == 2:
			r.outcome, r.err.Class, r.failure.Class = events.OutcomeFailed, events.ClassPermanent, events.ClassPermanent
		case k == 3:
			r.outcome, r.err.Class, r.failure.Class = events.OutcomeInterrupted, events.ClassTransient, events.ClassTransient
		}
		w.l.ended(x.a, r)
		w.ended[x.a.id] = true
		return true
	})
}

func (s *sim) crash(w *simWorker) {
	s.workers = slices.DeleteFunc(s.workers, func(x *simWorker) bool { return x == w })
}

// run plays a history to its end and returns what is wrong with it.
func (s *sim) run() []string {
	for range 1 + s.r.IntN(3) {
		s.worker()
	}
	s.rebalance()
	n := 0
	for step := 0; ; step++ {
		s.quiet = s.now-simEpoch > s.busy
		if !s.quiet && s.r.IntN(3) == 0 {
			s.publish(n)
			n++
		}
		if s.chance(0.01*s.pace) || len(s.workers) == 0 {
			s.worker()
			s.rebalance()
		}
		if s.chance(0.006*s.pace) && len(s.workers) > 0 {
			s.faults++
			w := s.workers[s.r.IntN(len(s.workers))]
			s.say("worker %d is killed", w.id)
			s.crash(w)
			s.rebalance()
		}
		if s.chance(0.006*s.pace) && len(s.workers) > 0 {
			s.faults++
			w := s.workers[s.r.IntN(len(s.workers))]
			w.stalled = s.now + events.Time(simSession+s.r.IntN(4000))
			s.say("worker %d stalls until %d", w.id, w.stalled-simEpoch)
			s.rebalance()
		}
		if s.orphaned() && (s.quiet || s.chance(0.02*s.pace)) {
			s.rebalance()
		}
		idle := true
		for _, w := range slices.Clone(s.workers) {
			if w.stalled > s.now {
				continue
			}
			if w.stalled != 0 && s.chance(0.5) {
				s.end(w) // handlers return before the worker learns of its loss
				if s.tick(w) {
					s.crash(w)
					s.rebalance()
					continue
				}
			}
			w.stalled = 0
			s.meet(w)
			if !s.chance(0.25 * (s.pace - 1)) {
				s.feed(w)
			}
			s.end(w)
			if s.quiet || s.r.IntN(2) == 0 {
				before := s.ticks
				if s.tick(w) {
					s.crash(w)
					s.rebalance()
				}
				idle = idle && before == s.ticks
			}
		}
		if s.quiet && idle {
			if s.settled() {
				break
			}
			s.now += events.Time(100 + s.r.IntN(400))
		}
		if s.now-simEpoch > 600_000 {
			return append(s.check(), "I9: the history does not come to rest")
		}
		s.now += events.Time(10 + s.r.IntN(60))
	}
	return s.check()
}

// orphaned reports whether a partition number has no owner that lives.
func (s *sim) orphaned() bool {
	for _, id := range s.owner {
		if !slices.ContainsFunc(s.workers, func(w *simWorker) bool { return w.id == id && w.stalled <= s.now }) {
			return true
		}
	}
	return false
}

// settled reports whether nothing is under way any more.
func (s *sim) settled() bool {
	for _, topic := range s.topo.Lanes() {
		for p := range int32(simShards) {
			key := laneKey{topic, p}
			if s.seen[key].offset < int64(len(s.log[key])) {
				return false
			}
		}
	}
	for _, w := range s.workers {
		if len(w.running) > 0 || len(w.l.results) > 0 || len(w.l.unstarted) > 0 {
			return false
		}
	}
	return true
}

func (s *sim) check() []string {
	d := &loadtest.Dump{Topology: s.topo, TopicIDs: s.ids, Records: make(map[string][]*kgo.Record), Commits: make(map[string]map[int32]int64)}
	for key, records := range s.log {
		for _, rec := range records {
			if key.topic != s.topo.Evidence() {
				d.Records[key.topic] = append(d.Records[key.topic], rec)
				continue
			}
			e := s.evidence[rec.Partition][rec.Offset]
			if s.said {
				s.t.Logf("%d/%d at %d: %s v%d %s run %d by %s from %v: %+v", rec.Partition, rec.Offset, events.TimeOf(rec.Timestamp)-simEpoch, e.JobID, e.Version, e.State, e.Run, e.Worker, e.Source, e.Body)
			}
			d.Evidence = append(d.Evidence, loadtest.Record{Partition: rec.Partition, Offset: rec.Offset, At: events.TimeOf(rec.Timestamp), Event: e})
		}
	}
	for key, c := range s.seen {
		if d.Commits[key.topic] == nil {
			d.Commits[key.topic] = make(map[int32]int64)
		}
		d.Commits[key.topic][key.partition] = c.offset
	}
	violations, story := loadtest.Check(d, s.effects)
	return append(violations, s.judge(story)...)
}

// failingSeeds names the histories that were found wrong once; they are played
// before all others.
const failingSeeds = "testdata/sim-seeds"

// TestSimulation plays histories under consecutive seeds, on all cores.
func TestSimulation(t *testing.T) {
	if *simSeed != 0 {
		for _, v := range newSim(t, *simSeed, true, breaks{}).run() {
			t.Error(v)
		}
		return
	}
	kept := readSeeds(t)
	begun := time.Now()
	var histories, faults, attempts, next atomic.Int64
	var mu sync.Mutex
	wrong := make(map[uint64]bool)
	var players sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		players.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(kept)+*simRuns {
					return
				}
				seed := uint64(i-len(kept)) + 1
				if i < len(kept) {
					seed = kept[i]
				}
				s := newSim(t, seed, false, breaks{})
				violations := s.run()
				faults.Add(int64(s.faults))
				attempts.Add(int64(len(s.effects)))
				if n := histories.Add(1); n%100_000 == 0 {
					fmt.Printf("%d histories after %v\n", n, time.Since(begun).Round(time.Second))
				}
				if len(violations) == 0 {
					continue
				}
				mu.Lock()
				t.Errorf("seed %d: %d violations, the first: %s (see it with -sim.seed=%d)", seed, len(violations), violations[0], seed)
				wrong[seed] = true
				enough := len(wrong) >= 20
				mu.Unlock()
				if enough {
					return
				}
			}
		})
	}
	players.Wait()
	keepSeeds(t, kept, wrong)
	if faults.Load() == 0 || attempts.Load() == 0 {
		t.Error("nothing happened")
	}
	took := time.Since(begun)
	t.Logf("%d histories with %d attempts and %d faults in %v, %.0f a second", histories.Load(), attempts.Load(), faults.Load(), took.Round(time.Millisecond),
		float64(histories.Load())/took.Seconds())
}

func readSeeds(t *testing.T) []uint64 {
	b, err := os.ReadFile(failingSeeds)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	var seeds []uint64
	for line := range strings.FieldsSeq(string(b)) {
		seed, err := strconv.ParseUint(line, 10, 64)
		if err != nil {
			t.Fatalf("%s: %v", failingSeeds, err)
		}
		seeds = append(seeds, seed)
	}
	return seeds
}

// keepSeeds adds the seeds of wrong histories to the file.
func keepSeeds(t *testing.T, kept []uint64, wrong map[uint64]bool) {
	for _, seed := range kept {
		delete(wrong, seed)
	}
	if len(wrong) == 0 {
		return
	}
	f, err := os.OpenFile(failingSeeds, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, seed := range slices.Sorted(maps.Keys(wrong)) {
		fmt.Fprintln(f, seed)
	}
}
