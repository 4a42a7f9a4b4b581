package worker

import (
	"container/heap"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/jobtrail/jobtrail/pkg/events"
	"github.com/jobtrail/jobtrail/pkg/retrytopics"
	"github.com/jobtrail/jobtrail/pkg/sanitize"
)

// ledger is the memory of a worker and every decision on it. It is pure: it has
// no clock and does no I/O; whoever holds it passes the time in and carries out
// what it returns. It is not safe for concurrent use: Worker.mu guards it.
//
// A lane is one source topic's partition; a shard is everything with one
// partition number. State, duplicate window and checkpoint belong to the shard.
type ledger struct {
	cfg      Config
	topo     retrytopics.Topology
	topicIDs map[string]uuid.UUID
	maxBytes map[string]int // max.message.bytes of a topic
	worker   string         // "<host>/<boot id>"
	evidence string         // the topic
	types    map[string]*jobType

	lanes  map[laneKey]*lane
	shards map[int32]*shard

	// attempts holds every attempt whose handler runs here or whose result is not
	// yet on record, and those that ended as late facts: should the lane come back
	// to us, their outcome is known, also where replay ended before the fact.
	attempts map[uuid.UUID]*attempt

	results  []*attempt // ended, not yet on record; their entry may be lost
	orphans  []*entry   // started by somebody, no outcome
	verdicts []*entry   // end, or are passed over, without an attempt
	moves    []*entry   // hop to another tier without an attempt
	waiting  wakeups    // not yet due
	suspects []*entry   // ready, to be run in a small cohort
	// unstarted holds attempts that were recorded as started and whose lane was
	// lost before the handler could be called: a fact to write.
	unstarted []*attempt
	told      []*attempt // ended as late facts, oldest first

	// limit is how many units the next tick may have: fewer while a record that
	// the brokers refuse for its size is searched for.
	limit int

	running    int
	cohort     cohort
	closing    bool // no more admissions: the worker shuts down
	hold       bool // no admissions for now: see Worker.clock
	generation uint32
	rejected   int // transitions that the state machine forbade
	encoder    events.Encoder
	spare      *batch // to be filled again

	sanitizer   *sanitize.Sanitizer
	notACommand sanitize.Text
}

type laneKey struct {
	topic     string
	partition int32
}

// lane is one source topic's partition in one assignment. After lost it is
// garbage for ever.
type lane struct {
	laneKey
	role  retrytopics.Role
	tier  tier
	shard *shard

	member string // the member id that it was assigned to
	lost   bool
	stale  bool // its shard is gone, but the lane stayed: read again from the commit

	fetched   bool  // the commit is known
	committed int64 // position on the brokers
	next      int64 // the next offset to be given to us is at least this
	metadata  commitMetadata

	buffer  []*kgo.Record // given to us while the shard was not ready
	bytes   int           // of values held
	entries []*entry      // given and not finished, in order of offset; some finished
	open    int           // entries that are not finished
	waiting int           // of those, the ones that wait for their time
	paused  bool

	known  map[int64]*progress // from replay, not given to us yet
	passed []events.OffsetRange
}

type tier struct {
	is    bool
	delay int64 // ms
}

type shardPhase uint8

const (
	shardReplaying shardPhase = iota
	shardReady
	shardDraining
	shardLost
)

// shard is everything with one partition number, from the moment that all its
// lanes are ours until one of them is lost.
type shard struct {
	partition int32
	lanes     []*lane
	phase     shardPhase
	window    *window // once it is recovered

	// replayFrom is the evidence offset that a successor replays from: the first
	// part of the last checkpoint.
	replayFrom int64
	logEnd     int64 // evidence offset after the last record that we know of
	// checkpoint asks for a checkpoint in the next tick.
	checkpoint  bool
	committedAt events.Time     // log time of the last commit
	live        map[string]bool // workers that were members when it was recovered
}

// progress is what is on record of a run, as far as one delivery matters.
type progress struct {
	job         events.Job
	publication events.Publication
	originAt    events.Time
	step        string
	budget      uint32
	losses      uint32
	solo        uint32
	delivery    uint32

	phase         phase
	attemptID     uuid.UUID
	cohort        uint32
	worker        string
	startedOffset int64
	startedAt     events.Time
	notStarted    bool // a late fact says that the handler never ran
	late          *events.AttemptFinished
	lateOffset    int64
}

type phase uint8

