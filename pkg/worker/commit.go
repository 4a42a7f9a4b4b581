package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// errGroup is wrapped by errors that say that the group has moved on: the tick
// is aborted and decided again.
var errGroup = errors.New("the group has moved on")

// groupErrors are the answers to a commit that say so.
var groupErrors = []error{kerr.IllegalGeneration, kerr.UnknownMemberID, kerr.StaleMemberEpoch, kerr.FencedMemberEpoch, kerr.RebalanceInProgress, kerr.GroupIDNotFound}

// sizeErrors are the answers to a produce that blame the record itself.
var sizeErrors = []error{kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.InvalidRecord}

// deniedErrors are the answers that no repetition changes before somebody acts.
var deniedErrors = []error{kerr.TopicAuthorizationFailed, kerr.GroupAuthorizationFailed, kerr.TransactionalIDAuthorizationFailed, kerr.ClusterAuthorizationFailed,
	kerr.UnknownTopicOrPartition, kerr.UnknownTopicID, kerr.InvalidTopicException}

func isAny(err error, list []error) bool {
	for _, e := range list {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// producer is one of the worker's transactional clients. A client that was
// fenced, or whose last transaction is in doubt, is replaced by a new one with
// the same transactional id.
type producer struct {
	id string
	cl *kgo.Client
}

// open makes the client. With its first use it completes or aborts what a client
// of this id has left open.
func (w *Worker) open(p *producer) error {
	opts := append(w.reachOpts(),
		kgo.ClientID(w.l.worker),
		kgo.TransactionalID(p.id),
		kgo.TransactionTimeout(transactionTimeout),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(0),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerBatchMaxBytes(int32(min(max(w.maxBatch, 1<<20), 1<<30))),
		kgo.BrokerMaxWriteBytes(int32(min(max(2*w.maxBatch, 100<<20), 1<<30))),
		kgo.MaxBufferedRecords(1<<20),
		// Not LZ4: its frames make a reader take megabytes a batch, and ticks write
		// many small batches.
		kgo.ProducerBatchCompression(kgo.SnappyCompression(), kgo.NoCompression()),
		kgo.UnknownTopicRetries(-1),
	)
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return fmt.Errorf("making the client of transactional id %s: %w", p.id, err)
	}
	p.cl = cl
	return nil
}

// replace gives p a new client, and waits until whatever the old one left is
// completed or aborted.
func (w *Worker) replace(ctx context.Context, p *producer) error {
	w.metrics.replaced.Inc()
	return backoff.RetryNotify(func() error {
		if p.cl != nil {
			p.cl.Close()
			p.cl = nil
		}
		if err := w.open(p); err != nil {
			return err
		}
		attempt, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		if _, _, err := p.cl.ProducerID(attempt); err != nil {
			return fmt.Errorf("taking over transactional id %s: %w", p.id, denied(err, "Write", "transactional id "+p.id))
		}
		return nil
	}, w.patience(ctx), func(err error, d time.Duration) {
		w.deps.Log.Warn("replacing a producer", "err", w.deps.Sanitizer.Error(err), "again_in", d)
	})
}

// patience is the back-off of everything that must succeed in the end.
func (w *Worker) patience(ctx context.Context) backoff.BackOff {
	return backoff.WithContext(backoff.NewExponentialBackOff(backoff.WithInitialInterval(50*time.Millisecond), backoff.WithMaxInterval(2*time.Second),
		backoff.WithMaxElapsedTime(0)), ctx)
}

// produce sends records within the transaction and waits for all of them.
func produce(ctx context.Context, cl *kgo.Client, records []*kgo.Record) error {
	if len(records) == 0 {
		return nil
	}
	var left atomic.Int64
	left.Store(int64(len(records)))
	all := make(chan struct{})
	var mu sync.Mutex
	var first, size error
	promise := func(r *kgo.Record, err error) {
		if err != nil {
			err = denied(err, "Write", "topic "+r.Topic)
			mu.Lock()
			if first == nil {
				first = err
			}
			if isAny(err, sizeErrors) {
				size = err
			}
			mu.Unlock()
		}
		if left.Add(-1) == 0 {
			close(all)
		}
	}
	for _, r := range records {
		cl.Produce(ctx, r, promise)
	}
	<-all
	if size != nil {
		return size
	}
	return first
}

// commitOffsets adds the positions of the lanes to the transaction, in the name
// of the member and generation that the decisions were made under.
func (w *Worker) commitOffsets(ctx context.Context, p *producer, member string, generation int32, positions []position, metadata func(*shard) string) error {
	if len(positions) == 0 {
		return nil
	}
	id, epoch, err := p.cl.ProducerID(ctx)
	if err != nil {
		return fmt.Errorf("reading the producer id: %w", err)
	}
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.TransactionalID, req.Group, req.ProducerID, req.ProducerEpoch = p.id, w.cfg.Group, id, epoch
	req.Generation, req.MemberID = generation, member
	topics := make(map[string]int)
	for _, c := range positions {
		i, ok := topics[c.lane.topic]
		if !ok {
			i = len(req.Topics)
			topics[c.lane.topic] = i
			t := kmsg.NewTxnOffsetCommitRequestTopic()
			t.Topic, t.TopicID = c.lane.topic, w.l.topicIDs[c.lane.topic]
			req.Topics = append(req.Topics, t)
		}
		q := kmsg.NewTxnOffsetCommitRequestTopicPartition()
		text := metadata(c.lane.shard)
		q.Partition, q.Offset, q.Metadata = c.lane.partition, c.offset, &text
		req.Topics[i].Partitions = append(req.Topics[i].Partitions, q)
	}
	tries := backoff.WithContext(backoff.NewExponentialBackOff(backoff.WithInitialInterval(10*time.Millisecond), backoff.WithMaxInterval(200*time.Millisecond),
		backoff.WithMaxElapsedTime(5*time.Second)), ctx)
	return backoff.Retry(func() error {
		resp, err := req.RequestWith(ctx, w.consumer)
		if err != nil {
			return backoff.Permanent(fmt.Errorf("committing offsets: %w", err))
		}
		for _, t := range resp.Topics {
			for _, q := range t.Partitions {
				err := kerr.ErrorForCode(q.ErrorCode)
				switch {
				case err == nil:
				case isAny(err, groupErrors):
					return backoff.Permanent(fmt.Errorf("committing offsets: %w: %w", errGroup, err))
				case kerr.IsRetriable(err):
					return fmt.Errorf("committing offsets: %w", err)
				default:
					return backoff.Permanent(fmt.Errorf("committing offsets: %w", denied(err, "Read", "group "+w.cfg.Group+", or on a topic that it consumes")))
				}
			}
		}
		return nil
	}, tries)
}

// readCommits reads the answer to an OffsetFetch; again says that a
// transaction is pending or the coordinator is moving.
func (w *Worker) readCommits(resp *kmsg.OffsetFetchResponse) (commits map[laneKey]commit, again bool, err error) {
	names := make(map[[16]byte]string)
	for name, id := range w.l.topicIDs {
		names[id] = name
	}
	commits = make(map[laneKey]commit)
	for _, g := range resp.Groups {
		if err := kerr.ErrorForCode(g.ErrorCode); err != nil {
			if kerr.IsRetriable(err) {
				return nil, true, nil
			}
			return nil, false, fmt.Errorf("fetching the group's commits: %w", err)
		}
		for _, t := range g.Topics {
			topic := t.Topic
			if topic == "" {
				topic = names[t.TopicID]
			}
			for _, p := range t.Partitions {
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
					if kerr.IsRetriable(err) {
						return nil, true, nil
					}
					return nil, false, fmt.Errorf("fetching the commit of %s/%d: %w", topic, p.Partition, err)
				}
				text := ""
				if p.Metadata != nil {
					text = *p.Metadata
				}
				m, err := parseMetadata(text)
				if err != nil {
					return nil, false, err
				}
				if p.Offset >= 0 {
					commits[laneKey{topic, p.Partition}] = commit{p.Offset, m}
				}
			}
		}
	}
	return commits, false, nil
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
