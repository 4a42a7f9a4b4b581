package rebuild

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/jobtrail/jobtrail/clickhouse"
	"github.com/jobtrail/jobtrail/internal/projector"
	"github.com/jobtrail/jobtrail/pkg/sanitize"
)

// Config configures a Rebuild. Zero fields take their defaults.
type Config struct {
	// Layout names the store's databases.
	Layout clickhouse.Layout
	// Groups are worker groups whose logs are read besides those that the live
	// generation knows.
	Groups []string
	// Holder names this process to people, "host/process id".
	Holder string
	// Keep is for how long the generation that was live is kept; default 24h,
	// negative: not at all.
	Keep time.Duration
	// Restart empties the other generation even if an unfinished rebuild could be
	// continued.
	Restart bool
	// NoFlip ends after the comparison.
	NoFlip bool
	// AcceptDifferences flips although the comparison found differences.
	AcceptDifferences bool
	// DiscardKept lets a rebuild empty a generation that is still kept.
	DiscardKept bool
	// Expiry is after how long without a sign of life a process counts as dead;
	// default 5s, at least 1s.
	Expiry time.Duration
	// Takeover is how long after the flip the projectors may take to go on with
	// the new generation before they are taken to be absent; default 30s.
	Takeover time.Duration
	// Batch tunes how the generation is filled: the fields that a projector has
	// for batches and memory.
	Batch projector.Config
}

// Deps are what a Rebuild works with. Logger, Sanitizer and Progress may be
// nil.
type Deps struct {
	// Kafka opens a client with the given options added to those that reach the
	// brokers. The rebuild closes it.
	Kafka func(...kgo.Opt) (*kgo.Client, error)
	// Store is a pool of connections of a user who may create and drop databases.
	Store driver.Conn
	// Server is where blocks are sent.
	Server projector.Server
	// Migrate brings the store's schema up to date.
	Migrate func(context.Context) error
	Logger  *slog.Logger
	// Sanitizer cleans what is told of errors.
	Sanitizer *sanitize.Sanitizer
	// Progress is told how far it is, about once a second, from several
	// goroutines.
	Progress func(Progress)
}

// Progress is how far a rebuild is. Zero numbers are not known.
type Progress struct {
	Phase    string
	Database string
	// Done and Total are offsets of the logs while it fills, and events while it
	// copies.
	Done, Total int64
	// PerSecond is of Done.
	PerSecond float64
	// Text says what is special at the moment.
	Text string
}

// Rebuild makes the generation that is not live anew. Its methods contact the
// servers; only one of them may run at a time.
type Rebuild struct {
	cfg   Config
	deps  Deps
	log   *slog.Logger
	claim *claim
	admin *admin
	logs  []logOf

	// mu guards the fields of state that change after its beginning: the phase
	// and the numbers. The filling tells of them and counts.
	mu    sync.Mutex
	state State
}

// New returns a Rebuild. It contacts nobody. An error names the field that is
// wrong.
func New(cfg Config, deps Deps) (*Rebuild, error) {
	if err := cfg.Layout.Validate(); err != nil {
		return nil, fmt.Errorf("configuring the rebuild: layout: %w", err)
	}
	if deps.Kafka == nil || deps.Store == nil || deps.Migrate == nil || len(deps.Server.Addrs) == 0 {
		return nil, errors.New("configuring the rebuild: Kafka, Store, Server and Migrate are required")
	}
	if cfg.Keep == 0 {
		cfg.Keep = 24 * time.Hour
	}
	if cfg.Expiry == 0 {
		cfg.Expiry = 5 * time.Second
	}
	if cfg.Takeover == 0 {
		cfg.Takeover = 30 * time.Second
	}
	if cfg.Expiry < time.Second {
		return nil, fmt.Errorf("configuring the rebuild: expiry: %s is less than 1s", cfg.Expiry)
	}
	if cfg.Holder == "" {
		cfg.Holder = "unnamed"
	}
	if deps.Logger == nil {
		deps.Logger = slog.New(slog.DiscardHandler)
	}
	if deps.Sanitizer == nil {
		deps.Sanitizer = sanitize.New(sanitize.Config{})
	}
	if deps.Progress == nil {
		deps.Progress = func(Progress) {}
	}
	return &Rebuild{cfg: cfg, deps: deps, log: deps.Logger}, nil
}

// tell reports progress.
func (r *Rebuild) tell(p Progress) {
	r.mu.Lock()
	p.Phase, p.Database = r.state.Phase, r.state.Database
	r.mu.Unlock()
	r.deps.Progress(p)
}

// HeldError says that another process holds the generation.
type HeldError struct {
	Holder string
	// Silent is how long ago that process gave a sign of life, Expiry after how
	// long it counts as dead.
	Silent, Expiry time.Duration
}

// Error implements error.
func (e *HeldError) Error() string {
	return fmt.Sprintf("another rebuild holds the generation: %s, last heard of %s ago; if that process is dead, the generation is free %s after its last sign of life",
		e.Holder, e.Silent.Round(100*time.Millisecond), e.Expiry)
}

// KeptError says that the other generation is kept and may not be emptied.
type KeptError struct {
	Database string
	Until    time.Time
}

// Error implements error.
func (e *KeptError) Error() string {
	return fmt.Sprintf("%s is kept until %s, for a rollback; --discard-kept empties it all the same", e.Database, e.Until.UTC().Format("2006-01-02 15:04:05 UTC"))
}

// DiffersError says that the two generations are not equal. The pointer was
// not turned.
type DiffersError struct {
	Database, Previous string
	Differences        []Difference
	// More says that there are others than those listed.
	More bool
}

// Error implements error.
func (e *DiffersError) Error() string {
	n := fmt.Sprint(len(e.Differences))
	if e.More {
		n = "more than " + n
	}
	return fmt.Sprintf("%s differs from %s in %s places; it was not made live", e.Database, e.Previous, n)
}

// Difference is a place in which two generations are not equal.
type Difference struct {
	Table     string     `json:"table"`
	LogID     *uuid.UUID `json:"log_id"`
	Partition *uint16    `json:"partition"`
	Offset    *uint64    `json:"offset"`
	Key       string     `json:"key"`
	// What says in words how they differ.
	What string `json:"what"`
}

// String is the difference in one line.
func (d Difference) String() string {
	if d.Offset != nil {
		return fmt.Sprintf("%s: log %s, partition %d, offset %d: %s", d.Table, d.LogID, *d.Partition, *d.Offset, d.What)
	}
	return fmt.Sprintf("%s: %s: %s", d.Table, d.Key, d.What)
}
