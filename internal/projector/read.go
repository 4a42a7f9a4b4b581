package projector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// EvidenceTopic returns the name of a worker group's log.
func EvidenceTopic(group string) string { return group + ".evidence" }

// ConsumerGroup returns the consumer group that fills database, a generation
// of the store, from the log of a worker group. It begins with the worker
// group's name, so one prefixed ACL covers it, and names the database, so that
// two stores or two generations never share a position.
func ConsumerGroup(group, database string) string { return group + ".projector." + database }

// reader projects the log of one worker group into one generation. Its run may
// have many sessions, each a client of its own.
type reader struct {
	*shared
	worker   string // worker group
	topic    string
	group    string // consumer group
	database string
	log      *slog.Logger

	// Of the present session.
	logID  uuid.UUID
	client *kgo.Client

	// mu is held by whatever changes or relies on which partitions are owned. It
	// is never held across a request, except that a client's heartbeat waits for
	// the callbacks.
	mu         sync.Mutex
	partitions map[int32]*partition
	fail       context.CancelCauseFunc
}

// run has one session after the other until ctx ends.
func (r *reader) run(ctx context.Context) {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval, pause.MaxElapsedTime = 200*time.Millisecond, 30*time.Second, 0
	pause.Reset()
	said := "" // what is the same again is not logged
	for ctx.Err() == nil {
		begun := time.Now()
		err := r.session(ctx)
		if ctx.Err() != nil {
			return
		}
		if time.Since(begun) > time.Minute || errors.Is(err, errRewound) {
			pause.Reset()
		}
		wait := pause.NextBackOff()
		r.setProblem(r.worker, err)
		text := r.deps.Sanitizer.Error(err)
		if text.String() != said {
			r.log.Warn("a session ended and others begin until one works", "error", text, "pause", wait)
		}
		said = text.String()
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// session consumes until ctx ends or something is wrong with it.
func (r *reader) session(ctx context.Context) error {
	id, partitions, err := r.describe(ctx)
	if err != nil {
		return err
	}
	if partitions > 1<<16 {
		return fmt.Errorf("the log %s has %d partitions; at most 65,536 can be stored", r.topic, partitions)
	}
	r.logID = id
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r.mu.Lock()
	r.partitions, r.fail = map[int32]*partition{}, cancel
	r.mu.Unlock()
	ready := make(chan struct{}) // callbacks wait until the client is set
	client, err := r.deps.Kafka(
		r.counted(r.worker),
		kgo.ClientID("jobtrail-projector"),
		kgo.ConsumerGroup(r.group),
		kgo.ConsumeTopics(r.topic),
		kgo.Balancers(kgo.RangeBalancer()), kgo.ServerSideBalancer(),
		// Without a position it begins at the log's start; a position that the log
		// no longer holds is never skipped silently.
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()), kgo.ConsumeResetOffset(kgo.NoResetOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		kgo.FetchMaxBytes(int32(r.cfg.FetchBytes)), kgo.FetchMaxPartitionBytes(int32(r.cfg.FetchBytes)),
		kgo.FetchMaxWait(500*time.Millisecond),
		kgo.MaxConcurrentFetches(1),
		kgo.OnPartitionsAssigned(func(callCtx context.Context, cl *kgo.Client, of map[string][]int32) {
			<-ready
			r.assigned(ctx, of[r.topic])
		}),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, of map[string][]int32) { <-ready; r.revoked(of[r.topic]) }),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, of map[string][]int32) { <-ready; r.lost(of[r.topic]) }),
	)
	if err != nil {
		return fmt.Errorf("opening a Kafka client: %w", err)
	}
	r.client = client
	close(ready)
	defer func() {
		r.client.CloseAllowingRebalance()
		r.end()
	}()
	var beside sync.WaitGroup
	beside.Go(func() { r.watch(ctx) })
	defer beside.Wait()
	defer cancel(nil)
	return r.poll(ctx)
}

// describe returns the log's id and number of partitions, once it exists.
func (r *reader) describe(ctx context.Context) (uuid.UUID, int, error) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	topics, err := r.admin.ListTopics(ctx, r.topic)
	if err != nil {
		return uuid.Nil, 0, fmt.Errorf("looking up the log %s: %w", r.topic, Denied(err, "Read", "topic "+r.topic))
	}
	t := topics[r.topic]
	if errors.Is(t.Err, kerr.UnknownTopicOrPartition) {
		return uuid.Nil, 0, fmt.Errorf("the log %s does not exist: is %s the worker group that is meant (JOBTRAIL_GROUPS)? `jobtrail topics apply --group %s` with its job topics makes it: %w", r.topic, r.worker, r.worker, t.Err)
	}
	if t.Err != nil {
		return uuid.Nil, 0, fmt.Errorf("looking up the log %s: %w", r.topic, Denied(t.Err, "Read", "topic "+r.topic))
	}
	if t.ID == (kadm.TopicID{}) {
		return uuid.Nil, 0, fmt.Errorf("looking up the log %s: the broker gives it no id", r.topic)
	}
	return uuid.UUID(t.ID), len(t.Partitions), nil
}

