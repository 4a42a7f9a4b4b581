package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"strings"
	"time"

	driver "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/jobtrail/jobtrail/clickhouse"
	"github.com/jobtrail/jobtrail/internal/projector"
)

// store is a fresh store of one side's run.
type store struct {
	options driver.Options
	conn    driver.Conn
	layout  clickhouse.Layout
	// views is whether the derived tables are filled, too.
	views bool
}

// openStore migrates a new store. Without views nothing but the table evidence
// is filled.
func openStore(ctx context.Context, s settings, views bool) (*store, error) {
	name := strings.Map(func(r rune) rune {
		if r == '-' || r == '.' {
			return '_'
		}
		return r
	}, s.Name)
	st := &store{options: driver.Options{Addr: []string{s.ClickHouse}}, layout: clickhouse.Layout{Database: fmt.Sprintf("%s_%d", name, os.Getpid())}, views: views}
	if _, err := clickhouse.Migrate(ctx, &st.options, st.layout); err != nil {
		return nil, err
	}
	conn, err := driver.Open(&st.options)
	if err != nil {
		return nil, err
	}
	st.conn = conn
	if !views {
		var dropped []string
		if err := conn.QueryRow(ctx, "SELECT groupArray(name) FROM system.tables WHERE database = ? AND engine = 'MaterializedView'", st.database()).Scan(&dropped); err != nil {
			return nil, err
		}
		if len(dropped) == 0 {
			return nil, errors.New("there is no materialized view to drop")
		}
		for _, view := range dropped {
			if err := conn.Exec(ctx, "DROP VIEW "+st.database()+"."+view+" SYNC"); err != nil {
				return nil, err
			}
		}
	}
	return st, nil
}

// database is the one that is filled.
func (st *store) database() string { return st.layout.Generation(clickhouse.GenerationA) }

// close removes the store.
func (st *store) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var problems []error
	for _, db := range []string{st.layout.Database, st.layout.Generation(clickhouse.GenerationA), st.layout.Generation(clickhouse.GenerationB)} {
		problems = append(problems, st.conn.Exec(ctx, "DROP DATABASE IF EXISTS "+db+" SYNC"))
	}
	return errors.Join(append(problems, st.conn.Close())...)
}

// await returns when n events are in evidence and, with views, what is derived
// of them in the timeline; or an error that ended the work before.
func (st *store) await(ctx context.Context, n int, ended <-chan error) error {
	// Both counts are known without reading a row.
	question := "SELECT count(), toUInt64(0) FROM DB.evidence"
	if st.views {
		question = "SELECT (SELECT count() FROM DB.evidence), (SELECT count() FROM DB.timeline)"
	}
	question = strings.ReplaceAll(question, "DB", st.database())
	begun := time.Now()
	for {
		var events, derived uint64
		if err := st.conn.QueryRow(ctx, question).Scan(&events, &derived); err != nil {
			return fmt.Errorf("counting: %w", err)
		}
		if int(events) > n {
			return fmt.Errorf("%d rows of %d events", events, n)
		}
		if int(events) == n && (!st.views || int(derived) >= n-n/1000) {
			return nil
		}
		select {
		case err := <-ended:
			return fmt.Errorf("it ended at %d of %d events: %w", events, n, err)
		case <-ctx.Done():
			return fmt.Errorf("it was at %d of %d events: %w", events, n, context.Cause(ctx))
		// The questions cost the machine something, too.
		case <-time.After(max(50*time.Millisecond, time.Since(begun)/50)):
		}
	}
}

// projector returns a projector of the run's log into the store.
func (st *store) projector(s settings) (*projector.Projector, error) {
	return projector.New(projector.Config{Groups: []string{s.Name}, Layout: st.layout}, projector.Deps{
		Kafka: func(opts ...kgo.Opt) (*kgo.Client, error) {
			return kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(s.Brokers)}, opts...)...)
		},
		Store:  st.conn,
		Server: projector.Server{Addrs: st.options.Addr, Username: "default"},
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
}

// runProjector measures the projector as cmd/projector runs it, from its start
// to the last event.
func runProjector(views bool) func(context.Context, settings) (time.Duration, error) {
	return func(ctx context.Context, s settings) (took time.Duration, err error) {
		debug.SetGCPercent(25) // as cmd/projector does
		st, err := openStore(ctx, s, views)
		if err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, st.close()) }()
		p, err := st.projector(s)
		if err != nil {
			return 0, err
		}
		life, end := context.WithCancel(ctx)
		defer end()
		stopped := make(chan error, 1)
		begun := time.Now()
		go func() { stopped <- p.Run(life) }()
		err = st.await(ctx, s.Jobs, stopped)
		took = time.Since(begun)
		if err != nil {
			return 0, err
		}
		end()
		return took, <-stopped
	}
}
