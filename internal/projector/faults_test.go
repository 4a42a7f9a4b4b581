package projector_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/jobtrail/jobtrail/clickhouse"
	"github.com/jobtrail/jobtrail/internal/localstack"
	"github.com/jobtrail/jobtrail/internal/localstack/stacktest"
	"github.com/jobtrail/jobtrail/internal/projector"
	"github.com/jobtrail/jobtrail/internal/projector/projectortest"
	"github.com/jobtrail/jobtrail/pkg/events"
)

// load writes n good jobs to a partition and returns how many events that were.
func load(t *testing.T, w *projectortest.World, partition int32, from, n int) int {
	t.Helper()
	var all []*events.Event
	for i := from; i < from+n; i++ {
		h := projectortest.NewHistory(t, w.Group, "acme", fmt.Sprintf("op-%d", i/2), fmt.Sprintf("job-%d-%d", partition, i), "charge", partition, int64(i)).Good()
		all = append(all, h.Events...)
	}
	w.WriteEvents(partition, all...)
	return len(all)
}

// physical counts rows as they are on disk, repeated ones too.
func physical(w *projectortest.World, table string) uint64 {
	return w.Count("SELECT count() FROM DB." + table)
}

// TestPredecessorDies cuts a projector off at every point of a batch. A second
// one takes over, sends exactly the declared range again, and goes on; then the
// first comes back to life and must not change anything.
func TestPredecessorDies(t *testing.T) {
	for _, point := range []string{"declared", "insert", "insert_acknowledged", "inserted"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			w := projectortest.New(t, 1)
			total := load(t, w, 0, 0, 10)
			var first *projectortest.Projector
			var struck atomic.Bool
			hit, resume := make(chan struct{}), make(chan struct{})
			release := sync.OnceFunc(func() { close(resume) })
			t.Cleanup(release)
			ready := make(chan struct{})
			first = w.Project(func(c *projector.Config) {
				c.Fault = func(at string) error {
					if at == point && !struck.Swap(true) {
						<-ready
						first.Kafka.Cut()
						close(hit)
						<-resume
					}
					return nil
				}
			})
			close(ready)
			select {
			case <-hit:
			case <-time.After(60 * time.Second):
				t.Fatalf("the first projector never came to %s", point)
			}
			second := w.Project(nil)
			total += load(t, w, 0, 10, 10)
			w.Arrived(total)
			// The dead one wakes up in the middle of its insert.
			first.Kafka.Mend()
			release()
			total += load(t, w, 0, 20, 10)
			w.Arrived(total)
			second.Stop()
			total += load(t, w, 0, 30, 10)
			w.Arrived(total)
			first.Stop()
			w.Audit(total)
			for table, want := range map[string]int{"evidence": total, "timeline": total, "attempt_ids": total / 3} {
				if n := physical(w, table); n != uint64(want) {
					t.Errorf("%s holds %d rows, want %d: a range was inserted twice", table, n, want)
				}
			}
			if n := w.Count("SELECT sum(row_count) FROM DB.batches FINAL"); n != uint64(total) {
				t.Errorf("the batches count %d rows, want %d", n, total)
			}
			if n := w.Count("SELECT count() FROM (SELECT first_offset, lagInFrame(last_offset + 1, 1, 0) OVER (ORDER BY last_offset) AS want FROM DB.batches FINAL) WHERE first_offset != want"); n != 0 {
				t.Errorf("%d batches do not begin where the one before ended", n)
			}
		})
	}
}

