package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/jobtrail/jobtrail/pkg/events"
)

const (
	// fenceAfter is how long a transaction of somebody dead may hold up a
	// recovery before its id is taken over.
	fenceAfter = 300 * time.Millisecond
	// searchFrom is how far back a checkpoint is searched for first, in offsets;
	// each further search goes back four times as far.
	searchFrom = 20_000
)

// errGone says that a shard was lost while it was recovered.
var errGone = errors.New("the partition was lost")

// recover reads the shard's memory from its evidence, and hands it to the
// ledger. It tries until it succeeds or the shard is lost.
func (w *Worker) recover(s *shard) {
	defer w.recoveries.Done()
	ctx := w.life
	begun := time.Now()
	err := backoff.RetryNotify(func() error {
		w.mu.Lock()
		gone := s.phase != shardReplaying
		from := int64(-1)
		for _, n := range s.lanes {
			if n.metadata.ok && (from < 0 || n.metadata.replayFrom < from) {
				from = n.metadata.replayFrom
			}
		}
		w.mu.Unlock()
		if gone {
			return backoff.Permanent(errGone)
		}
		if err := w.afterTickInHand(ctx); err != nil {
			return err
		}
		r, err := w.replay(ctx, s.partition, from)
		if err != nil {
			return err
		}
		live, err := w.liveWorkers(ctx, r)
		if err != nil {
			return err
		}
		now := w.clock.now()
		r.window.settle(now)
		w.mu.Lock()
		w.breach.recovered(w.l, r)
		w.l.recover(s, r, live, now)
		w.mu.Unlock()
		w.flow()
		w.wake()
		w.metrics.replayed.Observe(float64(r.count))
		w.deps.Log.Info("partition recovered", "partition", s.partition, "replayed_events", r.count, "replayed_from", from, "took", time.Since(begun))
		return nil
	}, w.patience(ctx), func(err error, d time.Duration) {
		w.deps.Log.Warn("recovering a partition", "partition", s.partition, "err", w.deps.Sanitizer.Error(err), "again_in", d)
	})
	if err != nil && !errors.Is(err, errGone) && ctx.Err() == nil {
		w.fail(fmt.Errorf("recovering partition %d: %w", s.partition, err))
	}
}

