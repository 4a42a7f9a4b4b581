package rebuild

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/jobtrail/jobtrail/clickhouse"
	"github.com/jobtrail/jobtrail/internal/projector"
)

// Report is what a call did.
type Report struct {
	State
	// Live is the generation that is live now.
	Live string `json:"live"`
	// Resumed says that the call went on with what an earlier one began.
	Resumed bool `json:"resumed"`
	// Seconds is how long the call took.
	Seconds float64 `json:"seconds"`
	// Partitions are what was compared of evidence.
	Partitions []PartitionSum `json:"partitions"`
	// Verdicts are what was compared of the tables made from it.
	Verdicts []TableSum `json:"verdicts"`
	// Found are the differences, at most 100.
	Found []Difference `json:"found"`
	// More says that there are others.
	More bool `json:"more"`
	// TakenOver says that a projector fills the new generation.
	TakenOver bool `json:"taken_over"`
}

// Run makes the other generation anew, or goes on with that where an earlier
// call was cut off, compares it with the live one, and turns the store to it.
// It returns a *HeldError, *KeptError or *DiffersError where it refuses.
func (r *Rebuild) Run(ctx context.Context) (rep Report, err error) {
	return r.locked(ctx, func(ctx context.Context, live string, last State, rep *Report) error {
		switch {
		case last.unfinished() && last.Kind == KindRollback:
			return fmt.Errorf("a rollback to %s is unfinished; go on with jobtrail rebuild rollback", last.Database)
		case last.Kind == KindRebuild && last.Phase == PhaseFlipping:
			rep.Resumed, r.state = true, last
			return r.flip(ctx, r.fill(ctx), rep)
		case last.Kind == KindRebuild && last.unfinished() && last.Database != live && last.Mapping == uint32(projector.MappingRevision()) && !r.cfg.Restart:
			rep.Resumed, r.state = true, last
		case last.Phase == PhaseFlipped && time.Now().Before(last.KeepUntil) && !r.cfg.DiscardKept:
			return &KeptError{Database: last.Previous, Until: last.KeepUntil}
		default:
			if last.unfinished() {
				r.state = last
				if err := r.reach(ctx, PhaseGivenUp); err != nil {
					return err
				}
			}
			r.begin(KindRebuild, live)
			if err := r.reach(ctx, PhaseEmptying); err != nil {
				return err
			}
		}
		if r.state.Phase == PhaseEmptying {
			if err := r.empty(ctx, r.state.Database); err != nil {
				return err
			}
		}
		if err := r.reach(ctx, PhaseFilling); err != nil {
			return err
		}
		p, err := r.projector()
		if err != nil {
			return err
		}
		if err := r.copyGone(ctx, p); err != nil {
			return err
		}
		f := r.fill(ctx)
		defer f.end()
		if err := f.catchUp(ctx); err != nil {
			return err
		}
		if err := r.erase(ctx); err != nil {
			return err
		}
		if err := r.reach(ctx, PhaseComparing); err != nil {
			return err
		}
		if err := r.compare(ctx, rep); err != nil {
			return err
		}
		if len(rep.Found) > 0 {
			if err := r.reach(ctx, PhaseDiffers); err != nil {
				return err
			}
			if !r.cfg.AcceptDifferences {
				return &DiffersError{Database: r.state.Database, Previous: r.state.Previous, Differences: rep.Found, More: rep.More}
			}
		} else if err := r.reach(ctx, PhaseEqual); err != nil {
			return err
		}
		if r.cfg.NoFlip {
			return nil
		}
		if err := f.catchUp(ctx); err != nil {
			return err
		}
		return r.flip(ctx, f, rep)
	})
}

// Rollback turns the store back to the generation that was live before the
// last rebuild, after it caught up with the logs. It compares nothing.
func (r *Rebuild) Rollback(ctx context.Context) (Report, error) {
	return r.locked(ctx, func(ctx context.Context, live string, last State, rep *Report) error {
		switch {
		case last.Kind == KindRollback && last.unfinished():
			rep.Resumed, r.state = true, last
		case last.Phase == PhaseFlipped && last.Previous != live:
			r.begin(KindRollback, live)
			if err := r.reach(ctx, PhaseFilling); err != nil {
				return err
			}
		case last.unfinished():
			return fmt.Errorf("there is nothing to roll back to: %s is being rebuilt", last.Database)
		default:
			return errors.New("there is nothing to roll back to: no generation is kept")
		}
		f := r.fill(ctx)
		defer f.end()
		if r.state.Phase == PhaseFilling {
			if err := f.catchUp(ctx); err != nil {
				return err
			}
			if err := r.erase(ctx); err != nil {
				return err
			}
		}
		return r.flip(ctx, f, rep)
	})
}

