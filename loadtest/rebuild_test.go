package loadtest_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/jobtrail/jobtrail/internal/evidence"
	"github.com/jobtrail/jobtrail/internal/projector"
	"github.com/jobtrail/jobtrail/pkg/jobs"
)

// newBuild marks a command that is built with a projector that was changed: its
// rows have the column log_hour.
const newBuild = "@derivedcolumn"

// env is how the group's store and log are reached.
func (g *group) env() []string {
	return []string{"KAFKA_BROKERS=" + strings.Join(g.brokers, ","), "CLICKHOUSE_ADDR=" + g.store, "CLICKHOUSE_DATABASE=" + g.topo.Group}
}

// conn opens a connection to the group's store.
func (g *group) conn() clickhouse.Conn {
	g.t.Helper()
	conn, err := clickhouse.Open(&clickhouse.Options{Addr: []string{g.store}})
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// number is what a query returns, which may name the group's database DB and its
// generations A and B.
func (g *group) number(conn clickhouse.Conn, query string) (n uint64) {
	g.t.Helper()
	name := g.topo.Group
	query = strings.NewReplacer("DB.", name+".", "A.", name+"_a.", "B.", name+"_b.").Replace(query)
	for deadline := time.Now().Add(30 * time.Second); ; <-time.After(200 * time.Millisecond) {
		err := conn.QueryRow(g.t.Context(), query).Scan(&n)
		if err == nil {
			return n
		}
		// A client that is killed while it connects can take this build of the
		// server with it; it is started again.
		if time.Now().After(deadline) {
			g.t.Fatalf("%s: %v", query, err)
		}
	}
}

// rate publishes jobs at a rate until stop is called, which returns how many.
func (g *group) rate(perSecond int) (stop func() int) {
	g.t.Helper()
	const every = 50 * time.Millisecond
	var n atomic.Int64
	enough, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			var list []jobs.Job
			for range perSecond / int(time.Second/every) {
				i := n.Add(1)
				list = append(list, jobs.Job{ID: fmt.Sprint("job-", i), Type: "job", OperationID: fmt.Sprint("op-", i/5)})
			}
			if _, err := g.pub.PublishAll(context.WithoutCancel(g.t.Context()), list); err != nil {
				g.t.Error(err)
				return
			}
			select {
			case <-enough:
				return
			case <-tick.C:
			}
		}
	}()
	return func() int {
		close(enough)
		<-done
		return int(n.Load())
	}
}

// exit waits for the end of a process and returns its exit code.
func (p *process) exit(limit time.Duration) int {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(max(limit, time.Second)):
		p.t.Fatalf("%s does not end within %v", p.name, limit)
	}
	if e, ok := p.err.(*exec.ExitError); ok {
		return e.ExitCode()
	}
	return 0
}

// tries is how often a rebuild may fail because the server went away: see number.
const tries = 3

// rebuild runs jobtrail rebuild to its end, however often the generation is
// still held by one that was killed.
func (g *group) rebuild(args ...string) {
	g.t.Helper()
	for failed := 0; ; <-time.After(500 * time.Millisecond) {
		p := startWith(g.t, "jobtrail"+newBuild, append([]string{"rebuild"}, args...), g.env()...)
		code := p.exit(3 * time.Minute)
		if code == 1 {
			failed++
			g.t.Logf("jobtrail rebuild %v failed:\n%s", args, strings.Join(p.lines, "\n"))
		}
		switch {
		case code == 0:
			return
		case code != 1 && code != 4 || failed > tries:
			g.t.Fatalf("jobtrail rebuild %v ended with %d:\n%s", args, code, strings.Join(p.lines, "\n"))
		}
	}
}

