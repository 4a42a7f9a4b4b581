package loadtest_test

import (
	"strings"
	"syscall"
	"testing"
	"time"

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
