//go:build unprotected

package worker

import (
	"fmt"
	"os"

	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/jobtrail/jobtrail/pkg/events"
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
	unwaiting   bool                      // recovery begins during a tick
	boundless   bool                      // fetching is never paused

	onRestored  func(map[string]int64) map[string]int64 // positions found in the log
	onSought    func(from, end int64) int64             // the checkpoint found in the log
	onProducing func([]*kgo.Record) []*kgo.Record       // a tick's records
	keepsTrying bool                                    // refused ticks are tried again as they are
	readsAll    bool                                    // min_reader is not looked at
	readsKnown  bool                                    // an event of an unknown type is an error
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
		"a recovery does not wait for the tick in hand": {unwaiting: true},
		"reading ahead has no bound":                    {boundless: true},

		"positions are not restored from the log": {
			onRestored: func(map[string]int64) map[string]int64 { return nil },
			// What is read again is known as finished, too: by the checkpoint, and for as
			// long as the duplicate window goes.
			onRecovered: func(_ *ledger, r *recovered) {
				for _, n := range r.lanes {
					n.passed = nil
				}
				r.window = newWindow(r.window.keep, r.window.most)
			},
		},
		"without commits replay begins at the log's end": {onSought: func(_, end int64) int64 { return end }},
		"what is refused is not searched":                {keepsTrying: true},
		"min_reader is not looked at":                    {readsAll: true},
		"an event of an unknown type is not passed over": {readsKnown: true},
		"a hop goes to the first partition":              {onProducing: eachHop(func(r *kgo.Record) { r.Partition = 0 })},
		"null becomes empty on a hop":                    {onProducing: eachHop(func(r *kgo.Record) { r.Value = append([]byte{}, r.Value...) })},

		// These two lack nothing: they write what a newer build might.
		"events of a newer type":         {onProducing: newer(1)},
		"events that need a newer build": {onProducing: newer(events.SchemaVersion + 1), readsAll: true},
	}
}

func eachDelivery(r *recovered, fn func(*progress)) {
	for _, n := range r.lanes {
		for _, p := range n.known {
			fn(p)
		}
	}
}

// eachHop changes the records on their way to retry topics and dead letters.
func eachHop(fn func(*kgo.Record)) func([]*kgo.Record) []*kgo.Record {
	return func(list []*kgo.Record) []*kgo.Record {
		for _, r := range list {
			if len(r.Headers) > 0 { // evidence has none
				fn(r)
			}
		}
		return list
	}
}

// newer adds a fact of a type that this version does not know to each tick.
func newer(minReader uint32) func([]*kgo.Record) []*kgo.Record {
	const unknownType = 60 // field of the oneof body
	return func(list []*kgo.Record) []*kgo.Record {
		for _, r := range list {
			if len(r.Headers) > 0 {
				continue
			}
			var e events.Event
			if err := new(events.Decoder).Decode(r.Value, &e); err != nil {
				panic(err)
			}
			fact := events.Event{MinReader: minReader, OccurredAt: e.OccurredAt, Group: e.Group, TenantID: e.TenantID, JobID: e.JobID, JobType: e.JobType, OperationID: e.OperationID,
				Publication: e.Publication, Run: e.Run, Source: e.Source, Worker: e.Worker, Generation: e.Generation, CodeVersion: e.CodeVersion}
			value := protowire.AppendTag(events.Append(nil, &fact), unknownType, protowire.BytesType)
			return append(list, &kgo.Record{Topic: r.Topic, Partition: r.Partition, Value: protowire.AppendBytes(value, nil)})
		}
		return list
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

func (b breach) hasty() bool { return b.unwaiting }

func (b breach) unfenced() bool { return b.hungStay }

func (b breach) flowing(pause *map[string][]int32) {
	if b.boundless {
		*pause = nil
	}
}

func (b breach) restored(at map[string]int64) map[string]int64 {
	if b.onRestored != nil {
		return b.onRestored(at)
	}
	return at
}

func (b breach) sought(from, end int64) int64 {
	if b.onSought != nil {
		return b.onSought(from, end)
	}
	return from
}

func (b breach) producing(list []*kgo.Record) []*kgo.Record {
	if b.onProducing != nil {
		return b.onProducing(list)
	}
	return list
}

func (b breach) stubborn() bool { return b.keepsTrying }
func (b breach) blind() bool    { return b.readsAll }
func (b breach) picky() bool    { return b.readsKnown }
