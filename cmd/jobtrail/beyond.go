package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/jobtrail/jobtrail/internal/connect"
	"github.com/jobtrail/jobtrail/internal/evidence"
	"github.com/jobtrail/jobtrail/internal/operate"
)

// beyond is what the brokers hold beyond the store. The order is what makes it
// right at any moment: first the commits and the ends of the logs, then the
// store's positions, then the store, then what of the logs it lacks. So each
// publication is met at least once, wherever it is on its way.
type beyond struct {
	cl        *kgo.Client
	view      *operate.View
	positions []evidence.Position
	tail      *operate.Tail
}

// lookWithin bounds each look into the topics.
const lookWithin = 15 * time.Second

// lookBeyond looks into the topics before the store is read. It returns nil
// where no broker is named. The caller closes it.
func (g *Globals) lookBeyond(ctx context.Context, store *evidence.Store, q operate.BeyondQuery) (*beyond, error) {
	var conf connect.Kafka
	if g.parse(&conf) != nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, lookWithin, fmt.Errorf("no answer within %s", lookWithin))
	defer cancel()
	cl, err := g.reachKafka(ctx)
	if err != nil {
		return nil, err
	}
	b := &beyond{cl: cl}
	if b.view, err = operate.LookBeyond(ctx, cl, q); errors.Is(err, operate.ErrNoGroup) {
		cl.Close()
		return nil, nil
	}
	if err == nil {
		b.positions, err = store.Positions(ctx)
	}
	if evidence.NotMade(err) {
		err = nil // so far no projector has ever run
	}
	if err != nil {
		cl.Close()
		return nil, cause(ctx, explain(err))
	}
	return b, nil
}

func (b *beyond) close() {
	if b != nil {
		b.cl.Close()
	}
}

// readTail reads what the store may lack, after the store was read.
func (b *beyond) readTail(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, lookWithin, fmt.Errorf("no answer within %s", lookWithin))
	defer cancel()
	stored := map[operate.LogPlace]int64{}
	for _, p := range b.positions {
		stored[operate.LogPlace{LogID: p.LogID, Partition: p.Partition}] = p.Offset
	}
	var err error
	b.tail, err = b.view.ReadTail(ctx, b.cl, stored)
	return cause(ctx, err)
}

// sighted is a publication as a group sees it.
type sighted struct{ group, publication string }

// sightings are what was seen in the job topics and on the logs.
func (b *beyond) sightings() iter.Seq[operate.Sighting] {
	return func(yield func(operate.Sighting) bool) {
		for _, s := range b.view.Waiting {
			if !yield(s) {
				return
			}
		}
		for _, e := range b.tail.Events {
			if !yield(e.Sighting) {
				return
			}
		}
	}
}

// tenants returns whose the publications are that were seen.
func (b *beyond) tenants() []string {
	var found []string
	for s := range b.sightings() {
		if !slices.Contains(found, s.TenantID) {
			found = append(found, s.TenantID)
		}
	}
	return found
}

// groups returns the groups that saw something, or may have.
func (b *beyond) groups() []string {
	// Where not everything could be read, a group may have seen something.
	found := slices.Clone(b.tail.Unread)
	if !b.view.Whole {
		found = slices.Clone(b.view.Groups)
	}
	for s := range b.sightings() {
		if !slices.Contains(found, s.Group) {
			found = append(found, s.Group)
		}
	}
	slices.Sort(found)
	return found
}

// beside says what there is beside an answer of the store, which has evidence of
// the known publications and rests on the events that holds reports. Only what
// the named groups see counts; nil names all.
func (b *beyond) beside(groups []string, known map[sighted]bool, holds func(operate.TailEvent) bool) evidence.Beyond {
	in := func(group string) bool { return groups == nil || slices.Contains(groups, group) }
	out := evidence.Beyond{At: b.view.At, Partial: !b.view.Whole || slices.ContainsFunc(b.tail.Unread, in)}
	begun, newer := map[sighted]bool{}, map[string]bool{}
	anywhere := map[string]bool{} // publications that some group has evidence of
	concerned := map[string]bool{}
	for s := range known {
		begun[s], anywhere[s.publication], concerned[s.group] = true, true, true
	}
	for _, e := range b.tail.Events {
		s := sighted{e.Group, e.Publication}
		anywhere[s.publication], begun[s] = true, true
		switch {
		case !in(e.Group):
		case !known[s]:
			newer[s.publication], concerned[e.Group] = true, true
		case !holds(e):
			out.Updated = true
		}
	}
	waiting := map[string]bool{}
	for _, w := range b.view.Waiting {
		switch {
		case !in(w.Group) || begun[sighted{w.Group, w.Publication}]:
		case !anywhere[w.Publication]:
			waiting[w.Publication], concerned[w.Group] = true, true
		case !slices.ContainsFunc(out.Unbegun, func(u evidence.Unbegun) bool { return u.Group == w.Group }):
			out.Unbegun = append(out.Unbegun, evidence.Unbegun{Group: w.Group, Manned: b.view.Manned[w.Group]})
		}
	}
	out.Newer, out.Waiting = len(newer), len(waiting)
	if len(concerned) == 0 {
		for _, g := range b.view.Groups {
			concerned[g] = in(g)
		}
	}
	out.CompleteUpTo = b.completeUpTo(concerned)
	return out
}

// completeUpTo returns the time up to which the store has everything of the
// groups; nil when that is not known of one of them.
func (b *beyond) completeUpTo(groups map[string]bool) *time.Time {
	upTo := b.view.At
	for g, concerned := range groups {
		if !concerned || b.tail.Stored[g] {
			continue
		}
		of := evidence.CompleteUpTo(b.positions, []string{g})
		if of == nil {
			return nil
		}
		if of.Before(upTo) {
			upTo = *of
		}
	}
	return &upTo
}
