package worker

import (
	"container/heap"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/jobtrail/jobtrail/pkg/events"
	"github.com/jobtrail/jobtrail/pkg/retrytopics"
)

// Bounds of a job's origin time around the time at which its first owner sees
// it: all rows of a run share the month of that time, so it must be sensible.
const (
	oldestOrigin = 400 * 24 * 3600 * 1000
	newestOrigin = 24 * 3600 * 1000
)

// deliver takes records that were fetched, in order, and reports whether they
// belong to lanes of ours. now is log time.
func (l *ledger) deliver(topic string, partition int32, records []*kgo.Record, now events.Time) {
	n := l.lanes[laneKey{topic, partition}]
	if n == nil || n.lost || n.stale || !n.fetched {
		return
	}
	for _, rec := range records {
		if n.shard != nil && n.shard.phase == shardDraining {
			return
		}
		if n.shard == nil || n.shard.phase == shardReplaying {
			n.buffer = append(n.buffer, rec)
			n.bytes += len(rec.Value)
			continue
		}
		l.intake(n, rec, now)
	}
}

// intake makes an entry of a record and decides what it waits for.
func (l *ledger) intake(n *lane, rec *kgo.Record, now events.Time) {
	if rec.Offset < n.next {
		return
	}
	n.next = rec.Offset + 1
	if n.hasPassed(rec.Offset) {
		return
	}
	e := &entry{lane: n, rec: rec}
	n.entries = append(n.entries, e)
	n.open++
	n.bytes += len(rec.Value)
	l.read(e, now)
	known := n.known[rec.Offset]
	if known != nil {
		delete(n.known, rec.Offset)
		e.take(known)
	}
	switch {
	case e.phase == started:
		l.meet(e)
	case e.phase == abandoned:
		e.cause = events.CauseRedelivery
		l.route(e, now)
	case e.kind != noVerdict:
		l.verdicts = append(l.verdicts, e)
	default:
		l.route(e, now)
	}
}

// take lays what is on record of a delivery over what the record itself says.
func (e *entry) take(p *progress) {
	header := e.progress
	e.progress = *p
	e.budget = max(p.budget, header.budget)
	e.losses = max(p.losses, header.losses)
	e.solo = max(p.solo, header.solo)
	if header.job.Run > p.job.Run || header.job.Run == p.job.Run && header.job.Version > p.job.Version {
		e.job = header.job
	}
	if e.step == "" {
		e.step = header.step
	}
}

// read fills the entry from its record.
func (l *ledger) read(e *entry, now events.Time) {
	rec := e.rec
	appended := events.TimeOf(rec.Timestamp)
	own := events.Publication{TopicID: l.topicIDs[rec.Topic], Topic: rec.Topic, Partition: rec.Partition, Offset: rec.Offset}
	fresh := progress{job: events.Job{Run: 1, State: events.StatePending}, publication: own, originAt: min(max(appended, now-oldestOrigin), now+newestOrigin)}
	e.cause = events.CauseFirst
	e.due = appended.Add(0)
	switch e.lane.role {
	case retrytopics.RoleCommands:
		e.progress = fresh
		e.kind = notACommand
		return
	case retrytopics.RoleRetry:
		e.due = appended + events.Time(e.lane.tier.delay)
		h, err := retrytopics.State(rec.Headers)
		if err != nil {
			e.progress = fresh
			e.meta, _ = retrytopics.Parse(rec.Headers, own)
			e.typ = l.types[e.meta.JobType]
			e.kind = malformed
			return
		}
		e.progress = progress{job: events.Job{Run: h.Run, Version: h.Version, State: h.State, Number: h.Number}, publication: h.Origin, originAt: h.OriginAt,
			step: h.Step, budget: h.BudgetUsed, losses: h.Losses, solo: h.SoloLosses}
		e.cause = h.Cause
		e.due = max(e.due, h.NotBefore)
		e.meta, _ = retrytopics.Parse(rec.Headers, h.Origin)
	default:
		e.progress = fresh
		var err error
		if e.meta, err = retrytopics.Parse(rec.Headers, own); err != nil {
			e.kind = malformed
		}
		e.due = max(e.due, e.meta.NotBefore)
	}
	e.typ = l.types[e.meta.JobType]
	e.traceID = traceID(e.meta.TraceParent, e.publication)
	if e.typ == nil {
		if e.kind == noVerdict {
			e.kind = unknownType
		}
		return
	}
	e.deadline = e.typ.Policy.DeadlineOf(retrytopics.History{OriginAt: e.originAt, Deadline: e.meta.Deadline})
	if e.lane.role == retrytopics.RoleJobs && e.kind == noVerdict && l.cfg.DedupMax > 0 {
		l.compare(e, now)
	}
}

