package projector

import (
	"context"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/google/uuid"
)

// start reads where the predecessor stopped and what it was sending, compares
// what it had sent with what the store holds, and lets the fetching begin. It
// goes on trying until it is through or the partition is taken away.
func (p *partition) start(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-p.stopping:
			cancel(errTaken)
		case <-ctx.Done():
		}
	}()
	var at int64
	var n note
	err := p.insist(ctx, "reading the committed position", func() (err error) {
		at, n, err = p.committedNote(ctx)
		return err
	})
	if err != nil {
		return err
	}
	if n.Log != uuid.Nil && n.Log != p.r.logID {
		p.log.Error("the log was made anew; its old positions are void", "old_log", n.Log, "new_log", p.r.logID)
		return p.rewind(ctx, 0, note{Log: p.r.logID, Rev: rev{mapping: mappingRevision}.String()})
	}
	r := rev{mapping: mappingRevision}
	if n.Rev != "" {
		if r, err = parseRev(n.Rev); err != nil {
			return fmt.Errorf("reading the committed position: %w", err)
		}
	}
	p.rev, p.committedRev, p.rewound, p.done, p.committed = rev{mappingRevision, r.rewinds}.String(), n.Rev, n.Rewound, n.Done, at
	if p.committedRev == "" {
		p.committedRev = p.rev
	}
	if at < 0 {
		err := p.insist(ctx, "looking up the log's start", func() error {
			start, err := p.logStart(ctx)
			p.position.Store(start)
			return err
		})
		if err != nil {
			return err
		}
	} else {
		p.position.Store(at)
		p.first = at
		if n.Done != nil {
			p.first = n.Done.Last + 1
		}
		// A position that was set by hand says nothing about the store.
		if n.Log == p.r.logID {
			if err := p.compare(ctx, p.first); err != nil {
				return err
			}
		}
	}
	if n.Intent != nil {
		select {
		case p.r.repeats <- struct{}{}:
			p.slot.Store(true)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		p.log.Info("a declared range is sent again", "first", n.Intent.First, "last", n.Intent.Last, "rows", n.Intent.Rows)
		p.want, p.first, p.rev = n.Intent, n.Intent.First, n.Rev
	}
	p.r.client.ResumeFetchPartitions(map[string][]int32{p.r.topic: {p.number}})
	return nil
}

func (p *partition) freeSlot() {
	if p.slot.Swap(false) {
		<-p.r.repeats
	}
}

// insist repeats f with growing pauses until it succeeds or ctx ends.
func (p *partition) insist(ctx context.Context, what string, f func() error) error {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval, pause.MaxElapsedTime = 100*time.Millisecond, 5*time.Second, 0
	pause.Reset()
	for {
		err := f()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%s: %w", what, context.Cause(ctx))
		}
		p.log.Warn("a step failed and goes again", "step", what, "error", p.r.deps.Sanitizer.Error(err))
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, context.Cause(ctx))
		case <-time.After(pause.NextBackOff()):
		}
	}
}

// committedNote returns the committed position, below 0 when there is none, and
// its note.
func (p *partition) committedNote(ctx context.Context) (int64, note, error) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	all, err := p.r.admin.FetchOffsetsForTopics(ctx, p.r.group, p.r.topic)
	if err != nil {
		return 0, note{}, err
	}
	o, ok := all.Lookup(p.r.topic, p.number)
	if !ok || o.At < 0 {
		return -1, note{}, o.Err
	}
	if o.Err != nil {
		return 0, note{}, o.Err
	}
	n, err := decodeNote(o.Metadata)
	return o.At, n, err
}
