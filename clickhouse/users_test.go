package clickhouse_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	driver "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/jobtrail/jobtrail/clickhouse"
	"github.com/jobtrail/jobtrail/internal/localstack"
	"github.com/jobtrail/jobtrail/internal/localstack/stacktest"
	"github.com/jobtrail/jobtrail/internal/projector"
	"github.com/jobtrail/jobtrail/internal/projector/projectortest"
)

// TestRoles lets the real server enforce users.d: the projector projects with
// its own rights, the console reads and changes nothing, a tenant sees itself.
func TestRoles(t *testing.T) {
	files, err := filepath.Glob("users.d/*.xml")
	if err != nil || len(files) != 3 {
		t.Fatalf("files are %v, %v", files, err)
	}
	secret := uuid.NewString()
	for _, name := range []string{"PROJECTOR", "CONSOLE", "TENANT_ACME"} {
		t.Setenv("JOBTRAIL_CLICKHOUSE_"+name+"_PASSWORD", secret)
	}
	stack := stacktest.Private(t, localstack.Config{ClickHouseUsersFiles: files})
	layout := clickhouse.Layout{Database: "jobtrail"}
	options := func(user string) *driver.Options {
		o := &driver.Options{Addr: []string{stack.ClickHouseAddr()}}
		if user != "" {
			o.Auth = driver.Auth{Username: user, Password: secret}
		}
		return o
	}
	if _, err := clickhouse.Migrate(t.Context(), options(""), layout); err != nil {
		t.Fatal(err)
	}
	open := func(user string) driver.Conn {
		t.Helper()
		conn, err := driver.Open(options(user))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	w := projectortest.NewIn(t, stack.Brokers(), stack.ClickHouseAddr(), layout, 1)

	// The projector, with the rights of users.d only.
	p, err := projector.New(projector.Config{Groups: []string{w.Group}, Layout: layout, BatchWait: 50 * time.Millisecond, PositionEvery: 200 * time.Millisecond}, projector.Deps{
		Kafka: func(opts ...kgo.Opt) (*kgo.Client, error) {
			return kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(stack.Brokers()...)}, opts...)...)
		},
		Store:  open("jobtrail_projector"),
		Server: projector.Server{Addrs: []string{stack.ClickHouseAddr()}, Username: "jobtrail_projector", Password: secret},
		Migrate: func(ctx context.Context) error {
			_, err := clickhouse.Migrate(ctx, options("jobtrail_projector"), layout)
			return err
		},
		Registry: prometheus.NewRegistry(),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	total := 0
	for i, tenant := range []string{"acme", "globex"} {
		h := projectortest.NewHistory(t, w.Group, tenant, "op", "job", "charge", 0, int64(i)).Good()
		w.WriteEvents(0, h.Events...)
		total += len(h.Events)
	}
	w.Arrived(total)
	w.Eventually("the position is told", func() bool { return w.Count("SELECT count() FROM DB.v_positions") == 1 })
	if err := p.Ready(); err != nil {
		t.Errorf("the projector is not well: %v", err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}

	count := func(user, query string) (n uint64, err error) {
		err = open(user).QueryRow(t.Context(), query).Scan(&n)
		return n, err
	}
	for user, want := range map[string]uint64{"jobtrail_console": 2, "jobtrail_tenant_acme": 1} {
		for _, query := range []string{"SELECT uniqExact(tenant_id) FROM jobtrail.evidence", "SELECT count() FROM jobtrail.v_jobs", "SELECT count() FROM jobtrail.v_operations",
			"SELECT uniqExact(tenant_id) FROM jobtrail_a.timeline", "SELECT count() FROM jobtrail.attempt_ids", "SELECT count() FROM jobtrail.v_attempts"} {
			if n, err := count(user, query); err != nil || n != want {
				t.Errorf("%s: %s is %d, %v, want %d", user, query, n, err, want)
			}
		}
	}
	for _, tt := range []struct{ user, statement string }{
		{"jobtrail_projector", "DROP TABLE jobtrail_a.evidence"},
		{"jobtrail_projector", "ALTER TABLE jobtrail_a.evidence DELETE WHERE 1"},
		{"jobtrail_projector", "INSERT INTO jobtrail.generation (seq) VALUES (9)"},
		{"jobtrail_console", "INSERT INTO jobtrail_a.evidence (job_id) VALUES ('x')"},
		{"jobtrail_console", "TRUNCATE TABLE jobtrail_a.jobs"},
		{"jobtrail_console", "SET max_execution_time = 100000"},
		{"jobtrail_tenant_acme", "SELECT * FROM jobtrail.quarantine"},
		{"jobtrail_tenant_acme", "SELECT * FROM jobtrail_a.batches"},
		{"jobtrail_tenant_acme", "INSERT INTO jobtrail_a.evidence (job_id) VALUES ('x')"},
	} {
		if err := open(tt.user).Exec(t.Context(), tt.statement); err == nil {
			t.Errorf("%s may %s", tt.user, tt.statement)
		}
	}
	bad := options("jobtrail_console")
	bad.Auth.Password += "x"
	conn, err := driver.Open(bad)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.Ping(t.Context()); err == nil {
		t.Error("a wrong password lets somebody in")
	}
}

// TestTenantFilesCoverEveryTable finds a table with a tenant that has no row
// policy.
func TestTenantFilesCoverEveryTable(t *testing.T) {
	opts, conn, layout := store(t, "policies")
	if _, err := clickhouse.Migrate(t.Context(), opts, layout); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile("users.d/tenant.xml")
	if err != nil {
		t.Fatal(err)
	}
	rows, err := conn.Query(t.Context(), "SELECT table FROM system.columns WHERE database = ? AND name = 'tenant_id' AND NOT startsWith(table, 'v_') AND NOT endsWith(table, '_mv')", layout.Generation("a"))
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	n := 0
	for rows.Next() {
		var table string
		if err := rows.Scan(&table); err != nil {
			t.Fatal(err)
		}
		n++
		if got := strings.Count(string(raw), "<"+table+"><filter>"); got != 2 {
			t.Errorf("%s has a policy in %d generations, want 2", table, got)
		}
	}
	if n != 5 {
		t.Errorf("%d tables have a tenant, want 5", n)
	}
}
