package loadtest_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/jobtrail/jobtrail/loadtest"
	"github.com/jobtrail/jobtrail/pkg/events"
)

// built builds a command of the project once and returns its path. A name may
// end in @ and a build tag.
var built = func() func(t testing.TB, name string) string {
	var mu sync.Mutex
	paths := make(map[string]string)
	return func(t testing.TB, name string) string {
		t.Helper()
		mu.Lock()
		defer mu.Unlock()
		if paths[name] == "" {
			_, here, _, _ := runtime.Caller(0)
			path := filepath.Join(filepath.Dir(filepath.Dir(here)), ".cache", "loadtest", name)
			command, tag, _ := strings.Cut(name, "@")
			folder := "./cmd/"
			if command == "noop" {
				folder = "./loadtest/"
			}
			cmd := exec.Command("go", "build", "-tags", tag, "-o", path, folder+command)
			cmd.Dir = filepath.Dir(filepath.Dir(here))
			cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("building %s: %v\n%s", name, err, out)
			}
			paths[name] = path
		}
		return paths[name]
	}
}()

// call is one request to the witness.
type call struct {
	typ     string
	job     string
	attempt uuid.UUID
	number  string
	key     string
	body    string
	headers http.Header
}

// witness is the world outside the worker: the jobs' endpoint. It counts side
// effects, and answers when and what the test says.
type witness struct {
	t   testing.TB
	g   *group
	srv *httptest.Server

	concurrency int // of the jobs file

	mu     sync.Mutex
	answer map[string]func(*call) int // by job type; nil answers 200
	calls  map[string][]*call         // by job
	news   chan struct{}
}

func newWitness(t testing.TB, g *group) *witness {
	w := &witness{t: t, g: g, concurrency: 100, answer: make(map[string]func(*call) int), calls: make(map[string][]*call), news: make(chan struct{})}
	w.srv = httptest.NewServer(http.HandlerFunc(w.serve))
	t.Cleanup(func() { w.srv.CloseClientConnections(); w.srv.Close() })
	return w
}

func (w *witness) serve(rw http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	id, err := uuid.Parse(r.Header.Get("Jobtrail-Attempt-Id"))
	if err != nil {
		w.t.Errorf("a request without an attempt id: %v", r.Header)
	}
	c := &call{typ: r.Header.Get("Jobtrail-Job-Type"), job: r.Header.Get("Jobtrail-Job-Id"), attempt: id, number: r.Header.Get("Jobtrail-Attempt"),
		key: r.Header.Get("Idempotency-Key"), body: string(body), headers: r.Header}
	w.g.mu.Lock()
	w.g.effects = append(w.g.effects, loadtest.Effect{JobID: c.job, AttemptID: id, At: events.TimeOf(time.Now())})
	w.g.mu.Unlock()
	w.mu.Lock()
	w.calls[c.job] = append(w.calls[c.job], c)
	answer := w.answer[c.typ]
	close(w.news)
	w.news = make(chan struct{})
	w.mu.Unlock()
	status := http.StatusOK
	if answer != nil {
		status = answer(c)
	}
	rw.WriteHeader(status)
}

// on sets how calls of a type are answered.
func (w *witness) on(typ string, answer func(*call) int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answer[typ] = answer
}

// of returns the calls of a job so far.
func (w *witness) of(job string) []*call {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.calls[job])
}

// total returns how many calls there were.
func (w *witness) total() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, calls := range w.calls {
		n += len(calls)
	}
	return n
}

// wait waits until a job was called n times.
func (w *witness) wait(job string, n int, limit time.Duration) {
	w.t.Helper()
	if !w.called(job, n, limit) {
		w.t.Fatalf("after %v the witness saw %d calls of %s, wanted %d", limit, len(w.of(job)), job, n)
	}
}

// called waits until a job was called n times, or the limit, and reports whether
// it was.
func (w *witness) called(job string, n int, limit time.Duration) bool {
	deadline := time.After(limit)
	for {
		w.mu.Lock()
		news := w.news
		w.mu.Unlock()
		if len(w.of(job)) >= n {
			return true
		}
		select {
		case <-news:
		case <-deadline:
			return false
		}
	}
}

// jobsFile writes a jobs file: types are lines of the mapping, with URL for the
// witness.
func (w *witness) jobsFile(types string) string {
	w.t.Helper()
	path := filepath.Join(w.t.TempDir(), "jobs.yaml")
	text := fmt.Sprintf("topics: [%s]\ntiers: [%s]\nconcurrency: %d\ndefaults: {retry: {max_attempts: 3, initial: 1s}, timeout: 60s}\ntypes:\n", strings.Join(w.g.topo.Jobs, ", "),
		strings.ReplaceAll(w.g.topo.Tiers.String(), " ", ", "), w.concurrency)
	for line := range strings.Lines(types) {
		text += "  " + strings.ReplaceAll(line, "URL", w.srv.URL)
	}
	if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
		w.t.Fatal(err)
	}
	return path
}

// process is a command of the project that runs.
type process struct {
	t    testing.TB
	name string
	cmd  *exec.Cmd
	done chan struct{}
	err  error

	mu    sync.Mutex
	lines []string
	more  chan struct{}
}

// start starts a command; it is killed at the end of the test.
func start(t testing.TB, name string, env ...string) *process {
	t.Helper()
	return startWith(t, name, nil, env...)
}

