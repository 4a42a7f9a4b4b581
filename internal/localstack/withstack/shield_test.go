package main

import (
	"context"
	"net"
	"strings"
	"testing"

	driver "github.com/ClickHouse/clickhouse-go/v2"

	"github.com/jobtrail/jobtrail/internal/localstack"
	"github.com/jobtrail/jobtrail/internal/localstack/stacktest"
)

func TestMain(m *testing.M) { stacktest.Main(m) }

// TestShield resets connections to a real server: idle ones, and in the midst of
// an answer. It goes on.
func TestShield(t *testing.T) {
	stack := stacktest.Private(t, localstack.Config{})
	s, err := newShield(stack.ClickHouseAddr())
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	reset := func(addr string, query string) {
		t.Helper()
		var raw net.Conn
		conn, err := driver.Open(&driver.Options{Addr: []string{addr}, DialContext: func(ctx context.Context, addr string) (net.Conn, error) {
			var d net.Dialer
			c, err := d.DialContext(ctx, "tcp", addr)
			raw = c
			return c, err
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		rows, err := conn.Query(t.Context(), query)
		if err != nil {
			t.Fatal(err)
		}
		rows.Next()
		// Closed without a wait, a socket is reset.
		if err := raw.(*net.TCPConn).SetLinger(0); err != nil {
			t.Fatal(err)
		}
		_ = raw.Close()
		_ = rows.Close()
	}
	for range 20 {
		reset(s.addr(), "SELECT 1")
		reset(s.addr(), "SELECT number FROM system.numbers LIMIT 50000000")
	}
	conn, err := driver.Open(&driver.Options{Addr: []string{s.addr()}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.Ping(t.Context()); err != nil {
		t.Errorf("the server does not answer: %v", err)
	}
	if again := stack.Restarts(); again != "" {
		t.Errorf("the server was started again:\n%s", again)
	}
	if !strings.HasPrefix(s.addr(), "127.0.0.1:") {
		t.Errorf("it listens on %s", s.addr())
	}
}
