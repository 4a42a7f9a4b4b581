package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/jobtrail/jobtrail/pkg/events"
)

// ticks writes down what the ledger decides, one Kafka transaction after the
// other, until enough is closed: then it ends the one in hand and returns, so
// that no transaction stays open. It is the only goroutine that writes. A record
// that is on its way cannot be called back, so ctx outlives the shutdown's grace
// period and ends only when the worker gives up.
func (w *Worker) ticks(ctx context.Context, enough <-chan struct{}) error {
	defer func() { w.report.flush(time.Now(), true) }()
	for {
		select {
		case <-enough:
			return nil
		default:
		}
		did, err := w.tick(ctx)
		switch {
		case errors.Is(err, errFatal):
			return err
		case ctx.Err() != nil:
			return nil
		case err != nil:
			w.trouble(err)
			if pause(ctx, w.setback.NextBackOff()) != nil {
				return nil
			}
			continue
		}
		w.trouble(nil)
		w.setback.Reset()
		if did {
			continue
		}
		w.report.flush(time.Now(), false)
		select {
		case <-ctx.Done():
			return nil
		case <-enough:
			return nil
		case <-w.woken:
		case <-time.After(w.idle()):
		}
	}
}

// idle returns how long nothing will be due.
func (w *Worker) idle() time.Duration {
	w.mu.Lock()
	next := w.l.nextWake()
	if len(w.l.suspects) > 0 && (next == 0 || w.l.cohort.normalUntil < next) {
		next = w.l.cohort.normalUntil
	}
	w.mu.Unlock()
	const most = time.Second
	if next == 0 {
		return most
	}
	return min(max(next.Sub(w.clock.now())+time.Millisecond, time.Millisecond), most)
}

// errFatal is wrapped by errors after which the process must not go on.
var errFatal = errors.New("the worker must stop")

// tick runs one transaction: decide, produce, commit offsets, end. It reports
// whether there was anything to write.
func (w *Worker) tick(ctx context.Context) (did bool, err error) {
	w.mu.Lock()
	member, generation := w.consumer.GroupMetadata()
	if err := w.l.checkMember(member); err != nil {
		w.mu.Unlock()
		return false, fmt.Errorf("%w: %w", errFatal, err)
	}
	begun := time.Now()
	w.l.generation = uint32(max(generation, 0))
	_, known := w.clock.state()
	w.l.hold = w.l.hold || !known
	// Only a tick measures, and while nothing is started nothing else makes one.
	if w.l.hold && w.clock.due() {
		if time.Since(w.asked) > clockAgain {
			w.asked = time.Now()
			w.l.renew()
		}
	}
	w.breach.deciding(w.l)
	b := w.l.collect(w.clock.now())
	b.began = begun
	if b.empty() && len(b.units) == 0 {
		w.l.recycle(b)
		w.mu.Unlock()
		return false, nil
	}
	checkpoints := make([]checkpointWrite, len(b.checkpoints))
	for i, s := range b.checkpoints {
		checkpoints[i] = w.l.checkpoint(s)
	}
	w.writing, w.inHand = begun, make(chan struct{})
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		close(w.inHand)
		w.writing, w.inHand = time.Time{}, nil
		w.mu.Unlock()
	}()

	if b.empty() {
		// Records that need nothing at all: their positions go with a later tick.
		b.shards, b.positions = nil, nil
		w.conclude(b, nil, begun)
		return true, nil
	}
	w.tickNumber++
	tickID := w.bootID + "-" + strconv.FormatInt(w.tickNumber, 36)
	p := &w.producers[w.tickNumber%int64(len(w.producers))]
	records, partition := len(b.records), b.partition() // conclude gives b back
	defer func() { w.metrics.tick(time.Since(begun), records, err) }()

	inDoubt, err := w.write(ctx, p, b, checkpoints, member, generation, tickID)
	if err == nil {
		w.conclude(b, checkpoints, begun)
		if w.clock.due() {
			w.measureClock(ctx, partition, begun)
		}
		return true, nil
	}
	happened := false
	switch {
	case inDoubt:
		happened, err = w.resolve(ctx, p, b, tickID, err)
	case errors.Is(err, errGroup):
		w.metrics.aborted.Inc()
		err = w.abort(ctx, p)
		if err == nil {
			err = pause(ctx, 30*time.Millisecond)
		}
	case isAny(err, sizeErrors) && !w.breach.stubborn():
		refused := err
		err = w.abort(ctx, p)
		w.mu.Lock()
		if !w.l.refused(b) {
			err = fmt.Errorf("%w: the brokers refuse a record that cannot be made smaller: %w", errFatal, refused)
		}
		w.mu.Unlock()
	default:
		cause := err
		if err = w.abort(ctx, p); err == nil {
			err = cause
		}
	}
	if happened {
		w.conclude(b, checkpoints, begun)
		return true, nil
	}
	w.mu.Lock()
	w.l.aborted(b)
	w.mu.Unlock()
	return true, err
}

