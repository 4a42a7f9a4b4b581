package worker

import (
	"crypto/sha256"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/jobtrail/jobtrail/pkg/events"
	"github.com/jobtrail/jobtrail/pkg/retrytopics"
	"github.com/jobtrail/jobtrail/pkg/sanitize"
)

const (
	// maxUnits is how many entries one tick may move on.
	maxUnits = 5000
	// maxTickBytes is about how large the records of a tick may be together.
	maxTickBytes = 8 << 20
	// checkpointEvery is after how many events a shard's checkpoint is renewed.
	checkpointEvery = 50_000
	// movedEvery is how often positions are committed when nothing else is to be
	// written, in ms.
	movedEvery = 5000
	// maxTold is how many attempts that ended as late facts are remembered.
	maxTold = 10_000
)

// batch is what one tick writes: the units of some shards, in one transaction
// with the positions of all lanes of those shards.
type batch struct {
	now     events.Time // log time of the decisions
	began   time.Time   // and by the own clock, where there is one
	shards  []*shard
	units   []unit
	records []*kgo.Record   // events and hops of the units, and late facts
	said    []*events.Event // of the units
	late    []*attempt      // ended attempts of lost lanes
	missed  []*attempt      // attempts of lost lanes that were never called
	bytes   int

	checkpoints []*shard // shards that get a checkpoint, before all other events
	positions   []position

	// What records and said point to, and the bytes of the records.
	events   slab[events.Event]
	produced slab[kgo.Record]
	arena    []byte
}

// slab hands out values that are given back all at once.
type slab[T any] struct {
	chunks [][]T
	used   int
}

const slabChunk = 16

// next returns a zero value that stays where it is.
func (s *slab[T]) next() *T {
	if s.used == len(s.chunks)*slabChunk {
		s.chunks = append(s.chunks, make([]T, slabChunk))
	}
	v := &s.chunks[s.used/slabChunk][s.used%slabChunk]
	s.used++
	return v
}

func (s *slab[T]) reset() {
	for i := 0; i*slabChunk < s.used; i++ {
		clear(s.chunks[i])
	}
	s.used = 0
}

// recycle takes a batch back that is empty, or whose records are on the log and
// were acknowledged: nobody reads them any more.
func (l *ledger) recycle(b *batch) {
	b.events.reset()
	b.produced.reset()
	*b = batch{shards: emptied(b.shards), checkpoints: emptied(b.checkpoints), units: emptied(b.units), records: emptied(b.records), said: emptied(b.said),
		late: emptied(b.late), missed: emptied(b.missed), positions: emptied(b.positions), events: b.events, produced: b.produced, arena: b.arena[:0]}
	l.spare = b
}

// emptied returns q without its elements, and with its memory.
func emptied[T any](q []T) []T {
	clear(q)
	return q[:0]
}

// position is what a lane's commit says.
type position struct {
	lane   *lane
	offset int64
}

// unit is one entry's part of a batch: nothing of it is in memory before the
// batch is committed.
type unit struct {
	e     *entry
	a     *attempt // of a result
	from  source
	next  progress
	then  then
	first int // its records in the batch: [first, last)
	last  int
}

// source is the queue that a unit goes back to when its batch is aborted.
type source uint8

const (
	fromResults source = iota
	fromOrphans
	fromVerdicts
	fromMoves
	fromReady
)

// then is what happens to an entry after its unit is committed.
type then uint8

const (
	thenDone  then = iota // the record needs nothing more
	thenStart             // call the handler
	thenAgain             // run it again
)

// empty reports whether there is nothing to write.
func (b *batch) empty() bool { return len(b.records) == 0 && len(b.checkpoints) == 0 }

func (b *batch) touch(s *shard) {
	if !slices.Contains(b.shards, s) {
		b.shards = append(b.shards, s)
	}
}