const (
	nothing   phase = iota // nothing is on record of this delivery
	started                // an attempt began
	abandoned              // an attempt began, has no outcome, and is to be run again
	finished               // the record needs nothing more
)

// entry is one record given to us that is not finished.
type entry struct {
	lane *lane
	rec  *kgo.Record
	meta retrytopics.Meta
	typ  *jobType
	progress

	cause    events.StartCause
	wake     events.Time // waits until then
	due      events.Time // earliest start
	deadline events.Time
	kind     verdictKind
	first    windowEntry // of a duplicate
	result   *result     // of an attempt or an adoption
	orphaned events.AbandonCause
	oversize bool // the brokers refused its records for their size
	done     bool
	ending   bool // done when the tick in hand commits
	traceID  [16]byte
	key      uuid.UUID // idempotency key, of an entry that was started
}

// verdictKind says how an entry ends, or goes on, without an attempt.
type verdictKind uint8

const (
	noVerdict verdictKind = iota
	malformed
	unknownType
	expired
	duplicate
	notACommand
)

// attempt is one call of a handler in this process.
type attempt struct {
	id       uuid.UUID
	entry    *entry // changes when a new assignment takes the attempt over
	delivery uint32
	slot     *jobType
	ended    bool
	began    time.Time // when the tick began that the call follows, by the own clock
	stuck    bool      // it was reported that the handler ignores its timeout
	result   *result
	fact     *kgo.Record // the late fact on its way
	lateAt   int64       // evidence offset of the late fact on record, plus one
}

// result is how an attempt ended.
type result struct {
	outcome     events.Outcome
	err         events.Error
	failure     retrytopics.Failure
	startedAt   events.Time
	finishedAt  events.Time
	adoptedFrom int64 // evidence offset of the late fact plus one
}

// jobType is a Type with what is going on of it.
type jobType struct {
	Type
	running int
	ready   queue
}

// queue is a first-in-first-out list of entries.
type queue struct {
	items []*entry
	head  int
}

func (q *queue) push(e *entry) { q.items = append(q.items, e) }
func (q *queue) len() int      { return len(q.items) - q.head }
func (q *queue) pop() *entry {
	e := q.items[q.head]
	q.items[q.head] = nil
	q.head++
	if q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
	} else if q.head > 1024 && q.head*2 > len(q.items) {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	return e
}

// wakeups is a heap of entries by the time they wait for.
type wakeups []*entry

func (w wakeups) Len() int           { return len(w) }
func (w wakeups) Less(i, j int) bool { return w[i].wake < w[j].wake }
func (w wakeups) Swap(i, j int)      { w[i], w[j] = w[j], w[i] }

// Push implements heap.Interface.
func (w *wakeups) Push(x any) { *w = append(*w, x.(*entry)) }

// Pop implements heap.Interface.
func (w *wakeups) Pop() any {
	last := len(*w) - 1
	e := (*w)[last]
	(*w)[last] = nil
	*w = (*w)[:last]
	return e
}

func newLedger(cfg Config, topo retrytopics.Topology, worker string, sanitizer *sanitize.Sanitizer) *ledger {
	l := &ledger{sanitizer: sanitizer, notACommand: sanitizer.Clean("this build knows no commands"), limit: maxUnits, cfg: cfg, topo: topo, worker: worker, evidence: topo.Evidence(), types: make(map[string]*jobType), lanes: make(map[laneKey]*lane),
		shards: make(map[int32]*shard), attempts: make(map[uuid.UUID]*attempt)}
	for _, t := range cfg.Types {
		l.types[t.Name] = &jobType{Type: t}
	}
	return l
}

// assign takes over lanes that the group gave to member.
func (l *ledger) assign(member string, parts map[string][]int32) {
	for topic, ps := range parts {
		for _, p := range ps {
			n := &lane{laneKey: laneKey{topic, p}, role: l.topo.Role(topic), member: member}
			if d, ok := l.topo.TierOf(topic); ok {
				n.tier = tier{true, d.Milliseconds()}
			}
			if old := l.lanes[n.laneKey]; old != nil {
				old.lost = true
			}
			l.lanes[n.laneKey] = n
		}
	}
}

// fetched notes the commit of a lane.
func (l *ledger) fetched(topic string, partition int32, offset int64, m commitMetadata) {
	if n := l.lanes[laneKey{topic, partition}]; n != nil {
		n.fetched, n.stale = true, false
		n.committed, n.next, n.metadata = offset, offset, m
		n.buffer, n.bytes = nil, 0
	}
}