// startWith is start with arguments.
func startWith(t testing.TB, name string, args []string, env ...string) *process {
	t.Helper()
	p := &process{t: t, name: name, cmd: exec.Command(built(t, name), args...), done: make(chan struct{}), more: make(chan struct{})}
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "JOBTRAIL_ADMIN_ADDR=127.0.0.1:0", "JOBTRAIL_LOG=text"}, env...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			p.mu.Lock()
			p.lines = append(p.lines, lines.Text())
			close(p.more)
			p.more = make(chan struct{})
			p.mu.Unlock()
		}
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Signal(syscall.SIGCONT)
		_ = p.cmd.Process.Kill()
		<-p.done
		if t.Failed() {
			p.mu.Lock()
			defer p.mu.Unlock()
			t.Logf("the end of the log of %s %d:\n%s", p.name, p.cmd.Process.Pid, strings.Join(p.lines[max(0, len(p.lines)-25):], "\n"))
		}
	})
	return p
}

func (g *group) worker(jobsFile string, env ...string) *process {
	g.t.Helper()
	name, env := g.lacking("worker", env)
	return start(g.t, name, append([]string{"KAFKA_BROKERS=" + strings.Join(g.brokers, ","), "JOBTRAIL_GROUP=" + g.topo.Group, "JOBTRAIL_JOBS_FILE=" + jobsFile}, env...)...)
}

// lacking returns the build of a command and its environment, without the
// protection that the group's workers lack.
func (g *group) lacking(name string, env []string) (string, []string) {
	if g.lack == "" {
		return name, env
	}
	return name + "@unprotected", append(env, unprotectedVariable+"="+g.lack)
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatalf("sending %v to %s: %v", s, p.name, err)
	}
}

// kill kills the process and waits for its end.
func (p *process) kill() {
	p.t.Helper()
	p.signal(syscall.SIGKILL)
	<-p.done
	p.t.Logf("killed %s %d", p.name, p.cmd.Process.Pid)
}

// stop ends the process in order.
func (p *process) stop() {
	p.t.Helper()
	p.signal(syscall.SIGTERM)
	select {
	case <-p.done:
		if p.err != nil {
			p.t.Errorf("%s ended with %v", p.name, p.err)
		}
	case <-time.After(60 * time.Second):
		p.t.Errorf("%s does not end", p.name)
	}
}

// says waits until the log has n lines with the text.
func (p *process) says(text string, n int, limit time.Duration) {
	p.t.Helper()
	if p.said(text, n, limit) {
		return
	}
	select {
	case <-p.done:
		p.t.Fatalf("%s ended before it said %q", p.name, text)
	default:
		p.t.Fatalf("after %v %s has not said %q", limit, p.name, text)
	}
}

// said waits until the log has n lines with the text, or the process ends, or
// the limit, and reports whether it has.
func (p *process) said(text string, n int, limit time.Duration) bool {
	deadline := time.After(limit)
	for ended := false; ; {
		p.mu.Lock()
		more := p.more
		found := 0
		for _, l := range p.lines {
			if strings.Contains(l, text) {
				found++
			}
		}
		p.mu.Unlock()
		if found >= n || ended {
			return found >= n
		}
		select {
		case <-more:
		case <-p.done:
			ended = true // all it said is there now
		case <-deadline:
			return false
		}
	}
}

// run returns the run of the job; there must be one.
func runOf(t testing.TB, s *loadtest.Story, job string) *loadtest.Run {
	t.Helper()
	for _, r := range s.Runs {
		if r.JobID == job {
			return r
		}
	}
	t.Fatalf("nothing is on record of %s", job)
	return nil
}

// said returns the types of the run's events, those of version 0 in brackets.
func said(r *loadtest.Run) string {
	var out []string
	for _, rec := range r.Records {
		name := rec.Event.Type().String()
		switch b := rec.Event.Body.(type) {
		case *events.AttemptFinished:
			name = b.Outcome.String()
			if b.AdoptedFrom > 0 {
				name += " adopted"
			}
		case *events.AttemptAbandoned:
			name = b.Cause.String()
		case *events.JobTerminal:
			name = "terminal " + b.Outcome.String()
		case *events.AttemptStarted:
			name = "started " + b.Cause.String()
		}
		if rec.Event.Version == 0 {
			name = "(" + name + ")"
		}
		out = append(out, name)
	}
	return strings.Join(out, ", ")
}

func within(t testing.TB, what string) func() {
	begun := time.Now()
	return func() { t.Logf("%s took %v", what, time.Since(begun).Round(10*time.Millisecond)) }
}

// untilMetric waits until a series has at least the value.
func (p *process) untilMetric(series string, least float64, limit time.Duration) {
	p.t.Helper()
	for deadline := time.Now().Add(limit); ; <-time.After(50 * time.Millisecond) {
		got := p.metric(series)
		if got >= least {
			return
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("after %v %s of %s is %v, wanted %v", limit, series, p.name, got, least)
		}
	}
}

// metric returns the value of a series, named as /metrics does.
func (p *process) metric(series string) float64 {
	p.t.Helper()
	for line := range strings.Lines(string(p.get("/metrics"))) {
		if rest, ok := strings.CutPrefix(line, series+" "); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(rest), 64)
			if err != nil {
				p.t.Fatalf("reading %s: %v", series, err)
			}
			return v
		}
	}
	return 0 // nothing was counted yet
}
