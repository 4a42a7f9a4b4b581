// Package stacktest gives tests a real broker and a real ClickHouse. It is for
// tests only, and reads their environment.
//
// A package whose tests use it has
//
//	func TestMain(m *testing.M) { stacktest.Main(m) }
//
// A test takes the shared stack with ForTest and keeps to names of its own
// (topics, groups, databases); one that stops, kills or pauses a server takes a
// stack of its own with Private.
package stacktest

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jobtrail/jobtrail/internal/localstack"
)

// Variables that name the shared stack of a whole test run; "make test" sets
// them.
const (
	KafkaVariable      = "JOBTRAIL_TEST_KAFKA"      // seed brokers, comma-separated
	ClickHouseVariable = "JOBTRAIL_TEST_CLICKHOUSE" // native-protocol address
)

// Shared is where the shared stack answers. Nobody may stop it.
type Shared struct {
	Brokers        []string
	ClickHouseAddr string
}

// The stack of this test process, if the environment names none.
var own struct {
	sync.Mutex
	stack *localstack.Stack
	dir   string
}

// Main runs the tests and exits. It must be all that TestMain does.
func Main(m *testing.M) {
	localstack.Main()
	code := m.Run()
	own.Lock()
	if own.stack != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		if err := own.stack.Stop(ctx); err != nil {
			fmt.Fprintf(os.Stderr, "stopping the tests' stack: %v\n", err)
			code = max(code, 1)
		}
		cancel()
		if err := os.RemoveAll(own.dir); err != nil {
			fmt.Fprintf(os.Stderr, "removing the tests' stack: %v\n", err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// ForTest returns the shared stack: the one that the environment names, else
// one that the first call starts and Main stops.
func ForTest(tb testing.TB) Shared {
	tb.Helper()
	brokers, addr := os.Getenv(KafkaVariable), os.Getenv(ClickHouseVariable)
	if brokers != "" && addr != "" {
		return Shared{Brokers: strings.Split(brokers, ","), ClickHouseAddr: addr}
	}
	own.Lock()
	defer own.Unlock()
	if own.stack == nil {
		dir, err := os.MkdirTemp("", "jobtrail-test-") //nolint:usetesting // it outlives the test: Main removes it
		if err != nil {
			tb.Fatalf("making the shared stack's folder: %v", err)
		}
		stack, err := start(dir, localstack.Config{})
		if err != nil {
			_ = os.RemoveAll(dir)
			tb.Fatalf("starting the shared stack: %v", err)
		}
		own.stack, own.dir = stack, dir
	}
	return Shared{Brokers: own.stack.Brokers(), ClickHouseAddr: own.stack.ClickHouseAddr()}
}

// Private starts a stack of the test's own, on free ports, and stops it at the
// test's end. Of cfg, Dir, Cache and Progress are filled in where empty. The
// end of the servers' logs is printed if the test failed.
func Private(tb testing.TB, cfg localstack.Config) *localstack.Stack {
	tb.Helper()
	dir := cfg.Dir
	if dir == "" {
		dir = tb.TempDir()
	}
	stack, err := start(dir, cfg)
	if err != nil {
		tb.Fatalf("starting a private stack: %v", err)
	}
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("the end of the servers' logs:\n%s", stack.Logs(30))
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := stack.Stop(ctx); err != nil {
			tb.Errorf("stopping the private stack: %v", err)
		}
	})
	return stack
}

func start(dir string, cfg localstack.Config) (*localstack.Stack, error) {
	cfg.Dir = dir
	if cfg.Cache == "" {
		cache, err := localstack.CacheDir(os.Environ())
		if err != nil {
			return nil, err
		}
		cfg.Cache = cache
	}
	if cfg.Progress == nil {
		cfg.Progress = os.Stderr
	}
	// A first fetch takes a minute or two.
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	return localstack.Start(ctx, cfg)
}