// collect decides what the next tick writes. It takes entries out of the
// queues; committed or aborted must follow.
func (l *ledger) collect(now events.Time) *batch {
	b := l.spare
	if l.spare = nil; b == nil {
		b = new(batch)
	}
	b.now = now
	room := func() bool { return len(b.units)+len(b.late) < l.limit && b.bytes < maxTickBytes }
	l.wakeUp(now)

	n := 0
	for ; n < len(l.results) && room(); n++ {
		a := l.results[n]
		if a.entry.lane.shard.phase == shardLost {
			a.fact = l.lateResult(b, a)
			b.records = append(b.records, a.fact)
			b.late = append(b.late, a)
			continue
		}
		l.add(b, unit{e: a.entry, a: a, from: fromResults}, func(w *writer) { w.result(a.result) })
	}
	l.results = rest(l.results, n)

	for n = 0; n < len(l.unstarted) && room(); n++ {
		a := l.unstarted[n]
		b.records = append(b.records, l.neverStarted(b, a))
		b.missed = append(b.missed, a)
	}
	l.unstarted = rest(l.unstarted, n)

	for n = 0; n < len(l.orphans) && room(); n++ {
		l.add(b, unit{e: l.orphans[n], from: fromOrphans}, (*writer).abandon)
	}
	l.orphans = rest(l.orphans, n)
	for n = 0; n < len(l.moves) && room(); n++ {
		l.add(b, unit{e: l.moves[n], from: fromMoves}, (*writer).move)
	}
	l.moves = rest(l.moves, n)
	var started []*entry
	if left := l.limit - len(b.units) - len(b.late); left > 0 && b.bytes < maxTickBytes {
		started = l.admit(now, left)
	}
	for n = 0; n < len(l.verdicts) && room(); n++ {
		l.add(b, unit{e: l.verdicts[n], from: fromVerdicts}, (*writer).verdict)
	}
	l.verdicts = rest(l.verdicts, n)
	for _, e := range started {
		l.add(b, unit{e: e, from: fromReady}, (*writer).start)
	}

	renewed := false
	for _, p := range slices.Sorted(maps.Keys(l.shards)) {
		s := l.shards[p]
		if s.phase != shardReady && s.phase != shardDraining {
			continue
		}
		if !renewed && s.logEnd-s.replayFrom >= checkpointEvery {
			// One a tick: with a full window it takes some megabytes.
			s.checkpoint, renewed = true, true
		}
		if !s.checkpoint && !slices.Contains(b.shards, s) && now-s.committedAt >= movedEvery {
			s.checkpoint = slices.ContainsFunc(s.lanes, func(n *lane) bool { return n.positionAfter() > n.committed })
		}
		if s.checkpoint {
			b.touch(s)
			b.checkpoints = append(b.checkpoints, s)
		}
	}
	for _, s := range b.shards {
		for _, n := range s.lanes {
			b.positions = append(b.positions, position{n, n.positionAfter()})
		}
	}
	return b
}

func rest[T any](q []T, n int) []T {
	if n == len(q) {
		return emptied(q)
	}
	return slices.Delete(q, 0, n)
}

// add builds a unit's records. What may not follow what is on record is
// recorded as rejected, and its record goes to the dead-letter topic.
func (l *ledger) add(b *batch, u unit, build func(*writer)) {
	w := &writer{l: l, b: b, u: &u}
	said := len(b.said)
	u.first, u.next = len(b.records), u.e.progress
	build(w)
	if w.err != nil {
		b.records, b.said = b.records[:u.first], b.said[:said]
		u.next, u.then = u.e.progress, thenDone
		w.reject()
	}
	u.last = len(b.records)
	u.e.ending = u.then == thenDone
	for _, rec := range b.records[u.first:u.last] {
		b.bytes += len(rec.Value) + len(rec.Key)
	}
	b.units = append(b.units, u)
	b.touch(u.e.lane.shard)
}

// writer builds the records of one unit.
type writer struct {
	l   *ledger
	b   *batch
	u   *unit
	err error
	// detail says in a JobTerminal what is wrong with the record.
	detail sanitize.Text
}

// event writes an event about the unit's job. With a state it moves the job on
// by one version; without one it is a fact.
func (w *writer) event(body events.Body, state events.State) {
	p := &w.u.next
	e := w.l.about(w.b, w.u.e, p)
	e.Body, e.State = body, state
	if state != 0 {
		e.Version = p.job.Version + 1
		if _, ok := body.(*events.AttemptStarted); ok {
			e.Number++
		}
		next, err := p.job.Apply(e)
		if err != nil {
			w.err = err
			return
		}
		p.job = next
	}
	w.b.said = append(w.b.said, e)
	w.b.records = append(w.b.records, w.l.record(w.b, e, w.u.e.lane.partition))
}

