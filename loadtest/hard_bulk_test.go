package loadtest_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/jobtrail/jobtrail/loadtest"
	"github.com/jobtrail/jobtrail/pkg/events"
	"github.com/jobtrail/jobtrail/pkg/jobs"
)

// endedNoop is the series that counts the jobs that have done nothing.
const endedNoop = `jobtrail_worker_terminals_total{job_type="noop",outcome="succeeded",reason=""}`

// bulk starts a worker whose jobs do nothing.
func (g *group) bulk(args ...string) *process {
	g.t.Helper()
	name, env := g.lacking("noop", nil)
	return startWith(g.t, name, append([]string{"-brokers", strings.Join(g.brokers, ","), "-group", g.topo.Group, "-topics", strings.Join(g.topo.Jobs, ","),
		"-tiers", g.topo.Tiers.String()}, args...), env...)
}

// publishMany publishes n jobs of a type.
func (g *group) publishMany(typ string, n int, value []byte) {
	g.t.Helper()
	const chunk = 10_000
	for from := 0; from < n; from += chunk {
		g.publishEach(typ, from, min(n, from+chunk), 1, value)
	}
}

// publishEach publishes each step-th of the jobs [from, to) of a type.
func (g *group) publishEach(typ string, from, to, step int, value []byte) {
	g.t.Helper()
	list := make([]jobs.Job, 0, (to-from)/step+1)
	for i := from; i < to; i += step {
		list = append(list, jobs.Job{ID: fmt.Sprint(typ, "-", i), Type: typ, Value: value})
	}
	g.publish(list...)
}

// untilPassed waits until the group's positions have passed all jobs.
func (g *group) untilPassed(limit time.Duration) {
	g.t.Helper()
	adm := g.admin()
	for deadline := time.Now().Add(limit); ; <-time.After(100 * time.Millisecond) {
		ends, err := adm.ListEndOffsets(g.t.Context(), g.topo.Jobs...)
		if err != nil {
			g.t.Fatal(err)
		}
		commits, err := adm.FetchOffsets(g.t.Context(), g.topo.Group)
		if err != nil {
			g.t.Fatal(err)
		}
		left := int64(0)
		ends.Each(func(o kadm.ListedOffset) {
			c, _ := commits.Lookup(o.Topic, o.Partition)
			left += o.Offset - c.At
		})
		if left == 0 {
			return
		}
		if time.Now().After(deadline) {
			g.t.Fatalf("after %v the positions are %d jobs behind", limit, left)
		}
	}
}

// TestHeldWhileOthersPass has one job run while many others pass it, and kills
// the worker. The next one reads no more than 100,000 events for each partition,
// knows of the job, and runs nothing again that had ended.
func TestHeldWhileOthersPass(t *testing.T) {
	t.Parallel()
	protected(t, func(t testing.TB, lack string) { heldWhileOthersPass(t, lack, 60_000) },
		lack{"checkpoints are not renewed with distance", `\d+ events were replayed`})
}

func heldWhileOthersPass(t testing.TB, lack string, others int) {
	const most = 100_000
	g := newGroup(t, 1)
	g.lack = lack
	g.store = "" // the store is not what this is about
	w := newWitness(t, g)
	p := g.bulk("-gate", w.srv.URL)
	w.on("held", func(c *call) int {
		if c.number == "1" {
			<-p.done
		}
		return 200
	})
	g.publish(jobs.Job{ID: "held", Type: "held"})
	w.wait("held", 1, 30*time.Second)
	begun := time.Now()
	g.publishMany("noop", others, nil)
	// Some are in flight when it is killed.
	p.untilMetric(endedNoop, float64(others)*9/10, 10*time.Minute)
	t.Logf("%v jobs had passed after %v", p.metric(endedNoop), time.Since(begun).Round(10*time.Millisecond))
	p.kill()
	p2 := g.bulk("-gate", w.srv.URL)
	p2.says("partition recovered", 1, 2*time.Minute)
	replayed, times := p2.metric("jobtrail_worker_replayed_events_sum"), p2.metric("jobtrail_worker_replayed_events_count")
	t.Logf("%v events were replayed, after %v", replayed, time.Since(begun).Round(10*time.Millisecond))
	if replayed > most || times != 1 {
		t.Errorf("%v events were replayed in %v recoveries, wanted at most %d in one", replayed, times, most)
	}
	g.untilPassed(2 * time.Minute)
	t.Logf("all jobs had ended after %v", time.Since(begun).Round(10*time.Millisecond))
	p2.stop()
	s := g.check()
	t.Logf("checked after %v", time.Since(begun).Round(10*time.Millisecond))
	if got := said(runOf(t, s, "held")); got != "started first, worker_lost, started redelivery, succeeded, terminal succeeded" {
		t.Errorf("the held job: %s", got)
	}
	again := 0
	for _, r := range s.Runs {
		if r.Job.State != events.StateSucceeded {
			t.Errorf("%s ended as %v", r.JobID, r.Job.State)
		}
		if r.Job.Number > 1 {
			again++
		}
	}
	t.Logf("%d of %d jobs were in flight and run again", again, others+1)
}

