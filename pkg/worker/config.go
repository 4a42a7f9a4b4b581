package worker

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.opentelemetry.io/otel/trace"

	"github.com/jobtrail/jobtrail/pkg/retrytopics"
	"github.com/jobtrail/jobtrail/pkg/sanitize"
)

// Unknown says what happens to a job of a type that the worker has no handler for.
type Unknown string

// The policies for unknown types.
const (
	// UnknownToDLQ ends it as unknown_type and sends it to the dead-letter topic.
	UnknownToDLQ Unknown = "dlq"
	// SkipUnknown passes over it: another group runs it.
	SkipUnknown Unknown = "skip"
)

// Config says what a worker runs and where. Zero fields take their defaults.
type Config struct {
	// Group is the worker group: its consumer group and the prefix of its topics.
	Group string
	// Topics are the job topics.
	Topics []string
	// Types are the job types with their handlers.
	Types []Type
	// Tiers are the delays of the group's retry topics. Default
	// retrytopics.DefaultTiers.
	Tiers retrytopics.Tiers
	// Concurrency is how many handlers run at once in this process. Default 200.
	Concurrency int
	// UnknownTypes is UnknownToDLQ by default.
	UnknownTypes Unknown
	// Grace is how long a shutdown waits for running handlers. Default 25s.
	Grace time.Duration
	// Slot gives the worker's transactional ids a stable name; it must be unique
	// among the group's live workers. Default: the boot id.
	Slot string
	// CodeVersion is recorded with every event. Default: the module's version.
	CodeVersion string
	// DedupWindow is how long a job id is remembered after the job's last event,
	// for at most DedupMax ids a partition. Defaults 1h and 200000.
	DedupWindow time.Duration
	DedupMax    int
}

// Deps are what a worker works with. All but Kafka may be zero.
type Deps struct {
	// Kafka are the options that reach the brokers: seeds, TLS, SASL.
	Kafka []kgo.Opt
	// Log is told what the worker does and what ends badly; nil is silent.
	Log *slog.Logger
	// Registry receives the metrics, those of the Kafka clients among them; a
	// worker needs one of its own, or labels of its own (prometheus.WrapRegistererWith).
	Registry prometheus.Registerer
	// Tracer makes a span an attempt.
	Tracer trace.TracerProvider
	// Sanitizer cleans error messages.
	Sanitizer *sanitize.Sanitizer
}

// each returns the errors that are joined in err.
func each(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return []error{err}
}

// withDefaults returns c with defaults filled in, or every problem, joined.
func (c Config) withDefaults() (Config, error) {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	if len(c.Tiers) == 0 {
		c.Tiers = retrytopics.DefaultTiers()
	}
	if c.Concurrency == 0 {
		c.Concurrency = 200
	}
	if c.UnknownTypes == "" {
		c.UnknownTypes = UnknownToDLQ
	}
	def(&c.Grace, 25*time.Second)
	def(&c.DedupWindow, time.Hour)
	if c.DedupMax == 0 {
		c.DedupMax = 200_000
	}
	errs := []error{retrytopics.Topology{Group: c.Group, Jobs: c.Topics, Tiers: c.Tiers}.Validate()}
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Concurrency < 1 {
		bad("concurrency is %d, at least 1 is needed", c.Concurrency)
	}
	if c.UnknownTypes != UnknownToDLQ && c.UnknownTypes != SkipUnknown {
		bad("unknown_types is %q, it must be dlq or skip", string(c.UnknownTypes))
	}
	if c.Grace < 0 {
		bad("grace is %v, it must not be negative", c.Grace)
	}
	if c.DedupWindow < 0 || c.DedupMax < 0 {
		bad("the duplicate window (%v, %d ids) must not be negative", c.DedupWindow, c.DedupMax)
	}
	seen := make(map[string]bool)
	types := make([]Type, len(c.Types))
	for i, t := range c.Types {
		if t.Policy == (retrytopics.Policy{}) {
			t.Policy = retrytopics.DefaultPolicy()
		}
		types[i] = t
		switch {
		case t.Name == "":
			bad("job type %d has no name", i)
		case seen[t.Name]:
			bad("job type %q is there twice", t.Name)
		}
		seen[t.Name] = true
		if t.Handler == nil {
			bad("job type %q has no handler", t.Name)
		}
		if t.Concurrency < 0 {
			bad("job type %q: concurrency is %d, it must not be negative", t.Name, t.Concurrency)
		}
		if err := t.Policy.Validate(); err != nil {
			for _, problem := range each(err) {
				bad("job type %q: %w", t.Name, problem)
			}
			if p := t.Policy; p.MaxAttempts == 0 || p.Multiplier == 0 || p.Timeout == 0 || p.MaxCrashes == 0 || p.OnDuplicate == "" {
				bad("job type %q: the policy is filled in part; start from retrytopics.DefaultPolicy() and change what differs", t.Name)
			}
		}
	}
	c.Types = types
	if len(types) == 0 {
		bad("no job type is configured")
	}
	return c, errors.Join(errs...)
}