// about returns an event of the job with all but body, version and state.
func (l *ledger) about(b *batch, e *entry, p *progress) *events.Event {
	ev := b.events.next()
	*ev = events.Event{
		MinReader: 1, OccurredAt: b.now, Group: l.cfg.Group, TenantID: e.meta.TenantID, JobID: e.meta.JobID, JobType: e.meta.JobType,
		OperationID: e.meta.OperationID, Publication: p.publication, Run: p.job.Run, Number: p.job.Number, OriginAt: p.originAt,
		TraceID: e.traceID, Source: e.source(), Worker: l.worker, Generation: l.generation, CodeVersion: l.cfg.CodeVersion,
	}
	return ev
}

// record returns the record that carries an event on the evidence log.
func (l *ledger) record(b *batch, e *events.Event, partition int32) *kgo.Record {
	start := len(b.arena)
	b.arena = l.encoder.Append(b.arena, e) // where it grows, earlier records keep the old one
	rec := b.produced.next()
	*rec = kgo.Record{Topic: l.evidence, Partition: partition, Value: b.arena[start:len(b.arena):len(b.arena)]}
	return rec
}

// state returns what the unit's record carries to another topic.
func (w *writer) state() *events.HopState {
	p := &w.u.next
	return &events.HopState{Run: p.job.Run, Version: p.job.Version, Number: p.job.Number, BudgetUsed: p.budget, Losses: p.losses, SoloLosses: p.solo,
		Step: p.step, Origin: p.publication, OriginAt: p.originAt, AttemptID: p.attemptID, Cause: w.u.e.cause, State: p.job.State}
}

// hop adds the unit's record to another topic, or reports that it does not fit.
func (w *writer) hop(topic string, h *events.HopState) (fits bool) {
	rec := retrytopics.Hop(w.u.e.rec, topic, h)
	if !w.fits(rec) {
		return false
	}
	w.b.records = append(w.b.records, rec)
	return true
}

func (w *writer) fits(rec *kgo.Record) bool {
	most := w.l.maxBytes[rec.Topic]
	return !w.u.e.oversize && (most == 0 || retrytopics.Size(rec) <= most)
}

// end writes the JobTerminal, and the dead-letter record of a run that did not
// succeed.
func (w *writer) end(outcome events.TerminalOutcome, reason events.TerminalReason) {
	body := &events.JobTerminal{Outcome: outcome, Reason: reason, Attempts: w.u.next.job.Number, Detail: w.detail}
	var dead *kgo.Record
	if outcome != events.TerminalSucceeded {
		// The version that the dead-letter record names is that of the terminal.
		h := w.state()
		h.Version, h.State, h.Reason, h.ErrorClass = h.Version+1, outcome.FinalState(), reason, w.class()
		dead = retrytopics.Hop(w.u.e.rec, w.l.topo.DLQ(), h)
		if !w.fits(dead) {
			sum := sha256.Sum256(w.u.e.rec.Value)
			body.Outcome, body.Reason = events.TerminalFailed, events.ReasonOversize
			body.ValueSHA256, body.ValueSize = sum[:], int64(len(w.u.e.rec.Value))
			dead = nil
		}
	}
	w.event(body, body.Outcome.FinalState())
	if dead != nil {
		w.b.records = append(w.b.records, dead)
	}
	w.u.then = thenDone
}

func (w *writer) class() events.ErrorClass {
	if r := w.u.e.result; r != nil {
		return r.err.Class
	}
	if w.u.a != nil {
		return w.u.a.result.err.Class
	}
	switch {
	case w.u.e.kind == malformed:
		return events.ClassMalformed
	case w.u.e.orphaned != 0:
		return events.ClassCrash
	}
	return 0
}

func (w *writer) policy() retrytopics.Policy {
	if w.u.e.typ == nil {
		return retrytopics.DefaultPolicy()
	}
	return w.u.e.typ.Policy
}