// TestManyIDsAcrossARestart kills a worker that has 200,000 ids in its duplicate
// window, and publishes each fifth of them again: the next worker knows them.
func TestManyIDsAcrossARestart(t *testing.T) {
	t.Parallel()
	protected(t, func(t testing.TB, lack string) { manyIDsAcrossARestart(t, lack, 5) }, lack{"the duplicate window is not recovered", `\d+ of \d+ jobs were run again`})
}

func manyIDsAcrossARestart(t testing.TB, lack string, step int) {
	n := 199_000 // a window holds 200,000
	if lack != "" {
		n = 20_000 // as many as are run again
	}
	g := newGroup(t, 1)
	g.lack = lack
	p := g.bulk()
	begun := time.Now()
	g.publishMany("noop", n, nil)
	p.untilMetric(endedNoop, float64(n), 3*time.Minute)
	t.Logf("%d jobs had ended after %v", n, time.Since(begun).Round(10*time.Millisecond))
	p.kill()
	p2 := g.bulk()
	p2.says("partition recovered", 1, time.Minute)
	begun = time.Now()
	g.publishEach("noop", 0, n, step, nil)
	n /= step
	for deadline := time.Now().Add(2 * time.Minute); ; <-time.After(50 * time.Millisecond) {
		seen, again := int(p2.metric("jobtrail_worker_duplicates_total")), int(p2.metric(endedNoop))
		if seen == n && again == 0 {
			break
		}
		if seen+again >= n || time.Now().After(deadline) {
			t.Fatalf("%d of %d jobs were run again, %d were seen to be duplicates", again, n, seen)
		}
	}
	t.Logf("%d duplicates were seen after %v", n, time.Since(begun).Round(10*time.Millisecond))
	p2.stop()
}

// TestManyWaitInATier has 100,000 jobs wait for their retry in one tier: a worker
// that comes to them holds little more than one that has nothing to do. None is
// run early, and all of them are run.
func TestManyWaitInATier(t *testing.T) {
	t.Parallel()
	protected(t, func(t testing.TB, lack string) { manyWaitInATier(t, lack, 100_000, "25s") }, lack{"reading ahead has no bound", `MB while \d+ jobs wait`})
}

func manyWaitInATier(t testing.TB, lack string, n int, delay string) {
	const (
		most    = 120 << 20 // bytes of a worker at full speed
		waiting = 80 << 20  // and what recovery, the ids and those read ahead may add to one that is idle
		retries = `jobtrail_worker_attempts_started_total{cause="retry",job_type="flaky"}`
		failed  = `jobtrail_worker_retries_total{error_class="transient",job_type="flaky"}`
		ended   = `jobtrail_worker_terminals_total{job_type="flaky",outcome="succeeded",reason=""}`
	)
	g := newGroupOf(t, "0s 1s "+delay, 1)
	g.lack = lack
	g.store = "" // the store is not what this is about
	peak := func(p *process) int64 {
		n, err := loadtest.PeakBytes(p.cmd.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	p := g.bulk("-initial", delay)
	p.says("partition recovered", 1, 30*time.Second)
	idle := peak(p)
	begun := time.Now()
	g.publishMany("flaky", n, make([]byte, 512))
	p.untilMetric(failed, float64(n), 2*time.Minute)
	if early := p.metric(retries); early > 0 {
		t.Fatalf("%v jobs were retried before all of them waited: the machine is too slow for this", early)
	}
	p.stop()
	t.Logf("all jobs waited after %v", time.Since(begun).Round(10*time.Millisecond))
	p2 := g.bulk("-initial", delay)
	p2.untilMetric(retries, 1, 2*time.Minute)
	held := peak(p2)
	t.Logf("a worker holds %d MB at most while %d jobs wait, an idle one %d MB", held>>20, n, idle>>20)
	if held > idle+waiting {
		t.Fatalf("a worker holds %d MB while %d jobs wait, but an idle one %d MB", held>>20, n, idle>>20)
	}
	p2.untilMetric(ended, float64(n), 2*time.Minute)
	t.Logf("all jobs had ended after %v", time.Since(begun).Round(10*time.Millisecond))
	if top := peak(p2); top > most {
		t.Errorf("a worker held up to %d MB while it ran %d jobs", top>>20, n)
	}
	p2.stop()
	for _, r := range g.check().Runs {
		if r.Job.State != events.StateSucceeded || r.Job.Number != 2 {
			t.Errorf("%s ended as %v after %d attempts", r.JobID, r.Job.State, r.Job.Number)
		}
	}
	t.Logf("checked after %v", time.Since(begun).Round(10*time.Millisecond))
}
