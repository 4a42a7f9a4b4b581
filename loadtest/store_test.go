package loadtest_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/jobtrail/jobtrail/internal/localstack"
	"github.com/jobtrail/jobtrail/internal/localstack/stacktest"
	"github.com/jobtrail/jobtrail/loadtest"
	"github.com/jobtrail/jobtrail/pkg/jobs"
)

// projector starts a projector of the group, with a database of the group's own.
func (g *group) projector() *process {
	g.t.Helper()
	return start(g.t, "projector"+g.build, "KAFKA_BROKERS="+strings.Join(g.brokers, ","), "JOBTRAIL_GROUPS="+g.topo.Group, "CLICKHOUSE_ADDR="+g.store, "CLICKHOUSE_DATABASE="+g.topo.Group)
}

// stored waits until the store holds as many records as the dump, and returns
// what is wrong with them.
func (g *group) stored(d *loadtest.Dump, limit time.Duration) []string {
	g.t.Helper()
	conn, err := clickhouse.Open(&clickhouse.Options{Addr: []string{g.store}})
	if err != nil {
		g.t.Fatal(err)
	}
	defer conn.Close()
	var problem error
	for deadline := time.Now().Add(limit); ; <-time.After(100 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		var n uint64
		problem = conn.QueryRow(ctx, fmt.Sprintf("SELECT count() FROM %s.evidence", g.topo.Group)).Scan(&n)
		if problem == nil && n >= uint64(len(d.Evidence)) || time.Now().After(deadline) {
			wrong, err := loadtest.CompareStore(ctx, conn, g.topo.Group, d)
			cancel()
			if err != nil {
				g.t.Fatalf("%v (%v)", err, problem)
			}
			return wrong
		}
		cancel()
	}
}

// TestProjectorKilled kills the projector at ten random points while jobs run.
func TestProjectorKilled(t *testing.T) {
	t.Parallel()
	defer within(t, t.Name())()
	g := newGroup(t, 2)
	w := newWitness(t, g)
	p := g.worker(w.jobsFile(`job: {http: {url: "URL"}}` + "\n"))
	enough, sent := make(chan struct{}), make(chan int, 1)
	go func() {
		n := 0
		defer func() { sent <- n }()
		for {
			var list []jobs.Job
			for i := range 40 {
				list = append(list, jobs.Job{ID: fmt.Sprint("job-", n+i), Type: "job", OperationID: fmt.Sprint("op-", n/40)})
			}
			if _, err := g.pub.PublishAll(t.Context(), list); err != nil {
				t.Error(err)
				return
			}
			n += 40
			select {
			case <-enough:
				return
			case <-time.After(100 * time.Millisecond): // the load
			}
		}
	}()
	for range 10 {
		pr := g.projector()
		pr.says("projector", 1, 40*time.Second)
		time.Sleep(time.Duration(rand.IntN(2500)) * time.Millisecond) //nolint:forbidigo // the random point
		pr.kill()
	}
	close(enough)
	n := <-sent
	g.until(60*time.Second, "end of all jobs", terminals(n))
	p.stop()
	pr := g.projector()
	g.check()
	pr.stop()
}

// TestClickHouseAway kills ClickHouse while the projector inserts, and keeps it
// away for 20 s.
func TestClickHouseAway(t *testing.T) {
	t.Parallel()
	defer within(t, t.Name())()
	stack := stacktest.Private(t, localstack.Config{WithoutKafka: true})
	g := newGroup(t, 2)
	g.store = stack.ClickHouseAddr()
	w := newWitness(t, g)
	p := g.worker(w.jobsFile(`job: {http: {url: "URL"}}` + "\n"))
	pr := g.projector()
	const n = 1200
	for i := range n {
		g.publish(jobs.Job{ID: fmt.Sprint("job-", i), Type: "job"})
		if i == n/3 {
			if err := stack.ClickHouse.Kill(); err != nil {
				t.Fatal(err)
			}
			go func() {
				time.Sleep(20 * time.Second) //nolint:forbidigo // how long it is away
				if err := stack.ClickHouse.Restart(context.Background()); err != nil {
					t.Errorf("starting ClickHouse again: %v", err)
				}
			}()
		}
	}
	g.until(60*time.Second, "end of all jobs", terminals(n))
	p.stop()
	g.check()
	pr.stop()
}
