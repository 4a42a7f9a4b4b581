package deploy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	driver "github.com/ClickHouse/clickhouse-go/v2"

	"github.com/jobtrail/jobtrail/clickhouse"
	"github.com/jobtrail/jobtrail/internal/localstack/stacktest"
)

const dashboardFile = "grafana/jobtrail.json"

var writeDashboard = flag.Bool("dashboard.write", false, "write the SQL of the panels from clickhouse/queries")

func TestMain(m *testing.M) { stacktest.Main(m) }

// target is what a panel asks. A question of clickhouse/queries is named by refId.
type target struct {
	Expr, RawSQL, RefID, QueryType string
	Datasource                     struct{ Type, UID string }
}

type panel struct {
	ID      int
	Title   string
	Type    string
	Targets []target
	Panels  []panel
}

// panels returns the panels that ask something, those of collapsed rows, too.
func panels(t *testing.T) (all []panel) {
	t.Helper()
	raw, err := os.ReadFile(dashboardFile)
	if err != nil {
		t.Fatal(err)
	}
	var d struct{ Panels []panel }
	if err := json.Unmarshal(raw, &d); err != nil {
		t.Fatalf("reading %s: %v", dashboardFile, err)
	}
	ids := map[int]bool{}
	var walk func([]panel)
	walk = func(list []panel) {
		for _, p := range list {
			if ids[p.ID] {
				t.Errorf("two panels have the id %d", p.ID)
			}
			ids[p.ID] = true
			if p.Type != "row" {
				all = append(all, p)
			}
			walk(p.Panels)
		}
	}
	walk(d.Panels)
	return all
}

// long are the questions about what is not finished: they are not asked for the
// time range of the dashboard.
var long = []string{"waiting", "parked"}

// panelSQL is the SQL of a question as the dashboard asks it: Grafana's macros
// and variables stand for ClickHouse's parameters.
func panelSQL(t *testing.T, name string) string {
	t.Helper()
	sql, err := clickhouse.Query(name)
	if err != nil {
		t.Fatal(err)
	}
	since := "$__fromTime_ms"
	if slices.Contains(long, name) {
		since = "now64(3, 'UTC') - toIntervalDay(90)"
	}
	sql = strings.NewReplacer(
		"{since:DateTime64(3, 'UTC')}", since, "{until:DateTime64(3, 'UTC')}", "$__toTime_ms", "{seconds:UInt32}", "$__interval_s",
		"{minutes:UInt32}", "$minutes", "{hours:UInt32}", "$hours", "{least:UInt32}", "$least", "{limit:UInt32}", "100", "{factor:Float64}", "2", "{margin:Float64}", "0.05",
	).Replace(sql)
	if m := regexp.MustCompile(`\{\w+:`).FindString(sql); m != "" {
		t.Fatalf("the dashboard has nothing for %s of %s", m, name)
	}
	return sql
}

// TestDashboardAsksTheQuestions: the SQL of every panel is that of its question.
func TestDashboardAsksTheQuestions(t *testing.T) {
	if *writeDashboard {
		rewriteDashboard(t)
	}
	asked := 0
	for _, p := range panels(t) {
		for _, q := range p.Targets {
			if q.Datasource.Type != "grafana-clickhouse-datasource" {
				continue
			}
			asked++
			if want := panelSQL(t, q.RefID); q.RawSQL != want {
				t.Errorf("panel %q differs from clickhouse/queries/%s.sql; go test ./deploy -run TestDashboardAsks -dashboard.write puts that right.\ngot:\n%s\nwant:\n%s", p.Title, q.RefID, q.RawSQL, want)
			}
		}
	}
	if asked < 10 {
		t.Errorf("only %d panels ask the store", asked)
	}
}

func rewriteDashboard(t *testing.T) {
	t.Helper()
	raw, err := os.ReadFile(dashboardFile)
	if err != nil {
		t.Fatal(err)
	}
	var d map[string]any
	if err := json.Unmarshal(raw, &d); err != nil {
		t.Fatal(err)
	}
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, x := range v {
				walk(x)
			}
		case map[string]any:
			if name, ok := v["refId"].(string); ok && v["rawSql"] != nil {
				v["rawSql"] = panelSQL(t, name)
			}
			for _, x := range v {
				walk(x)
			}
		}
	}
	walk(d)
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(d); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dashboardFile, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// expanded is SQL as the data source sends it.
func expanded(sql string) string {
	from, to := time.Now().Add(-24*time.Hour).UnixMilli(), time.Now().UnixMilli()
	return strings.NewReplacer("$__fromTime_ms", fmt.Sprintf("fromUnixTimestamp64Milli(%d)", from), "$__toTime_ms", fmt.Sprintf("fromUnixTimestamp64Milli(%d)", to), "$__interval_s", "300",
		"$minutes", "30", "$hours", "24", "$least", "50").Replace(sql)
}

