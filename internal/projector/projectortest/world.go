// Package projectortest runs the real projector in a test, on real servers, and
// makes the events that go through it. It is for tests only.
package projectortest

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	driver "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/jobtrail/jobtrail/clickhouse"
	"github.com/jobtrail/jobtrail/internal/localstack/stacktest"
	"github.com/jobtrail/jobtrail/internal/projector"
	"github.com/jobtrail/jobtrail/pkg/events"
)

var made atomic.Int32

// World is a worker group with a log and a store of its own on shared servers.
type World struct {
	Brokers []string
	Addr    string // of ClickHouse
	Group   string
	Layout  clickhouse.Layout
	Conn    driver.Conn
	Client  *kgo.Client
	LogID   uuid.UUID
	t       testing.TB
}

// New makes a world on the shared stack; it is removed at the end of the test.
func New(t testing.TB, partitions int32) *World {
	t.Helper()
	stack := stacktest.ForTest(t)
	return NewOn(t, stack.Brokers, stack.ClickHouseAddr, partitions)
}

// NewOn is New on the given servers.
func NewOn(t testing.TB, brokers []string, addr string, partitions int32) *World {
	t.Helper()
	return NewIn(t, brokers, addr, clickhouse.Layout{Database: newName()}, partitions)
}

func newName() string { return fmt.Sprintf("p%d_%d", os.Getpid(), made.Add(1)) }

// NewIn is New on the given servers, in a store of that layout.
func NewIn(t testing.TB, brokers []string, addr string, layout clickhouse.Layout, partitions int32) *World {
	t.Helper()
	name := layout.Database
	w := &World{t: t, Brokers: brokers, Addr: addr, Group: newName(), Layout: layout}
	opts := &driver.Options{Addr: []string{w.Addr}}
	if _, err := clickhouse.Migrate(t.Context(), opts, w.Layout); err != nil {
		t.Fatalf("migrating: %v", err)
	}
	conn, err := driver.Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	w.Conn = conn
	w.Client, err = kgo.NewClient(kgo.SeedBrokers(w.Brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		for _, db := range []string{name, name + "_a", name + "_b"} {
			_ = conn.Exec(ctx, "DROP DATABASE IF EXISTS "+db)
		}
		_ = conn.Close()
		_, _ = kadm.NewClient(w.Client).DeleteTopics(ctx, projector.EvidenceTopic(w.Group))
		w.Client.Close()
	})
	w.CreateLog(partitions)
	return w
}

// CreateLog makes the log.
func (w *World) CreateLog(partitions int32) {
	w.t.Helper()
	if err := w.TryCreateLog(partitions); err != nil {
		w.t.Fatalf("creating the log: %v", err)
	}
}

// TryCreateLog is CreateLog for a log that is perhaps not quite deleted yet.
func (w *World) TryCreateLog(partitions int32) error {
	adm := kadm.NewClient(w.Client)
	topic := projector.EvidenceTopic(w.Group)
	created, err := adm.CreateTopic(w.t.Context(), partitions, 1, map[string]*string{"message.timestamp.type": new("LogAppendTime")}, topic)
	w.LogID = uuid.UUID(created.ID)
	return err
}

// Renew gives the world a new client, which knows nothing of an older log.
func (w *World) Renew() {
	w.t.Helper()
	w.Client.Close()
	client, err := w.Kafka(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		w.t.Fatal(err)
	}
	w.Client = client
}

// Write appends values to a partition of the log, in order.
func (w *World) Write(partition int32, values ...[]byte) {
	w.t.Helper()
	records := make([]*kgo.Record, len(values))
	for i, v := range values {
		records[i] = &kgo.Record{Topic: projector.EvidenceTopic(w.Group), Partition: partition, Value: v}
	}
	if err := w.Client.ProduceSync(w.t.Context(), records...).FirstErr(); err != nil {
		w.t.Fatalf("writing to the log: %v", err)
	}
}

// WriteEvents appends events to a partition of the log, in order.
func (w *World) WriteEvents(partition int32, es ...*events.Event) {
	w.t.Helper()
	values := make([][]byte, len(es))
	for i, e := range es {
		values[i] = events.Append(nil, e)
	}
	w.Write(partition, values...)
}

