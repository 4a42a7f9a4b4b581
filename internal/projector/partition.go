package projector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ClickHouse/ch-go/proto"
	"github.com/cenkalti/backoff/v4"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var (
	// errTaken ends a partition that belongs to another member now.
	errTaken = errors.New("the partition was taken away")
	// errRewound ends a session whose partition is to be read again from an
	// earlier position.
	errRewound = errors.New("the partition was rewound")
)

// partition is one assigned partition of one log, from its assignment to the
// end of it.
type partition struct {
	r      *reader
	number int32
	log    *slog.Logger

	// Set by the poll loop, taken by the encoding goroutine.
	mu     sync.Mutex
	queue  []*kgo.Record
	queued int // bytes
	wake   chan struct{}

	stopping chan struct{} // closed: finish what is being sent, begin nothing
	cancel   context.CancelCauseFunc
	finished chan struct{} // closed when both goroutines have ended
	taken    atomic.Bool   // guarded by reader.mu for writing

	// Owned by the encoding goroutine.
	encoder encoder
	records []*kgo.Record
	current *batch
	handed  int64 // batches handed to the sender
	marker  int64 // position after the last transaction marker outside of a batch
	first   int64 // where the next batch begins; below 0: at its first record
	want    *span // a declared range that must be sent again as it was
	rev     string

	// Owned by the sending goroutine.
	done         *span
	rewound      int64
	committed    int64
	committedRev string

	position atomic.Int64 // every record before it is in the store
	lastAt   atomic.Int64 // log time of the last record in the store
	sent     atomic.Int64 // batches that the sender is done with
	started  atomic.Bool
	slot     atomic.Bool // holds the slot for sending a declared range again
}

func newPartition(r *reader, number int32) *partition {
	p := &partition{
		r: r, number: number, log: r.log.With("partition", number), wake: make(chan struct{}, 1), stopping: make(chan struct{}), finished: make(chan struct{}),
		encoder: encoder{log: r.logID, partition: uint16(number), clean: r.deps.Sanitizer}, first: -1,
	}
	r.metrics.begin(p.labels())
	return p
}

// run projects the partition until ctx or stopping ends it. An error is a
// reason to end the whole session and begin another one.
func (p *partition) run(ctx context.Context) error {
	defer close(p.finished)
	defer p.freeSlot()
	defer p.release()
	if err := p.start(ctx); err != nil {
		return err
	}
	p.started.Store(true)
	batches := make(chan *batch)
	sendErr := make(chan error, 1)
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		err := p.send(ctx, batches)
		if err != nil {
			cancel(err)
		}
		sendErr <- err
	}()
	p.encode(ctx, batches)
	close(batches)
	err := <-sendErr
	cancel(nil)
	return err
}

// release gives back what the partition held of the budget.
func (p *partition) release() {
	p.mu.Lock()
	held := p.queued
	p.queue, p.queued = nil, 0
	p.mu.Unlock()
	for _, rec := range p.records {
		held += recordSize(rec)
	}
	p.records = nil
	if p.current != nil {
		held += p.current.size()
		p.r.put(p.current.cols)
		p.current = nil
	}
	p.r.budget.add(-held)
}

func (b *batch) size() int {
	n := b.cols.bytes
	for i := range b.poison {
		n += b.poison[i].size()
	}
	return n
}

// recordSize is about what a fetched record takes in memory.
func recordSize(rec *kgo.Record) int { return len(rec.Value) + 200 }