// partition returns an evidence partition that the batch wrote to.
func (b *batch) partition() int32 {
	if len(b.shards) > 0 {
		return b.shards[0].partition
	}
	return b.records[0].Partition
}

// write carries a batch out, up to and with the end of its transaction. inDoubt
// says that nobody knows whether it happened.
func (w *Worker) write(ctx context.Context, p *producer, b *batch, checkpoints []checkpointWrite, member string, generation int32, tickID string) (inDoubt bool, err error) {
	if p.cl == nil {
		if err := w.replace(ctx, p); err != nil {
			return false, err
		}
	}
	var times phases
	defer func() { times.report(w.deps.Log, tickID, len(b.records)) }()
	times.next("begin")
	if err := p.cl.BeginTransaction(); err != nil {
		p.cl.Close() // it was fenced: abort makes another
		p.cl = nil
		return false, fmt.Errorf("beginning tick %s: %w", tickID, err)
	}
	times.next("checkpoints")
	for i := range checkpoints {
		if err := w.writeCheckpoint(ctx, p, &checkpoints[i]); err != nil {
			return false, fmt.Errorf("writing a checkpoint in tick %s: %w", tickID, err)
		}
	}
	times.next("produce")
	if err := produce(ctx, p.cl, w.breach.producing(b.records)); err != nil {
		return false, fmt.Errorf("producing %d records in tick %s: %w", len(b.records), tickID, err)
	}
	from := make(map[*shard]int64)
	for _, s := range b.shards {
		from[s] = s.replayFrom // written by conclude only, in this goroutine
	}
	for _, c := range checkpoints {
		from[c.shard] = c.offset
	}
	metadata := func(s *shard) string { return commitMetadata{replayFrom: from[s], tickID: tickID}.String() }
	times.next("commit_offsets")
	if err := w.commitOffsets(ctx, p, member, generation, b.positions, metadata); err != nil {
		return false, fmt.Errorf("in tick %s: %w", tickID, err)
	}
	times.next("end")
	ending, cancel := context.WithTimeout(ctx, transactionTimeout)
	defer cancel()
	if err := p.cl.EndTransaction(ending, kgo.TryCommit); err != nil {
		return true, fmt.Errorf("ending tick %s: %w", tickID, err)
	}
	return false, nil
}

// abort ends the transaction of p without effect, if need be by replacing p.
func (w *Worker) abort(ctx context.Context, p *producer) error {
	if p.cl != nil {
		ending, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		if err := p.cl.EndTransaction(ending, kgo.TryAbort); err == nil {
			return nil
		}
	}
	return w.replace(ctx, p)
}

// resolve finds out whether a transaction happened whose end is in doubt: once
// the id is taken over it is decided, and then the commits of its lanes name
// its tick, or it did not happen. Where every lane is lost nobody can tell; late
// facts are sent again then, readers know them by their attempt.
func (w *Worker) resolve(ctx context.Context, p *producer, b *batch, tickID string, cause error) (happened bool, err error) {
	w.deps.Log.Warn("the end of a transaction is in doubt", "tick", tickID, "err", w.deps.Sanitizer.Error(cause))
	if err := w.replace(ctx, p); err != nil {
		return false, err
	}
	w.mu.Lock()
	var owned []laneKey
	for _, c := range b.positions {
		if !c.lane.lost {
			owned = append(owned, c.lane.laneKey)
		}
	}
	w.mu.Unlock()
	if len(owned) == 0 {
		w.metrics.doubts.WithLabelValues("unknown").Inc()
		return false, nil
	}
	commits, err := w.committedOffsets(ctx, owned[:1])
	if err != nil {
		// Neither answer is safe: stop, and let the next owner read the log.
		return false, fmt.Errorf("%w: resolving tick %s: %w", errFatal, tickID, err)
	}
	happened = w.breach.resolved(commits[owned[0]].metadata.tickID == tickID)
	w.metrics.doubts.WithLabelValues(map[bool]string{true: "committed", false: "aborted"}[happened]).Inc()
	return happened, nil
}