func TestPoisonIsQuarantined(t *testing.T) {
	w := projectortest.New(t, 1)
	w.Project(nil)
	h := projectortest.NewHistory(t, w.Group, "acme", "op", "job", "charge", 0, 1).Good()
	good := func(i int) []byte { return events.Append(nil, h.Events[i]) }
	noGroup := *h.Events[0]
	noGroup.Group = ""
	poison := [][]byte{{}, {0xff, 0xff}, []byte("SELECT 1"), events.Append(nil, &noGroup), good(0)[:len(good(0))-3]}
	w.Write(0, append(append([][]byte{good(0)}, poison...), good(1), good(2))...)
	w.Eventually("the good ones are there", func() bool { return w.Count("SELECT count() FROM DB.evidence") == 3 })
	w.Eventually("the poison is there", func() bool { return w.Count("SELECT count() FROM DB.quarantine") == uint64(len(poison)) })
	rows, err := w.Conn.Query(t.Context(), "SELECT record_value, reason FROM "+w.Layout.Database+".quarantine ORDER BY offset")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for i := 0; rows.Next(); i++ {
		var value, reason string
		if err := rows.Scan(&value, &reason); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal([]byte(value), poison[i]) || reason == "" {
			t.Errorf("quarantined %q because %q, want %q", value, reason, poison[i])
		}
	}
	w.Audit(3)
	// The note of a batch follows its rows.
	w.Eventually("the batches count the poison", func() bool {
		return w.Count("SELECT sum(poison_count) FROM DB.batches FINAL") == uint64(len(poison))
	})
}

// TestServerLostAcknowledgedRows removes what was acknowledged, as a power
// failure does, and expects the projector to read it again.
func TestServerLostAcknowledgedRows(t *testing.T) {
	for name, lose := range map[string][]string{
		"rows":                  {"ALTER TABLE DB_a.evidence DELETE WHERE offset >= 30 SETTINGS mutations_sync = 2"},
		"rows and the record":   {"ALTER TABLE DB_a.evidence DELETE WHERE offset >= 30 SETTINGS mutations_sync = 2", "ALTER TABLE DB_a.batches DELETE WHERE last_offset >= 30 SETTINGS mutations_sync = 2"},
		"everything":            {"TRUNCATE TABLE DB_a.evidence", "TRUNCATE TABLE DB_a.batches", "TRUNCATE TABLE DB_a.jobs"},
		"a batch in the middle": {"ALTER TABLE DB_a.batches DELETE WHERE first_offset <= 45 AND last_offset >= 45 SETTINGS mutations_sync = 2", "ALTER TABLE DB_a.evidence DELETE WHERE offset = 45 SETTINGS mutations_sync = 2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := projectortest.New(t, 1)
			p := w.Project(func(c *projector.Config) { c.BatchRows = 9 })
			total := load(t, w, 0, 0, 30)
			w.Arrived(total)
			w.Eventually("and told", func() bool { return w.Count("SELECT max(position) FROM DB.v_positions") == uint64(total) })
			p.Stop()
			for _, statement := range lose {
				if err := w.Conn.Exec(t.Context(), string(bytes.ReplaceAll([]byte(statement), []byte("DB"), []byte(w.Layout.Database)))); err != nil {
					t.Fatalf("%s: %v", statement, err)
				}
			}
			if n := w.Count("SELECT uniqExact(offset) FROM DB.evidence"); n == uint64(total) {
				t.Fatal("nothing was lost")
			}
			w.Project(nil)
			w.Arrived(total)
			w.Eventually("it goes on", func() bool { return w.Count("SELECT max(position) FROM DB.v_positions") == uint64(total) })
			w.Audit(total)
			// The note of a batch follows its rows.
			w.Eventually("a batch went under a new revision", func() bool { return w.Count("SELECT count() FROM DB.batches WHERE rev = '2.1'") > 0 })
			if n := w.Count("SELECT count() FROM DB.v_jobs WHERE state = 'succeeded' AND complete"); n != 30 {
				t.Errorf("%d jobs are complete, want 30", n)
			}
		})
	}
}