// Drop empties the generation that is not live, so that it takes no space.
func (r *Rebuild) Drop(ctx context.Context) (Report, error) {
	return r.locked(ctx, func(ctx context.Context, live string, last State, rep *Report) error {
		if last.Phase == PhaseFlipping {
			return fmt.Errorf("a %s is about to make %s live; finish it first", last.Kind, last.Database)
		}
		if last.Phase == PhaseFlipped && time.Now().Before(last.KeepUntil) && !r.cfg.DiscardKept {
			return &KeptError{Database: last.Previous, Until: last.KeepUntil}
		}
		if last.unfinished() {
			r.state = last
			if err := r.reach(ctx, PhaseGivenUp); err != nil {
				return err
			}
		}
		r.begin(KindDrop, live)
		if err := r.reach(ctx, PhaseEmptying); err != nil {
			return err
		}
		if err := r.empty(ctx, r.state.Database); err != nil {
			return err
		}
		return r.reach(ctx, PhaseDropped)
	})
}

// begin sets the state of a new rebuild of the generation that is not live.
func (r *Rebuild) begin(kind, live string) {
	database := r.cfg.Layout.Generation(clickhouse.GenerationA)
	if database == live {
		database = r.cfg.Layout.Generation(clickhouse.GenerationB)
	}
	now := time.Now().UTC().Truncate(time.Millisecond)
	r.state = State{ID: uuid.New(), Kind: kind, Database: database, Previous: live, Mapping: uint32(projector.MappingRevision()), StartedAt: now, KeepUntil: time.UnixMilli(0).UTC()}
}

// locked calls f while the other generation is claimed.
func (r *Rebuild) locked(ctx context.Context, f func(ctx context.Context, live string, last State, rep *Report) error) (rep Report, err error) {
	begun := time.Now()
	if err := r.deps.Migrate(ctx); err != nil {
		return rep, fmt.Errorf("bringing the store's schema up to date: %w", err)
	}
	ctx, err = r.acquire(ctx)
	if err != nil {
		return rep, err
	}
	defer r.claim.release(ctx)
	live, err := clickhouse.Live(ctx, r.deps.Store, r.cfg.Layout)
	if err != nil {
		return rep, err
	}
	last, err := latest(ctx, r.deps.Store, r.cfg.Layout)
	if err != nil {
		return rep, err
	}
	end, err := r.open(ctx, live)
	if err != nil {
		return rep, err
	}
	defer end()
	err = f(ctx, live, last, &rep)
	if why := context.Cause(ctx); err != nil && why != nil && !errors.Is(err, why) {
		err = fmt.Errorf("%w: %w", why, err)
	}
	r.mu.Lock()
	rep.State = r.state
	r.mu.Unlock()
	rep.Seconds = time.Since(begun).Seconds()
	if now, err := clickhouse.Live(context.WithoutCancel(ctx), r.deps.Store, r.cfg.Layout); err == nil {
		rep.Live = now
	}
	return rep, err
}

// flip turns views and pointer to the generation, and goes on filling it until
// a projector does. It may be called again after it was cut off anywhere.
func (r *Rebuild) flip(ctx context.Context, f *filler, rep *Report) error {
	defer f.end()
	if err := r.claim.verify(ctx); err != nil {
		return err
	}
	if err := r.reach(ctx, PhaseFlipping); err != nil {
		return err
	}
	reason := fmt.Sprintf("%s %s", r.state.Kind, r.state.ID)
	if err := clickhouse.SetLive(ctx, r.deps.Store, r.cfg.Layout, r.state.Database, reason); err != nil {
		return err
	}
	r.mu.Lock()
	r.state.KeepUntil = time.Now().Add(max(r.cfg.Keep, 0)).UTC().Truncate(time.Millisecond)
	r.mu.Unlock()
	if err := r.reach(ctx, PhaseFlipped); err != nil {
		return err
	}
	rep.TakenOver = r.handOver(ctx)
	return nil
}

// handOver waits until a projector is a member of every consumer group beside
// this process.
func (r *Rebuild) handOver(ctx context.Context) bool {
	for deadline := time.Now().Add(r.cfg.Takeover); time.Now().Before(deadline); {
		all := true
		for _, l := range r.logs {
			group := projector.ConsumerGroup(l.group, r.state.Database)
			described, err := r.admin.DescribeConsumerGroups(ctx, group)
			if err != nil {
				r.log.Warn("looking for a projector that takes over failed", "error", r.deps.Sanitizer.Error(err))
			}
			all = all && len(described[group].Members) > 1
		}
		if all {
			return true
		}
		r.tell(Progress{Text: "waiting for a projector to take over"})
		select {
		case <-ctx.Done():
			return false
		case <-time.After(500 * time.Millisecond):
		}
	}
	return false
}
