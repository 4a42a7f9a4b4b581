package projector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sony/gobreaker"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/plugin/kprom"

	"github.com/jobtrail/jobtrail/clickhouse"
	"github.com/jobtrail/jobtrail/pkg/sanitize"
)

// Projector fills the live generation of the store from the logs of its worker
// groups. Run it once.
type Projector struct{ s *shared }

// shared is what all readers of a process have in common.
type shared struct {
	cfg      Config
	deps     Deps
	log      *slog.Logger
	metrics  *metrics
	budget   *budget
	inserter *inserter
	admin    *kadm.Client

	storeAway atomic.Bool
	storeBack chan struct{} // one token when the breaker lets a try through

	// repeats has one slot: declared ranges are sent again one at a time, because
	// the batches of several dead predecessors may not fit into the memory.
	repeats chan struct{}

	freeMu sync.Mutex
	free   []*columns

	healthMu sync.Mutex
	problems map[string]error // what keeps it from projecting, by worker group, or group and partition
	readers  map[string]*reader
	answered map[string]time.Time // when Kafka and the store last answered, by worker group
}

// silence is after how long without an answer of Kafka or of the store the
// projector is not ready; PositionEvery on top of it.
const silence = 10 * time.Second

// New returns a Projector. It contacts nobody. An error names the field that is
// wrong.
func New(cfg Config, deps Deps) (*Projector, error) {
	cfg.setDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("configuring the projector: %w", err)
	}
	if deps.Kafka == nil || deps.Store == nil || len(deps.Server.Addrs) == 0 {
		return nil, errors.New("configuring the projector: Kafka, Store and Server are required")
	}
	if deps.Logger == nil {
		deps.Logger = slog.New(slog.DiscardHandler)
	}
	if deps.Registry == nil {
		deps.Registry = prometheus.NewRegistry()
	}
	if deps.Sanitizer == nil {
		deps.Sanitizer = sanitize.New(sanitize.Config{})
	}
	s := &shared{cfg: cfg, deps: deps, log: deps.Logger, metrics: newMetrics(deps.Registry, deps.Sanitizer), storeBack: make(chan struct{}, 1), repeats: make(chan struct{}, 1), problems: map[string]error{}, readers: map[string]*reader{}, answered: map[string]time.Time{}}
	s.budget = &budget{limit: cfg.Memory, gauge: s.metrics.budgetBytes}
	s.inserter = &inserter{server: deps.Server, timeout: cfg.InsertTimeout, slots: make(chan struct{}, cfg.Inserts), log: s.log, clean: deps.Sanitizer, metrics: s.metrics, fault: cfg.Fault}
	s.inserter.breaker = gobreaker.NewCircuitBreaker(gobreaker.Settings{
		Name: "clickhouse", MaxRequests: 1, Timeout: 2 * time.Second,
		// A server that refuses the schema is there.
		IsSuccessful:  func(err error) bool { return err == nil || schemaError(err) },
		ReadyToTrip:   func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= 3 },
		OnStateChange: func(_ string, _, to gobreaker.State) { s.breakerIs(to) },
	})
	for _, g := range cfg.Groups {
		s.problems[g] = errors.New("not started yet")
	}
	p := &Projector{s: s}
	tellReady(deps.Registry, p.Ready)
	return p, nil
}

func (s *shared) breakerIs(state gobreaker.State) {
	away := state == gobreaker.StateOpen
	s.storeAway.Store(away)
	if away {
		s.metrics.breakerOpen.Set(1)
		s.log.Warn("the store is away; fetching is paused")
		return
	}
	s.metrics.breakerOpen.Set(0)
	select {
	case s.storeBack <- struct{}{}:
	default:
	}
}

// awaitStore returns when the breaker is not open or ctx ends.
func (s *shared) awaitStore(ctx context.Context) error {
	for s.storeAway.Load() {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.storeBack:
		case <-time.After(200 * time.Millisecond):
		}
	}
	return ctx.Err()
}

// counted is the client option that counts the client's own work; closing the
// client takes the metrics away. client is a worker group or "admin".
func (s *shared) counted(client string) kgo.Opt {
	return kgo.WithHooks(kprom.NewMetrics("jobtrail_projector_kafka", kprom.Registerer(s.deps.Registry), kprom.WithStaticLabel(prometheus.Labels{"client": client})))
}

// get returns an empty block.
func (s *shared) get() *columns {
	s.freeMu.Lock()
	defer s.freeMu.Unlock()
	if n := len(s.free); n > 0 {
		c := s.free[n-1]
		s.free = s.free[:n-1]
		return c
	}
	return newColumns()
}

// put takes a block back. Only as many are kept as fit into the memory.
func (s *shared) put(c *columns) {
	c.reset()
	s.freeMu.Lock()
	defer s.freeMu.Unlock()
	if len(s.free) < max(2, s.cfg.Memory/s.cfg.BatchBytes) {
		s.free = append(s.free, c)
	}
}

func (s *shared) setProblem(group string, err error) {
	s.healthMu.Lock()
	defer s.healthMu.Unlock()
	if err == nil {
		delete(s.problems, group)
	} else {
		s.problems[group] = err
	}
}

