package worker

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/jobtrail/jobtrail/pkg/retrytopics"
	"github.com/jobtrail/jobtrail/pkg/sanitize"
)

const (
	// transactionTimeout is after how long the brokers abort a transaction that
	// nobody ends. Recovery does not wait for it: see fence.
	transactionTimeout = 15 * time.Second
	// drainTimeout is how long a revocation waits for running handlers.
	drainTimeout = 30 * time.Second
	// rebalanceTimeout is how long the group waits for a member that drains.
	rebalanceTimeout = 60 * time.Second
	// cutMoment is how long a handler whose context was cancelled by a shutdown
	// may take to return.
	cutMoment = 2 * time.Second
	// lastTick is how long a shutdown waits for the transaction in hand.
	lastTick = 10 * time.Second
	// askEvery is how often a worker, idle or not, asks the brokers for an answer,
	// and silence after how long without one it is not ready.
	askEvery = 2 * time.Second
	silence  = 10 * time.Second
	// slowTick is after how long without an answer the worker is not ready.
	slowTick = 5 * time.Second
	// stuckAfter is how long after its timeout a handler counts as stuck.
	stuckAfter = 10 * time.Second
	// longTimeout is from which timeout on a type should have a topic of its own:
	// its running jobs hold back the position of everything behind them.
	longTimeout = 5 * time.Minute
)

// Worker runs the jobs of a group with evidence. Make one with New. Its methods
// may be called concurrently.
type Worker struct {
	cfg     Config
	deps    Deps
	topo    retrytopics.Topology
	bootID  string
	session time.Duration
	metrics *metrics
	spans   spans
	clock   clock
	breach  breach

	consumer *kgo.Client
	control  *kgo.Client // requests that must not wait behind the consumer's
	admin    *kadm.Client
	maxBatch int

	// Owned by the tick goroutine.
	producers  [2]producer
	tickNumber int64
	asked      time.Time // when a tick was last asked for to measure the clock
	setback    *backoff.ExponentialBackOff
	report     *report

	// Owned by the group's callbacks.
	commits map[laneKey]commitMetadata

	mu       sync.Mutex // guards what follows; never held across I/O
	l        *ledger
	progress chan struct{} // closed and renewed with every committed tick
	problem  error         // why ticks do not succeed
	writing  time.Time     // when the tick in hand began; zero between ticks
	inHand   chan struct{} // closed when the tick in hand has ended; nil between ticks
	answered time.Time     // when the brokers last did
	misfit   error         // why lanes cannot form
	joined   bool
	member   time.Time // when the group took the worker in; zero before

	flowing    sync.Mutex // one pause or resume at a time
	woken      chan struct{}
	failed     chan error
	life       context.Context // ends when the worker gives up
	handling   context.Context // of handlers
	cut        context.CancelCauseFunc
	handlers   sync.WaitGroup
	recoveries sync.WaitGroup
}

// New returns a worker, or every problem of the configuration, joined. It does
// no I/O.
func New(cfg Config, deps Deps) (*Worker, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	if deps.Registry == nil {
		deps.Registry = prometheus.NewRegistry()
	}
	if deps.Sanitizer == nil {
		deps.Sanitizer = sanitize.New(sanitize.Config{})
	}
	deps.Kafka = append(slices.Clone(deps.Kafka), kgo.WithHooks(newKafkaMetrics(deps.Registry)))
	if cfg.CodeVersion == "" {
		cfg.CodeVersion = moduleVersion()
	}
	breach, err := newBreach()
	if err != nil {
		return nil, err
	}
	boot := make([]byte, 6)
	if _, err := rand.Read(boot); err != nil {
		return nil, fmt.Errorf("making a boot id: %w", err)
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	w := &Worker{
		cfg: cfg, deps: deps, breach: breach, topo: retrytopics.Topology{Group: cfg.Group, Jobs: cfg.Topics, Tiers: cfg.Tiers}, bootID: hex.EncodeToString(boot),
		metrics: newMetrics(deps.Registry, deps.Sanitizer, cfg.Types), report: newReport(deps.Log, deps.Sanitizer),
		commits: make(map[laneKey]commitMetadata), progress: make(chan struct{}), woken: make(chan struct{}, 1), failed: make(chan error, 1),
		setback: backoff.NewExponentialBackOff(backoff.WithInitialInterval(20*time.Millisecond), backoff.WithMaxInterval(2*time.Second), backoff.WithMaxElapsedTime(0)),
	}
	if deps.Tracer != nil {
		w.spans.tracer = deps.Tracer.Tracer("github.com/jobtrail/jobtrail/pkg/worker")
	}
	w.l = newLedger(cfg, w.topo, host+"/"+w.bootID, deps.Sanitizer)
	tellReady(deps.Registry, w.Ready)
	slot := cfg.Slot
	if slot == "" {
		slot = w.bootID
	}
	for i, name := range []string{"a", "b"} {
		w.producers[i].id = cfg.Group + "/" + slot + "/" + name
	}
	return w, nil
}

func moduleVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}