// afterTickInHand waits until the tick in hand has ended, if there is one. It may
// have been decided when the lanes were ours before: a member that the brokers
// fence and take in again keeps its id, and then they accept that tick's
// positions. So its events belong to what is replayed.
func (w *Worker) afterTickInHand(ctx context.Context) error {
	w.mu.Lock()
	ended := w.inHand
	w.mu.Unlock()
	if ended == nil || w.breach.hasty() {
		return nil
	}
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// replay folds evidence partition p from the given offset up to a high
// watermark taken now, after the commits were read; below 0 it begins at the
// last checkpoint, or at the log's start when there is none.
//
// It waits for the last stable offset to reach that watermark: a transaction's
// markers reach the commits and the evidence independently, so what is stable
// now may lack what the commits already rest on.
func (w *Worker) replay(ctx context.Context, p int32, from int64) (*recovered, error) {
	end, err := w.stableEnd(ctx, p)
	if err != nil {
		return nil, err
	}
	if from < 0 {
		if from, _, err = w.lastCheckpoint(ctx, p, end); err != nil {
			return nil, err
		}
		from = w.breach.sought(from, end)
	}
	f := newFold(newWindow(w.cfg.DedupWindow, w.cfg.DedupMax), from)
	loaded := false
	var folding error
	err = w.read(ctx, p, from, end, func(rec *kgo.Record, e *events.Event) {
		if folding != nil {
			return
		}
		f.apply(e, rec.Offset, events.TimeOf(rec.Timestamp))
		if e.MinReader > events.SchemaVersion && !w.breach.blind() || e.Body == nil && w.breach.picky() {
			folding = fmt.Errorf("%w: the event at %d of partition %d needs a reader of version %d, this one is %d; the partition waits for a newer worker", errTooNew, rec.Offset, p, e.MinReader, events.SchemaVersion)
		}
		if len(f.pages) > 0 {
			if !loaded {
				folding = w.loadPages(ctx, p, f.window, f.pages)
				loaded = true
			} else {
				f.window.pages = slices.Clone(f.pages)
			}
			f.pages = nil
		}
	})
	if err = errors.Join(err, folding); err != nil {
		return nil, err
	}
	f.end = max(f.end, end)
	return &f.recovered, nil
}

// errTooNew says that the log was written by a build that this one would
// misread.
var errTooNew = errors.New("the evidence is of a newer version")

// stableEnd returns the high watermark of evidence partition p once everything
// before it is decided.
func (w *Worker) stableEnd(ctx context.Context, p int32) (int64, error) {
	topic := w.topo.Evidence()
	end, err := offsetOf(p)(w.admin.ListEndOffsets(ctx, topic))
	if err != nil {
		return 0, fmt.Errorf("reading the end of %s/%d: %w", topic, p, err)
	}
	begun, fenced, said := time.Now(), time.Time{}, time.Now()
	for {
		stable, err := offsetOf(p)(w.admin.ListCommittedOffsets(ctx, topic))
		if err != nil {
			return 0, fmt.Errorf("reading the last stable offset of %s/%d: %w", topic, p, err)
		}
		if stable >= end {
			return end, nil
		}
		if time.Since(begun) > fenceAfter && time.Since(fenced) > fenceAfter {
			if err := w.fence(ctx, p); err != nil {
				w.deps.Log.Warn("fencing", "partition", p, "err", w.deps.Sanitizer.Error(err))
			}
			fenced = time.Now()
		}
		if time.Since(said) > transactionTimeout+5*time.Second {
			w.deps.Log.Error("a transaction is open for longer than one of a worker can be: its partition stands still until somebody ends it; jobtrail doctor names it",
				"topic", topic, "partition", p, "stable_end", stable, "end", end)
			said = time.Now()
		}
		if err := pause(ctx, 5*time.Millisecond); err != nil {
			return 0, err
		}
	}
}

// errNoPartition says that a topic has fewer partitions than another one of the
// group.
var errNoPartition = errors.New("the brokers do not know the partition")

func offsetOf(p int32) func(kadm.ListedOffsets, error) (int64, error) {
	return func(os kadm.ListedOffsets, err error) (int64, error) {
		if err != nil {
			return 0, err
		}
		found := int64(-1)
		os.Each(func(o kadm.ListedOffset) {
			if o.Partition == p {
				found, err = o.Offset, o.Err
			}
		})
		if err == nil && found < 0 {
			err = fmt.Errorf("partition %d: %w", p, errNoPartition)
		}
		return found, err
	}
}

// read calls fn with the events of evidence partition p in [from, to). A
// record that is no event is passed over: the owners of the log write only
// events, and the store quarantines the rest.
func (w *Worker) read(ctx context.Context, p int32, from, to int64, fn func(*kgo.Record, *events.Event)) error {
	if from >= to {
		return nil
	}
	opts := append([]kgo.Opt{}, w.deps.Kafka...)
	opts = append(opts,
		kgo.ClientID(w.l.worker),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{w.topo.Evidence(): {p: kgo.NewOffset().At(from)}}),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(), // the last record may be a transaction's marker
		kgo.FetchMaxWait(250*time.Millisecond),
		kgo.FetchMaxPartitionBytes(4<<20))
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return fmt.Errorf("making a client to read the evidence: %w", err)
	}
	defer cl.Close()
	var d events.Decoder
	for {
		fetches := cl.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("reading %s/%d: %w", w.topo.Evidence(), p, err)
		}
		last := int64(-1)
		fetches.EachRecord(func(rec *kgo.Record) {
			last = rec.Offset
			if rec.Offset >= to || rec.Attrs.IsControl() {
				return
			}
			e := new(events.Event)
			if err := d.Decode(rec.Value, e); err != nil {
				w.metrics.undecodable.Inc()
				w.deps.Log.Error("evidence that is no event", "partition", p, "offset", rec.Offset, "err", w.deps.Sanitizer.Error(err))
				return
			}
			fn(rec, e)
		})
		if last >= to-1 {
			return nil
		}
	}
}

