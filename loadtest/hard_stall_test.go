package loadtest_test

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/jobtrail/jobtrail/pkg/jobs"
)

// TestStalledAlone stops the only worker past its session while a handler runs.
// When it goes on it gets its partition back, and nothing is run again: an
// outcome that came too late is adopted, a handler that still runs is taken over.
func TestStalledAlone(t *testing.T) {
	t.Parallel()
	t.Run("handler ended", func(t *testing.T) {
		t.Parallel()
		protected(t, func(t testing.TB, lack string) { stalledAlone(t, lack, true) }, lack{"late outcomes are not adopted", "the attempt was abandoned"})
	})
	t.Run("handler runs", func(t *testing.T) {
		t.Parallel()
		protected(t, func(t testing.TB, lack string) { stalledAlone(t, lack, false) }, lack{"running handlers are not taken over again", "called 2 times"})
	})
}

// stalledAlone has the handler end before the worker goes on, or after it has
// its partition back.
func stalledAlone(t testing.TB, lack string, ends bool) {
	g := newGroup(t, 2)
	g.lack = lack
	w := newWitness(t, g)
	file := w.jobsFile(`job: {http: {url: "URL"}}` + "\n")
	hang := make(chan struct{})
	w.on("job", func(*call) int { <-hang; return 200 })
	p := g.worker(file)
	g.publish(jobs.Job{ID: "j", Type: "job"})
	w.wait("j", 1, 30*time.Second)
	p.signal(syscall.SIGSTOP)
	begun := time.Now()
	g.untilMembers(0, 30*time.Second)
	t.Logf("the group gave the worker up after %v", time.Since(begun).Round(10*time.Millisecond))
	if ends {
		close(hang)
	}
	p.signal(syscall.SIGCONT)
	if !ends {
		p.says("partition recovered", 4, 40*time.Second)
		close(hang)
	}
	g.until(40*time.Second, "end of the job", terminals(1))
	p.stop()
	s := g.check()
	if n := len(w.of("j")); n != 1 {
		t.Errorf("the job was called %d times, wanted 1", n)
	}
	got := said(runOf(t, s, "j"))
	t.Log(got)
	if strings.Contains(got, "lost") || strings.Contains(got, "moved") {
		t.Errorf("the attempt was abandoned: %s", got)
	}
}

// TestFencedWhileWriting has the broker fence a member, and take it in again
// under its id, while a tick of it is on its way. The broker accepts that tick,
// though the worker has lost the partition and got it back since: what it wrote
// must be known to the recovery.
func TestFencedWhileWriting(t *testing.T) {
	t.Parallel()
	protected(t, fencedWhileWriting, lack{"a recovery does not wait for the tick in hand", `I[345]: (attempt|job|the position) `})
}

func fencedWhileWriting(t testing.TB, lack string) {
	const n = 200
	g := newGroup(t, 1)
	g.lack = lack
	w := newWitness(t, g)
	w.on("job", func(*call) int {
		time.Sleep(50 * time.Millisecond) //nolint:forbidigo // the job's own time
		return 200
	})
	r := newRelay(t, g.brokers[0])
	p := g.worker(w.jobsFile(`job: {http: {url: "URL"}}`+"\n"), "KAFKA_BROKERS="+r.addr)
	g.publishEach("job", 0, n/2, 1, nil)
	w.wait("job-0", 1, 30*time.Second)
	release := r.hold(kmsg.Produce)
	g.publishEach("job", n/2, n, 1, nil)
	r.fence()
	p.says("partitions assigned", 2, 20*time.Second)
	// It must not recover now; where it does, its memory lacks what is held.
	recovered := p.said("partition recovered", 2, 3*time.Second)
	release()
	if !recovered {
		p.says("partition recovered", 2, 30*time.Second)
	}
	if _, _, ok := g.reached(30*time.Second, terminals(n)); !ok {
		t.Error("not all jobs have ended")
	}
	p.says("partitions lost", 1, time.Second)
	p.stop()
	g.check()
}
