package loadtest_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/jobtrail/jobtrail/pkg/events"
	"github.com/jobtrail/jobtrail/pkg/jobs"
	"github.com/jobtrail/jobtrail/pkg/retrytopics"
)

// TestHungTransaction leaves a transaction open on the evidence log, as a worker
// does that dies within a tick: the next owner ends it, and does not wait for
// its timeout.
func TestHungTransaction(t *testing.T) {
	t.Parallel()
	protected(t, hungTransaction, lack{"hung transactions are not fenced", `worker.* has not said "partition recovered"`})
}

func hungTransaction(t testing.TB, lack string) {
	g := newGroup(t, 2)
	g.lack = lack
	hang(t, g.topo, g.kafka...)
	w := newWitness(t, g)
	p := g.worker(w.jobsFile(`job: {http: {url: "URL"}}` + "\n"))
	begun := time.Now()
	g.publishEach("job", 0, 20, 1, nil)
	p.says("partition recovered", 2, 15*time.Second)
	t.Logf("both partitions were recovered after %v", time.Since(begun).Round(10*time.Millisecond))
	p.says("a hung transaction was fenced", 1, time.Second)
	g.until(30*time.Second, "end of all jobs", terminals(20))
	p.stop()
	for _, run := range g.check().Runs {
		if run.Job.State != events.StateSucceeded {
			t.Errorf("%s ended as %v", run.JobID, run.Job.State)
		}
	}
}

// hang leaves a transaction of a dead worker open on the evidence log.
func hang(t testing.TB, topo retrytopics.Topology, reach ...kgo.Opt) {
	t.Helper()
	dead, err := kgo.NewClient(append(slices.Clip(reach), kgo.TransactionalID(topo.Group+"/dead/a"), kgo.TransactionTimeout(5*time.Minute), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(dead.Close)
	if err := dead.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	e := events.Event{Group: topo.Group, Body: &events.GroupEvent{Kind: "never"}}
	if err := dead.ProduceSync(t.Context(), &kgo.Record{Topic: topo.Evidence(), Value: events.Append(nil, &e)}).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// TestEndOfTransactionLost has a worker ask for the end of a transaction, and
// never hear of it: whether the broker ended it or not, nothing is lost and
// nothing is done twice.
func TestEndOfTransactionLost(t *testing.T) {
	t.Parallel()
	t.Run("answer", func(t *testing.T) {
		t.Parallel()
		protected(t, func(t testing.TB, lack string) { endLost(t, lack, answers, "committed") },
			lack{"a transaction in doubt is taken for aborted", `I[134]: .*`})
	})
	t.Run("request", func(t *testing.T) {
		t.Parallel()
		protected(t, func(t testing.TB, lack string) { endLost(t, lack, requests, "aborted") },
			lack{"a transaction in doubt is taken for committed", `I[124]: .*`})
	})
}

func endLost(t testing.TB, lack string, what loss, found string) {
	const n = 300
	g := newGroup(t, 2)
	g.lack = lack
	w := newWitness(t, g)
	file := w.jobsFile(`job: {http: {url: "URL"}}` + "\n")
	w.on("job", func(c *call) int {
		time.Sleep(50 * time.Millisecond) //nolint:forbidigo // the job's own time
		if c.attempt[0] < 32 && c.number == "1" {
			return 503
		}
		return 200
	})
	r := newRelay(t, g.brokers[0])
	p := g.worker(file, "KAFKA_BROKERS="+r.addr)
	g.publish(jobs.Job{ID: "job-0", Type: "job"})
	w.wait("job-0", 1, 30*time.Second)
	for i := 1; i < n/2; i++ {
		g.publish(jobs.Job{ID: fmt.Sprint("job-", i), Type: "job"})
	}
	hit, over := r.lose(what)
	for i := n / 2; i < n; i++ {
		g.publish(jobs.Job{ID: fmt.Sprint("job-", i), Type: "job"})
	}
	for _, c := range []struct {
		what string
		done <-chan struct{}
	}{{"a transaction's end was lost", hit}, {"the worker gave up asking for it", over}} {
		select {
		case <-c.done:
		case <-time.After(40 * time.Second):
			t.Fatalf("it did not come to it that %s", c.what)
		}
	}
	p.says("the end of a transaction is in doubt", 1, time.Second)
	if _, _, ok := g.reached(30*time.Second, terminals(n)); !ok {
		t.Error("not all jobs have ended")
	}
	if lack == "" {
		if got := p.metric(`jobtrail_worker_transactions_in_doubt_total{found="` + found + `"}`); got != 1 {
			t.Errorf("%v transactions in doubt were found %s, wanted 1", got, found)
		}
	}
	p.stop()
	g.check()
}

// TestKilledBeforeTheEnd kills a worker whose tick has committed its positions
// and not ended. They cannot be read then; the next owner ends the transaction,
// and does not wait for its timeout.
func TestKilledBeforeTheEnd(t *testing.T) {
	t.Parallel()
	protected(t, killedBeforeTheEnd, lack{"hung transactions are not fenced", `worker.* has not said "a hung transaction was fenced"`})
}

func killedBeforeTheEnd(t testing.TB, lack string) {
	g := newGroup(t, 2)
	g.lack = lack
	w := newWitness(t, g)
	file := w.jobsFile(`job: {http: {url: "URL"}}` + "\n")
	r := newRelay(t, g.brokers[0])
	p := g.worker(file, "KAFKA_BROKERS="+r.addr)
	g.publishEach("job", 0, 20, 1, nil)
	w.wait("job-0", 1, 30*time.Second)
	hit, _ := r.lose(requests)
	g.publishEach("job", 20, 40, 1, nil)
	select {
	case <-hit:
	case <-time.After(30 * time.Second):
		t.Fatal("no transaction was to be ended")
	}
	p.kill()
	begun := time.Now()
	p2 := g.worker(file)
	p2.says("a hung transaction was fenced", 1, 40*time.Second)
	p2.says("partition recovered", 2, 20*time.Second)
	t.Logf("both partitions were recovered after %v", time.Since(begun).Round(10*time.Millisecond))
	g.until(30*time.Second, "end of all jobs", terminals(40))
	p2.stop()
	g.check()
}
