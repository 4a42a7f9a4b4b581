package clickhouse_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	driver "github.com/ClickHouse/clickhouse-go/v2"

	"github.com/jobtrail/jobtrail/clickhouse"
	"github.com/jobtrail/jobtrail/internal/projector/projectortest"
	"github.com/jobtrail/jobtrail/pkg/events"
)

// shop writes a small shop's worth of legal histories and returns how many
// events they are.
func shop(t *testing.T, w *projectortest.World) (n int, first *projectortest.History) {
	offset := int64(0)
	var all []*projectortest.History
	h := func(op, job string) *projectortest.History {
		offset++
		h := projectortest.NewHistory(t, w.Group, "acme", op, job, "charge", 0, offset)
		all = append(all, h)
		return h
	}
	first = h("op-1", "a").Good()
	h("op-1", "a").DuplicateOf(first, events.DuplicateRejected)
	retried := h("op-1", "b")
	retried.Started(events.CauseFirst)
	retried.Retry(events.OutcomeFailed, events.ClassTransient, "503")
	retried.Started(events.CauseRetry)
	retried.Abandoned(events.AbandonWorkerLost, events.StateRetryWaiting)
	retried.Late(retried.Attempt(), events.OutcomeSucceeded)
	retried.Started(events.CauseRedelivery)
	retried.Succeeded()
	retried.Terminal(events.TerminalSucceeded, 0)
	failed := h("op-2", "c")
	failed.Started(events.CauseFirst)
	failed.GaveUp(events.OutcomeFailed, events.ClassPermanent, "404")
	failed.Terminal(events.TerminalFailed, events.ReasonPermanent)
	failed.Redriven("ops")
	failed.Deferred(events.DeferTier, failed.Clock+100)
	parked := h("op-3", "d")
	parked.Started(events.CauseFirst)
	parked.Abandoned(events.AbandonWorkerLost, events.StateDeciding)
	parked.Parked(events.ParkAbandoned)
	parked.Rejected("redrive", events.StateFailed)
	steps := h("op-4", "e")
	steps.Started(events.CauseFirst)
	steps.Succeeded()
	steps.StepCompleted("charge", "ship")
	steps.Started(events.CauseFirst)
	for _, h := range all {
		w.WriteEvents(0, h.Events...)
		n += len(h.Events)
	}
	return n, first
}

// ask runs a query of the package in the store's own database.
func ask(t *testing.T, conn driver.Conn, name string, parameters map[string]string) (rows []string) {
	t.Helper()
	return askWithin(t.Context(), t, conn, name, parameters)
}

func askWithin(ctx context.Context, t *testing.T, conn driver.Conn, name string, parameters map[string]string) (rows []string) {
	t.Helper()
	sql, err := clickhouse.Query(name)
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]string{}
	for _, m := range regexp.MustCompile(`\{(\w+):`).FindAllStringSubmatch(sql, -1) {
		value, ok := parameters[m[1]]
		if !ok {
			t.Fatalf("%s has parameter %s, which the test does not know", name, m[1])
		}
		used[m[1]] = value
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	// Rows as text: the columns are of many types.
	found, err := conn.Query(driver.Context(ctx, driver.WithParameters(used)), "SELECT toString(tuple(*)) FROM ("+strings.TrimSpace(sql)+")")
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	defer found.Close()
	for found.Next() {
		var row string
		if err := found.Scan(&row); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		rows = append(rows, row)
	}
	if err := found.Err(); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return rows
}