// unfetched returns those of the lanes that are ours and whose commits are not
// known yet.
func (l *ledger) unfetched(parts map[string][]int32) (lanes []laneKey) {
	for topic, ps := range parts {
		for _, p := range ps {
			if n := l.lanes[laneKey{topic, p}]; n != nil && !n.lost && !n.fetched && !n.stale {
				lanes = append(lanes, n.laneKey)
			}
		}
	}
	return lanes
}

// complete returns the lanes of partition p when all of them are ours and none
// belongs to a shard; stale lanes are to be read again from their commits.
func (l *ledger) complete(p int32) (lanes []*lane, ok bool) {
	for _, topic := range l.topo.Lanes() {
		n := l.lanes[laneKey{topic, p}]
		if n == nil || n.lost || !n.fetched || n.shard != nil {
			return nil, false
		}
		lanes = append(lanes, n)
	}
	return lanes, true
}

// form makes a shard of a complete set of lanes; it is to be replayed.
func (l *ledger) form(lanes []*lane) *shard {
	s := &shard{partition: lanes[0].partition, lanes: lanes, phase: shardReplaying}
	for _, n := range lanes {
		n.shard = s
	}
	l.shards[s.partition] = s
	return s
}

// split returns the partitions of which only some lanes are ours.
func (l *ledger) split() []int32 {
	count := make(map[int32]int)
	for _, n := range l.lanes {
		if !n.lost {
			count[n.partition]++
		}
	}
	var ps []int32
	for p, c := range count {
		if c < len(l.topo.Lanes()) {
			ps = append(ps, p)
		}
	}
	slices.Sort(ps)
	return ps
}

// recover gives a shard what replay found; it is ready then.
func (l *ledger) recover(s *shard, r *recovered, live map[string]bool, now events.Time) {
	if s.phase != shardReplaying {
		return
	}
	s.phase, s.live = shardReady, live
	s.window = r.window
	s.replayFrom, s.logEnd = r.from, r.end
	s.checkpoint = true
	for _, n := range s.lanes {
		k := r.lanes[n.topic]
		if k == nil {
			k = &recoveredLane{}
		}
		n.known = make(map[int64]*progress)
		for offset, p := range k.known {
			switch {
			case offset < n.committed:
			case p.phase == finished:
				n.passed = append(n.passed, events.OffsetRange{Topic: n.topic, First: offset, Last: offset})
			default:
				n.known[offset] = p
			}
		}
		n.passed = mergeRanges(append(n.passed, k.passed...), n.committed)
		records := n.buffer
		n.buffer, n.bytes = nil, 0
		for _, rec := range records {
			l.intake(n, rec, now)
		}
	}
	for id, a := range l.attempts {
		if a.lateAt > 0 && a.entry.lane.partition == s.partition && a.lateAt <= r.end {
			delete(l.attempts, id) // replay has told of it
		}
	}
}

// release lets go of lanes: their shards are garbage, running handlers end as
// late facts.
func (l *ledger) release(parts map[string][]int32) {
	for topic, ps := range parts {
		for _, p := range ps {
			n := l.lanes[laneKey{topic, p}]
			if n == nil {
				continue
			}
			n.lost = true
			delete(l.lanes, n.laneKey)
			if n.shard != nil {
				l.lose(n.shard)
			}
		}
	}
}

func (l *ledger) lose(s *shard) {
	if s.phase == shardLost {
		return
	}
	s.phase = shardLost
	for _, n := range s.lanes {
		n.stale = !n.lost
		if n.stale {
			// The lane stays, but what was given of it is forgotten.
			again := &lane{laneKey: n.laneKey, role: n.role, tier: n.tier, member: n.member, stale: true}
			n.lost = true
			l.lanes[n.laneKey] = again
		}
		n.entries, n.buffer, n.known = nil, nil, nil
	}
	if l.shards[s.partition] == s {
		delete(l.shards, s.partition)
	}
	gone := func(e *entry) bool { return e.lane.shard == s }
	l.orphans = slices.DeleteFunc(l.orphans, gone)
	l.verdicts = slices.DeleteFunc(l.verdicts, gone)
	l.moves = slices.DeleteFunc(l.moves, gone)
	l.suspects = slices.DeleteFunc(l.suspects, gone)
	for _, t := range l.types {
		t.ready.items = slices.DeleteFunc(t.ready.items[t.ready.head:], gone)
		t.ready.head = 0
	}
	l.waiting = slices.DeleteFunc(l.waiting, gone)
	heap.Init(&l.waiting)
}

