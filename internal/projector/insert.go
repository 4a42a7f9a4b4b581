package projector

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/ClickHouse/ch-go"
	"github.com/ClickHouse/ch-go/proto"
	"github.com/cenkalti/backoff/v4"
	"github.com/google/uuid"
	"github.com/sony/gobreaker"

	"github.com/jobtrail/jobtrail/pkg/sanitize"
)

// Server says how to reach ClickHouse's native protocol.
type Server struct {
	// Addrs are tried in order, host:port.
	Addrs              []string
	Username, Password string
	TLS                *tls.Config // nil: plain
	// Compress sends blocks in LZ4: less on the wire, more CPU at both ends and
	// a second copy of the block in memory.
	Compress bool
}

// inserter sends blocks. It keeps up to cap(slots) connections and is safe for
// concurrent use.
type inserter struct {
	server  Server
	timeout time.Duration
	slots   chan struct{}
	breaker *gobreaker.CircuitBreaker
	log     *slog.Logger
	clean   *sanitize.Sanitizer
	metrics *metrics
	fault   func(string) error

	mu   sync.Mutex
	idle []*ch.Client
}

// block is one INSERT.
type block struct {
	table, columns, token, id string
	input                     proto.Input
	// stopped is told why the schema refuses the block, and nil once it does not.
	stopped func(error)
}

// maxPause is the longest pause between two tries of an insert.
const maxPause = 10 * time.Second

// insert sends b until the server acknowledges it. Every error means that it
// is not known whether the rows are there, so the same block goes again under
// the same token. It returns only when the block is acknowledged (and then how
// often it failed before) or ctx ends.
func (in *inserter) insert(ctx context.Context, b block) (failed int, err error) {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval, pause.MaxElapsedTime = 100*time.Millisecond, maxPause, 0
	pause.Reset()
	select {
	case in.slots <- struct{}{}:
		defer func() { <-in.slots }()
	case <-ctx.Done():
		return 0, fmt.Errorf("inserting %s: %w", b.token, context.Cause(ctx))
	}
	for {
		_, err := in.breaker.Execute(func() (any, error) { return nil, in.try(ctx, b, failed) })
		switch {
		case err == nil:
			b.stopped(nil)
			return failed, nil
		case ctx.Err() != nil:
			return failed, fmt.Errorf("inserting %s: %w", b.token, context.Cause(ctx))
		case errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests):
		default:
			failed++
			in.metrics.insertErrors.Inc()
			if schemaError(err) {
				b.stopped(err)
				in.log.Error("the store's schema refuses a batch; the partition stops until the schema is right", "table", b.table, "batch", b.token, "error", in.clean.Error(err))
			} else {
				in.log.Warn("an insert failed; the same batch goes again", "table", b.table, "batch", b.token, "failed", failed, "error", in.clean.Error(err))
			}
		}
		select {
		case <-ctx.Done():
			return failed, fmt.Errorf("inserting %s: %w", b.token, context.Cause(ctx))
		case <-time.After(pause.NextBackOff()):
		}
	}
}

func (in *inserter) try(ctx context.Context, b block, attempt int) error {
	ctx, cancel := context.WithTimeout(ctx, in.timeout)
	defer cancel()
	conn, err := in.conn(ctx)
	if err != nil {
		return err
	}
	begun := time.Now()
	err = conn.Do(ctx, ch.Query{
		Body:    "INSERT INTO " + b.table + " (" + b.columns + ") VALUES",
		QueryID: fmt.Sprintf("%s-%d-%s", b.id, attempt, uuid.NewString()[:8]),
		Input:   b.input,
		Settings: []ch.Setting{
			{Key: "async_insert", Value: "0", Important: true},
			{Key: "deduplicate_insert", Value: "enable", Important: true},
			{Key: "deduplicate_blocks_in_dependent_materialized_views", Value: "1", Important: true},
			{Key: "materialized_views_ignore_errors", Value: "0", Important: true},
			{Key: "insert_deduplication_token", Value: b.token, Important: true},
			// A batch of records with scattered origin times still is one insert.
			{Key: "max_partitions_per_insert_block", Value: "0", Important: true},
			// No two rows of a block have one key, and the views have grouped theirs:
			// the server need not look for what to replace before it writes a part.
			{Key: "optimize_on_insert", Value: "0", Important: true},
		},
	})
	if err == nil {
		err = in.fault("insert_acknowledged")
	}
	if err != nil {
		_ = conn.Close()
		in.close() // the others lead to the same server
		return err
	}
	in.metrics.insertSeconds.Observe(time.Since(begun).Seconds())
	in.mu.Lock()
	in.idle = append(in.idle, conn)
	in.mu.Unlock()
	return nil
}

// conn returns an idle connection that answers, or a new one.
func (in *inserter) conn(ctx context.Context) (*ch.Client, error) {
	if err := in.fault("insert"); err != nil {
		return nil, err
	}
	for {
		in.mu.Lock()
		var conn *ch.Client
		if n := len(in.idle); n > 0 {
			conn, in.idle = in.idle[n-1], in.idle[:n-1]
		}
		in.mu.Unlock()
		if conn == nil {
			break
		}
		if !conn.IsClosed() {
			return conn, nil
		}
	}
	compression := ch.CompressionDisabled
	if in.server.Compress {
		compression = ch.CompressionLZ4
	}
	var problems []error
	for _, addr := range in.server.Addrs {
		conn, err := ch.Dial(ctx, ch.Options{
			Address: addr, User: in.server.Username, Password: in.server.Password, TLS: in.server.TLS, Compression: compression,
			ClientName: "jobtrail-projector", DialTimeout: 5 * time.Second, HandshakeTimeout: 10 * time.Second, ReadTimeout: in.timeout,
			Dialer: &net.Dialer{Timeout: 5 * time.Second},
		})
		if err == nil {
			return conn, nil
		}
		problems = append(problems, fmt.Errorf("dialling %s: %w", addr, err))
	}
	return nil, errors.Join(problems...)
}

func (in *inserter) close() {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, conn := range in.idle {
		_ = conn.Close()
	}
	in.idle = nil
}

// schemaError reports whether the server refused the block for what it is: no
// repetition helps before somebody changes the schema or the rights.
func schemaError(err error) bool {
	return ch.IsErr(err,
		proto.ErrNoSuchColumnInTable, proto.ErrNumberOfColumnsDoesntMatch, proto.ErrUnknownIdentifier, proto.ErrTypeMismatch, proto.ErrUnknownTable, proto.ErrUnknownDatabase,
		proto.ErrUnknownType, proto.ErrCannotConvertType, proto.ErrIllegalColumn, proto.ErrNotFoundColumnInBlock, proto.ErrThereIsNoColumn, proto.ErrAccessDenied,
		proto.ErrUnknownSetting, proto.ErrThereIsNoDefaultValue, proto.ErrIncompatibleColumns)
}