// Run consumes and runs jobs until ctx ends. Then it drains: nothing new is
// started, running handlers get the grace period, what is cut off is recorded
// as interrupted, and the worker leaves the group. It returns nil after that, and
// an error when the brokers or the topics are unfit, or when going on would not
// be safe. Call it once.
func (w *Worker) Run(ctx context.Context) error {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	w.life = life
	w.handling, w.cut = context.WithCancelCause(life)
	defer w.cut(nil)

	var err error
	base := append(w.reachOpts(), kgo.ClientID(w.l.worker))
	if w.control, err = kgo.NewClient(base...); err != nil {
		return fmt.Errorf("making a Kafka client: %w", err)
	}
	defer w.control.Close()
	w.admin = kadm.NewClient(w.control)
	if err := w.reach(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	for i := range w.producers {
		if err := w.open(&w.producers[i]); err != nil {
			return err
		}
	}
	defer func() {
		for i := range w.producers {
			if cl := w.producers[i].cl; cl != nil {
				cl.Close()
			}
		}
	}()
	if w.consumer, err = kgo.NewClient(append(base,
		kgo.ConsumerGroup(w.cfg.Group),
		kgo.ConsumeTopics(w.topo.Lanes()...),
		kgo.Balancers(kgo.RangeBalancer()),
		kgo.ServerSideBalancer(),
		kgo.RebalanceTimeout(rebalanceTimeout),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMaxWait(500*time.Millisecond),
		// What is fetched waits in memory until lanes have room: little a partition
		// is enough, for the next fetch is a millisecond away.
		kgo.FetchMaxPartitionBytes(256<<10),
		kgo.FetchMaxBytes(8<<20),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.OnPartitionsAssigned(w.assigned),
		kgo.OnPartitionsRevoked(w.revoked),
		kgo.OnPartitionsLost(w.lost),
		kgo.OnOffsetsFetched(w.offsetsFetched),
		kgo.AdjustFetchOffsetsFn(w.adjustOffsets))...); err != nil {
		return fmt.Errorf("making the consumer: %w", err)
	}
	for _, t := range w.cfg.Types {
		if t.Policy.Timeout > longTimeout {
			w.deps.Log.Warn("a type with so long a timeout is better off in a topic of its own", "job_type", t.Name, "timeout", t.Policy.Timeout)
		}
	}
	w.mu.Lock()
	w.answered = time.Now()
	w.mu.Unlock()
	w.deps.Log.Info("worker started", "group", w.cfg.Group, "worker", w.l.worker, "session", w.session)

	fetching, stopFetching := context.WithCancel(life)
	defer stopFetching()
	var running sync.WaitGroup
	running.Go(func() { w.fetch(fetching) })
	ticking, enough := make(chan error, 1), make(chan struct{})
	running.Go(func() { ticking <- w.ticks(life, enough) })
	running.Go(func() { w.ask(fetching) })
	running.Go(func() { w.watch(life) })

	stuck := false
	select {
	case <-ctx.Done():
		w.shutdown(stopFetching)
		close(enough)
		select {
		case err = <-ticking:
		case <-time.After(lastTick):
			w.deps.Log.Error("the last transaction could not be ended: the next owner ends it")
			stuck = true
		}
	case err = <-w.failed:
	case err = <-ticking:
	}
	if err != nil {
		w.cut(errShutdown)
	}
	end()
	stopFetching()
	w.consumer.CloseAllowingRebalance()
	for i := range w.producers {
		if cl := w.producers[i].cl; cl != nil && (err != nil || stuck) {
			cl.Close()
		}
	}
	running.Wait()
	w.recoveries.Wait()
	if err != nil {
		return fmt.Errorf("running jobs of group %s: %w", w.cfg.Group, err)
	}
	w.deps.Log.Info("worker stopped")
	return nil
}

// metadataAge is how soon after the last time the brokers may be asked again who
// leads a partition: a client waits that long when a leader has moved.
const metadataAge = 250 * time.Millisecond

// reachOpts are the options of all clients; those of Deps come last.
func (w *Worker) reachOpts() []kgo.Opt {
	return append([]kgo.Opt{kgo.MetadataMinAge(metadataAge)}, w.deps.Kafka...)
}

// reach does the preflight, again and again while the brokers do not answer: a
// worker that starts before its brokers waits for them, not ready.
func (w *Worker) reach(ctx context.Context) error {
	err := backoff.RetryNotify(func() error {
		err := w.preflight(ctx)
		if err != nil && !away(err) {
			return backoff.Permanent(err)
		}
		w.mu.Lock()
		w.problem = err
		w.mu.Unlock()
		return err
	}, w.patience(ctx), func(err error, d time.Duration) {
		w.deps.Log.Warn("the brokers do not answer", "err", w.deps.Sanitizer.Error(err), "again_in", d)
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// away reports whether an error says that the brokers cannot be reached, rather
// than that they answered something.
func away(err error) bool {
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, io.EOF) || errors.Is(err, kgo.ErrClientClosed) || kerr.IsRetriable(err)
}

// ask asks the brokers for an answer, again and again, so that an idle worker
// knows, too, when they are away.
func (w *Worker) ask(ctx context.Context) {
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	silent := false // what is the same again is not logged
	for {
		try, cancel := context.WithTimeout(ctx, silence/2)
		err := w.control.Ping(try)
		cancel()
		if ctx.Err() != nil {
			return
		}
		w.mu.Lock()
		if err == nil {
			w.answered = time.Now()
		}
		w.metrics.measure(w.l) // no tick does while nothing runs
		w.mu.Unlock()
		switch {
		case err != nil && !silent:
			w.deps.Log.Warn("the brokers do not answer", "err", w.deps.Sanitizer.Error(err))
		case err == nil && silent:
			w.deps.Log.Info("the brokers answer again")
		}
		silent = err != nil
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// shutdown drains the worker and leaves the group.
func (w *Worker) shutdown(stopFetching context.CancelFunc) {
	begun := time.Now()
	w.mu.Lock()
	w.l.closing = true
	w.mu.Unlock()
	w.deps.Log.Info("shutting down", "grace", w.cfg.Grace)
	stopFetching()
	w.wake()
	grace := time.NewTimer(w.cfg.Grace)
	defer grace.Stop()
	if !w.settled(grace.C, func() bool { return w.l.running == 0 }) {
		w.interrupt(cutMoment)
	}
	w.mu.Lock()
	parts := make(map[string][]int32)
	for key := range w.l.lanes {
		parts[key.topic] = append(parts[key.topic], key.partition)
	}
	w.mu.Unlock()
	last := time.NewTimer(10 * time.Second)
	defer last.Stop()
	if !w.settled(last.C, func() bool { return !w.l.drain(parts) && len(w.l.results) == 0 && len(w.l.unstarted) == 0 }) {
		w.deps.Log.Error("the last outcomes could not be written: the next owner finds them abandoned")
	}
	w.deps.Log.Info("drained", "took", time.Since(begun))
}

// settled waits until done, which is called with mu held, or the limit.
func (w *Worker) settled(limit <-chan time.Time, done func() bool) bool {
	for {
		w.mu.Lock()
		ok := done()
		changed := w.progress
		w.mu.Unlock()
		if ok {
			return true
		}
		w.wake()
		select {
		case <-changed:
		case <-time.After(50 * time.Millisecond):
		case <-limit:
			return false
		}
	}
}

// wake makes the next tick look at once.
func (w *Worker) wake() {
	select {
	case w.woken <- struct{}{}:
	default:
	}
}

// fail ends Run with err.
func (w *Worker) fail(err error) {
	select {
	case w.failed <- err:
	default:
	}
}

// trouble notes whether ticks succeed.
func (w *Worker) trouble(err error) {
	w.mu.Lock()
	before := w.problem
	w.problem = err
	w.mu.Unlock()
	switch {
	case err != nil && isAny(err, deniedErrors):
		w.deps.Log.Error("the brokers refuse the worker's writes", "err", w.deps.Sanitizer.Error(err))
	case err != nil:
		w.deps.Log.Warn("a tick failed", "err", w.deps.Sanitizer.Error(err))
	case before != nil:
		w.deps.Log.Info("ticks succeed again")
	}
}

// spareAfter is how long beyond a session a member without a partition waits
// until it counts as a spare one.
const spareAfter = 10 * time.Second

var errNotAssigned = errors.New("no partition is assigned and recovered yet")

// spare reports whether the group has no partition for the worker: it has more
// workers than partitions. Those of a worker that died are given to another
// within a session. The caller holds mu.
func (w *Worker) spare() bool {
	return len(w.l.lanes) == 0 && !w.member.IsZero() && time.Since(w.member) > w.session+spareAfter
}

// Ready reports why the worker does not run jobs now, nil when it does, or
// stands by because the group has more workers than partitions.
func (w *Worker) Ready() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.problem != nil:
		return fmt.Errorf("writing evidence: %w", w.problem)
	case !w.writing.IsZero() && time.Since(w.writing) > slowTick:
		return fmt.Errorf("writing evidence: the brokers have not answered for %v", time.Since(w.writing).Round(time.Second))
	case !w.answered.IsZero() && time.Since(w.answered) > silence:
		return fmt.Errorf("the brokers have not answered for %v", time.Since(w.answered).Round(time.Second))
	case w.misfit != nil:
		return w.misfit
	case w.l.closing:
		return errShutdown
	case w.spare():
		return nil
	case w.l.hold:
		return errors.New("the clock is not measured yet, or differs too much from the brokers' clock")
	}
	for _, s := range w.l.shards {
		if s.phase == shardReady {
			w.joined = true
		}
	}
	if !w.joined {
		return errNotAssigned
	}
	return nil
}
