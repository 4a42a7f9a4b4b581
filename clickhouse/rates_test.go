package clickhouse_test

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	driver "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/google/uuid"

	"github.com/jobtrail/jobtrail/clickhouse"
	"github.com/jobtrail/jobtrail/internal/localstack/stacktest"
)

// planted is a store into whose evidence a test writes rows of its own.
type planted struct {
	t      *testing.T
	conn   driver.Conn
	layout clickhouse.Layout
	log    uuid.UUID
	offset int
	now    time.Time
}

var stores atomic.Int32

func plant(t *testing.T) *planted {
	t.Helper()
	addr := stacktest.ForTest(t).ClickHouseAddr
	s := &planted{t: t, layout: clickhouse.Layout{Database: fmt.Sprintf("q%d_%d", os.Getpid(), stores.Add(1))}, log: uuid.New(), now: time.Now().UTC()}
	if _, err := clickhouse.Migrate(t.Context(), &driver.Options{Addr: []string{addr}}, s.layout); err != nil {
		t.Fatal(err)
	}
	var err error
	s.conn, err = driver.Open(&driver.Options{Addr: []string{addr}, Auth: driver.Auth{Database: s.layout.Database}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		for _, db := range []string{s.layout.Database, s.layout.Generation("a"), s.layout.Generation("b")} {
			if err := s.conn.Exec(ctx, "DROP DATABASE IF EXISTS "+db); err != nil {
				t.Error(err)
			}
		}
		_ = s.conn.Close()
	})
	return s
}

// rows are equal events of n jobs. Texts are those of the columns.
type rows struct {
	n                             int
	ago                           time.Duration // since they were appended to the log
	kind                          string        // column type
	jobType, tenant, job          string
	cause, outcome, reason, class string
	state                         string // of the version; none: a fact
	version                       int
}

// add writes the rows twice, as if the server had forgotten that it had the
// first: nothing is counted twice.
func (s *planted) add(all ...rows) {
	s.t.Helper()
	var selects []string
	for _, r := range all {
		state, job := r.state, r.job
		if state == "" {
			state = "none"
		}
		if job == "" {
			job = r.jobType + "-" + r.tenant
		}
		selects = append(selects, fmt.Sprintf(`SELECT 'op', '%s', concat('%s-', toString(number)), 'g', '%s', 'jobs', toUUID('%s'), number, t, 1, %d, '%s', '%s', generateUUIDv4(), '%s', '%s', '%s', '%s',
			fromUnixTimestamp64Milli(%d, 'UTC') AS t, toUUID('%s'), 0, %d + number FROM numbers(%d)`,
			r.tenant, job, r.jobType, uuid.NewSHA1(s.log, []byte(job)), r.version, state, r.kind, r.cause, r.outcome, r.reason, r.class, s.now.Add(-r.ago).UnixMilli(), s.log, s.offset, r.n))
		s.offset += r.n
	}
	const columns = "operation_id, tenant_id, job_id, worker_group, job_type, origin_topic, origin_topic_id, origin_offset, origin_at, run, version, state, type, attempt_id, cause, outcome, reason, error_class, log_at, log_id, partition, offset"
	for range 2 {
		for _, one := range selects {
			if err := s.conn.Exec(s.t.Context(), "INSERT INTO "+s.layout.Generation("a")+".evidence ("+columns+") SETTINGS insert_deduplicate = 0, async_insert = 0 "+one); err != nil {
				s.t.Fatal(err)
			}
		}
	}
}

// starts are n started attempts, some of them retries.
func starts(jobType, tenant string, ago time.Duration, n, retries int) []rows {
	r := rows{n: n - retries, ago: ago, kind: "attempt_started", jobType: jobType, tenant: tenant, cause: "first"}
	again := r
	again.n, again.cause = retries, "retry"
	return []rows{r, again}
}

