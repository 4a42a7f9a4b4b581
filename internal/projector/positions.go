package projector

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// sample is the end of a partition at a moment: once everything before it is in
// the store, the store is complete up to that moment.
type sample struct {
	at  time.Time
	end int64
}

// watch looks up the log's end again and again, sets the gauges, writes the
// positions to the store, and ends the session when the log was made anew.
func (r *reader) watch(ctx context.Context) {
	pending := map[int32]sample{}
	complete := map[int32]time.Time{}
	tick := time.NewTicker(r.cfg.PositionEvery)
	defer tick.Stop()
	failing := false // the first failure of a row of them is logged
	r.looked(time.Now())
	for {
		err := r.look(ctx, pending, complete)
		if err == nil {
			r.looked(time.Now())
		} else if ctx.Err() == nil {
			r.setProblem(r.worker, err)
		}
		if err != nil && !failing && ctx.Err() == nil {
			r.log.Warn("looking at the log's end failed", "error", r.deps.Sanitizer.Error(err))
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (r *reader) look(ctx context.Context, pending map[int32]sample, complete map[int32]time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	now := time.Now()
	ends, err := r.admin.ListEndOffsets(ctx, r.topic)
	if err != nil {
		return fmt.Errorf("listing end offsets: %w", err)
	}
	stable, err := r.admin.ListCommittedOffsets(ctx, r.topic)
	if err != nil {
		return fmt.Errorf("listing stable offsets: %w", err)
	}
	id, _, err := r.describe(ctx)
	if err != nil {
		return err
	}
	if id != r.logID {
		r.fail(errors.New("the log was made anew"))
		return nil
	}
	r.mu.Lock()
	owned := make([]*partition, 0, len(r.partitions))
	for _, p := range r.partitions {
		owned = append(owned, p)
	}
	r.mu.Unlock()
	var problem error
	batch, err := r.deps.Store.PrepareBatch(ctx, "INSERT INTO "+r.database+".positions (log_id, partition, log_topic, worker_group, position, end_offset, stable_offset, complete_up_to, written_at, projector)")
	if err != nil {
		problem = fmt.Errorf("writing positions: %w", err)
	}
	for _, p := range owned {
		if !p.started.Load() {
			problem = errors.Join(problem, fmt.Errorf("partition %d is not taken over yet", p.number))
			continue
		}
		end, _ := ends.Lookup(r.topic, p.number)
		lso, _ := stable.Lookup(r.topic, p.number)
		position := p.position.Load()
		s, ok := pending[p.number]
		if !ok {
			s = sample{now, end.Offset}
		}
		if position >= s.end {
			complete[p.number] = later(complete[p.number], s.at)
			s = sample{now, end.Offset}
			if position >= end.Offset {
				complete[p.number] = later(complete[p.number], now)
			}
		}
		pending[p.number] = s
		if at := p.lastAt.Load(); at > 0 {
			complete[p.number] = later(complete[p.number], time.UnixMilli(at))
		}
		r.tell(p, position, end.Offset, lso.Offset, complete[p.number])
		if upTo := complete[p.number]; !upTo.IsZero() {
			if batch != nil && problem == nil {
				problem = batch.Append(r.logID, uint16(p.number), r.topic, r.worker, uint64(max(position, 0)), uint64(end.Offset), uint64(lso.Offset), upTo, now, r.cfg.Instance)
			}
		}
	}
	if batch != nil {
		if batch.Rows() > 0 && ctx.Err() == nil {
			if err := batch.Send(); err != nil {
				problem = errors.Join(problem, fmt.Errorf("writing positions: %w", err))
			}
		} else {
			_ = batch.Abort()
		}
	}
	r.setProblem(r.worker, problem)
	return problem
}

// looked notes when Kafka and the store last answered about the log.
func (r *reader) looked(at time.Time) {
	r.healthMu.Lock()
	defer r.healthMu.Unlock()
	r.answered[r.worker] = at
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// tell sets the gauges of a partition, unless it was given up meanwhile. The
// store is complete up to upTo, when that is known.
func (r *reader) tell(p *partition, position, end, stable int64, upTo time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.partitions[p.number] != p {
		return
	}
	labels := p.labels()
	r.metrics.position.WithLabelValues(labels...).Set(float64(position))
	r.metrics.end.WithLabelValues(labels...).Set(float64(end))
	r.metrics.stable.WithLabelValues(labels...).Set(float64(stable))
	if !upTo.IsZero() {
		r.metrics.lagSeconds.WithLabelValues(labels...).Set(time.Since(upTo).Seconds())
	}
}