// TestClickHouseAway kills the server while batches are sent.
func TestClickHouseAway(t *testing.T) {
	stack := stacktest.Private(t, localstack.Config{})
	w := projectortest.NewOn(t, stack.Brokers(), stack.ClickHouseAddr(), 2)
	p := w.Project(func(c *projector.Config) { c.BatchRows = 50 })
	total, stop, done := 0, make(chan struct{}), make(chan int)
	go func() {
		n := 0
		defer func() { done <- n }()
		pace := time.NewTicker(20 * time.Millisecond)
		defer pace.Stop()
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-pace.C:
				n += load(t, w, int32(i%2), i*20, 20)
			}
		}
	}()
	w.Eventually("batches flow", func() bool { return w.Count("SELECT count() FROM DB.batches") > 10 })
	if err := stack.ClickHouse.Kill(); err != nil {
		t.Fatal(err)
	}
	w.Eventually("it says that it cannot work", func() bool { return p.Ready() != nil })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := stack.ClickHouse.Start(ctx); err != nil {
		t.Fatal(err)
	}
	w.Eventually("it works again", func() bool { return p.Ready() == nil })
	close(stop)
	total = <-done
	w.Arrived(total)
	w.Audit(total)
	if n := w.Count("SELECT count() FROM (SELECT partition, offset FROM DB.evidence GROUP BY partition, offset HAVING count() > 1)"); n > 0 {
		// Only a rewind inserts a position again, and it would have said so.
		if w.Count("SELECT count() FROM DB.batches WHERE rev NOT LIKE '%.0'") == 0 {
			t.Errorf("%d positions are there twice", n)
		}
	}
}

// TestPartitionsMove has projectors come and go under load.
func TestPartitionsMove(t *testing.T) {
	w := projectortest.New(t, 4)
	total := 0
	write := func(from int) {
		for p := range int32(4) {
			total += load(t, w, p, from, 10)
		}
	}
	arrived := func() {
		t.Helper()
		w.Arrived(total)
	}
	first := w.Project(nil)
	write(0)
	arrived()
	second := w.Project(nil)
	w.Eventually("the second has partitions", func() bool { return second.Ready() == nil && members(t, w) == 2 })
	write(10)
	arrived()
	first.Stop()
	write(20)
	arrived()
	third := w.Project(nil)
	write(30)
	arrived()
	second.Stop()
	third.Stop()
	w.Audit(total)
	if n := physical(w, "evidence"); n != uint64(total) {
		t.Errorf("evidence holds %d rows, want %d", n, total)
	}
}

// members counts the members of the projector's consumer group that have
// partitions.
func members(t *testing.T, w *projectortest.World) (n int) {
	t.Helper()
	group := projector.ConsumerGroup(w.Group, w.Layout.Generation(clickhouse.GenerationA))
	described, err := kadm.NewClient(w.Client).DescribeConsumerGroups(t.Context(), group)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range described[group].Members {
		if len(m.Assignment) > 0 {
			n++
		}
	}
	return n
}

// TestPointerIsFollowed makes the other generation live: the projector fills it
// from the log's start, and leaves the first as it is.
func TestPointerIsFollowed(t *testing.T) {
	w := projectortest.New(t, 1)
	w.Project(nil)
	total := load(t, w, 0, 0, 10)
	w.Eventually("generation a has it", func() bool { return w.Count("SELECT count() FROM DB.evidence") == uint64(total) })
	b := w.Layout.Generation(clickhouse.GenerationB)
	if err := clickhouse.SetLive(t.Context(), w.Conn, w.Layout, b, "test"); err != nil {
		t.Fatal(err)
	}
	w.Eventually("generation b has it", func() bool { return w.Count("SELECT count() FROM DB.evidence") == uint64(total) })
	total += load(t, w, 0, 10, 10)
	w.Eventually("generation b goes on", func() bool { return w.Count("SELECT count() FROM DB.evidence") == uint64(total) })
	w.AuditOf(b, total)
	if n := w.Count("SELECT count() FROM " + w.Layout.Generation(clickhouse.GenerationA) + ".evidence"); n != 30 {
		t.Errorf("generation a holds %d rows, want 30", n)
	}
}

