package clickhouse_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	driver "github.com/ClickHouse/clickhouse-go/v2"

	"github.com/jobtrail/jobtrail/clickhouse"
	"github.com/jobtrail/jobtrail/internal/localstack/stacktest"
)

func TestMain(m *testing.M) { stacktest.Main(m) }

// store returns a layout of its own on the shared server.
func store(t *testing.T, name string) (*driver.Options, driver.Conn, clickhouse.Layout) {
	t.Helper()
	opts := &driver.Options{Addr: []string{stacktest.ForTest(t).ClickHouseAddr}}
	conn, err := driver.Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	layout := clickhouse.Layout{Database: fmt.Sprintf("m%d_%s", os.Getpid(), name)}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		for _, db := range []string{layout.Database, layout.Generation("a"), layout.Generation("b")} {
			_ = conn.Exec(ctx, "DROP DATABASE IF EXISTS "+db)
		}
		_ = conn.Close()
	})
	return opts, conn, layout
}

func TestMigrateTwiceAndAtOnce(t *testing.T) {
	opts, conn, layout := store(t, "twice")
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			if _, err := clickhouse.Migrate(t.Context(), opts, layout); err != nil {
				t.Errorf("migrating at once with others: %v", err)
			}
		})
	}
	all.Wait()
	applied, err := clickhouse.Migrate(t.Context(), opts, layout)
	if err != nil || len(applied) > 0 {
		t.Errorf("migrating again applied %v, %v", applied, err)
	}
	live, err := clickhouse.Live(t.Context(), conn, layout)
	if err != nil || live != layout.Generation(clickhouse.GenerationA) {
		t.Errorf("live is %q, %v", live, err)
	}
}

func TestPointerAndViewsTurn(t *testing.T) {
	opts, conn, layout := store(t, "turn")
	if _, err := clickhouse.Migrate(t.Context(), opts, layout); err != nil {
		t.Fatal(err)
	}
	b := layout.Generation(clickhouse.GenerationB)
	if err := conn.Exec(t.Context(), "INSERT INTO "+b+".evidence (job_id, operation_id, run, version, type, log_at, origin_at) VALUES ('j', 'op', 1, 1, 'attempt_started', now64(3), now64(3))"); err != nil {
		t.Fatal(err)
	}
	count := func() (n uint64) {
		t.Helper()
		if err := conn.QueryRow(t.Context(), "SELECT count() FROM "+layout.Database+".v_jobs").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := count(); n != 0 {
		t.Errorf("generation a shows %d jobs", n)
	}
	if err := clickhouse.SetLive(t.Context(), conn, layout, b, "test"); err != nil {
		t.Fatal(err)
	}
	if live, err := clickhouse.Live(t.Context(), conn, layout); err != nil || live != b {
		t.Errorf("live is %q, %v", live, err)
	}
	if n := count(); n != 1 {
		t.Errorf("generation b shows %d jobs, want 1", n)
	}
	if err := clickhouse.SetLive(t.Context(), conn, layout, "default", "test"); err == nil {
		t.Error("a database that is no generation was made live")
	}
}

// TestEveryColumnIsExplained reads the comments that the server keeps.
func TestEveryColumnIsExplained(t *testing.T) {
	opts, conn, layout := store(t, "explained")
	if _, err := clickhouse.Migrate(t.Context(), opts, layout); err != nil {
		t.Fatal(err)
	}
	rows, err := conn.Query(t.Context(), `SELECT database || '.' || table || '.' || name FROM system.columns
WHERE database IN (?, ?) AND comment = '' AND NOT startsWith(table, 'v_') AND NOT endsWith(table, '_mv') AND table != 'schema_versions'`, layout.Database, layout.Generation("a"))
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var column string
		if err := rows.Scan(&column); err != nil {
			t.Fatal(err)
		}
		t.Errorf("%s has no comment", column)
	}
	var tables uint64
	if err := conn.QueryRow(t.Context(), "SELECT count() FROM system.tables WHERE database IN (?, ?) AND engine LIKE '%MergeTree' AND comment != ''", layout.Database, layout.Generation("a")).Scan(&tables); err != nil || tables != 12 {
		t.Errorf("%d tables have a comment, %v, want 12", tables, err)
	}
}

// TestReplicatedRendering lets the server parse what it cannot run without
// Keeper.
func TestReplicatedRendering(t *testing.T) {
	_, conn, _ := store(t, "replicated")
	layout := clickhouse.Layout{Database: "jobtrail", Cluster: "prod"}
	tables := 0
	for _, dir := range []string{"migrations/control", "migrations/generation"} {
		rendered, err := clickhouse.Render(layout, dir)
		if err != nil {
			t.Fatal(err)
		}
		files, err := fs.Glob(rendered, "*.sql")
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v, %v", dir, files, err)
		}
		for _, f := range files {
			raw, err := fs.ReadFile(rendered, f)
			if err != nil {
				t.Fatal(err)
			}
			up, _, _ := strings.Cut(string(raw), "-- +goose Down")
			for statement := range strings.SplitSeq(up, ";\n") {
				_, statement, _ = strings.Cut(statement, "CREATE ")
				if statement == "" {
					continue
				}
				if err := conn.Exec(t.Context(), "EXPLAIN AST CREATE "+statement); err != nil {
					t.Errorf("%s: %v in %.80s", f, err, statement)
				}
				if !strings.Contains(statement, "ON CLUSTER prod") {
					t.Errorf("%s is not made on the cluster: %.80s", f, statement)
				}
				if strings.HasPrefix(statement, "TABLE") {
					tables++
					if !strings.Contains(statement, "ENGINE = Replicated") || strings.Contains(statement, "non_replicated") {
						t.Errorf("%s is not replicated: %.80s", f, statement)
					}
				}
			}
		}
	}
	if tables != 12 {
		t.Errorf("%d tables, want 12", tables)
	}
}
