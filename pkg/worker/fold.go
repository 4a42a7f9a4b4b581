package worker

import (
	"slices"

	"github.com/google/uuid"

	"github.com/jobtrail/jobtrail/pkg/events"
)

// recovered is what replaying a shard's evidence gives.
type recovered struct {
	lanes  map[string]*recoveredLane
	window *window
	from   int64 // what to replay from next time
	end    int64 // offset after the last record
	count  int   // events replayed
}

type recoveredLane struct {
	known  map[int64]*progress
	passed []events.OffsetRange
}

// fold builds a shard's memory from its evidence, event by event in log order.
type fold struct {
	recovered
	parts   []*events.Checkpoint // of a checkpoint that is not complete
	partsAt int64
	facts   []fact // what others wrote between its parts
	// pages lists the pages of the duplicate window that the checkpoint names and
	// that are still to be read; page is called with each of them.
	pages []int64
}

// fact is an event of version 0 at its place.
type fact struct {
	e      *events.Event
	offset int64
	at     events.Time
}

func newFold(w *window, from int64) *fold {
	return &fold{recovered: recovered{lanes: make(map[string]*recoveredLane), window: w, from: from, end: from}}
}

func (f *fold) lane(topic string) *recoveredLane {
	n := f.lanes[topic]
	if n == nil {
		n = &recoveredLane{known: make(map[int64]*progress)}
		f.lanes[topic] = n
	}
	return n
}

// apply folds one event at the given offset and append time of the log.
func (f *fold) apply(e *events.Event, offset int64, at events.Time) {
	f.end = offset + 1
	f.count++
	src := e.Source
	if e.Version > 0 && e.Publication.Topic != "" {
		f.window.touch(e.TenantID, e.JobID, e.JobType, e.Publication, e.State, at)
	}
	switch b := e.Body.(type) {
	case *events.AttemptStarted:
		if e.Version == 0 {
			return
		}
		p := f.known(e)
		p.phase, p.delivery, p.attemptID, p.cohort, p.step = started, b.Delivery, b.AttemptID, b.Cohort, b.Step
		p.worker, p.startedOffset, p.startedAt = e.Worker, offset, at
		p.late, p.notStarted = nil, false
	case *events.AttemptFinished:
		if e.Version > 0 {
			f.known(e).phase = finished
			return
		}
		f.keep(e, offset, at)
		if p := f.lane(src.Topic).known[src.Offset]; p != nil && p.phase == started && p.attemptID == b.AttemptID && p.late == nil {
			p.late, p.lateOffset = b, offset
		}
	case *events.AttemptAbandoned:
		if e.Version == 0 {
			f.keep(e, offset, at)
			if p := f.lane(src.Topic).known[src.Offset]; p != nil && p.phase == started && p.attemptID == b.AttemptID {
				p.notStarted = true
			}
			return
		}
		p := f.known(e)
		p.phase, p.losses, p.solo, p.delivery = abandoned, b.Losses, b.SoloLosses, b.Delivery
		if e.State == events.StateDeciding {
			p.phase = finished
		}
	case *events.StepCompleted, *events.JobDeferred, *events.JobParked, *events.JobTerminal:
		f.known(e).phase = finished
	case *events.DuplicateSeen:
		if b.Action == events.DuplicateRejected {
			f.known(e).phase = finished
		}
	case *events.TransitionRejected:
		if src.Topic != "" {
			f.known(e).phase = finished
		}
	case *events.Checkpoint:
		f.checkpoint(b, offset)
	}
}

// keep notes a fact that stands between the parts of a checkpoint: whoever wrote
// the checkpoint did not know it.
func (f *fold) keep(e *events.Event, offset int64, at events.Time) {
	if len(f.parts) > 0 {
		f.facts = append(f.facts, fact{e, offset, at})
	}
}

// known returns the progress of the delivery that e is about, with e's version.
func (f *fold) known(e *events.Event) *progress {
	n := f.lane(e.Source.Topic)
	p := n.known[e.Source.Offset]
	if p == nil {
		p = new(progress)
		n.known[e.Source.Offset] = p
	}
	p.publication, p.originAt = e.Publication, e.OriginAt
	if e.Version > 0 {
		p.job = events.Job{Run: e.Run, Version: e.Version, State: e.State, Number: e.Number}
	}
	return p
}

// checkpoint takes a part. When the last part is there, the checkpoint replaces
// all that was folded before it: it says the same in less.
func (f *fold) checkpoint(b *events.Checkpoint, offset int64) {
	if b.Part == 0 || len(f.parts) > 0 && f.parts[0].ID != b.ID {
		f.parts, f.partsAt, f.facts = nil, offset, nil
	}
	if int(b.Part) != len(f.parts) {
		f.parts, f.facts = nil, nil
		return
	}
	f.parts = append(f.parts, b)
	if len(f.parts) < int(b.Parts) {
		return
	}
	f.lanes = make(map[string]*recoveredLane)
	f.from = f.partsAt
	f.pages = f.pages[:0]
	for _, part := range f.parts {
		f.pages = append(f.pages, part.DedupPages...)
		for _, r := range part.Finished {
			n := f.lane(r.Topic)
			n.passed = append(n.passed, r)
		}
		for i := range part.Open {
			o := &part.Open[i]
			f.lane(o.Source.Topic).known[o.Source.Offset] = fromOpen(o)
		}
	}
	facts := f.facts
	f.parts, f.facts = nil, nil
	count, end := f.count, f.end
	for _, x := range facts {
		f.apply(x.e, x.offset, x.at)
	}
	f.count, f.end = count, end
}