// result writes an attempt's outcome and the one step that follows it.
func (w *writer) result(r *result) {
	p := &w.u.next
	now := w.b.now
	body := &events.AttemptFinished{AttemptID: p.attemptID, Outcome: r.outcome, Error: r.err, StartedAt: r.startedAt, FinishedAt: r.finishedAt,
		AdoptedFrom: r.adoptedFrom, Delivery: p.delivery}
	var route retrytopics.Route
	cause := events.CauseRetry
	switch r.outcome {
	case events.OutcomeSucceeded:
		w.event(body, events.StateDeciding)
		w.end(events.TerminalSucceeded, 0)
		return
	case events.OutcomeInterrupted:
		route = w.policy().AfterInterruption(now)
		cause = events.CauseRedelivery
	default:
		p.budget++
		route = w.policy().Next(retrytopics.History{AttemptID: p.attemptID, BudgetUsed: p.budget, OriginAt: p.originAt, Deadline: w.u.e.deadline}, r.failure, now)
	}
	if route.Verdict == retrytopics.Retry {
		topic := w.l.topo.Retry(w.l.cfg.Tiers.For(route.At.Sub(now)))
		h := w.state()
		h.Version, h.State, h.NotBefore, h.ErrorClass, h.Cause = h.Version+1, events.StateRetryWaiting, route.At, r.err.Class, cause
		if rec := retrytopics.Hop(w.u.e.rec, topic, h); w.fits(rec) {
			body.Next = events.Next{RetryAt: route.At, Tier: topic}
			w.event(body, events.StateRetryWaiting)
			w.b.records = append(w.b.records, rec)
			w.u.then = thenDone
			return
		}
		route = retrytopics.Route{Verdict: retrytopics.Dead, Reason: events.ReasonOversize}
	}
	w.event(body, events.StateDeciding)
	w.settle(route)
}

// settle ends or parks a job that is in state deciding.
func (w *writer) settle(route retrytopics.Route) {
	switch route.Verdict {
	case retrytopics.Park:
		h := w.state()
		h.Version, h.State, h.ParkReason, h.ErrorClass = h.Version+1, events.StateParked, route.ParkReason, w.class()
		if !w.hop(w.l.topo.Parked(), h) {
			w.end(events.TerminalFailed, events.ReasonOversize)
			return
		}
		w.event(&events.JobParked{Reason: route.ParkReason}, events.StateParked)
		w.u.then = thenDone
	case retrytopics.Expired:
		w.end(events.TerminalExpired, route.Reason)
	default:
		w.end(events.TerminalFailed, route.Reason)
	}
}

// abandon closes an attempt that has no outcome.
func (w *writer) abandon() {
	e, p := w.u.e, &w.u.next
	cause := e.orphaned
	if cause == events.AbandonWorkerLost && (e.worker == w.l.worker || e.lane.shard.live[e.worker]) {
		cause = events.AbandonMovedAway
	}
	if cause == events.AbandonWorkerLost {
		p.losses++
		if p.cohort == cohortAlone {
			p.solo++
		}
	}
	body := &events.AttemptAbandoned{AttemptID: p.attemptID, Cause: cause, Losses: p.losses, SoloLosses: p.solo, Detector: w.l.worker,
		BasedOn: p.startedOffset + 1, Delivery: p.delivery}
	route := w.policy().AfterAbandonment(p.solo, w.b.now)
	if cause == events.AbandonNotStarted {
		route = retrytopics.Route{Verdict: retrytopics.Retry, At: w.b.now}
	}
	if route.Verdict == retrytopics.Retry {
		w.event(body, events.StateRetryWaiting)
		p.phase = abandoned
		w.u.then = thenAgain
		return
	}
	w.event(body, events.StateDeciding)
	w.settle(route)
}

// verdict ends an entry without an attempt, or takes over a late outcome.
func (w *writer) verdict() {
	e := w.u.e
	if e.result != nil {
		w.result(e.result)
		return
	}
	w.u.then = thenDone
	switch e.kind {
	case malformed:
		w.detail = w.l.sanitizer.Clean(e.malformed())
		w.end(events.TerminalFailed, events.ReasonMalformed)
	case unknownType:
		if w.l.cfg.UnknownTypes == UnknownToDLQ || e.lane.role == retrytopics.RoleRetry || e.phase != nothing {
			w.detail = w.l.sanitizer.Clean(e.untyped())
			w.end(events.TerminalFailed, events.ReasonUnknownType)
		}
	case expired:
		w.end(events.TerminalExpired, events.ReasonDeadline)
	case duplicate:
		if !e.lane.shard.window.same(e.first, e.publication) {
			w.duplicate(events.DuplicateRejected)
		}
	case notACommand:
		w.event(&events.TransitionRejected{What: "command", Detail: w.l.notACommand}, 0)
	}
}

func (w *writer) duplicate(action events.DuplicateAction) {
	run := w.u.next.job.Run
	w.u.next.job.Run = 0
	first := w.u.e.first
	state := first.state()
	if state == 0 {
		state = events.StatePending
	}
	w.event(&events.DuplicateSeen{First: w.u.e.lane.shard.window.publication(first), FirstState: state, Action: action}, 0)
	w.u.next.job.Run = run
}