func TestQueries(t *testing.T) {
	w := projectortest.New(t, 1)
	w.Project(nil)
	n, first := shop(t, w)
	w.Write(0, []byte{0xff})
	w.Arrived(n)
	conn, err := driver.Open(&driver.Options{Addr: []string{w.Addr}, Auth: driver.Auth{Database: w.Layout.Database}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	parameters := map[string]string{
		"operation": "op-1", "tenant": "acme", "job": "b", "attempt": first.Attempt().String(), "minutes": "60", "hours": "3", "limit": "100", "least": "1", "factor": "2", "margin": "0.05", "seconds": "60",
		"until": time.Now().Add(time.Hour).UTC().Format("2006-01-02 15:04:05.000"),
		"since": time.Now().Add(-time.Hour).UTC().Format("2006-01-02 15:04:05.000"),
	}
	w.Eventually("the position is told", func() bool { return w.Count("SELECT count() FROM DB.v_positions") == 1 })
	// How many rows each question has of this shop; -1: those of whole minutes
	// depend on the clock.
	want := map[string]int{
		"operation": 12, "operation-state": 1, "operation-tenants": 1, "operation-attempts": 4, "operation-retries-by-cause": 2, "job": 1, "job-events": 8, "attempt": 2,
		"retry-rate": -1, "throughput": -1, "failure-groups": 2, "latest-failures": 1, "terminal-failures": 1, "abandoned": 2, "states": 5, "open-longest": 2, "parked": 1, "duplicates": 1,
		"late-outcomes": 1, "rejected": 1, "handler-times": 1, "projector-positions": 1, "quarantine": 1,
		"retry-rate-baseline": -1, "retry-rate-by-tenant": -1, "rates-over-time": -1, "work-over-time": -1, "dead-and-parked-over-time": -1, "failures-by-class": 1, "waiting": 3, "evidence-lag": 1, "incomplete": 1,
	}
	for _, name := range clickhouse.Queries() {
		rows := ask(t, conn, name, parameters)
		if strings.HasPrefix(name, "audit-") {
			if len(rows) > 0 {
				t.Errorf("%s finds %v in a sound log", name, rows)
			}
			continue
		}
		expect, ok := want[name]
		if !ok {
			t.Errorf("%s is not expected by the test", name)
		}
		if expect >= 0 && len(rows) != expect {
			t.Errorf("%s has %d rows, want %d: %v", name, len(rows), expect, rows)
		}
	}
	causes := ask(t, conn, "operation-retries-by-cause", parameters)
	if got := fmt.Sprint(causes); got != "[('redelivery','worker_lost',1) ('retry','transient',1)]" {
		t.Errorf("retries by cause are %s", got)
	}
	for name := range want {
		if !slices.Contains(clickhouse.Queries(), name) {
			t.Errorf("there is no query %s", name)
		}
	}

	// What is wrong is found, by the audit that is for it.
	a := w.Layout.Generation("a")
	columns := "operation_id, tenant_id, job_id, worker_group, job_type, origin_topic, origin_topic_id, origin_offset, origin_at, run, version, state, type, attempt_id, number, cause, outcome, log_at, log_id, partition, offset"
	row := func(job string, run, version int, state, typ, attempt string, number, offset int) string {
		return fmt.Sprintf("('op-bad', 'acme', '%s', 'g', 'charge', 'jobs', '%s', 900, now64(3), %d, %d, '%s', '%s', '%s', %d, '', '', now64(3), '%s', 0, %d)", job, projectortest.TopicID, run, version, state, typ, attempt, number, w.LogID, 1000+offset)
	}
	const x, y = "11111111-1111-1111-1111-111111111111", "22222222-2222-2222-2222-222222222222"
	for _, tt := range []struct {
		name   string
		insert []string
		audits []string
	}{
		{"a hole", []string{row("hole", 1, 1, "running", "attempt_started", x, 1, 1), row("hole", 1, 3, "succeeded", "job_terminal", x, 1, 2)}, []string{"audit-holes"}},
		{"a conflict", []string{row("conflict", 1, 1, "running", "attempt_started", x, 1, 3), row("conflict", 1, 1, "failed", "job_terminal", x, 0, 4)}, []string{"audit-conflicts"}},
		{"an illegal step", []string{row("step", 1, 1, "running", "attempt_started", x, 1, 5), row("step", 1, 2, "parked", "job_parked", x, 1, 6)}, []string{"audit-illegal-steps"}},
		{"a number that jumps", []string{row("number", 1, 1, "running", "attempt_started", x, 2, 7)}, []string{"audit-illegal-steps"}},
		{"an end without a start", []string{row("end", 1, 1, "failed", "attempt_finished", y, 1, 8)}, []string{"audit-attempts", "audit-illegal-steps"}},
		{"life after the end", []string{row("after", 1, 1, "failed", "job_terminal", x, 0, 9), row("after", 1, 2, "running", "attempt_started", x, 1, 10)}, []string{"audit-terminals", "audit-illegal-steps"}},
	} {
		if err := conn.Exec(t.Context(), "INSERT INTO "+a+".evidence ("+columns+") VALUES "+strings.Join(tt.insert, ", ")); err != nil {
			t.Fatal(err)
		}
		for _, audit := range tt.audits {
			job := regexp.MustCompile(`'op-bad', 'acme', '(\w+)'`).FindStringSubmatch(tt.insert[0])[1]
			rows := ask(t, conn, audit, parameters)
			if !slices.ContainsFunc(rows, func(r string) bool { return strings.Contains(r, "'"+job+"'") }) {
				t.Errorf("%s is not found by %s: %v", tt.name, audit, rows)
			}
		}
	}
	for audit, statement := range map[string]string{
		"audit-derived-counts": "ALTER TABLE " + a + ".timeline DELETE WHERE type = 'job_terminal' SETTINGS mutations_sync = 2",
		"audit-derived-jobs":   "ALTER TABLE " + a + ".jobs DELETE WHERE job_id = 'a' SETTINGS mutations_sync = 2",
	} {
		if err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
		if rows := ask(t, conn, audit, parameters); len(rows) == 0 {
			t.Errorf("%s finds nothing after %s", audit, statement)
		}
	}
	if err := conn.Exec(t.Context(), "ALTER TABLE "+a+".evidence DELETE WHERE operation_id IN ('op-1', 'op-bad') SETTINGS mutations_sync = 2"); err != nil {
		t.Fatal(err)
	}
	if rows := ask(t, conn, "audit-batches", parameters); len(rows) == 0 {
		t.Error("audit-batches finds nothing after rows are gone")
	}
}

// TestEveryQuestionIsAsked holds each file to a question in its first line.
func TestEveryQuestionIsAsked(t *testing.T) {
	for _, name := range clickhouse.Queries() {
		sql, err := clickhouse.Query(name)
		if err != nil {
			t.Fatal(err)
		}
		first, _, _ := strings.Cut(sql, "\n")
		if !strings.HasPrefix(first, "-- ") || !strings.Contains(first, "?") || strings.HasPrefix(name, "audit-") != strings.HasPrefix(first, "-- Audit, expected to be empty: ") {
			t.Errorf("%s begins with %q", name, first)
		}
		// The comment names every parameter.
		var comment []string
		for line := range strings.Lines(sql) {
			if strings.HasPrefix(line, "-- ") {
				comment = append(comment, line)
			}
		}
		for _, m := range regexp.MustCompile(`\{(\w+):`).FindAllStringSubmatch(sql, -1) {
			if !regexp.MustCompile(`\b` + m[1] + `(, \w+)*: `).MatchString(strings.Join(comment[1:], "")) {
				t.Errorf("%s does not say what %s is", name, m[1])
			}
		}
	}
	if _, err := clickhouse.Query("nothing"); err == nil {
		t.Error("a query that is not there was found")
	}
}

// TestIllegalStepsAreThoseOfTheMachine holds the legal steps in the query against
// the state machine.
func TestIllegalStepsAreThoseOfTheMachine(t *testing.T) {
	var steps []string
	for _, from := range events.States() {
		for typ := events.TypeAttemptStarted; typ <= events.TypeDedupPage; typ++ {
			for _, to := range events.LeadsTo(from, typ) {
				steps = append(steps, fmt.Sprintf("('%s', '%s', '%s')", from, typ, to))
			}
		}
	}
	query, err := clickhouse.Query("audit-illegal-steps")
	if err != nil {
		t.Fatal(err)
	}
	if want := "[" + strings.Join(steps, ", ") + "]"; !strings.Contains(query, want) {
		t.Errorf("the query does not hold\n%s", want)
	}
}
