package loadtest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/jobtrail/jobtrail/pkg/events"
	"github.com/jobtrail/jobtrail/pkg/jobs"
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
	dead, err := kgo.NewClient(append(g.kafka, kgo.TransactionalID(g.topo.Group+"/dead/a"), kgo.TransactionTimeout(5*time.Minute), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		t.Fatal(err)
	}
	defer dead.Close()
	if err := dead.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	e := events.Event{Group: g.topo.Group, Body: &events.GroupEvent{Kind: "never"}}
	if err := dead.ProduceSync(t.Context(), &kgo.Record{Topic: g.topo.Evidence(), Value: events.Append(nil, &e)}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	w := newWitness(t, g)
	p := g.worker(w.jobsFile(`job: {http: {url: "URL"}}` + "\n"))
	begun := time.Now()
	for i := range 20 {
		g.publish(jobs.Job{ID: fmt.Sprint("job-", i), Type: "job"})
	}
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