// move sends an entry on to a longer tier.
func (w *writer) move() {
	e := w.u.e
	reason := events.DeferTier
	if e.lane.role == retrytopics.RoleJobs {
		reason = events.DeferNotBefore
	}
	topic := w.l.topo.Retry(w.l.cfg.Tiers.For(e.due.Sub(w.b.now)))
	h := w.state()
	h.Version, h.NotBefore = h.Version+1, e.due
	if !w.hop(topic, h) {
		w.end(events.TerminalFailed, events.ReasonOversize)
		return
	}
	w.event(&events.JobDeferred{Reason: reason, Until: e.due, Tier: topic}, w.u.next.job.State)
	w.u.then = thenDone
}

// start writes the AttemptStarted of an entry that has a slot.
func (w *writer) start() {
	e, p := w.u.e, &w.u.next
	if e.first.lastAt != 0 && p.job.Version == 0 && p.delivery == 0 {
		action := events.DuplicateRun
		if e.first.typ() != typeHash(e.meta.JobType) {
			action = events.DuplicateIDCollision
		}
		w.duplicate(action)
	}
	e.key = events.IdempotencyKey(w.l.cfg.Group, e.meta.TenantID, e.meta.JobID, p.step)
	p.delivery++
	p.attemptID = events.AttemptID(w.l.cfg.Group, w.l.topicIDs[e.rec.Topic], e.rec.Partition, e.rec.Offset, p.delivery)
	p.phase, p.cohort, p.worker, p.late, p.notStarted = started, e.cohort, w.l.worker, nil, false
	w.event(&events.AttemptStarted{AttemptID: p.attemptID, Step: p.step, Cause: e.cause, Cohort: p.cohort, EnqueuedAt: events.TimeOf(e.rec.Timestamp),
		Deadline: e.deadline, IdempotencyKey: e.key, Delivery: p.delivery}, events.StateRunning)
	w.u.then = thenStart
}

// reject records that the state machine forbade what was to be written.
func (w *writer) reject() {
	err := w.err
	w.err = nil
	w.u.then = thenDone
	what := "event"
	if te, ok := errors.AsType[*events.TransitionError](err); ok {
		what = te.Type.String()
	}
	w.event(&events.TransitionRejected{What: what, Found: w.u.next.job.State, Detail: w.l.sanitizer.Error(err)}, 0)
	h := w.state()
	h.Reason = events.ReasonMalformed
	w.hop(w.l.topo.DLQ(), h)
	w.l.rejected++
}

// lateResult returns the fact that an attempt ended whose lane is lost.
func (l *ledger) lateResult(b *batch, a *attempt) *kgo.Record {
	e, r := a.entry, a.result
	ev := l.about(b, e, &e.progress)
	ev.Body = &events.AttemptFinished{AttemptID: a.id, Outcome: r.outcome, Error: r.err, StartedAt: r.startedAt, FinishedAt: r.finishedAt, Late: true, Delivery: a.delivery}
	return l.record(b, ev, e.lane.partition)
}

// neverStarted returns the fact that a recorded attempt of a lost lane never ran.
func (l *ledger) neverStarted(b *batch, a *attempt) *kgo.Record {
	e := a.entry
	ev := l.about(b, e, &e.progress)
	ev.Body = &events.AttemptAbandoned{AttemptID: a.id, Cause: events.AbandonNotStarted, Losses: e.losses, SoloLosses: e.solo, Detector: l.worker, Delivery: a.delivery}
	return l.record(b, ev, e.lane.partition)
}

// aborted puts everything of a batch back: nothing of it happened.
func (l *ledger) aborted(b *batch) {
	var results []*attempt
	var orphans, verdicts, moves []*entry
	for i := range b.units {
		u := &b.units[i]
		u.e.ending = false
		gone := u.e.lane.shard.phase == shardLost
		switch {
		case u.from == fromResults:
			results = append(results, u.a)
		case u.from == fromReady:
			l.free(u.e.typ)
			if !gone {
				l.requeue(u.e)
			}
		case gone:
		case u.from == fromOrphans:
			orphans = append(orphans, u.e)
		case u.from == fromVerdicts:
			verdicts = append(verdicts, u.e)
		case u.from == fromMoves:
			moves = append(moves, u.e)
		}
	}
	l.results = append(append(results, b.late...), l.results...)
	l.unstarted = append(slices.Clone(b.missed), l.unstarted...)
	l.orphans = append(orphans, l.orphans...)
	l.verdicts = append(verdicts, l.verdicts...)
	l.moves = append(moves, l.moves...)
}