// positions returns the lanes' positions that a checkpoint names.
func positions(parts []*events.Checkpoint) map[string]int64 {
	m := make(map[string]int64)
	for _, part := range parts {
		for _, c := range part.Committed {
			m[c.Topic] = c.Offset
		}
	}
	return m
}

func fromOpen(o *events.OpenEntry) *progress {
	p := &progress{
		job:         events.Job{Run: o.Run, Version: o.Version, State: o.State, Number: o.Number},
		publication: o.Publication, originAt: o.OriginAt, step: o.Step, budget: o.BudgetUsed, losses: o.Losses, solo: o.SoloLosses,
		delivery: o.Delivery, phase: abandoned, attemptID: o.AttemptID, cohort: o.Cohort, worker: o.Worker,
		startedOffset: o.StartedOffset, startedAt: o.StartedAt, late: o.Late, lateOffset: o.LateOffset, notStarted: o.NotStarted,
	}
	if o.State == events.StateRunning {
		p.phase = started
	}
	return p
}

func (p *progress) open(src events.Source, tenant, job, typ, operation string) events.OpenEntry {
	return events.OpenEntry{
		TenantID: tenant, JobID: job, JobType: typ, OperationID: operation, Publication: p.publication,
		Run: p.job.Run, Version: p.job.Version, State: p.job.State, Number: p.job.Number, Step: p.step, OriginAt: p.originAt, Source: src,
		Delivery: p.delivery, BudgetUsed: p.budget, Losses: p.losses, SoloLosses: p.solo, Cohort: p.cohort, AttemptID: p.attemptID,
		Worker: p.worker, StartedOffset: p.startedOffset, StartedAt: p.startedAt, Late: p.late, LateOffset: p.lateOffset, NotStarted: p.notStarted,
	}
}

// mergeRanges sorts and joins ranges, dropping what lies before from.
func mergeRanges(rs []events.OffsetRange, from int64) []events.OffsetRange {
	slices.SortFunc(rs, func(a, b events.OffsetRange) int { return int(min(max(a.First-b.First, -1), 1)) })
	out := rs[:0]
	for _, r := range rs {
		if r.Last < from {
			continue
		}
		if n := len(out); n > 0 && r.First <= out[n-1].Last+1 {
			out[n-1].Last = max(out[n-1].Last, r.Last)
			continue
		}
		out = append(out, r)
	}
	return out
}

// has reports whether the sorted ranges hold the offset, forgetting those that
// lie before it: offsets are asked for in order.
func (n *lane) hasPassed(offset int64) bool {
	for len(n.passed) > 0 && n.passed[0].Last < offset {
		n.passed = n.passed[1:]
	}
	return len(n.passed) > 0 && n.passed[0].First <= offset
}

// openSize returns about how many bytes an open entry takes, at most.
func openSize(o *events.OpenEntry) int {
	n := 256 + len(o.TenantID) + len(o.JobID) + len(o.JobType) + len(o.OperationID) + len(o.Publication.Topic) + len(o.Step) + len(o.Source.Topic) + len(o.Worker)
	if o.Late != nil {
		n += 128 + len(o.Late.Error.Type) + len(o.Late.Error.Message.String()) + len(o.Late.Next.Tier)
	}
	return n
}

// checkpointPartBytes is how large a part of a checkpoint may be.
const checkpointPartBytes = 256 << 10

// snapshot returns the shard's memory as a checkpoint in parts: what is on
// record now, before the tick that writes it.
func (l *ledger) snapshot(s *shard, id uuid.UUID) []*events.Checkpoint {
	part := &events.Checkpoint{ID: id}
	parts := []*events.Checkpoint{part}
	size := 0
	room := func(n int) {
		if size += n; size > checkpointPartBytes {
			part = &events.Checkpoint{ID: id}
			parts = append(parts, part)
			size = n
		}
	}
	add := func(o events.OpenEntry) {
		room(openSize(&o))
		part.Open = append(part.Open, o)
	}
	for _, n := range s.lanes {
		part.Committed = append(part.Committed, events.Source{Topic: n.topic, Partition: n.partition, Offset: n.position()})
	}
	for _, n := range s.lanes {
		gap := n.position()
		passed := func(to int64) {
			if gap < to {
				room(len(n.topic) + 24)
				part.Finished = append(part.Finished, events.OffsetRange{Topic: n.topic, First: gap, Last: to - 1})
			}
		}
		for _, e := range n.entries {
			if e == nil || e.done {
				continue
			}
			passed(e.rec.Offset)
			gap = e.rec.Offset + 1
			if e.phase == started || e.phase == abandoned {
				add(e.open(e.source(), e.meta.TenantID, e.meta.JobID, e.meta.JobType, e.meta.OperationID))
			}
		}
		passed(n.next)
		for _, r := range n.passed {
			if r.Last >= n.next {
				gap = max(r.First, n.next)
				passed(r.Last + 1)
			}
		}
		for offset, p := range n.known {
			add(p.open(events.Source{Topic: n.topic, Partition: n.partition, Offset: offset}, "", "", "", ""))
		}
	}
	for i, p := range parts {
		p.Part, p.Parts = uint32(i), uint32(len(parts))
	}
	return parts
}

func (e *entry) source() events.Source {
	return events.Source{Topic: e.rec.Topic, Partition: e.rec.Partition, Offset: e.rec.Offset}
}
