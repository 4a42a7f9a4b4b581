package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/jobtrail/jobtrail/internal/connect"
	"github.com/jobtrail/jobtrail/internal/redact"
	"github.com/jobtrail/jobtrail/pkg/sanitize"
)

// Globals is what every verb gets: the streams and the environment of the
// process, and clients made from it.
type Globals struct {
	Stdin   io.Reader
	Stdout  io.Writer
	Stderr  io.Writer
	Environ []string // as os.Environ

	cleaning sync.Once
	cleaner  *sanitize.Sanitizer
}

// clean returns the sanitiser that knows the secrets of the environment.
func (g *Globals) clean() *sanitize.Sanitizer {
	g.cleaning.Do(func() {
		var conf struct {
			connect.Kafka
			connect.ClickHouse
		}
		// What is wrong with it is said by the verb that needs it.
		_ = connect.Parse(g.Environ, &conf)
		g.cleaner = redact.New(conf, g.Environ)
	})
	return g.cleaner
}

// lines returns an error as lines for a terminal.
func (g *Globals) lines(err error) string {
	lines := redact.Lines(g.clean(), err)
	for i, l := range lines {
		lines[i] = printable(l)
	}
	return strings.Join(lines, "\n")
}

// oneLine returns an error as one line for a terminal.
func (g *Globals) oneLine(err error) string {
	return strings.ReplaceAll(g.lines(err), "\n", "; ")
}

// Embedded in the verbs that talk to a server.
type timeoutFlag struct {
	Timeout time.Duration `default:"30s" help:"Give up after this long (${default})."`
}

// bound returns ctx with the timeout.
func (f timeoutFlag) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, f.Timeout, fmt.Errorf("no answer within --timeout %s", f.Timeout))
}

// Embedded in the verbs that show or list something.
type outputFlag struct {
	Output string `short:"o" enum:"table,json" default:"table" help:"table for people, json for programs."`
}

// Kafka opens a client for the brokers of the environment. Opening contacts
// nobody. The caller closes it.
func (g *Globals) Kafka(opts ...kgo.Opt) (*kgo.Client, error) {
	var conf connect.Kafka
	if err := g.parse(&conf); err != nil {
		return nil, err
	}
	reach, err := conf.Options()
	if err != nil {
		return nil, usageError(err)
	}
	// The default age of 5 s is for clients that live long: a verb asks for what
	// it has just made, and ends with its timeout.
	reach = append(reach, kgo.ClientID("jobtrail"), kgo.MetadataMinAge(100*time.Millisecond))
	cl, err := kgo.NewClient(append(reach, opts...)...)
	if err != nil {
		return nil, fmt.Errorf("opening a Kafka client: %w", err)
	}
	return cl, nil
}

// ClickHouse opens a connection pool for the server of the environment and
// returns its configuration with it; modify (may be nil) may change the options
// first. Opening contacts nobody. The caller closes it.
func (g *Globals) ClickHouse(modify func(*clickhouse.Options)) (driver.Conn, connect.ClickHouse, error) {
	var conf connect.ClickHouse
	if err := g.parse(&conf); err != nil {
		return nil, conf, err
	}
	opts, err := conf.Options()
	if err != nil {
		return nil, conf, usageError(err)
	}
	if modify != nil {
		modify(opts)
	}
	conn, err := clickhouse.Open(opts)
	if err != nil {
		return nil, conf, fmt.Errorf("opening a ClickHouse client: %w", err)
	}
	return conn, conf, nil
}

func (g *Globals) parse(target any) error {
	if err := connect.Parse(g.Environ, target); err != nil {
		return usageError(fmt.Errorf("reading the environment:\n%w", err))
	}
	return nil
}