func (l *ledger) requeue(e *entry) {
	if suspicion(e.losses) > 0 {
		l.suspects = append(l.suspects, e)
		return
	}
	q := &e.typ.ready
	if q.head > 0 {
		q.head--
		q.items[q.head] = e
		return
	}
	q.items = append([]*entry{e}, q.items...)
}

// committed makes what a batch decided the memory of the ledger, and returns
// the attempts whose handlers are to be called. leased is false when so much of
// the session has passed that somebody else may own the lanes by now.
func (l *ledger) committed(b *batch, leased bool) (start []*attempt) {
	l.limit = min(max(2*l.limit, 2), maxUnits)
	for _, s := range b.shards {
		s.committedAt = b.now
	}
	for _, c := range b.positions {
		c.lane.committed = c.offset
	}
	for _, rec := range b.records {
		if s := l.shards[rec.Partition]; s != nil && rec.Topic == l.evidence {
			s.logEnd = max(s.logEnd, rec.Offset+1)
		}
	}
	for _, a := range b.late {
		if a.entry.lane.shard.phase != shardLost {
			// Taken over while the fact was on its way.
			l.adopt(a, a.fact.Offset+1)
			continue
		}
		a.lateAt, a.fact = a.fact.Offset+1, nil
		if l.told = append(l.told, a); len(l.told) > maxTold {
			if l.told[0].lateAt > 0 {
				l.forget(l.told[0])
			}
			l.told = l.told[1:]
		}
	}
	for i := range b.units {
		u := &b.units[i]
		e := u.e
		lost := e.lane.shard.phase == shardLost
		moved := u.next.job.Version > e.job.Version
		e.progress = u.next
		e.ending = false
		if moved && !lost {
			e.lane.shard.window.touch(e.meta.TenantID, e.meta.JobID, e.meta.JobType, e.publication, e.job.State, b.now)
		}
		if u.a != nil {
			l.forget(u.a)
		}
		switch u.then {
		case thenDone:
			if !lost {
				e.lane.finish(e)
			}
		case thenAgain:
			e.cause, e.orphaned, e.due = events.CauseRedelivery, 0, 0
			if !lost {
				l.enqueue(e)
			}
		case thenStart:
			e.startedAt = b.now
			if u.last > u.first {
				e.startedOffset = b.records[u.last-1].Offset
			}
			a := &attempt{id: e.attemptID, entry: e, delivery: e.delivery, slot: e.typ, began: b.began}
			switch {
			case lost:
				l.free(e.typ)
				l.unstarted = append(l.unstarted, a)
			case !leased:
				l.free(e.typ)
				e.orphaned = events.AbandonNotStarted
				l.orphans = append(l.orphans, e)
			default:
				l.attempts[a.id] = a
				start = append(start, a)
			}
		}
	}
	return start
}

// adopt makes an outcome that is on record as a late fact, at the evidence offset
// given plus one, the owner's.
func (l *ledger) adopt(a *attempt, at int64) {
	r := *a.result
	r.adoptedFrom = at
	a.result, a.lateAt, a.fact = &r, 0, nil
	l.results = append(l.results, a)
}

// forget drops an attempt whose end is on record, unless it was taken over.
func (l *ledger) forget(a *attempt) {
	if l.attempts[a.id] == a {
		delete(l.attempts, a.id)
	}
}

// overstay returns how many handlers have ignored their timeout for a while, and
// those of them that were not returned before.
func (l *ledger) overstay(now time.Time) (fresh []*attempt, stuck int) {
	for _, a := range l.attempts {
		if a.ended || now.Sub(a.began) < a.slot.Policy.Timeout+stuckAfter {
			continue
		}
		if stuck++; !a.stuck {
			a.stuck = true
			fresh = append(fresh, a)
		}
	}
	return fresh, stuck
}

// ended notes that a handler returned.
func (l *ledger) ended(a *attempt, r *result) {
	if a.ended {
		return // cut off before: its outcome is on its way already
	}
	a.ended, a.result = true, r
	l.free(a.slot)
	l.results = append(l.results, a)
}

// refused narrows the next ticks down to the unit whose records the brokers
// refuse for their size, and reports whether it can be got rid of.
func (l *ledger) refused(b *batch) bool {
	n := len(b.units) + len(b.late)
	if n > 1 {
		l.limit = n / 2
		return true
	}
	l.limit = 1
	if len(b.units) == 1 && !b.units[0].e.oversize {
		b.units[0].e.oversize = true
		return true
	}
	return false
}