// offer queues fetched records. It never blocks.
func (p *partition) offer(records []*kgo.Record) {
	size := 0
	for _, rec := range records {
		size += recordSize(rec)
	}
	p.r.budget.add(size)
	p.mu.Lock()
	p.queue = append(p.queue, records...)
	p.queued += size
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

func (p *partition) take() []*kgo.Record {
	p.mu.Lock()
	defer p.mu.Unlock()
	records := p.queue
	p.queue, p.queued = nil, 0
	return records
}

// encode fills batches and hands them to the sender one at a time.
func (p *partition) encode(ctx context.Context, batches chan<- *batch) {
	tick := time.NewTicker(max(p.r.cfg.BatchWait/10, time.Millisecond))
	defer tick.Stop()
	for {
		p.encodeSome()
		if p.current == nil && p.handed == p.sent.Load() && p.marker > p.position.Load() {
			p.position.Store(p.marker)
		}
		if len(p.records) == 0 && !p.full() {
			if p.records = p.take(); len(p.records) > 0 {
				continue
			}
		}
		var out chan<- *batch
		if p.current != nil && p.due() {
			out = batches
		}
		select {
		case <-ctx.Done():
			return
		case <-p.stopping:
			return
		case out <- p.current:
			p.handed++
			p.first, p.current = p.current.Last+1, nil
		case <-p.wake:
		case <-tick.C:
		}
	}
}

// encodeSome moves records into the current batch until it is full.
func (p *partition) encodeSome() {
	grown := 0
	for len(p.records) > 0 && !p.full() {
		rec := p.records[0]
		if p.want != nil && rec.Offset > p.want.Last && !rec.Attrs.IsControl() {
			p.checkRepeat()
			continue
		}
		p.records[0] = nil
		p.records = p.records[1:]
		grown += p.encodeOne(rec) - recordSize(rec)
		if p.want != nil && p.current != nil && p.current.Last == p.want.Last {
			p.checkRepeat()
		}
	}
	if grown != 0 {
		p.r.budget.add(grown)
	}
}

// encodeOne moves a record into the current batch and returns by how much that
// grew.
func (p *partition) encodeOne(rec *kgo.Record) int {
	if rec.Attrs.IsControl() {
		if p.current != nil {
			p.current.next = rec.Offset + 1
		} else {
			p.marker = rec.Offset + 1
		}
		return 0
	}
	if p.current == nil {
		if p.first < 0 {
			p.first = rec.Offset
		}
		p.current = &batch{span: span{First: p.first}, cols: p.r.get(), opened: time.Now(), rev: p.rev}
	}
	return p.encoder.add(p.current, rec)
}

// checkRepeat compares a declared range that was read again with its
// declaration.
func (p *partition) checkRepeat() {
	found := span{}
	if p.current != nil {
		found = p.current.span
	}
	if found != *p.want {
		// The log does not hold any more what was declared. What it holds goes
		// under a token of its own.
		p.log.Error("the log lost records of a declared range", "declared", fmt.Sprintf("%+v", *p.want), "found", fmt.Sprintf("%+v", found))
		p.r.metrics.lost.WithLabelValues(p.labels()...).Set(1)
		p.bumpRev()
		if p.current != nil {
			p.current.rev = p.rev
		}
	}
	p.want = nil
	// The declaration may be of an older mapping; what follows is of this one.
	if r, err := parseRev(p.rev); err == nil {
		p.rev = rev{mappingRevision, r.rewinds}.String()
	}
	if p.current != nil {
		p.current.opened = time.Time{} // due at once
	}
}

func (p *partition) bumpRev() {
	r, err := parseRev(p.rev)
	if err != nil {
		r = rev{}
	}
	p.rev = rev{mappingRevision, r.rewinds + 1}.String()
}

// full reports whether the current batch takes no further record.
func (p *partition) full() bool {
	b := p.current
	switch {
	case b == nil:
		return false
	case p.want != nil:
		return false
	case b.opened.IsZero():
		return true // a repeated range ends where it was declared to end
	}
	return b.Rows+b.Poison >= p.r.cfg.BatchRows || b.cols.bytes >= p.r.cfg.BatchBytes
}

// due reports whether the current batch may go.
func (p *partition) due() bool {
	return p.want == nil && (p.full() || time.Since(p.current.opened) >= p.r.cfg.BatchWait || p.r.budget.spent())
}

// send declares, inserts and commits one batch after the other.
func (p *partition) send(ctx context.Context, batches <-chan *batch) error {
	var b *batch
	idle := time.NewTicker(p.r.cfg.PositionEvery)
	defer idle.Stop()
	for {
		for b == nil {
			select {
			case <-idle.C:
				// Transaction markers at the log's end move the position on.
				if p.position.Load() == p.committed || p.done == nil {
					continue
				}
				if err := p.commit(ctx, p.position.Load(), nil); err != nil {
					return err
				}
			case next, ok := <-batches:
				if !ok {
					return nil
				}
				b = next
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		err := p.sendOne(ctx, b)
		p.sent.Add(1)
		p.freeSlot()
		if err != nil {
			return err
		}
		// The next declaration commits this batch as well.
		select {
		case next, ok := <-batches:
			if !ok {
				return p.commit(ctx, p.position.Load(), nil)
			}
			b = next
		default:
			b = nil
			if err := p.commit(ctx, p.position.Load(), nil); err != nil {
				return err
			}
		}
	}
}

func (p *partition) sendOne(ctx context.Context, b *batch) error {
	size := b.size()
	defer func() {
		p.r.put(b.cols)
		p.r.budget.add(-size)
	}()
	position := p.position.Load()
	if p.done == nil && b.First > position {
		position = b.First
	}
	if err := p.commitRev(ctx, position, &b.span, b.rev); err != nil {
		return fmt.Errorf("declaring a range: %w", err)
	}
	if err := p.r.cfg.Fault("declared"); err != nil {
		return err
	}
	failed, err := p.insert(ctx, b)
	if err != nil {
		return err
	}
	span := b.span
	p.done = &span
	p.position.Store(b.next)
	p.lastAt.Store(b.maxLog)
	labels := p.labels()
	p.r.metrics.rows.WithLabelValues(labels...).Add(float64(b.Rows))
	p.r.metrics.poison.WithLabelValues(labels...).Add(float64(b.Poison))
	p.r.metrics.batches.WithLabelValues(labels...).Inc()
	p.r.metrics.batchRows.Observe(float64(b.Rows + b.Poison))
	if failed > 0 {
		// The server was away or lost our connection: it may have lost more.
		return p.compare(ctx, b.Last+1)
	}
	return nil
}

// insert sends the parts of a batch. Each goes until it is acknowledged.
func (p *partition) insert(ctx context.Context, b *batch) (failed int, err error) {
	tok := token(p.r.logID, p.number, b.span, b.rev)
	id := fmt.Sprintf("projector-%s-%d-%d", p.r.logID, p.number, b.First)
	stopped := p.stopped
	db := p.r.database
	if len(b.poison) > 0 {
		p.log.Error("records of the log are no events and go into quarantine", "records", len(b.poison), "first_offset", b.poison[0].offset, "reason", b.poison[0].reason)
		n, err := p.r.inserter.insert(ctx, block{table: db + ".quarantine", columns: quarantineColumns, token: tok + "|quarantine", id: id + "-q", input: p.quarantineBlock(b), stopped: stopped})
		failed += n
		if err != nil {
			return failed, err
		}
	}
	if b.Rows > 0 {
		n, err := p.r.inserter.insert(ctx, block{table: db + ".evidence", columns: columnNames, token: tok, id: id, input: b.cols.input, stopped: stopped})
		failed += n
		if err != nil {
			return failed, err
		}
	}
	if err := p.r.cfg.Fault("inserted"); err != nil {
		return failed, err
	}
	n, err := p.r.inserter.insert(ctx, block{table: db + ".batches", columns: batchColumns, token: tok + "|batch", id: id + "-b", input: p.batchBlock(b), stopped: stopped})
	return failed + n, err
}

const quarantineColumns = "log_id, log_topic, partition, offset, log_at, reason, record_key, record_value"

func (p *partition) quarantineBlock(b *batch) proto.Input {
	var (
		logID                proto.ColUUID
		topic                dictColumn
		number               proto.ColUInt16
		offset               proto.ColUInt64
		at                   timeColumn
		reason, keys, values stringColumn
	)
	for i := range b.poison {
		bad := &b.poison[i]
		logID = append(logID, p.r.logID)
		topic.add(p.r.topic)
		number = append(number, uint16(p.number))
		offset = append(offset, uint64(bad.offset))
		at.add(bad.at)
		reason.add(bad.reason.String())
		keys.addBytes(bad.key)
		values.addBytes(bad.value)
	}
	return proto.Input{{Name: "log_id", Data: &logID}, {Name: "log_topic", Data: &topic}, {Name: "partition", Data: &number}, {Name: "offset", Data: &offset}, {Name: "log_at", Data: &at},
		{Name: "reason", Data: &reason}, {Name: "record_key", Data: &keys}, {Name: "record_value", Data: &values}}
}

const batchColumns = "log_id, log_topic, partition, first_offset, last_offset, row_count, poison_count, rev, min_origin_at, max_origin_at, min_log_at, max_log_at, inserted_at, projector"

func (p *partition) batchBlock(b *batch) proto.Input {
	var (
		topic, revision, projector                     dictColumn
		minOrigin, maxOrigin, minLog, maxLog, inserted timeColumn
	)
	topic.add(p.r.topic)
	revision.add(b.rev)
	projector.add(p.r.cfg.Instance)
	minOrigin.add(b.minOrigin)
	maxOrigin.add(b.maxOrigin)
	minLog.add(b.minLog)
	maxLog.add(b.maxLog)
	inserted.add(time.Now().UnixMilli())
	return proto.Input{{Name: "log_id", Data: proto.ColUUID{p.r.logID}}, {Name: "log_topic", Data: &topic}, {Name: "partition", Data: proto.ColUInt16{uint16(p.number)}},
		{Name: "first_offset", Data: proto.ColUInt64{uint64(b.First)}}, {Name: "last_offset", Data: proto.ColUInt64{uint64(b.Last)}}, {Name: "row_count", Data: proto.ColUInt32{uint32(b.Rows)}},
		{Name: "poison_count", Data: proto.ColUInt32{uint32(b.Poison)}}, {Name: "rev", Data: &revision}, {Name: "min_origin_at", Data: &minOrigin}, {Name: "max_origin_at", Data: &maxOrigin},
		{Name: "min_log_at", Data: &minLog}, {Name: "max_log_at", Data: &maxLog}, {Name: "inserted_at", Data: &inserted}, {Name: "projector", Data: &projector}}
}

// commit stores the position with the note of what was done before it.
func (p *partition) commit(ctx context.Context, position int64, intent *span) error {
	return p.commitRev(ctx, position, intent, "")
}

func (p *partition) commitRev(ctx context.Context, position int64, intent *span, revision string) error {
	if revision == "" {
		revision = p.committedRev
	}
	p.committedRev = revision
	n := note{Log: p.r.logID, Rev: revision, Intent: intent, Done: p.done, Rewound: p.rewound}
	if err := p.store(ctx, position, n); err != nil {
		return err
	}
	p.committed = position
	return nil
}

// store commits position and note under the member id and epoch that this
// process holds while the partition is its own. A broker takes a commit from
// any present member for any partition, so ownership is checked here and the
// epoch is read under the same lock as the callbacks that end it.
func (p *partition) store(ctx context.Context, position int64, n note) error {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval, pause.MaxElapsedTime = 20*time.Millisecond, time.Second, 0
	pause.Reset()
	for {
		p.r.mu.Lock()
		taken := p.taken.Load()
		member, epoch := p.r.client.GroupMetadata()
		p.r.mu.Unlock()
		if taken {
			return errTaken
		}
		err := p.storeAs(ctx, position, n, member, epoch)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("committing position %d: %w", position, context.Cause(ctx))
		case errors.Is(err, kerr.UnknownMemberID) || errors.Is(err, kerr.FencedMemberEpoch) || errors.Is(err, kerr.IllegalGeneration):
			return fmt.Errorf("committing position %d: %w: %w", position, errTaken, err)
		}
		// STALE_MEMBER_EPOCH: the epoch moved on while the partition stayed. The
		// rest is the coordinator's business or the network's.
		p.log.Debug("a commit failed and goes again", "position", position, "error", p.r.deps.Sanitizer.Error(err))
		select {
		case <-ctx.Done():
			return fmt.Errorf("committing position %d: %w", position, context.Cause(ctx))
		case <-time.After(pause.NextBackOff()):
		}
	}
}

func (p *partition) storeAs(ctx context.Context, position int64, n note, member string, epoch int32) error {
	metadata := n.encode()
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.MemberID, req.Generation = p.r.group, member, epoch
	topic := kmsg.NewOffsetCommitRequestTopic()
	topic.Topic, topic.TopicID = p.r.topic, p.r.logID
	part := kmsg.NewOffsetCommitRequestTopicPartition()
	part.Partition, part.Offset, part.Metadata = p.number, position, &metadata
	topic.Partitions = append(topic.Partitions, part)
	req.Topics = append(req.Topics, topic)
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	resp, err := req.RequestWith(ctx, p.r.client)
	if err != nil {
		return err
	}
	for _, t := range resp.Topics {
		for _, part := range t.Partitions {
			if err := kerr.ErrorForCode(part.ErrorCode); err != nil {
				return err
			}
		}
	}
	return nil
}

// stopped takes down that the schema refuses the partition's batch, or with nil
// that it does not.
func (p *partition) stopped(err error) {
	value := 0.0
	if err != nil {
		value = 1
		err = fmt.Errorf("partition %d stopped: %w", p.number, err)
	}
	p.r.metrics.stopped.WithLabelValues(p.labels()...).Set(value)
	p.r.setProblem(p.r.worker+"/"+strconv.Itoa(int(p.number)), err)
}

// labels are the partition's labels in the metrics.
func (p *partition) labels() []string { return []string{p.r.worker, strconv.Itoa(int(p.number))} }