// loadPages reads the pages of a duplicate window, which lie in groups.
func (w *Worker) loadPages(ctx context.Context, p int32, win *window, pages []int64) error {
	slices.Sort(pages)
	for len(pages) > 0 {
		n := 1
		for n < len(pages) && pages[n] <= pages[n-1]+64 {
			n++
		}
		wanted := pages[:n]
		if err := w.read(ctx, p, wanted[0], wanted[n-1]+1, func(rec *kgo.Record, e *events.Event) {
			if page, ok := e.Body.(*events.DedupPage); ok && slices.Contains(wanted, rec.Offset) {
				win.load(page, rec.Offset)
			}
		}); err != nil {
			return fmt.Errorf("reading the duplicate window: %w", err)
		}
		pages = pages[n:]
	}
	return nil
}

// lastCheckpoint searches evidence partition p backwards from end, in growing
// ranges, for the last whole checkpoint, and returns its offset and the
// positions it names. Without one it returns the log's start.
func (w *Worker) lastCheckpoint(ctx context.Context, p int32, end int64) (int64, map[string]int64, error) {
	start, err := offsetOf(p)(w.admin.ListStartOffsets(ctx, w.topo.Evidence()))
	if err != nil {
		return 0, nil, fmt.Errorf("reading the start of %s/%d: %w", w.topo.Evidence(), p, err)
	}
	to := end
	for span := int64(searchFrom); to > start; span *= 4 {
		from := max(start, end-span)
		var parts, whole []*events.Checkpoint
		var at, wholeAt int64
		// A checkpoint may begin in this range and end in the one searched before:
		// read to the end again, ranges grow fast.
		if err := w.read(ctx, p, from, end, func(rec *kgo.Record, e *events.Event) {
			c, ok := e.Body.(*events.Checkpoint)
			if !ok {
				return
			}
			if c.Part == 0 {
				parts, at = nil, rec.Offset
			}
			if int(c.Part) != len(parts) || len(parts) > 0 && parts[0].ID != c.ID {
				parts = nil
				return
			}
			if parts = append(parts, c); len(parts) == int(c.Parts) {
				whole, wholeAt = parts, at
			}
		}); err != nil {
			return 0, nil, err
		}
		if whole != nil {
			return wholeAt, positions(whole), nil
		}
		to = from
	}
	return start, nil, nil
}

// restore returns where the lanes of partition p begin that have no commit,
// as the brokers forget commits of groups that are idle for long: where the last
// checkpoint says, else at the start of what the topics hold.
func (w *Worker) restore(ctx context.Context, p int32) (map[string]int64, error) {
	end, err := w.stableEnd(ctx, p)
	if err != nil {
		return nil, err
	}
	_, at, err := w.lastCheckpoint(ctx, p, end)
	if err != nil {
		return nil, err
	}
	if at = w.breach.restored(at); at == nil {
		at = make(map[string]int64)
	}
	starts, err := w.admin.ListStartOffsets(ctx, w.topo.Lanes()...)
	if err != nil {
		return nil, fmt.Errorf("reading the starts of the topics: %w", err)
	}
	for _, topic := range w.topo.Lanes() {
		o, ok := starts.Lookup(topic, p)
		if !ok || o.Err != nil {
			return nil, fmt.Errorf("reading the start of %s/%d: %w", topic, p, errors.Join(o.Err, errNoOffset))
		}
		at[topic] = max(at[topic], o.Offset)
	}
	return at, nil
}

var errNoOffset = errors.New("the brokers name no offset")

// liveWorkers returns the workers that are members of the group, when there are
// attempts to judge by it.
func (w *Worker) liveWorkers(ctx context.Context, r *recovered) (map[string]bool, error) {
	judge := false
	for _, n := range r.lanes {
		for _, p := range n.known {
			judge = judge || p.phase == started
		}
	}
	if !judge {
		return nil, nil
	}
	groups, err := w.admin.DescribeConsumerGroups(ctx, w.cfg.Group)
	if err != nil {
		return nil, fmt.Errorf("asking for the members of group %s: %w", w.cfg.Group, err)
	}
	live := make(map[string]bool)
	for _, g := range groups {
		if g.Err != nil {
			return nil, fmt.Errorf("asking for the members of group %s: %w", w.cfg.Group, g.Err)
		}
		for _, m := range g.Members {
			live[m.ClientID] = true
		}
	}
	return live, nil
}