// TestDashboardRuns asks a real store what every panel asks, with no more rights
// than a reader has.
func TestDashboardRuns(t *testing.T) {
	addr := stacktest.ForTest(t).ClickHouseAddr
	layout := clickhouse.Layout{Database: fmt.Sprintf("grafana%d", os.Getpid())}
	if _, err := clickhouse.Migrate(t.Context(), &driver.Options{Addr: []string{addr}}, layout); err != nil {
		t.Fatal(err)
	}
	admin, err := driver.Open(&driver.Options{Addr: []string{addr}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		for _, db := range []string{layout.Database, layout.Generation("a"), layout.Generation("b")} {
			if err := admin.Exec(ctx, "DROP DATABASE IF EXISTS "+db); err != nil {
				t.Error(err)
			}
		}
		_ = admin.Close()
	})
	conn, err := driver.Open(&driver.Options{Addr: []string{addr}, Auth: driver.Auth{Database: layout.Database}, Settings: driver.Settings{"readonly": 2, "max_execution_time": 30}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, p := range panels(t) {
		for _, q := range p.Targets {
			if q.Datasource.Type != "grafana-clickhouse-datasource" {
				continue
			}
			sql := expanded(q.RawSQL)
			if strings.Contains(sql, "$") {
				t.Errorf("panel %q has a variable that is not known: %s", p.Title, sql)
			}
			rows, err := conn.Query(t.Context(), sql)
			if err != nil {
				t.Errorf("panel %q: %v", p.Title, err)
				continue
			}
			types := rows.ColumnTypes()
			for rows.Next() {
				if p.Type == "table" && strings.HasPrefix(q.RefID, "audit-") {
					t.Errorf("panel %q has a row of an empty store", p.Title)
				}
			}
			if err := errors.Join(rows.Err(), rows.Close()); err != nil {
				t.Errorf("panel %q: %v", p.Title, err)
			}
			if len(types) == 0 || p.Type == "timeseries" && !strings.HasPrefix(types[0].DatabaseTypeName(), "DateTime") {
				t.Errorf("panel %q is a %s of %d columns, the first of which is no time", p.Title, p.Type, len(types))
			}
			if (p.Type == "timeseries") != (q.QueryType == "timeseries") {
				t.Errorf("panel %q is a %s and asks for a %s", p.Title, p.Type, q.QueryType)
			}
		}
	}
	if err := conn.Exec(t.Context(), "CREATE TABLE refused (x UInt8) ENGINE = Memory"); err == nil {
		t.Error("the reader can write")
	}
}

// TestDashboardNamesMetricsThatExist also has promtool read every expression.
func TestDashboardNamesMetricsThatExist(t *testing.T) {
	known := metrics(t)
	var b strings.Builder
	b.WriteString("groups:\n  - name: panels\n    rules:\n")
	n := 0
	for _, p := range panels(t) {
		for _, q := range p.Targets {
			if q.Datasource.Type != "prometheus" {
				continue
			}
			n++
			for _, name := range metricName.FindAllString(q.Expr, -1) {
				if !known[name] {
					t.Errorf("panel %q uses %s, which docs/metrics.md does not know", p.Title, name)
				}
			}
			expr := strings.NewReplacer("$__rate_interval", "5m", "$job", ".*").Replace(q.Expr)
			if strings.Contains(expr, "$") {
				t.Errorf("panel %q has a variable that is not known: %s", p.Title, q.Expr)
			}
			fmt.Fprintf(&b, "      - {record: 'panel:%d', expr: '%s'}\n", n, strings.ReplaceAll(expr, "'", "''"))
		}
	}
	if n < 10 {
		t.Errorf("only %d expressions were found", n)
	}
	file := filepath.Join(t.TempDir(), "panels.yml")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	runPromtool(t, "check", "rules", file)
}
