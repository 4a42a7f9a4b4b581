package rebuild_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	driver "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/jobtrail/jobtrail/clickhouse"
	"github.com/jobtrail/jobtrail/internal/localstack/stacktest"
	"github.com/jobtrail/jobtrail/internal/projector"
	"github.com/jobtrail/jobtrail/internal/projector/projectortest"
	"github.com/jobtrail/jobtrail/internal/rebuild"
	"github.com/jobtrail/jobtrail/pkg/events"
)

func TestMain(m *testing.M) { stacktest.Main(m) }

// world is a store and a log with a projector that goes on all the time.
type world struct {
	*projectortest.World
	t    *testing.T
	a, b string
	jobs int
	rows int
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := projectortest.New(t, 2)
	return &world{World: w, t: t, a: w.Layout.Generation(clickhouse.GenerationA), b: w.Layout.Generation(clickhouse.GenerationB)}
}

// load writes n jobs: most succeed at once, some are retried, abandoned or
// parked.
func (w *world) load(n int) {
	w.t.Helper()
	of := map[int32][]*events.Event{}
	parts := int32(2)
	for i := w.jobs; i < w.jobs+n; i++ {
		p := int32(i) % parts
		h := projectortest.NewHistory(w.t, w.Group, "acme", fmt.Sprintf("op-%d", i/4), fmt.Sprintf("job-%d", i), "charge", p, int64(i))
		switch i % 5 {
		case 0:
			h.Started(events.CauseFirst)
			h.Retry(events.OutcomeFailed, events.ClassTransient, "503 Service Unavailable")
			h.Started(events.CauseRetry)
			h.Succeeded()
			h.Terminal(events.TerminalSucceeded, 0)
		case 1:
			h.Started(events.CauseFirst)
			h.Abandoned(events.AbandonWorkerLost, events.StateRetryWaiting)
			h.Started(events.CauseRedelivery)
			h.GaveUp(events.OutcomeFailed, events.ClassPermanent, "card 4111 declined")
			h.Terminal(events.TerminalFailed, events.ReasonPermanent)
		default:
			h.Good()
		}
		of[p] = append(of[p], h.Events...)
		w.rows += len(h.Events)
	}
	w.jobs += n
	for p, es := range of {
		for some := range slices.Chunk(es, 30) {
			w.WriteEvents(p, some...)
		}
	}
}