// poll fetches and hands records to their partitions.
func (r *reader) poll(ctx context.Context) error {
	for {
		if err := r.budget.wait(ctx); err != nil {
			return err
		}
		if err := r.awaitStore(ctx); err != nil {
			return err
		}
		fetches := r.client.PollRecords(ctx, 10_000)
		if fetches.IsClientClosed() || ctx.Err() != nil {
			return context.Cause(ctx)
		}
		for _, e := range fetches.Errors() {
			if errors.Is(e.Err, kerr.OffsetOutOfRange) {
				r.metrics.lost.WithLabelValues(r.worker, fmt.Sprint(e.Partition)).Set(1)
				r.client.AllowRebalance()
				return fmt.Errorf("partition %d: the log no longer holds the position of consumer group %s; records were lost to retention before they were read: %w", e.Partition, r.group, e.Err)
			}
			if errors.Is(e.Err, kerr.GroupAuthorizationFailed) {
				r.client.AllowRebalance()
				return fmt.Errorf("joining consumer group %s: %w", r.group, Denied(e.Err, "Read", "group "+r.group))
			}
			if e.Partition >= 0 {
				r.client.AllowRebalance()
				return fmt.Errorf("fetching %s/%d: %w", e.Topic, e.Partition, Denied(e.Err, "Read", "topic "+r.topic))
			}
		}
		r.mu.Lock()
		fetches.EachPartition(func(f kgo.FetchTopicPartition) {
			if p := r.partitions[f.Partition]; p != nil && len(f.Records) > 0 {
				p.offer(f.Records)
			}
		})
		r.mu.Unlock()
		r.client.AllowRebalance()
	}
}

// assigned begins the partitions. Each is paused until its start is through.
func (r *reader) assigned(ctx context.Context, numbers []int32) {
	r.client.PauseFetchPartitions(map[string][]int32{r.topic: numbers})
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range numbers {
		p := newPartition(r, n)
		r.partitions[n] = p
		// Not under the session's context: a shutdown lets it finish its batch.
		pctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
		p.cancel = cancel
		r.log.Info("a partition was assigned", "partition", n)
		go func() {
			err := p.run(pctx)
			cancel(nil)
			if err != nil && !errors.Is(err, errTaken) && ctx.Err() == nil {
				r.fail(fmt.Errorf("partition %d: %w", n, err))
			}
		}()
	}
}

// revoked finishes what the partitions are sending, within the grace, and gives
// them up.
func (r *reader) revoked(numbers []int32) {
	owned := r.owned(numbers)
	for _, p := range owned {
		close(p.stopping)
	}
	grace := time.NewTimer(r.cfg.StopGrace)
	defer grace.Stop()
	for _, p := range owned {
		select {
		case <-p.finished:
			continue
		case <-grace.C:
		}
		// The range that is being sent is declared; whoever comes next sends it
		// again.
		for _, p := range owned {
			p.cancel(errTaken)
		}
		break
	}
	r.forget(owned)
}

// lost gives the partitions up at once: somebody else may own them already.
func (r *reader) lost(numbers []int32) {
	owned := r.owned(numbers)
	for _, p := range owned {
		p.cancel(errTaken)
	}
	r.forget(owned)
}

func (r *reader) owned(numbers []int32) (owned []*partition) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range numbers {
		if p := r.partitions[n]; p != nil {
			owned = append(owned, p)
		}
	}
	return owned
}

func (r *reader) forget(ps []*partition) {
	r.mu.Lock()
	for _, p := range ps {
		p.taken.Store(true)
		delete(r.partitions, p.number)
	}
	r.mu.Unlock()
	for _, p := range ps {
		p.cancel(errTaken)
		<-p.finished
		p.stopped(nil)
		r.metrics.endOf(p.labels())
		r.log.Info("a partition was given up", "partition", p.number, "position", p.position.Load())
	}
}

// end gives up what a closed client did not.
func (r *reader) end() {
	r.mu.Lock()
	var all []int32
	for n := range r.partitions {
		all = append(all, n)
	}
	r.mu.Unlock()
	r.lost(all)
}
