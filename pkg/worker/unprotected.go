//go:build unprotected

package worker

import (
	"fmt"
	"os"
)

// UnprotectedVariable names the protection that a worker of this build lacks;
// when it is empty, it lacks none.
const UnprotectedVariable = "JOBTRAIL_UNPROTECTED"

// breach takes one protection out; nil functions leave everything as it is. It is
// for tests, and reads their environment.
type breach struct {
	onRecovered func(*ledger, *recovered) // before a shard gets what was replayed
	onDeciding  func(*ledger)             // before a tick is decided
	onResolved  func(bool) bool           // what became of a transaction in doubt
	hungStay    bool                      // hung transactions are left alone
	boundless   bool                      // fetching is never paused
}

// breaches are the protections that can be taken out, by what is then wrong.
// Where break_test.go takes out the same, it has the same name.
func breaches() map[string]breach {
	return map[string]breach{
		"late outcomes are not adopted": {onRecovered: func(l *ledger, r *recovered) {
			eachDelivery(r, func(p *progress) { p.late = nil })
			for id, a := range l.attempts {
				if a.ended {
					delete(l.attempts, id)
				}
			}
		}},
		"running handlers are not taken over again": {onRecovered: func(l *ledger, _ *recovered) {
			for id, a := range l.attempts {
				if !a.ended {
					delete(l.attempts, id)
				}
			}
		}},
		"every loss counts as one alone": {onRecovered: func(_ *ledger, r *recovered) {
			eachDelivery(r, func(p *progress) { p.cohort = cohortAlone })
		}},
		"suspects are not set apart": {onDeciding: func(l *ledger) {
			for _, e := range l.suspects {
				e.typ.ready.push(e)
			}
			l.suspects = nil
		}},
		"checkpoints are not renewed with distance": {onDeciding: func(l *ledger) {
			for _, s := range l.shards {
				s.logEnd = 0
			}
		}},
		"the duplicate window is not recovered": {onRecovered: func(_ *ledger, r *recovered) {
			r.window = newWindow(r.window.keep, r.window.most)
		}},
		"hung transactions are not fenced":              {hungStay: true},
		"a transaction in doubt is taken for aborted":   {onResolved: func(bool) bool { return false }},
		"a transaction in doubt is taken for committed": {onResolved: func(bool) bool { return true }},
		"reading ahead has no bound":                    {boundless: true},
	}
}

func eachDelivery(r *recovered, fn func(*progress)) {
	for _, n := range r.lanes {
		for _, p := range n.known {
			fn(p)
		}
	}
}

func newBreach() (breach, error) {
	name := os.Getenv(UnprotectedVariable)
	b, ok := breaches()[name]
	if !ok && name != "" {
		return b, fmt.Errorf("%s: nothing is known as %q", UnprotectedVariable, name)
	}
	return b, nil
}

func (b breach) recovered(l *ledger, r *recovered) {
	if b.onRecovered != nil {
		b.onRecovered(l, r)
	}
}

func (b breach) deciding(l *ledger) {
	if b.onDeciding != nil {
		b.onDeciding(l)
	}
}

func (b breach) resolved(happened bool) bool {
	if b.onResolved != nil {
		return b.onResolved(happened)
	}
	return happened
}

func (b breach) unfenced() bool { return b.hungStay }

func (b breach) flowing(pause *map[string][]int32) {
	if b.boundless {
		*pause = nil
	}
}