// TestLogMadeAnew deletes the log and makes it again under its name.
func TestLogMadeAnew(t *testing.T) {
	w := projectortest.New(t, 1)
	w.Project(nil)
	old := load(t, w, 0, 0, 10)
	w.Eventually("the old log is there", func() bool { return w.Count("SELECT count() FROM DB.evidence") == uint64(old) })
	if _, err := kadm.NewClient(w.Client).DeleteTopics(t.Context(), projector.EvidenceTopic(w.Group)); err != nil {
		t.Fatal(err)
	}
	before := w.LogID
	w.Eventually("the log is made anew", func() bool { return w.TryCreateLog(1) == nil })
	if w.LogID == before {
		t.Fatal("the log has its old id")
	}
	w.Renew()
	total := load(t, w, 0, 100, 20)
	w.Eventually("the new log is there", func() bool {
		return w.Count("SELECT count() FROM DB.evidence WHERE log_id = ?", w.LogID) == uint64(total)
	})
	w.Audit(total)
	if n := w.Count("SELECT count() FROM DB.evidence WHERE log_id = ?", before); n != uint64(old) {
		t.Errorf("of the old log %d rows are left, want %d", n, old)
	}
}

// TestTruncatedLogIsNotSkipped lets the log lose records that were not read.
func TestTruncatedLogIsNotSkipped(t *testing.T) {
	w := projectortest.New(t, 1)
	p := w.Project(nil)
	n := load(t, w, 0, 0, 5)
	w.Eventually("the first are there", func() bool { return w.Count("SELECT max(position) FROM DB.v_positions") == uint64(n) })
	p.Stop()
	load(t, w, 0, 5, 10)
	var offsets kadm.Offsets
	offsets.Add(kadm.Offset{Topic: projector.EvidenceTopic(w.Group), Partition: 0, At: 30})
	if _, err := kadm.NewClient(w.Client).DeleteRecords(t.Context(), offsets); err != nil {
		t.Fatal(err)
	}
	p = w.Project(nil)
	w.Eventually("it refuses to go on", func() bool {
		err := p.Ready()
		return err != nil && bytes.Contains([]byte(err.Error()), []byte("no longer holds the position"))
	})
	if got := w.Count("SELECT count() FROM DB.evidence"); got != uint64(n) {
		t.Errorf("%d rows, want %d: records were skipped", got, n)
	}
}