// compare looks the job up among those seen lately.
func (l *ledger) compare(e *entry, now events.Time) {
	w := e.lane.shard.window
	if _, onRecord := e.lane.known[e.rec.Offset]; onRecord {
		return
	}
	seen, ok := w.look(e.meta.TenantID, e.meta.JobID, now)
	switch {
	case ok && w.same(seen, e.publication) && seen.state() != 0:
		// An offset was rewound: the run goes on elsewhere, or has ended.
		e.kind = duplicate
		e.first = seen
		return
	case ok && !w.same(seen, e.publication):
		e.first = seen
		open := !seen.state().Final() || seen.state() == events.StateSucceeded
		if open && seen.typ() == typeHash(e.meta.JobType) && e.typ.Policy.OnDuplicate == retrytopics.RejectDuplicates {
			e.kind = duplicate
			return
		}
	}
	w.touch(e.meta.TenantID, e.meta.JobID, e.meta.JobType, e.publication, 0, now)
}

// meet decides about a delivery that is on record as started.
func (l *ledger) meet(e *entry) {
	switch a := l.attempts[e.attemptID]; {
	case a != nil:
		// The handler runs, or ran, in this very process: take it over.
		a.entry = e
		if a.lateAt > 0 {
			l.adopt(a, a.lateAt)
		}
	case e.late != nil:
		b := e.late
		e.result = &result{outcome: b.Outcome, err: b.Error, failure: retrytopics.Failure{Class: b.Error.Class}, startedAt: b.StartedAt,
			finishedAt: b.FinishedAt, adoptedFrom: e.lateOffset + 1}
		l.verdicts = append(l.verdicts, e)
	default:
		e.orphaned = events.AbandonWorkerLost
		if e.notStarted {
			e.orphaned = events.AbandonNotStarted
		}
		l.orphans = append(l.orphans, e)
	}
}

// route puts an entry where it waits: for its time, for a slot, or for a hop to
// a longer tier.
func (l *ledger) route(e *entry, now events.Time) {
	wait := e.due.Sub(now)
	if wait <= 0 {
		l.enqueue(e)
		return
	}
	tier := events.Time(e.lane.tier.delay)
	leaves := events.TimeOf(e.rec.Timestamp) + tier
	switch {
	case leaves > now:
		e.wake = leaves
		if e.due <= leaves+events.Time(retrytopics.Slack(time.Duration(tier)*time.Millisecond).Milliseconds()) {
			e.wake = e.due
		}
	case e.due.Sub(max(leaves, now)) <= retrytopics.Slack(time.Duration(tier)*time.Millisecond):
		e.wake = e.due
	default:
		l.moves = append(l.moves, e)
		return
	}
	heap.Push(&l.waiting, e)
	e.lane.waiting++
}

// enqueue puts an entry that is due among those that wait for a slot.
func (l *ledger) enqueue(e *entry) {
	switch {
	case e.typ == nil:
		e.kind = unknownType
		l.verdicts = append(l.verdicts, e)
	case e.deadline != 0 && e.phase != started && e.due > e.deadline:
		e.kind = expired
		l.verdicts = append(l.verdicts, e)
	case suspicion(e.losses) > 0:
		l.suspects = append(l.suspects, e)
	default:
		e.typ.ready.push(e)
	}
}

// wakeUp moves entries whose time has come. now is log time.
func (l *ledger) wakeUp(now events.Time) {
	for len(l.waiting) > 0 && l.waiting[0].wake <= now {
		e := heap.Pop(&l.waiting).(*entry)
		e.lane.waiting--
		l.route(e, now)
	}
}

// nextWake returns when the next entry's time comes, 0 when none waits.
func (l *ledger) nextWake() events.Time {
	if len(l.waiting) == 0 {
		return 0
	}
	return l.waiting[0].wake
}
