package projector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/jobtrail/jobtrail/clickhouse"
	"github.com/jobtrail/jobtrail/pkg/sanitize"
)

// Config configures a Projector. Zero fields take their defaults.
type Config struct {
	// Groups are the worker groups whose logs, <group>.evidence, are projected.
	Groups []string
	// Layout names the store's databases.
	Layout clickhouse.Layout
	// Instance names this process, "host/boot id"; default the host's name.
	Instance string

	// A batch closes at BatchRows records (default 100,000, at most 1,000,000),
	// BatchBytes of block (default 32 MiB) or BatchWait after its first record
	// (default 1s), or earlier when the memory is spent.
	BatchRows  int
	BatchBytes int
	BatchWait  time.Duration
	// Memory bounds fetched records and blocks of the whole process, in bytes;
	// default 64 MiB. One fetch of FetchBytes may overdraw it.
	Memory int
	// FetchBytes is the most a fetch of one broker returns; default 4 MiB.
	FetchBytes int
	// Inserts is how many batches may be sent at once; default 2.
	Inserts int
	// InsertTimeout bounds one try of an insert; default 2m.
	InsertTimeout time.Duration
	// StopGrace is how long a partition that is taken away may still finish its
	// batch; default 3s. What is not finished is finished by the successor.
	StopGrace time.Duration
	// PositionEvery is how often the log's end is looked up and the positions
	// are written to the store; default 2s.
	PositionEvery time.Duration
	// ReadBack is how many recent batches of a partition are compared with the
	// store when the partition is taken over or the store comes back; default 20.
	ReadBack int

	// Fault is called at named points of the work, for tests: an error is
	// treated as a failure of that point. Default none.
	Fault func(point string) error
}

// Deps are what a Projector works with. Migrate, Logger, Registry and Sanitizer
// may be nil.
type Deps struct {
	// Kafka opens a client with the given options added to those that reach the
	// brokers. The projector closes it.
	Kafka func(...kgo.Opt) (*kgo.Client, error)
	// Store is a pool of connections for reading, and for small inserts.
	Store driver.Conn
	// Server is where blocks are sent.
	Server Server
	// Migrate brings the store's schema up to date. It is called before the
	// first use of the store, again and again until it succeeds.
	Migrate  func(context.Context) error
	Logger   *slog.Logger
	Registry prometheus.Registerer
	// Sanitizer cleans what is logged and stored of errors.
	Sanitizer *sanitize.Sanitizer
}

func (c *Config) setDefaults() {
	set(&c.BatchRows, 100_000)
	set(&c.BatchBytes, 32<<20)
	set(&c.BatchWait, time.Second)
	set(&c.Memory, 64<<20)
	set(&c.FetchBytes, 4<<20)
	set(&c.Inserts, 2)
	set(&c.InsertTimeout, 2*time.Minute)
	set(&c.StopGrace, 3*time.Second)
	set(&c.PositionEvery, 2*time.Second)
	set(&c.ReadBack, 20)
	if c.Instance == "" {
		c.Instance, _ = os.Hostname()
	}
	if c.Fault == nil {
		c.Fault = func(string) error { return nil }
	}
}

func set[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func (c *Config) validate() error {
	var problems []error
	if len(c.Groups) == 0 {
		problems = append(problems, errors.New("groups: name at least one worker group"))
	}
	seen := map[string]bool{}
	for _, g := range c.Groups {
		if g == "" || seen[g] {
			problems = append(problems, fmt.Errorf("groups: %q is empty or named twice", g))
		}
		seen[g] = true
	}
	if err := c.Layout.Validate(); err != nil {
		problems = append(problems, fmt.Errorf("layout: %w", err))
	}
	if c.BatchRows < 1 || c.BatchRows > 1_000_000 {
		problems = append(problems, fmt.Errorf("batch rows: %d is not within 1 and 1,000,000", c.BatchRows))
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"BatchWait", c.BatchWait}, {"InsertTimeout", c.InsertTimeout}, {"StopGrace", c.StopGrace}, {"PositionEvery", c.PositionEvery}} {
		if d.value < 0 {
			problems = append(problems, fmt.Errorf("%s: %s is negative", d.name, d.value))
		}
	}
	for _, n := range []struct {
		name  string
		value int
	}{{"BatchBytes", c.BatchBytes}, {"Memory", c.Memory}, {"FetchBytes", c.FetchBytes}, {"Inserts", c.Inserts}, {"ReadBack", c.ReadBack}} {
		if n.value < 1 {
			problems = append(problems, fmt.Errorf("%s: %d is not positive", n.name, n.value))
		}
	}
	return errors.Join(problems...)
}
