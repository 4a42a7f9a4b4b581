//go:build scale

package loadtest_test

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/jobtrail/jobtrail/internal/projector/projectortest"
	"github.com/jobtrail/jobtrail/loadtest"
)

var scaleEvents = flag.Int("events", 5_000_000, "events in the log before the rebuild begins")

// TestRebuildAtScale rebuilds a store of many events while 200 jobs a second go
// on, and measures time and memory.
func TestRebuildAtScale(t *testing.T) {
	g := newGroup(t, 6)
	big := g.sibling() // its log is written by the test
	begun := time.Now()
	producer, err := kgo.NewClient(append(big.kafka, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MaxBufferedRecords(100_000), kgo.ProducerBatchCompression(kgo.SnappyCompression()))...)
	if err != nil {
		t.Fatal(err)
	}
	// A job each 20 ms up to now: months of history.
	projectortest.WriteMix(t, producer, big.topo.Group, big.partitions, *scaleEvents, 20*time.Millisecond)
	producer.Close()
	t.Logf("%d events were written in %v", *scaleEvents, time.Since(begun).Round(time.Second))
	w := newWitness(t, g)
	p := g.worker(w.jobsFile(`job: {http: {url: "URL"}}` + "\n"))
	pr := start(t, "projector", append(g.env(), "JOBTRAIL_GROUPS="+g.topo.Group+","+big.topo.Group)...)
	pr.says("projecting", 1, 60*time.Second)
	conn := g.conn()
	begun = time.Now()
	for g.number(conn, "SELECT sum(row_count) FROM DB.batches") < uint64(*scaleEvents) {
		if time.Since(begun) > 30*time.Minute {
			t.Fatal("the projector does not come to the log's end")
		}
		<-time.After(time.Second)
	}
	t.Logf("they were projected in %v", time.Since(begun).Round(time.Second))
	stop := g.rate(200)
	begun = time.Now()
	r := startWith(t, "jobtrail", []string{"rebuild", "-o", "table"}, g.env()...)
	var peak int64
	for running := true; running; {
		select {
		case <-r.done:
			running = false
		case <-time.After(500 * time.Millisecond):
			if held, err := loadtest.PeakBytes(r.cmd.Process.Pid); err == nil {
				peak = max(peak, held)
			}
		}
		if time.Since(begun) > 60*time.Minute {
			t.Fatal("the rebuild does not end")
		}
	}
	r.mu.Lock()
	t.Logf("what it said:\n%s", strings.Join(r.lines, "\n"))
	r.mu.Unlock()
	if code := r.exit(0); code != 0 {
		t.Fatalf("the rebuild ended with %d", code)
	}
	took := time.Since(begun)
	n := stop()
	// Not from the topics: reading them whole takes longer than the jobs.
	ended := fmt.Sprintf("SELECT count() FROM DB.v_jobs WHERE worker_group = '%s' AND state = 'succeeded'", g.topo.Group)
	for deadline := time.Now().Add(3 * time.Minute); g.number(conn, ended) < uint64(n); <-time.After(time.Second) {
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d jobs have ended", g.number(conn, ended), n)
		}
	}
	p.stop()
	t.Logf("rebuilt in %v with %d MB at most, while %d jobs ran (%.0f/s)", took.Round(time.Second), peak>>20, n, float64(n)/took.Seconds())
	if rate := float64(n) / took.Seconds(); rate < 150 {
		t.Errorf("only %.0f jobs a second went on", rate)
	}
	// The old generation is taken to the log's end, and the two are compared whole.
	back := startWith(t, "jobtrail", []string{"rebuild", "rollback"}, g.env()...)
	if code := back.exit(10 * time.Minute); code != 0 {
		t.Fatalf("the rollback ended with %d", code)
	}
	pr.stop()
	if events := g.number(conn, "SELECT count() FROM A.evidence FINAL"); events < uint64(*scaleEvents+3*n) {
		t.Errorf("the store holds %d events of %d", events, *scaleEvents+3*n)
	}
	g.sameGenerations(conn)
	t.Logf("both generations hold %d events and %d runs", g.number(conn, "SELECT count() FROM B.evidence FINAL"), g.number(conn, "SELECT count() FROM B.v_jobs"))
}