// Projector is a projector that runs in the test.
type Projector struct {
	*projector.Projector
	// Kafka is its way to the brokers.
	Kafka Cable
	t     testing.TB
	done  chan error
	end   context.CancelFunc
}

// Project runs a projector with short waits until Stop, at the latest until the
// end of the test.
func (w *World) Project(change func(*projector.Config)) *Projector {
	w.t.Helper()
	cfg := projector.Config{Groups: []string{w.Group}, Layout: w.Layout, BatchWait: 50 * time.Millisecond, PositionEvery: 200 * time.Millisecond}
	if change != nil {
		change(&cfg)
	}
	p := &Projector{t: w.t, done: make(chan error, 1)}
	var err error
	p.Projector, err = projector.New(cfg, projector.Deps{
		Kafka: func(opts ...kgo.Opt) (*kgo.Client, error) {
			return kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(w.Brokers...), kgo.Dialer(p.Kafka.Dial)}, opts...)...)
		},
		Store: w.Conn, Server: projector.Server{Addrs: []string{w.Addr}, Username: "default"}, Registry: prometheus.NewRegistry(),
		Logger: slog.New(slog.NewTextHandler(testWriter{w.t}, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.end = cancel
	go func() { p.done <- p.Run(ctx); close(p.done) }()
	w.t.Cleanup(p.Stop)
	return p
}

// Stop ends the projector and fails the test unless it ends cleanly. It may be
// called again.
func (p *Projector) Stop() {
	p.end()
	select {
	case err := <-p.done:
		if err != nil {
			p.t.Errorf("the projector ended: %v", err)
		}
	case <-time.After(30 * time.Second):
		p.t.Error("the projector did not end within 30 s")
	}
}

// Audit fails the test unless the live generation holds exactly what the log
// says, with n events.
func (w *World) Audit(n int) projector.AuditReport {
	w.t.Helper()
	return w.AuditOf(w.Layout.Generation(clickhouse.GenerationA), n)
}

// AuditOf is Audit of a generation.
func (w *World) AuditOf(database string, n int) projector.AuditReport {
	w.t.Helper()
	r, err := projector.Audit(w.t.Context(), w.Kafka, w.Conn, database, w.Group)
	if err != nil {
		w.t.Fatalf("auditing: %v", err)
	}
	if err := r.Err(); err != nil {
		w.t.Errorf("log and store differ: %v", err)
	}
	total := 0
	for _, s := range r.Log {
		total += s.Events
	}
	if total != n {
		w.t.Errorf("the log has %d events, want %d", total, n)
	}
	return r
}

// Kafka opens a client.
func (w *World) Kafka(opts ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(w.Brokers...)}, opts...)...)
}

type testWriter struct{ t testing.TB }

func (w testWriter) Write(b []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(b)))
	return len(b), nil
}

// Count is the number that a query returns.
func (w *World) Count(query string, args ...any) uint64 {
	w.t.Helper()
	var n uint64
	if err := w.Conn.QueryRow(w.t.Context(), strings.ReplaceAll(query, "DB.", w.Layout.Database+"."), args...).Scan(&n); err != nil {
		w.t.Fatalf("%s: %v", query, err)
	}
	return n
}

// Arrived waits until n events are in the live generation, in evidence and in
// everything that is made from it: the server shows the rows of evidence a
// moment before those of the other tables.
func (w *World) Arrived(n int) {
	w.t.Helper()
	w.Eventually(fmt.Sprintf("%d events are in the store", n), func() bool {
		return w.Count("SELECT uniqExact(log_id, partition, offset) FROM DB.evidence") == uint64(n) && w.Count("SELECT sum(row_count) FROM DB.batches FINAL") >= uint64(n)
	})
}

// Eventually waits until f holds.
func (w *World) Eventually(what string, f func() bool) {
	w.t.Helper()
	deadline := time.After(60 * time.Second)
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for !f() {
		select {
		case <-again.C:
		case <-deadline:
			w.t.Fatalf("not within 60 s: %s", what)
		}
	}
}