// Ready returns nil while every log is being projected and both Kafka and the
// store answered lately, and otherwise why not. It is safe for concurrent use.
func (p *Projector) Ready() error {
	p.s.healthMu.Lock()
	defer p.s.healthMu.Unlock()
	var problems []error
	for _, g := range slices.Sorted(maps.Keys(p.s.problems)) {
		problems = append(problems, fmt.Errorf("group %s: %w", g, p.s.problems[g]))
	}
	for _, g := range slices.Sorted(maps.Keys(p.s.answered)) {
		if ago := time.Since(p.s.answered[g]); ago > silence+p.s.cfg.PositionEvery && p.s.problems[g] == nil {
			problems = append(problems, fmt.Errorf("group %s: Kafka and the store have not both answered for %s", g, ago.Round(time.Second)))
		}
	}
	if p.s.storeAway.Load() {
		problems = append(problems, errors.New("the store is away"))
	}
	return errors.Join(problems...)
}

// pointerEvery is how often the pointer to the live generation is read.
const pointerEvery = 5 * time.Second

// Run projects until ctx ends. It waits for servers that are away, and follows
// the pointer to the live generation. What is being inserted when ctx ends is
// finished within StopGrace or left to the next run, which sends exactly the
// same again. It returns nil when ctx ended.
func (p *Projector) Run(ctx context.Context) error {
	s := p.s
	end, err := s.open()
	if err != nil {
		return err
	}
	defer end()
	migrated := s.deps.Migrate == nil
	for ctx.Err() == nil {
		var live string
		var err error
		if !migrated {
			err = s.deps.Migrate(ctx)
			migrated = err == nil
		}
		if migrated {
			live, err = s.liveGeneration(ctx)
		}
		if err != nil {
			s.notReady(ctx, err)
			continue
		}
		s.follow(ctx, live)
	}
	return nil
}

// open opens the client for questions; the function it returns closes what the
// projector opened.
func (s *shared) open() (end func(), err error) {
	client, err := s.deps.Kafka(kgo.ClientID("jobtrail-projector-admin"), s.counted("admin"))
	if err != nil {
		return nil, fmt.Errorf("opening a Kafka client: %w", err)
	}
	s.admin = kadm.NewClient(client)
	return func() {
		s.inserter.close()
		client.Close()
	}, nil
}

// notReady says that the store is not ready, and pauses.
func (s *shared) notReady(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	s.log.Warn("the store is not ready", "error", s.deps.Sanitizer.Error(err))
	for _, g := range s.cfg.Groups {
		s.setProblem(g, err)
	}
	select {
	case <-ctx.Done():
	case <-time.After(time.Second):
	}
}

// follow projects into a generation until ctx ends or another one is live.
func (s *shared) follow(ctx context.Context, database string) {
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	watching.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(pointerEvery):
			}
			if live, err := clickhouse.Live(ctx, s.deps.Store, s.cfg.Layout); err == nil && live != database {
				s.log.Info("another generation is live", "database", live)
				cancel()
			}
		}
	})
	s.fill(ctx, database)
}

// fill projects into a generation until ctx ends.
func (s *shared) fill(ctx context.Context, database string) {
	s.log.Info("projecting", "database", database, "groups", s.cfg.Groups)
	var readers sync.WaitGroup
	for _, g := range s.cfg.Groups {
		r := &reader{shared: s, worker: g, topic: EvidenceTopic(g), group: ConsumerGroup(g, database), database: database, log: s.log.With("group", g)}
		s.healthMu.Lock()
		s.readers[g] = r
		s.healthMu.Unlock()
		readers.Go(func() { r.run(ctx) })
	}
	readers.Wait()
}

// liveGeneration returns the live database once it has the columns that are
// written.
func (s *shared) liveGeneration(ctx context.Context) (string, error) {
	live, err := clickhouse.Live(ctx, s.deps.Store, s.cfg.Layout)
	if err != nil {
		return "", err
	}
	return live, s.checkSchema(ctx, live)
}

// checkSchema reports columns that are written and that the table evidence of
// a generation does not have.
func (s *shared) checkSchema(ctx context.Context, database string) error {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	rows, err := s.deps.Store.Query(ctx, "SELECT name, type FROM system.columns WHERE database = ? AND table = 'evidence'", database)
	if err != nil {
		return fmt.Errorf("reading the schema of %s.evidence: %w", database, err)
	}
	defer rows.Close()
	found := map[string]string{}
	for rows.Next() {
		var name, typ string
		if err := rows.Scan(&name, &typ); err != nil {
			return fmt.Errorf("reading the schema of %s.evidence: %w", database, err)
		}
		found[name] = typ
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("reading the schema of %s.evidence: %w", database, err)
	}
	var problems []error
	for _, in := range newColumns().input {
		want, got := string(in.Data.Type()), found[in.Name]
		if got != want {
			problems = append(problems, fmt.Errorf("%s.evidence: column %s: found %q, want %q", database, in.Name, got, want))
		}
	}
	return errors.Join(problems...)
}
