package worker

import (
	"slices"

	"github.com/jobtrail/jobtrail/pkg/events"
)

// Cohort sizes: how many suspects may run together. The first loss of a job
// costs nothing, for deploys and hosts go down; after the second it runs among
// few, so that it cannot take many innocent ones with it again.
const (
	cohortLarge = 32
	cohortSmall = 4
	cohortAlone = 1
)

// suspicion returns the size of the cohort that a job with so many worker-lost
// abandonments may run in; 0 means that it is no suspect.
func suspicion(losses uint32) uint32 {
	switch {
	case losses < 2:
		return 0
	case losses == 2:
		return cohortLarge
	case losses == 3:
		return cohortSmall
	}
	return cohortAlone
}

// cohort is whose turn it is: suspects run in small groups with nothing else in
// the process, and take turns with normal work.
type cohort struct {
	// wanted is set while normal work is let run out for the suspects' turn.
	wanted bool
	// size is that of the cohort that runs now; 0 while normal work runs.
	size uint32
	// normalUntil is until when normal work has its turn.
	normalUntil events.Time
}

// normalTurn is how long normal work runs between two cohorts, in ms.
const normalTurn = 1000

// admit takes up to most entries to be started now. It keeps the limits of the
// process and of each type, and goes through the types in turn. now is log time.
func (l *ledger) admit(now events.Time, most int) []*entry {
	if l.closing || l.hold {
		return nil
	}
	if c := l.admitSuspects(now); c != nil || l.cohort.wanted || l.cohort.size > 0 {
		return c
	}
	var out []*entry
	room := min(most, l.cfg.Concurrency-l.running)
	for room > 0 {
		took := false
		for i := range l.cfg.Types {
			t := l.types[l.cfg.Types[i].Name]
			if room == 0 || t.ready.len() == 0 || t.full() {
				continue
			}
			e := t.ready.pop()
			took = true
			if e.done || e.lane.shard.phase != shardReady {
				continue
			}
			if l.overdue(e, now) {
				continue
			}
			l.take(e)
			out = append(out, e)
			room--
		}
		if !took {
			break
		}
	}
	return out
}

// overdue ends an entry whose deadline has passed.
func (l *ledger) overdue(e *entry, now events.Time) bool {
	if e.deadline == 0 || now <= e.deadline {
		return false
	}
	e.kind = expired
	l.verdicts = append(l.verdicts, e)
	return true
}

// full reports whether as many jobs of the type run as may.
func (t *jobType) full() bool { return t.Concurrency > 0 && t.running >= t.Concurrency }

func (l *ledger) take(e *entry) {
	l.running++
	e.typ.running++
}

// free gives the slot of an attempt back.
func (l *ledger) free(t *jobType) {
	l.running--
	t.running--
}

func (l *ledger) admitSuspects(now events.Time) []*entry {
	c := &l.cohort
	if c.size > 0 && l.running == 0 {
		c.size, c.normalUntil = 0, now+normalTurn
	}
	l.suspects = slices.DeleteFunc(l.suspects, func(e *entry) bool { return e.done || e.lane.shard.phase == shardLost })
	if c.size > 0 || len(l.suspects) == 0 || now < c.normalUntil {
		c.wanted = false
		return nil
	}
	if c.wanted = l.running > 0; c.wanted {
		return nil
	}
	// The least suspect ones first: they clear themselves soonest.
	size := uint32(0)
	for _, e := range l.suspects {
		size = max(size, suspicion(e.losses))
	}
	var out []*entry
	l.suspects = slices.DeleteFunc(l.suspects, func(e *entry) bool {
		if len(out) == int(size) || len(out) == l.cfg.Concurrency || suspicion(e.losses) != size || e.lane.shard.phase != shardReady || e.typ.full() {
			return false
		}
		if l.overdue(e, now) {
			return true
		}
		e.cohort = size
		l.take(e)
		out = append(out, e)
		return true
	})
	if len(out) > 0 {
		c.size = size
	}
	return out
}
