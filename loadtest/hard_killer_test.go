package loadtest_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jobtrail/jobtrail/loadtest"
	"github.com/jobtrail/jobtrail/pkg/events"
	"github.com/jobtrail/jobtrail/pkg/jobs"
)

// TestKillerAmongInnocents runs a job that kills every worker that runs it, with
// 200 others in flight. Only the killer is taken out, as a crash loop: the others
// are found to be innocent, and all of them succeed.
func TestKillerAmongInnocents(t *testing.T) {
	t.Parallel()
	protected(t, killerAmongInnocents,
		lack{"suspects are not set apart", "the killer has killed 7 workers"},
		lack{"every loss counts as one alone", `innocent-\d+ ended as failed \(crash_loop\)`})
}

func killerAmongInnocents(t testing.TB, lack string) {
	const (
		innocents = 200
		// The first two losses cost nothing, then it runs among 32, among 4, and
		// alone twice.
		kills = 6
	)
	g := newGroup(t, 2)
	g.lack = lack
	w := newWitness(t, g)
	w.concurrency = innocents + 1
	file := w.jobsFile(`killer: {http: {url: "URL"}}` + "\n" + `innocent: {http: {url: "URL"}}` + "\n")
	lives := &lives{g: g, file: file}
	w.on("innocent", func(*call) int {
		life := lives.now()
		if life.called.Add(1) == innocents {
			close(life.full)
		}
		if life.number <= 2 {
			<-life.process.done
			return 500 // to nobody
		}
		time.Sleep(200 * time.Millisecond) //nolint:forbidigo // the job's own time
		return 200
	})
	w.on("killer", func(*call) int {
		life := lives.now()
		if life.number <= 2 {
			<-life.full
		}
		_ = life.process.cmd.Process.Kill()
		<-life.process.done
		return 500
	})
	life := lives.next()
	var list []jobs.Job
	for i := range innocents {
		if i == innocents/2 {
			list = append(list, jobs.Job{ID: "killer", Type: "killer"})
		}
		list = append(list, jobs.Job{ID: fmt.Sprint("innocent-", i), Type: "innocent"})
	}
	g.publish(list...)
	var killed atomic.Int64
	enough, supervised := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(supervised)
		for killed.Load() <= kills {
			select {
			case <-life.process.done:
				killed.Add(1)
				life = lives.next()
			case <-enough:
				return
			}
		}
	}()
	g.until(150*time.Second, "end of all jobs", func(s *loadtest.Story) bool { return killed.Load() > kills || terminals(innocents+1)(s) })
	close(enough)
	<-supervised
	if n := killed.Load(); n > kills {
		t.Fatalf("the killer has killed %d workers and is not taken out", n)
	}
	life.process.stop()
	story := g.check()
	for _, r := range story.Runs {
		if r.JobID == "killer" {
			if r.Job.State != events.StateFailed || r.Reason != events.ReasonCrashLoop || r.Job.Number != kills {
				t.Errorf("the killer ended as %v (%v) after %d attempts", r.Job.State, r.Reason, r.Job.Number)
			}
			continue
		}
		if r.Job.State != events.StateSucceeded {
			t.Errorf("%s ended as %v (%v)", r.JobID, r.Job.State, r.Reason)
		}
		if r.Job.Number < 3 {
			t.Errorf("%s took %d attempts, but was in flight when the killer killed twice", r.JobID, r.Job.Number)
		}
		for _, rec := range r.Records {
			switch b := rec.Event.Body.(type) {
			case *events.AttemptFinished:
				if b.Outcome != events.OutcomeSucceeded {
					t.Errorf("%s lost budget: an attempt %v", r.JobID, b.Outcome)
				}
			case *events.AttemptAbandoned:
				if b.SoloLosses > 0 {
					t.Errorf("%s is held to have killed %d workers alone", r.JobID, b.SoloLosses)
				}
			}
		}
	}
}

// lives are workers of a group that follow each other.
type lives struct {
	g    *group
	file string

	mu   sync.Mutex
	last *life
}

// life is one of them.
type life struct {
	number  int
	process *process
	called  atomic.Int64
	full    chan struct{} // closed when all innocents were called in it
}

func (l *lives) now() *life {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

func (l *lives) next() *life {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := &life{number: 1, full: make(chan struct{})}
	if l.last != nil {
		n.number = l.last.number + 1
	}
	n.process = l.g.worker(l.file)
	l.last = n
	return n
}