// drain stops admission on the shards of the lanes and reports whether they
// still have something under way.
func (l *ledger) drain(parts map[string][]int32) (busy bool) {
	for topic, ps := range parts {
		for _, p := range ps {
			n := l.lanes[laneKey{topic, p}]
			if n == nil || n.shard == nil || n.shard.phase == shardLost {
				continue
			}
			s := n.shard
			switch s.phase {
			case shardReplaying:
				s.phase = shardDraining
			case shardReady:
				s.phase = shardDraining
				s.checkpoint = true
			}
			if l.busy(s) {
				busy = true
			}
		}
	}
	return busy
}

// busy reports whether the shard has handlers running, results that are not on
// record, or a checkpoint to write.
func (l *ledger) busy(s *shard) bool {
	if s.phase == shardDraining && s.checkpoint {
		return true
	}
	for _, a := range l.attempts {
		if a.entry.lane.shard == s {
			return true
		}
	}
	return false
}

// position returns the lowest offset of the lane that is not finished.
func (n *lane) position() int64 {
	for len(n.entries) > 0 && n.entries[0].done {
		n.entries[0] = nil
		n.entries = n.entries[1:]
	}
	if len(n.entries) > 0 {
		return n.entries[0].rec.Offset
	}
	return n.next
}

// positionAfter returns what position will be when the tick in hand commits.
func (n *lane) positionAfter() int64 {
	for _, e := range n.entries {
		if e != nil && !e.done && !e.ending {
			return e.rec.Offset
		}
	}
	return n.next
}

// finish notes that an entry needs nothing more.
func (n *lane) finish(e *entry) {
	if e.done {
		return
	}
	e.done = true
	n.open--
	n.bytes -= len(e.rec.Value)
	if len(n.entries) > 64 && n.open*4 < len(n.entries) {
		n.entries = slices.DeleteFunc(n.entries, func(e *entry) bool { return e.done })
	}
}

// Limits of what is read ahead of the work, per lane.
const (
	readAheadBytes = 4 << 20
	// tierReadAhead is how many records of a tier may wait for their time in memory;
	// those whose time has come are read as any job is.
	tierReadAhead = 500
)

// early returns how many records of the lane were read before their time, as far
// as that is known.
func (n *lane) early() int {
	if !n.tier.is || n.tier.delay == 0 {
		return 0
	}
	return n.waiting + len(n.buffer)
}

// ample is how many jobs at hand keep every slot busy until more are fetched.
func (l *ledger) ample() int { return max(1000, 2*l.cfg.Concurrency) }

// renew asks for a checkpoint of some shard, so that there is something to write.
func (l *ledger) renew() {
	for _, s := range l.shards {
		if s.phase == shardReady {
			s.checkpoint = true
			return
		}
	}
}

// plenty reports whether more jobs wait for a free slot than can be started soon.
// Jobs of types that are at their own limit do not count: others must get past
// them.
func (l *ledger) plenty() bool {
	n := 0
	for _, t := range l.types {
		if !t.full() {
			n += t.ready.len()
		}
	}
	return n >= l.ample()
}

// flow returns the lanes whose fetching is to be stopped and resumed.
func (l *ledger) flow() (pause, resume map[string][]int32) {
	most := l.ample()
	for key, n := range l.lanes {
		held := n.open + len(n.buffer)
		switch {
		case !n.paused && (held >= most || n.early() >= tierReadAhead || n.bytes >= readAheadBytes || n.stale):
			n.paused = true
			if pause == nil {
				pause = make(map[string][]int32)
			}
			pause[key.topic] = append(pause[key.topic], key.partition)
		case n.paused && held <= most/2 && n.early() <= tierReadAhead/2 && n.bytes <= readAheadBytes/2 && !n.stale:
			n.paused = false
			if resume == nil {
				resume = make(map[string][]int32)
			}
			resume[key.topic] = append(resume[key.topic], key.partition)
		}
	}
	return pause, resume
}

// checkMember returns an error when a lane was assigned to another member than
// the one that would commit it: then this process has missed a loss, and must
// not go on.
func (l *ledger) checkMember(member string) error {
	for key, n := range l.lanes {
		if !n.lost && n.member != member {
			return fmt.Errorf("%s/%d was assigned to member %q, but this client is now member %q", key.topic, key.partition, n.member, member)
		}
	}
	return nil
}