// TestSchemaErrorStops has a column that does not fit: loudly, without losing
// or skipping anything, and it goes on once the column fits.
func TestSchemaErrorStops(t *testing.T) {
	w := projectortest.New(t, 1)
	p := w.Project(nil)
	total := load(t, w, 0, 0, 5)
	w.Eventually("the first are there", func() bool { return w.Count("SELECT count() FROM DB.evidence") == uint64(total) })
	a := w.Layout.Generation(clickhouse.GenerationA)
	exec := func(statement string) {
		t.Helper()
		if err := w.Conn.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	exec("ALTER TABLE " + a + ".evidence RENAME COLUMN first_operation_id TO gone")
	total += load(t, w, 0, 5, 5)
	w.Eventually("it says that it stopped, and why", func() bool {
		err := p.Ready()
		return err != nil && strings.Contains(err.Error(), "partition 0 stopped") && strings.Contains(err.Error(), "first_operation_id")
	})
	exec("ALTER TABLE " + a + ".evidence RENAME COLUMN gone TO first_operation_id")
	w.Arrived(total)
	w.Eventually("it is well", func() bool { return p.Ready() == nil })
	w.Audit(total)
}

// TestStopsWithoutServers cuts the projector off from Kafka, with records in
// hand, and expects it to end within its grace all the same.
func TestStopsWithoutServers(t *testing.T) {
	w := projectortest.New(t, 2)
	leaks := goleak.IgnoreCurrent()
	hold := make(chan struct{})
	var held atomic.Bool
	p := w.Project(func(c *projector.Config) {
		c.StopGrace = 200 * time.Millisecond
		c.Fault = func(at string) error {
			if at == "inserted" {
				held.Store(true)
				<-hold
			}
			return nil
		}
	})
	load(t, w, 0, 0, 5)
	w.Eventually("a batch is under way", held.Load)
	p.Kafka.Cut()
	close(hold)
	begun := time.Now()
	p.Stop()
	t.Logf("it took %s to end", time.Since(begun))
	goleak.VerifyNone(t, leaks)
}

// TestOpenTransactionHoldsBack writes through transactions: nothing aborted is
// visible, nothing of an open one is, and markers move the position on.
func TestOpenTransactionHoldsBack(t *testing.T) {
	w := projectortest.New(t, 1)
	w.Project(nil)
	producer, err := w.Kafka(kgo.TransactionalID(w.Group+"-tx"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	transact := func(from int, end kgo.TransactionEndTry) int {
		t.Helper()
		if err := producer.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		h := projectortest.NewHistory(t, w.Group, "acme", "op", fmt.Sprintf("job-%d", from), "charge", 0, int64(from)).Good()
		for _, e := range h.Events {
			if err := producer.ProduceSync(t.Context(), &kgo.Record{Topic: projector.EvidenceTopic(w.Group), Value: events.Append(nil, e)}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		if err := producer.EndTransaction(t.Context(), end); err != nil {
			t.Fatal(err)
		}
		return len(h.Events)
	}
	transact(0, kgo.TryAbort)
	n := transact(1, kgo.TryCommit)
	transact(2, kgo.TryAbort)
	w.Eventually("the committed ones are there", func() bool { return w.Count("SELECT count() FROM DB.evidence") == uint64(n) })
	end := func() uint64 {
		ends, err := kadm.NewClient(w.Client).ListEndOffsets(t.Context(), projector.EvidenceTopic(w.Group))
		if err != nil {
			t.Fatal(err)
		}
		o, _ := ends.Lookup(projector.EvidenceTopic(w.Group), 0)
		return uint64(o.Offset)
	}
	w.Eventually("the position is past the markers", func() bool { return w.Count("SELECT max(position) FROM DB.v_positions") == end() })
	w.Eventually("the committed offset too", func() bool {
		group := projector.ConsumerGroup(w.Group, w.Layout.Generation(clickhouse.GenerationA))
		o, err := kadm.NewClient(w.Client).FetchOffsets(t.Context(), group)
		if err != nil {
			t.Fatal(err)
		}
		at, _ := o.Lookup(projector.EvidenceTopic(w.Group), 0)
		return uint64(at.At) == end()
	})
	w.Audit(n)
}

// TestReadyOnlyWhileKafkaAnswers has an idle projector lose its way to Kafka.
func TestReadyOnlyWhileKafkaAnswers(t *testing.T) {
	w := projectortest.New(t, 1)
	p := w.Project(nil)
	w.Eventually("it is ready", func() bool { return p.Ready() == nil })
	p.Kafka.Cut()
	w.Eventually("it is not ready", func() bool { return p.Ready() != nil })
	p.Kafka.Mend()
	w.Eventually("it is ready again", func() bool { return p.Ready() == nil })
}

// TestALogThatIsNotThereIsNamed has a mistyped group.
func TestALogThatIsNotThereIsNamed(t *testing.T) {
	w := projectortest.New(t, 1)
	p := w.Project(func(c *projector.Config) { c.Groups = []string{w.Group + "-mistyped"} })
	const want = "-mistyped.evidence does not exist: is "
	w.Eventually("it says so", func() bool {
		err := p.Ready()
		return err != nil && strings.Contains(err.Error(), want) && strings.Contains(err.Error(), "`jobtrail topics apply --group "+w.Group+"-mistyped`")
	})
}