// TestRebuildKilled changes the projector so that it writes a column more, and
// rebuilds while jobs go on. The rebuild and the projector are killed at random
// points, again and again.
func TestRebuildKilled(t *testing.T) {
	t.Parallel()
	defer within(t, t.Name())()
	g := newGroup(t, 2)
	w := newWitness(t, g)
	w.on("job", func(c *call) int {
		if c.attempt[0] < 20 && c.number == "1" {
			return 503
		}
		return 200
	})
	p := g.worker(w.jobsFile(`job: {http: {url: "URL"}}` + "\n"))
	conn := g.conn()
	old := g.projector()
	old.says("projecting", 1, 40*time.Second)
	stop := g.rate(200)
	for g.number(conn, "SELECT count() FROM DB.evidence") < 600 {
		<-time.After(100 * time.Millisecond)
	}
	old.stop()
	g.build = newBuild
	built(t, "jobtrail"+newBuild)
	pr := g.projector()
	pr.says("projecting", 1, 40*time.Second)
	for kills := 0; kills < 3; {
		r := startWith(t, "jobtrail"+newBuild, []string{"rebuild"}, g.env()...)
		r.says("", 1, 60*time.Second)
		select {
		case <-r.done: // refused, or through
			if code := r.exit(time.Second); code == 0 {
				kills = 3
			} else if code != 4 {
				t.Logf("jobtrail rebuild ended with %d:\n%s", code, strings.Join(r.lines, "\n"))
				kills++
			}
			<-time.After(300 * time.Millisecond)
			continue
		case <-time.After(time.Duration(300+rand.IntN(2700)) * time.Millisecond):
		}
		kills++
		r.kill()
		if rand.IntN(2) == 0 {
			pr.kill()
			pr = g.projector()
		}
		r.mu.Lock()
		t.Logf("killed after: %s", strings.Join(r.lines[max(0, len(r.lines)-1):], "\n"))
		r.mu.Unlock()
	}
	if g.number(conn, "SELECT count() FROM DB.generation") < 2 {
		g.rebuild()
	}
	n := stop()
	g.until(60*time.Second, "end of all jobs", terminals(n))
	p.stop()
	g.check()
	if n := g.number(conn, "SELECT countIf(log_hour = 0) FROM A.evidence"); n < 500 {
		t.Errorf("only %d rows of the old generation lack the new column", n)
	}
	if n := g.number(conn, "SELECT countIf(log_hour = 0) FROM B.evidence"); n != 0 {
		t.Errorf("%d rows of the new generation lack the new column", n)
	}
	if n := g.number(conn, "SELECT countIf(log_hour = 0) FROM DB.evidence"); n != 0 {
		t.Errorf("readers see %d rows without the new column", n)
	}
	// The old generation is taken to the log's end and holds the same.
	g.rebuild("rollback")
	pr.stop()
	g.sameGenerations(conn)
	t.Logf("%d jobs, %d events", n, g.number(conn, "SELECT count() FROM DB.evidence FINAL"))
}

// sameGenerations fails the test unless both generations hold the same events
// and give the same verdicts on every operation.
func (g *group) sameGenerations(conn clickhouse.Conn) {
	g.t.Helper()
	columns := strings.Join(projector.LosslessColumns(), ", ")
	for what, query := range map[string]string{
		"events":      "SELECT sum(cityHash64(" + columns + ")) + count() FROM X.evidence FINAL",
		"jobs":        "SELECT sum(cityHash64(toString(tuple(*)))) + count() FROM X.v_jobs",
		"attempts":    "SELECT sum(cityHash64(toString(tuple(*)))) + count() FROM X.v_attempts",
		"operations":  "SELECT sum(cityHash64(toString(tuple(*)))) + count() FROM X.v_operations",
		"rates":       "SELECT sum(cityHash64(toString(tuple(*)))) + count() FROM X.v_rates_1m",
		"failures":    "SELECT sum(cityHash64(toString(tuple(*)))) + count() FROM X.v_failures",
		"attempt ids": "SELECT sum(cityHash64(*)) + count() FROM X.attempt_ids FINAL",
	} {
		if a, b := g.number(conn, strings.ReplaceAll(query, "X.", "A.")), g.number(conn, strings.ReplaceAll(query, "X.", "B.")); a != b {
			g.t.Errorf("the generations differ in %s", what)
		}
	}
	var operations []string
	rows, err := conn.Query(g.t.Context(), "SELECT DISTINCT operation_id FROM "+g.topo.Group+".evidence WHERE operation_id != '' ORDER BY cityHash64(operation_id) LIMIT 100")
	if err != nil {
		g.t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var op string
		if err := rows.Scan(&op); err != nil {
			g.t.Fatal(err)
		}
		operations = append(operations, op)
	}
	if err := rows.Err(); err != nil || len(operations) == 0 {
		g.t.Fatalf("%d operations, %v", len(operations), err)
	}
	a, b := evidence.New(conn, g.topo.Group+"_a"), evidence.New(conn, g.topo.Group+"_b")
	for _, op := range operations {
		x, err1 := a.Operation(g.t.Context(), op, nil)
		y, err2 := b.Operation(g.t.Context(), op, nil)
		if err1 != nil || err2 != nil {
			g.t.Fatalf("operation %s: %v, %v", op, err1, err2)
		}
		if x.Verdict != y.Verdict || x.Sentence != y.Sentence || len(x.Jobs) != len(y.Jobs) {
			g.t.Errorf("operation %s: %s (%s) in the one, %s (%s) in the other", op, x.Verdict, x.Sentence, y.Verdict, y.Sentence)
		}
	}
}