// conclude makes a committed batch the ledger's memory and calls the handlers.
func (w *Worker) conclude(b *batch, checkpoints []checkpointWrite, begun time.Time) {
	w.mu.Lock()
	for _, c := range checkpoints {
		c.shard.replayFrom, c.shard.checkpoint = c.offset, false
		c.shard.logEnd = max(c.shard.logEnd, c.end)
		c.shard.window.listedNow(c.pages, c.pageOffsets, c.rewrite)
	}
	start := w.l.committed(b, time.Since(begun) < w.session*2/3)
	w.metrics.concluded(b, w.l)
	w.report.note(b.said)
	w.l.recycle(b)
	close(w.progress)
	w.progress = make(chan struct{})
	w.mu.Unlock()
	w.report.flush(time.Now(), false)
	w.launch(start)
	w.flow()
}

// checkpointWrite is a checkpoint on its way to the log.
type checkpointWrite struct {
	shard       *shard
	id          uuid.UUID
	known       []int64 // offsets of pages that stay valid
	pages       []*events.DedupPage
	rewrite     bool
	parts       []*events.Checkpoint
	about       events.Event
	offset      int64 // of the first part
	end         int64
	pageOffsets []int64
}

// checkpoint takes what a checkpoint of the shard says.
func (l *ledger) checkpoint(s *shard) checkpointWrite {
	c := checkpointWrite{shard: s, id: uuid.New()}
	c.pages, c.rewrite = s.window.changed()
	if !c.rewrite {
		c.known = s.window.pages
	}
	c.parts = l.snapshot(s, c.id)
	c.about = events.Event{MinReader: 1, OccurredAt: 0, Group: l.cfg.Group, Worker: l.worker, Generation: l.generation, CodeVersion: l.cfg.CodeVersion}
	return c
}

// writeCheckpoint writes the pages of the duplicate window, then the parts that
// name them.
func (w *Worker) writeCheckpoint(ctx context.Context, p *producer, c *checkpointWrite) error {
	record := func(body events.Body) *kgo.Record {
		e := c.about
		e.OccurredAt, e.Body = w.clock.now(), body
		return &kgo.Record{Topic: w.topo.Evidence(), Partition: c.shard.partition, Value: events.Append(nil, &e)}
	}
	var records []*kgo.Record
	for _, page := range c.pages {
		records = append(records, record(page))
	}
	if err := produce(ctx, p.cl, records); err != nil {
		return err
	}
	c.pageOffsets = nil
	for _, r := range records {
		c.pageOffsets = append(c.pageOffsets, r.Offset)
	}
	c.parts[0].DedupPages = append(append([]int64(nil), c.known...), c.pageOffsets...)
	records = records[:0]
	for _, part := range c.parts {
		records = append(records, record(part))
	}
	if err := produce(ctx, p.cl, records); err != nil {
		return err
	}
	c.offset, c.end = records[0].Offset, records[len(records)-1].Offset+1
	return nil
}

// phases measures the parts of a tick, to say where a slow one spent its time.
type phases struct {
	names  []any
	begun  time.Time
	latest time.Time
}

func (ph *phases) next(name string) {
	now := time.Now()
	if ph.begun.IsZero() {
		ph.begun = now
	} else {
		ph.names = append(ph.names, now.Sub(ph.latest).Round(time.Millisecond))
	}
	ph.latest = now
	ph.names = append(ph.names, name)
}

func (ph *phases) report(log *slog.Logger, tickID string, records int) {
	if took := time.Since(ph.begun); took > slowTick {
		log.Warn("a transaction took long", append([]any{"tick", tickID, "records", records, "took", took}, append(ph.names, time.Since(ph.latest).Round(time.Millisecond))...)...)
	}
}