// rebuild returns a rebuild with short waits.
func (w *world) rebuild(change func(*rebuild.Config)) *rebuild.Rebuild {
	w.t.Helper()
	cfg := rebuild.Config{Layout: w.Layout, Holder: "test/" + w.t.Name(), Expiry: 3 * time.Second, Batch: projector.Config{BatchWait: 50 * time.Millisecond, PositionEvery: 200 * time.Millisecond}}
	if change != nil {
		change(&cfg)
	}
	r, err := rebuild.New(cfg, rebuild.Deps{
		Kafka: w.Kafka, Store: w.Conn, Server: projector.Server{Addrs: []string{w.Addr}, Username: "default"},
		Migrate: func(ctx context.Context) error {
			_, err := clickhouse.Migrate(ctx, &driver.Options{Addr: []string{w.Addr}}, w.Layout)
			return err
		},
		Logger: slog.New(slog.NewTextHandler(logger{w.t}, &slog.HandlerOptions{Level: slog.LevelInfo})),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

type logger struct{ t testing.TB }

func (l logger) Write(b []byte) (int, error) {
	l.t.Log(strings.TrimSpace(string(b)))
	return len(b), nil
}

func (w *world) run(change func(*rebuild.Config)) rebuild.Report {
	w.t.Helper()
	rep, err := w.rebuild(change).Run(w.t.Context())
	if err != nil {
		w.t.Fatalf("rebuilding: %v, %+v", err, rep.Found)
	}
	return rep
}

// equal fails the test unless both generations answer every question alike.
func (w *world) equal() {
	w.t.Helper()
	for _, table := range []string{"evidence", "jobs", "timeline", "failures", "attempt_ids", "v_jobs", "v_attempts", "v_operations", "v_rates_1m", "v_failures", "v_duplicates", "v_rejected"} {
		final := ""
		if !strings.HasPrefix(table, "v_") {
			final = "FINAL"
		}
		count := func(database string) uint64 {
			return w.Count(fmt.Sprintf("SELECT sum(cityHash64(toString(tuple(*)))) + count() FROM %s.%s %s", database, table, final))
		}
		if x, y := count(w.a), count(w.b); x != y {
			w.t.Errorf("%s differs between the generations", table)
		}
	}
}

func (w *world) live() string {
	w.t.Helper()
	live, err := clickhouse.Live(w.t.Context(), w.Conn, w.Layout)
	if err != nil {
		w.t.Fatal(err)
	}
	return live
}

// settled stops loading: it waits until the live generation has everything, and
// fills the other one to the end as well.
func (w *world) settled() {
	w.t.Helper()
	w.Arrived(w.rows)
	other := w.a
	if w.live() == w.a {
		other = w.b
	}
	cfg := projector.Config{Groups: []string{w.Group}, Layout: w.Layout, BatchWait: 50 * time.Millisecond, PositionEvery: 200 * time.Millisecond}
	p, err := projector.New(cfg, projector.Deps{Kafka: w.Kafka, Store: w.Conn, Server: projector.Server{Addrs: []string{w.Addr}, Username: "default"}})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Fill(ctx, other) }()
	w.Eventually("the other generation is complete", func() bool {
		return w.Count("SELECT uniqExact(log_id, partition, offset) FROM "+other+".evidence") == uint64(w.rows) && w.Count("SELECT sum(row_count) FROM "+other+".batches FINAL") >= uint64(w.rows)
	})
	cancel()
	if err := <-done; err != nil {
		w.t.Fatal(err)
	}
}

func TestRebuildFlipAndRollback(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Project(nil)
	w.load(200)
	w.Write(0, []byte("poison"))
	w.Arrived(w.rows)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() { // jobs go on
		defer close(stopped)
		for {
			w.load(20)
			select {
			case <-stop:
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
	rep := w.run(nil)
	if rep.Phase != rebuild.PhaseFlipped || rep.Live != w.b || w.live() != w.b || !rep.TakenOver || rep.Resumed || rep.Compared < 200 {
		t.Errorf("the report: %+v, live is %s", rep, w.live())
	}
	for _, p := range rep.Partitions {
		if !p.Equal || p.Events == 0 || p.Before == 0 {
			t.Errorf("partition: %+v", p)
		}
	}
	for _, s := range rep.Verdicts {
		if !s.Equal || s.Rows == 0 {
			t.Errorf("table: %+v", s)
		}
	}
	// It is kept; a rollback turns to it.
	var kept *rebuild.KeptError
	if _, err := w.rebuild(nil).Run(t.Context()); !errors.As(err, &kept) || kept.Database != w.a {
		t.Errorf("a second rebuild: %v", err)
	}
	if _, err := w.rebuild(nil).Drop(t.Context()); !errors.As(err, &kept) {
		t.Errorf("dropping: %v", err)
	}
	back, err := w.rebuild(nil).Rollback(t.Context())
	if err != nil || back.Live != w.a || w.live() != w.a || !back.TakenOver {
		t.Fatalf("rolling back: %v, %+v", err, back)
	}
	close(stop)
	<-stopped
	w.settled()
	w.equal()
	w.AuditOf(w.a, w.rows)
	w.AuditOf(w.b, w.rows)
	if n := w.Count("SELECT count() FROM " + w.b + ".quarantine"); n != 1 {
		t.Errorf("%d records in quarantine, want 1", n)
	}
	if rep := w.run(func(c *rebuild.Config) { c.DiscardKept = true }); rep.Live != w.b {
		t.Errorf("rebuilding over what was kept: %+v", rep)
	}
	if rep, err := w.rebuild(func(c *rebuild.Config) { c.DiscardKept = true }).Drop(t.Context()); err != nil || rep.Phase != rebuild.PhaseDropped || w.live() != w.b {
		t.Errorf("dropping: %v, %+v", err, rep)
	}
	if n := w.Count("SELECT count() FROM " + w.a + ".evidence"); n != 0 {
		t.Errorf("after dropping %d rows are left", n)
	}
	if _, err := w.rebuild(nil).Rollback(t.Context()); err == nil {
		t.Error("a generation that was dropped was made live")
	}
	status, err := rebuild.Read(t.Context(), w.Conn, w.Layout)
	if err != nil || status.Live != w.b || status.Kept != "" || status.Holder != "" || status.Last.Phase != rebuild.PhaseDropped {
		t.Errorf("the status: %+v, %v", status, err)
	}
}

// TestPlantedDifferenceIsFound changes one generation behind the back of the
// projector: the comparison says where, and the pointer stays.
func TestPlantedDifferenceIsFound(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Project(nil)
	w.load(60)
	w.Arrived(w.rows)
	// The projector's own comparison looks at the last 20 batches and would bring
	// back what is missing there.
	if rep := w.run(func(c *rebuild.Config) { c.NoFlip, c.Batch.BatchRows = true, 2 }); rep.Phase != rebuild.PhaseEqual || w.live() != w.a {
		t.Fatalf("comparing: %+v", rep)
	}
	const at = "WHERE partition = 1 AND offset = 7"
	for _, tt := range []struct {
		name, database string
		plant          []string
		want           string // of one of the differences
	}{
		{"a row is missing in the new one", w.b, []string{"ALTER TABLE DB.evidence DELETE " + at}, "evidence: log LOG, partition 1, offset 7: missing in " + w.b},
		{"a row is missing in the live one", w.a, []string{"ALTER TABLE DB.evidence DELETE " + at}, "evidence: log LOG, partition 1, offset 7: missing in " + w.a},
		{"a row is changed", w.a, []string{"ALTER TABLE DB.evidence UPDATE error_message = 'nothing happened' " + at}, "evidence: log LOG, partition 1, offset 7: differs in ErrorMessage"},
		{"a row has another key", w.b, []string{"INSERT INTO DB.evidence SELECT * REPLACE('op-other' AS operation_id) FROM DB.evidence " + at}, "evidence: log LOG, partition 1, offset 7: stands 2 times in " + w.b},
		{"a row is of no log", w.b, []string{"INSERT INTO DB.evidence SELECT * REPLACE(toUUID('7d1b6b8e-0000-4000-8000-000000000001') AS log_id) FROM DB.evidence " + at},
			"evidence: log 7d1b6b8e-0000-4000-8000-000000000001, partition 1, offset 7: missing in " + w.a},
		{"a verdict is changed", w.b, []string{"ALTER TABLE DB.jobs UPDATE progress = progress + 256 WHERE job_id = 'job-3'"}, "v_jobs: ('job-3',"},
		{"a job is missing", w.a, []string{"ALTER TABLE DB.jobs DELETE WHERE job_id = 'job-3'"}, "v_jobs: ('job-3',"},
		{"an attempt is missing", w.b, []string{"ALTER TABLE DB.attempt_ids DELETE WHERE job_id = 'job-3'"}, "attempt_ids: ("},
		{"the timeline is changed", w.b, []string{"ALTER TABLE DB.timeline UPDATE outcome = 'changed' " + at}, "timeline: log LOG, partition 1, offset 7: differs"},
		{"a failure is missing", w.b, []string{"ALTER TABLE DB.failures DELETE WHERE job_id = 'job-1'"}, "missing in " + w.b},
	} {
		t.Run(tt.name, func(t *testing.T) {
			saved := w.Layout.Database + ".saved"
			for _, statement := range []string{"DROP TABLE IF EXISTS " + saved, "CREATE TABLE " + saved + " ENGINE = MergeTree ORDER BY tuple() AS SELECT * FROM " + tt.database + ".evidence"} {
				if err := w.Conn.Exec(t.Context(), statement); err != nil {
					t.Fatal(err)
				}
			}
			for _, statement := range tt.plant {
				ctx := driver.Context(t.Context(), driver.WithSettings(driver.Settings{"mutations_sync": 2}))
				if err := w.Conn.Exec(ctx, strings.ReplaceAll(statement, "DB.", tt.database+".")); err != nil {
					t.Fatal(err)
				}
			}
			rep, err := w.rebuild(nil).Run(t.Context())
			var differs *rebuild.DiffersError
			if !errors.As(err, &differs) || rep.Phase != rebuild.PhaseDiffers || rep.Live != w.a || w.live() != w.a || !rep.Resumed {
				t.Errorf("rebuilding: %v, %+v", err, rep)
			}
			want := strings.ReplaceAll(tt.want, "LOG", w.LogID.String())
			if !slices.ContainsFunc(rep.Found, func(d rebuild.Difference) bool { return strings.Contains(d.String(), want) }) {
				t.Errorf("no %q in %v", want, rep.Found)
			}
			for _, table := range []string{"evidence", "jobs", "timeline", "failures", "attempt_ids"} {
				if err := w.Conn.Exec(t.Context(), "TRUNCATE TABLE "+tt.database+"."+table); err != nil {
					t.Fatal(err)
				}
			}
			// The materialized views fill the other tables.
			if err := w.Conn.Exec(t.Context(), "INSERT INTO "+tt.database+".evidence SELECT * FROM "+saved); err != nil {
				t.Fatal(err)
			}
		})
	}
	if rep := w.run(nil); rep.Live != w.b {
		t.Errorf("once the differences are gone: %+v", rep)
	}
}

// TestAcceptedDifference repairs a live generation that lost a row.
func TestAcceptedDifference(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Project(nil)
	w.load(20)
	w.Arrived(w.rows)
	if err := w.Conn.Exec(driver.Context(t.Context(), driver.WithSettings(driver.Settings{"mutations_sync": 2})), "ALTER TABLE "+w.a+".evidence DELETE WHERE offset = 3"); err != nil {
		t.Fatal(err)
	}
	rep := w.run(func(c *rebuild.Config) { c.AcceptDifferences = true })
	if rep.Live != w.b || len(rep.Found) < 2 || rep.Differences == 0 {
		t.Errorf("the report: %+v", rep)
	}
	w.AuditOf(w.b, w.rows)
}

// TestErasedStaysErased rebuilds after an erasure whose records the log still
// holds.
func TestErasedStaysErased(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Project(nil)
	w.load(40)
	w.Arrived(w.rows)
	ctx := driver.Context(t.Context(), driver.WithSettings(driver.Settings{"mutations_sync": 2}))
	exec := func(statement string) {
		t.Helper()
		if err := w.Conn.Exec(ctx, statement); err != nil {
			t.Fatal(err)
		}
	}
	erased := w.Count("SELECT count() FROM DB.evidence WHERE operation_id = 'op-1' OR job_id = 'job-11'")
	exec("INSERT INTO " + w.Layout.Database + ".erasures (erasure_id, requested_at, tenant_id, operation_id, job_id, status, updated_at) VALUES (generateUUIDv4(), now64(3), 'acme', 'op-1', '', 'verified', now64(3)), " +
		"(generateUUIDv4(), now64(3), 'acme', '', 'job-11', 'erased', now64(3)), (generateUUIDv4(), now64(3), 'acme', 'op-5', '', 'requested', now64(3))")
	of := "operation_id = 'op-1' OR job_id = 'job-11'"
	exec("ALTER TABLE " + w.a + ".timeline DELETE WHERE (partition, offset) IN (SELECT partition, offset FROM " + w.a + ".evidence WHERE " + of + ")")
	for _, table := range []string{"failures", "attempt_ids", "jobs", "evidence"} {
		exec("ALTER TABLE " + w.a + "." + table + " DELETE WHERE " + of)
	}
	rep := w.run(func(c *rebuild.Config) { c.NoFlip = true })
	if rep.Phase != rebuild.PhaseEqual || rep.Compared != uint64(w.rows)-erased || erased == 0 {
		t.Errorf("%d rows were erased: %+v", erased, rep)
	}
	if n := w.Count("SELECT count() FROM " + w.b + ".evidence WHERE " + of); n != 0 {
		t.Errorf("%d erased rows came back", n)
	}
	w.equal()
}

// deleteRecords lets the log lose what is before an offset.
func (w *world) deleteRecords(partition int32, before int64) {
	w.t.Helper()
	var offsets kadm.Offsets
	offsets.Add(kadm.Offset{Topic: projector.EvidenceTopic(w.Group), Partition: partition, At: before})
	if _, err := kadm.NewClient(w.Client).DeleteRecords(w.t.Context(), offsets); err != nil {
		w.t.Fatal(err)
	}
}

// TestOldestPartIsGone rebuilds after the log lost its oldest part, and after it
// was made anew: what is gone comes from the live generation.
func TestOldestPartIsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pr := w.Project(nil)
	page := &events.Event{MinReader: 1, OccurredAt: events.TimeOf(time.Now()), Group: w.Group, Worker: "host-1/aaaa0001", Body: &events.DedupPage{}}
	w.WriteEvents(0, page)
	w.rows++
	w.Write(0, []byte("poison"))
	w.load(100)
	w.Arrived(w.rows)
	w.deleteRecords(0, 120)
	w.deleteRecords(1, 57)
	rep := w.run(func(c *rebuild.Config) { c.Keep = -1; c.Batch.BatchRows = 50 })
	if rep.Copied != 120+57 || rep.Live != w.b {
		t.Errorf("the report: %+v", rep)
	}
	w.settled()
	w.equal()
	if n := w.Count("SELECT count() FROM " + w.b + ".quarantine"); n != 1 {
		t.Errorf("%d records in quarantine, want 1", n)
	}
	for name, query := range map[string]string{"evidence": "evidence", "timeline": "timeline"} {
		if x, y := w.Count("SELECT count() FROM "+w.a+"."+query), w.Count("SELECT count() FROM "+w.b+"."+query); x != y {
			t.Errorf("%s holds %d rows on disk, %d in the new generation", name, x, y)
		}
	}
	// The whole log is gone.
	pr.Stop()
	old := w.rows
	if _, err := kadm.NewClient(w.Client).DeleteTopics(t.Context(), projector.EvidenceTopic(w.Group)); err != nil {
		t.Fatal(err)
	}
	w.Eventually("the log is made anew", func() bool { return w.TryCreateLog(2) == nil })
	w.Renew()
	w.load(30)
	w.Project(nil)
	w.Arrived(w.rows)
	rep = w.run(func(c *rebuild.Config) { c.Keep = -1 })
	if rep.Copied != uint64(old)+1 || rep.Live != w.a {
		t.Errorf("the report: %+v, want %d copied", rep, old+1)
	}
	w.Arrived(w.rows)
	w.equal()
}

// TestLogShrinksMeanwhile lets the log lose records while they are being read.
func TestLogShrinksMeanwhile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Project(nil)
	w.load(2000)
	w.Arrived(w.rows)
	var shrunk atomic.Bool
	rep := w.run(func(c *rebuild.Config) {
		c.Keep = -1
		c.Batch.BatchRows, c.Batch.FetchBytes, c.Batch.Memory = 100, 1000, 100_000
		c.Batch.Fault = func(at string) error {
			if at == "inserted" && w.Count("SELECT sum(row_count) FROM "+w.b+".batches") >= 500 && !shrunk.Swap(true) {
				w.deleteRecords(0, 3000)
				w.deleteRecords(1, 3000)
			}
			return nil
		}
	})
	if !shrunk.Load() || rep.Copied == 0 || rep.Copied >= 6000 || rep.Live != w.b {
		t.Errorf("shrunk %v, the report: %+v", shrunk.Load(), rep)
	}
	w.settled()
	w.equal()
}

// TestOneAtATime starts several rebuilds at once: one runs, the others say who
// it is.
func TestOneAtATime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Project(nil)
	w.load(20)
	w.Arrived(w.rows)
	inside, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	first := make(chan error, 1)
	go func() {
		_, err := w.rebuild(func(c *rebuild.Config) {
			c.Batch.Fault = func(string) error {
				once.Do(func() { close(inside); <-goOn })
				return nil
			}
		}).Run(t.Context())
		first <- err
	}()
	<-inside
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			_, err := w.rebuild(nil).Run(t.Context())
			var held *rebuild.HeldError
			if !errors.As(err, &held) || held.Holder != "test/"+t.Name() {
				t.Errorf("beside another rebuild: %v", err)
			}
		})
	}
	all.Wait()
	close(goOn)
	if err := <-first; err != nil {
		t.Error(err)
	}
}

