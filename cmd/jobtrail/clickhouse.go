package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/jobtrail/jobtrail/internal/connect"
	"github.com/jobtrail/jobtrail/internal/evidence"
)

// store opens the evidence store and makes sure that it answers within 10 s.
// The caller closes the connection.
func (g *Globals) store(ctx context.Context) (*evidence.Store, driver.Conn, error) {
	conn, conf, err := g.reachClickHouse(ctx)
	if err != nil {
		return nil, nil, err
	}
	return evidence.New(conn, conf.Database), conn, nil
}

// reachClickHouse opens a connection pool, makes sure that the server answers
// within 10 s, and returns with it what the environment says of the server. The
// caller closes the connection.
func (g *Globals) reachClickHouse(ctx context.Context) (driver.Conn, connect.ClickHouse, error) {
	// Every statement names its database, which may not exist yet.
	conn, conf, err := g.ClickHouse(func(o *clickhouse.Options) { o.Auth.Database = "" })
	if err != nil {
		return nil, conf, err
	}
	ping, cancel := context.WithTimeoutCause(ctx, 10*time.Second, errors.New("no answer within 10s"))
	defer cancel()
	if err := conn.Ping(ping); err != nil {
		_ = conn.Close()
		return nil, conf, fmt.Errorf("no ClickHouse answers at CLICKHOUSE_ADDR=%s: %w", strings.Join(conf.Addrs, ","), cause(ping, err))
	}
	return conn, conf, nil
}

// explain adds what to do to an error of the store.
func explain(err error) error {
	if evidence.NotMade(err) {
		return fmt.Errorf("%w; a projector makes the store when it starts, and so does `jobtrail migrate`", err)
	}
	return err
}