func (s *planted) wants(name string, parameters map[string]string, want ...string) {
	s.t.Helper()
	if got := ask(s.t, s.conn, name, parameters); !slices.Equal(got, want) {
		s.t.Errorf("%s answers\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestRetryRateAgainstItsOwnBaseline(t *testing.T) {
	s := plant(t)
	const past, window = 3 * time.Hour, 5 * time.Minute
	s.add(slices.Concat(
		starts("steady", "acme", past, 1000, 100), starts("steady", "acme", window, 200, 22), // 0.1, now 0.11
		starts("sick", "acme", past, 500, 50), starts("sick", "bolt", past, 500, 50), starts("sick", "acme", window, 100, 55), starts("sick", "bolt", window, 100, 5), // 0.1, now 0.3 for one of its two tenants
		starts("fresh", "acme", window, 100, 4),                                         // no past, hardly any retries
		starts("freshly sick", "acme", window, 100, 10),                                 // no past
		starts("clean", "acme", past, 1000, 0), starts("clean", "acme", window, 100, 3), // usually none
		starts("small", "acme", past, 1000, 0), starts("small", "acme", window, 20, 20), // too few to say anything
		starts("young", "acme", past, 100, 40), starts("young", "acme", window, 100, 40), // a past of 100 counts as one of 250
		starts("ended", "acme", past, 1000, 500),           // nothing in the window
		starts("steady", "acme", 26*time.Hour, 1000, 1000), // before the baseline
	)...)
	parameters := map[string]string{"minutes": "30", "hours": "24", "least": "50", "factor": "2", "margin": "0.05", "limit": "3"}
	s.wants("retry-rate-baseline", parameters,
		"('g','young',100,40,0.4,100,0.16,1)", "('g','sick',200,60,0.3,1000,0.1,1)", "('g','freshly sick',100,10,0.1,0,0,1)", "('g','fresh',100,4,0.04,0,0,0)", "('g','clean',100,3,0.03,1000,0,0)", "('g','steady',200,22,0.11,1000,0.1,0)")
	s.wants("retry-rate-by-tenant", parameters,
		"('acme','g','sick',100,55,0.55,500,0.1,1)", "('acme','g','young',100,40,0.4,100,0.16,1)", "('acme','g','freshly sick',100,10,0.1,0,0,1)")
	s.wants("retry-rate", map[string]string{"minutes": "30", "least": "150"}, "('g','sick',200,60,0.3)", "('g','steady',200,22,0.11)")
}

func TestRatesOverTime(t *testing.T) {
	s := plant(t)
	s.now = time.Date(2026, 3, 4, 12, 0, 30, 0, time.UTC)
	at := func(minutes int) time.Duration { return -time.Duration(minutes) * time.Minute }
	end := func(jobType string, ago time.Duration, n int, outcome, reason string) rows {
		return rows{n: n, ago: ago, kind: "job_terminal", jobType: jobType, tenant: "acme", outcome: outcome, reason: reason, state: outcome, version: 2}
	}
	s.add(slices.Concat(
		starts("charge", "acme", at(-1), 7, 7),
		starts("charge", "acme", at(0), 6, 3), starts("charge", "acme", at(4), 4, 0), starts("mail", "acme", at(9), 10, 1),
		starts("charge", "acme", at(20), 7, 7), starts("print", "acme", at(3), 2, 0),
		[]rows{
			end("charge", at(1), 3, "succeeded", ""), end("charge", at(2), 1, "failed", "exhausted"), end("mail", at(7), 2, "expired", "deadline"), end("mail", at(8), 5, "cancelled", "operator"),
			{n: 4, ago: at(3), kind: "job_parked", jobType: "charge", tenant: "acme", state: "parked", version: 3}, {n: 1, ago: at(8), kind: "job_resolved", jobType: "charge", tenant: "acme", state: "deciding", version: 4},
			{n: 2, ago: at(6), kind: "job_redriven", jobType: "charge", tenant: "acme", state: "pending", version: 1}, {n: 3, ago: at(6), kind: "attempt_abandoned", jobType: "charge", tenant: "acme", state: "deciding", version: 2},
			{n: 2, ago: at(5), kind: "attempt_finished", jobType: "mail", tenant: "acme", outcome: "timed_out", state: "deciding", version: 2},
		},
	)...)
	parameters := map[string]string{"since": "2026-03-04 12:00:00.000", "until": "2026-03-04 12:10:00.000", "seconds": "300"}
	const first, second = "'2026-03-04 12:00:00'", "'2026-03-04 12:05:00'"
	s.wants("rates-over-time", parameters, "("+first+",'g charge',0.3,0.25)", "("+first+",'g print',0,NULL)", "("+second+",'g mail',0.1,1)")
	s.wants("work-over-time", parameters, "("+first+",12,3,0,0,3,1)", "("+second+",10,1,2,3,0,7)")
	s.wants("dead-and-parked-over-time", parameters, "("+first+",1,0,4,0)", "("+second+",2,2,0,1)")
	parameters["seconds"] = "1"
	if got := ask(t, s.conn, "work-over-time", parameters); len(got) != 10 {
		t.Errorf("steps of a second are not made a minute: %v", got)
	}
}

func TestWhatFailedAndWhatWaits(t *testing.T) {
	s := plant(t)
	event := func(job, jobType, tenant string, n, version int, kind, state string, ago time.Duration, reason, class string) rows {
		outcome := ""
		if kind == "job_terminal" {
			outcome = state
		}
		return rows{n: n, ago: ago, kind: kind, jobType: jobType, tenant: tenant, job: job, state: state, version: version, outcome: outcome, reason: reason, class: class}
	}
	// The origin of a run is one time: its events are planted at one, too.
	s.add(
		event("a", "charge", "acme", 3, 1, "attempt_finished", "deciding", 2*time.Minute, "", "transient"), event("a", "charge", "acme", 3, 2, "job_terminal", "failed", 2*time.Minute, "exhausted", ""),
		event("b", "charge", "bolt", 2, 1, "attempt_finished", "deciding", 3*time.Minute, "", "permanent"), event("b", "charge", "bolt", 2, 2, "job_terminal", "failed", 3*time.Minute, "permanent", ""),
		event("c", "mail", "acme", 1, 1, "job_terminal", "expired", 4*time.Minute, "deadline", ""),
		event("old", "mail", "acme", 9, 1, "job_terminal", "failed", 50*time.Minute, "exhausted", ""),
		event("good", "mail", "acme", 9, 1, "job_terminal", "succeeded", time.Minute, "", ""),
		event("p", "charge", "acme", 4, 1, "job_parked", "parked", 90*time.Minute, "abandoned", ""), event("p2", "charge", "acme", 1, 1, "job_parked", "parked", 10*time.Minute, "abandoned", ""),
		event("w", "mail", "acme", 5, 1, "attempt_finished", "retry_waiting", 5*time.Minute, "", "transient"),
		event("long ago", "mail", "acme", 5, 1, "job_parked", "parked", 72*time.Hour, "abandoned", ""),
		event("hole", "gappy", "acme", 2, 1, "attempt_started", "running", time.Minute, "", ""), event("hole", "gappy", "acme", 2, 3, "job_terminal", "succeeded", time.Minute, "", ""),
		event("many", "gappy", "acme", 1, 65, "job_terminal", "succeeded", time.Minute, "", ""),
	)
	stamp := func(ago time.Duration) string { return "'" + s.now.Add(-ago).Format("2006-01-02 15:04:05.000") + "'" }
	s.wants("failures-by-class", map[string]string{"minutes": "30"},
		"('g','charge','failed','exhausted','transient',3,1,"+stamp(2*time.Minute)+","+stamp(2*time.Minute)+")", "('g','charge','failed','permanent','permanent',2,1,"+stamp(3*time.Minute)+","+stamp(3*time.Minute)+")",
		"('g','mail','expired','deadline','',1,1,"+stamp(4*time.Minute)+","+stamp(4*time.Minute)+")")
	s.wants("terminal-failures", map[string]string{"minutes": "30"},
		"('g','charge','failed','exhausted',3,1,"+stamp(2*time.Minute)+")", "('g','charge','failed','permanent',2,1,"+stamp(3*time.Minute)+")", "('g','mail','expired','deadline',1,1,"+stamp(4*time.Minute)+")")
	since := map[string]string{"since": s.now.Add(-24 * time.Hour).Format("2006-01-02 15:04:05.000"), "limit": "2"}
	seconds := regexp.MustCompile(`,(\d+)\)$`)
	var waiting []string
	for _, row := range ask(t, s.conn, "waiting", since) {
		var age int
		if _, err := fmt.Sscan(seconds.FindStringSubmatch(row)[1], &age); err != nil {
			t.Fatal(err)
		}
		// The row is asked for a while after it was planted.
		waiting = append(waiting, fmt.Sprintf("%s about %d min", seconds.ReplaceAllString(row, ""), age/60))
	}
	if want := []string{"('g','charge','parked',5," + stamp(90*time.Minute) + " about 90 min", "('g','mail','retry_waiting',5," + stamp(5*time.Minute) + " about 5 min"}; !slices.Equal(waiting, want) {
		t.Errorf("waiting is %v, want %v", waiting, want)
	}
	if parked := ask(t, s.conn, "parked", since); len(parked) != 2 || !strings.Contains(parked[0], "'p-") {
		t.Errorf("parked for longest are %v", parked)
	}
	s.wants("incomplete", since, "('g','gappy',3,2,1)", "('g','charge',10,0,0)", "('g','mail',24,0,0)")
	if holes := ask(t, s.conn, "audit-holes", since); len(holes) != 3 {
		t.Errorf("holes are %v", holes)
	}
}

func TestEvidenceLag(t *testing.T) {
	s := plant(t)
	insert := func(group string, partition, position, stable, end int, complete, written time.Duration) {
		t.Helper()
		if err := s.conn.Exec(t.Context(), fmt.Sprintf(`INSERT INTO %s.positions (log_id, partition, log_topic, worker_group, position, stable_offset, end_offset, complete_up_to, written_at, projector)
			VALUES ('%s', %d, '%s.evidence', '%s', %d, %d, %d, now64(3) - %d, now64(3) - %d, 'p')`, s.layout.Generation("a"), uuid.NewSHA1(s.log, []byte(group)), partition, group, group, position, stable, end,
			int(complete.Seconds()), int(written.Seconds()))); err != nil {
			t.Fatal(err)
		}
	}
	insert("shop", 0, 40, 50, 50, 2*time.Hour, time.Hour) // replaced by the next
	insert("shop", 0, 100, 100, 100, 0, 0)
	insert("shop", 1, 70, 90, 110, 10*time.Minute, 2*time.Minute)
	insert("bank", 0, 5, 5, 5, 0, 0)
	got := ask(t, s.conn, "evidence-lag", nil)
	// The seconds go on while the question is asked.
	for i, want := range []string{`^\('bank',1,(\d),0,0,(\d)\)$`, `^\('shop',2,60\d,20,20,12\d\)$`} {
		if len(got) != 2 || !regexp.MustCompile(want).MatchString(got[i]) {
			t.Fatalf("evidence-lag answers %v, want %s", got, want)
		}
	}
}

// TestRatesReadLittle: what a dashboard asks again and again reads the time it
// is about, not the store.
func TestRatesReadLittle(t *testing.T) {
	s := plant(t)
	const old = 100_000
	s.add(starts("charge", "acme", 30*24*time.Hour, old, old/10)...)
	s.add(starts("charge", "acme", 12*time.Hour, old, old/10)...)
	s.add(starts("charge", "acme", 2*time.Minute, 2000, 200)...)
	s.add(rows{n: 2000, ago: 2 * time.Minute, kind: "job_terminal", jobType: "charge", tenant: "acme", outcome: "failed", reason: "exhausted", state: "failed", version: 2})
	s.add(rows{n: old / 4, ago: 12 * time.Hour, kind: "job_terminal", jobType: "charge", tenant: "acme", job: "old", outcome: "failed", reason: "exhausted", state: "failed", version: 2})
	for _, table := range []string{"timeline", "failures"} {
		if err := s.conn.Exec(t.Context(), "OPTIMIZE TABLE "+s.layout.Generation("a")+"."+table+" FINAL"); err != nil {
			t.Fatal(err)
		}
	}
	recent := map[string]string{"minutes": "30", "hours": "1", "least": "50", "factor": "2", "margin": "0.05", "limit": "10", "seconds": "60",
		"since": s.now.Add(-time.Hour).Format("2006-01-02 15:04:05.000"), "until": s.now.Add(time.Minute).Format("2006-01-02 15:04:05.000")}
	for _, name := range []string{"retry-rate", "retry-rate-baseline", "retry-rate-by-tenant", "rates-over-time", "work-over-time", "throughput", "terminal-failures", "failure-groups", "handler-times", "dead-and-parked-over-time"} {
		var read uint64
		ctx := driver.Context(t.Context(), driver.WithProgress(func(p *driver.Progress) { read += p.Rows }))
		if got := askWithin(ctx, t, s.conn, name, recent); len(got) == 0 && name != "failure-groups" {
			t.Errorf("%s answers nothing", name)
		}
		t.Logf("%s read %d rows", name, read)
		// A few granules of 8192 beside the rows of the hour.
		if read == 0 || read > 20_000 {
			t.Errorf("%s read %d rows of more than %d", name, read, 2*old)
		}
	}
}