// TestTakenOverIsNoticed has a rebuild that gave no sign of life for longer than
// another waits for: the other takes over, and the first turns nothing when it
// wakes up.
func TestTakenOverIsNoticed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Project(nil)
	w.load(20)
	w.Arrived(w.rows)
	inside, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	first := make(chan error, 1)
	go func() {
		_, err := w.rebuild(func(c *rebuild.Config) {
			c.Expiry, c.Holder = time.Hour, "first" // it renews its claim every six minutes
			c.Batch.Fault = func(string) error {
				once.Do(func() { close(inside) })
				<-goOn
				return nil
			}
		}).Run(t.Context())
		first <- err
	}()
	<-inside
	second := make(chan error, 1)
	go func() {
		for {
			_, err := w.rebuild(func(c *rebuild.Config) {
				c.Expiry, c.Holder = time.Second, "second"
				c.Batch.Fault = func(string) error {
					time.Sleep(100 * time.Millisecond) //nolint:forbidigo // the first overtakes it
					return nil
				}
			}).Run(t.Context())
			if _, held := errors.AsType[*rebuild.HeldError](err); !held {
				second <- err
				return
			}
		}
	}()
	w.Eventually("the second fills", func() bool {
		status, err := rebuild.Read(t.Context(), w.Conn, w.Layout)
		return err == nil && status.Last.Holder == "second" && status.Last.Phase == rebuild.PhaseFilling
	})
	close(goOn)
	if err := <-first; err == nil || !strings.Contains(err.Error(), "another rebuild took over") {
		t.Errorf("the first ended with %v", err)
	}
	if err := <-second; err != nil {
		t.Errorf("the second: %v", err)
	}
	if n := w.Count("SELECT count() FROM " + w.Layout.Database + ".generation"); n != 2 || w.live() != w.b {
		t.Errorf("%s is live after %d turns", w.live(), n)
	}
}

// TestCutOffAnywhere ends the rebuild at random moments, again and again, and
// goes on; the last call finds everything equal.
func TestCutOffAnywhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Project(nil)
	w.load(1500)
	w.Arrived(w.rows)
	w.deleteRecords(0, 700)
	phases := map[string]int{}
	for range 10 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(3500))*time.Millisecond)
		rep, err := w.rebuild(func(c *rebuild.Config) { c.Keep, c.Batch.BatchRows = -1, 200 }).Run(ctx)
		cancel()
		if err == nil {
			phases["not at all"]++
		} else {
			phases[rep.Phase]++
		}
		w.load(10)
	}
	t.Logf("it was cut off while %v", phases)
	var rep rebuild.Report
	w.Eventually("it gets through", func() bool {
		var err error
		rep, err = w.rebuild(func(c *rebuild.Config) { c.Keep = -1 }).Run(t.Context())
		if len(rep.Found) > 0 {
			t.Fatalf("rebuilding: %v, %+v", err, rep.Found)
		}
		if err != nil {
			t.Logf("rebuilding: %v", err)
		}
		return err == nil
	})
	w.settled()
	w.equal()
}
