package main

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/jobtrail/jobtrail/internal/projector/projectortest"
	"github.com/jobtrail/jobtrail/pkg/events"
	"github.com/jobtrail/jobtrail/pkg/retrytopics"
	"github.com/jobtrail/jobtrail/pkg/sanitize"
	"github.com/jobtrail/jobtrail/pkg/worker"
)

// answer is the JSON of op show as a program would read it.
type answer struct {
	OperationID  string  `json:"operation_id"`
	TenantID     string  `json:"tenant_id"`
	Verdict      string  `json:"verdict"`
	Sentence     string  `json:"sentence"`
	CompleteUpTo *string `json:"complete_up_to"`
	Jobs         []struct {
		JobID, JobType, Publication string
		Run                         int
		State                       string
		Attempts                    []map[string]any
		Terminal                    *struct{ Outcome, Reason, At string }
		Flags                       []string
	}
}

func TestOpShow(t *testing.T) {
	w := projectortest.New(t, 2)
	w.Project(nil)
	environ := []string{"CLICKHOUSE_ADDR=" + w.Addr, "CLICKHOUSE_DATABASE=" + w.Layout.Database}
	total := 0
	write := func(h *projectortest.History) {
		w.WriteEvents(h.Pub.Partition, h.Events...)
		total += len(h.Events)
	}
	history := func(tenant, op, job string, offset int64) *projectortest.History {
		return projectortest.NewHistory(t, w.Group, tenant, op, job, "charge", 1, offset)
	}
	write(history("acme", "op-good", "j1", 1).Good())
	retried := history("acme", "op-retried", "j2", 2)
	retried.Started(events.CauseFirst)
	retried.Retry(events.OutcomeFailed, events.ClassTransient, "503 Service Unavailable")
	retried.Started(events.CauseRetry)
	retried.Succeeded()
	retried.Terminal(events.TerminalSucceeded, 0)
	write(retried)
	failed := history("acme", "op-failed", "j3", 3)
	failed.Started(events.CauseFirst)
	failed.GaveUp(events.OutcomeFailed, events.ClassPermanent, "404 Not Found")
	failed.Terminal(events.TerminalFailed, events.ReasonPermanent)
	write(failed)
	running := history("acme", "op-running", "j4", 4)
	running.Started(events.CauseFirst)
	write(running)
	parked := history("acme", "op-parked", "j5", 5)
	parked.Started(events.CauseFirst)
	parked.Abandoned(events.AbandonWorkerLost, events.StateDeciding)
	parked.Parked(events.ParkAbandoned)
	write(parked)
	malformed := history("acme", "op-malformed", "j8", 8)
	malformed.Terminal(events.TerminalFailed, events.ReasonMalformed)
	malformed.Events[len(malformed.Events)-1].Body.(*events.JobTerminal).Detail = sanitize.Clean("not-before: it is neither RFC 3339 nor a number of milliseconds")
	write(malformed)
	write(history("acme", "op-shared", "j6", 6).Good())
	write(history("globex", "op-shared", "j6", 7).Good())
	w.Arrived(total)

	for _, tt := range []struct {
		op, verdict string
		code        int
		sentence    string
	}{
		{"op-good", "succeeded", 0, "Succeeded: charge (j1) succeeded at the first attempt."},
		{"op-retried", "succeeded_after_retries", 0, "Succeeded after retries: charge (j2) succeeded at attempt 2, after 1 attempt (failed, transient)."},
		{"op-failed", "failed", 3, "Failed: charge (j3) ended as failed (permanent) after 1 attempt; the last error was permanent: 404 Not Found."},
		{"op-malformed", "failed", 3, "Failed: charge (j8) ended as failed (malformed: not-before: it is neither RFC 3339 nor a number of milliseconds) after 0 attempts."},
		{"op-running", "in_progress", 4, "In progress: charge (j4) is running attempt 1."},
		{"op-parked", "needs_decision", 5, "Needs a decision: charge (j5) is parked after 1 attempt because its worker was lost while it ran, and it is not safe to repeat; somebody must decide whether it is done, failed or to be tried again (docs/guarantees.md says what can be done)."},
		{"op-none", "unknown", 6, "Unknown: there is no evidence of this operation. The topics were not looked at, so what is newer than the evidence is not counted."},
	} {
		t.Run(tt.op, func(t *testing.T) {
			stdout, _ := must(t, tt.code, environ, "op", "show", tt.op, "-o", "json")
			var got answer
			if err := json.Unmarshal([]byte(stdout), &got); err != nil {
				t.Fatalf("%v in %s", err, stdout)
			}
			if got.Verdict != tt.verdict || got.Sentence != tt.sentence {
				t.Errorf("verdict %s, sentence %q\nwant %s, %q", got.Verdict, got.Sentence, tt.verdict, tt.sentence)
			}
			if table, _ := must(t, tt.code, environ, "op", "show", tt.op); !strings.Contains(strings.Join(strings.Fields(table), " "), tt.sentence) {
				t.Errorf("the table does not say the sentence:\n%s", table)
			} else {
				t.Log("\n" + table)
			}
		})
	}

	t.Run("two tenants", func(t *testing.T) {
		stdout, stderr := must(t, exitUsage, environ, "op", "show", "op-shared")
		if stdout != "acme\nglobex\n" || !strings.Contains(stderr, `name one of "acme", "globex"`) {
			t.Errorf("stdout %q, stderr %q", stdout, stderr)
		}
		stdout, _ = must(t, 0, environ, "op", "show", "op-shared", "--tenant", "globex", "-o", "json")
		if !strings.Contains(stdout, `"tenant_id": "globex"`) {
			t.Error(stdout)
		}
	})

	t.Run("shape", func(t *testing.T) {
		stdout, _ := must(t, 0, environ, "op", "show", "op-retried", "-o", "json")
		var got map[string]any
		if err := json.Unmarshal([]byte(stdout), &got); err != nil {
			t.Fatal(err)
		}
		keys(t, got, "operation_id tenant_id verdict sentence complete_up_to jobs")
		job := got["jobs"].([]any)[0].(map[string]any)
		keys(t, job, "job_id job_type publication run state attempts terminal flags")
		keys(t, job["terminal"].(map[string]any), "outcome reason at")
		for _, a := range job["attempts"].([]any) {
			keys(t, a.(map[string]any), "attempt_id number step worker cause started_at finished_at outcome late_outcome error_class error_message abandoned")
		}
		if fmt.Sprint(job["flags"]) != "[]" || job["publication"] != "jobs/1/2" || job["run"] != 1.0 {
			t.Errorf("%v", job)
		}
	})

	t.Run("job", func(t *testing.T) {
		stdout, _ := must(t, 0, environ, "job", "show", "j2", "-o", "json")
		for _, want := range []string{`"verdict": "succeeded_after_retries"`, `"operation_id": "op-retried"`, `"type": "attempt_started"`} {
			if !strings.Contains(stdout, want) {
				t.Errorf("no %s in %s", want, stdout)
			}
		}
		stdout, _ = must(t, 0, environ, "job", "list", "--state", "failed", "-o", "json")
		if !strings.Contains(stdout, `"job_id": "j3"`) || strings.Contains(stdout, `"job_id": "j1"`) {
			t.Error(stdout)
		}
		must(t, exitUsage, environ, "job", "list", "--state", "nope")
		must(t, 6, environ, "job", "show", "nope")
		must(t, exitUsage, environ, "job", "show", "j6")
	})
}

func keys(t *testing.T, m map[string]any, want string) {
	t.Helper()
	names := strings.Fields(want)
	for _, n := range names {
		if _, ok := m[n]; !ok {
			t.Errorf("no key %s in %v", n, m)
		}
	}
	if len(m) != len(names) {
		t.Errorf("keys of %v are not %s", m, want)
	}
}

// TestOpShowCountsWhatIsPublished has jobs that no worker has read: no evidence,
// and yet in progress.
func TestOpShowCountsWhatIsPublished(t *testing.T) {
	w := projectortest.New(t, 2)
	environ := []string{"CLICKHOUSE_ADDR=" + w.Addr, "CLICKHOUSE_DATABASE=" + w.Layout.Database, "KAFKA_BROKERS=" + strings.Join(w.Brokers, ",")}
	topic := w.Group + "-jobs"
	must(t, 0, environ, "topics", "apply", "--group", w.Group, "--jobs", topic, "--partitions", "2", "--tiers", "0s")
	for i := range 3 {
		must(t, 0, environ, "enqueue", "--topic", topic, "--type", "charge", "--job-id", fmt.Sprintf("job-%d", i), "--operation-id", "op-waits", "--tenant", "acme")
	}
	must(t, 0, environ, "enqueue", "--topic", topic, "--type", "charge", "--job-id", "other", "--operation-id", "op-other", "--tenant", "acme")
	show := func(code int, args ...string) (got answer) {
		t.Helper()
		stdout, _ := must(t, code, environ, append([]string{"op", "show", "op-waits", "-o", "json"}, args...)...)
		if err := json.Unmarshal([]byte(stdout), &got); err != nil {
			t.Fatalf("%v in %s", err, stdout)
		}
		return got
	}
	if got := show(4); got.Verdict != "in_progress" || got.TenantID != "acme" || got.Sentence != "In progress: 3 jobs of it are published and not started." {
		t.Errorf("got %+v", got)
	}
	show(4, "--tenant", "acme")
	show(6, "--tenant", "globex")
	show(6, "--no-kafka")
	// Of one of them there is evidence now, by its place.
	done := projectortest.NewHistory(t, w.Group, "acme", "op-waits", "job-0", "charge", 0, 0)
	done.Pub.Topic = topic
	done.Good()
	w.Project(nil)
	w.WriteEvents(0, done.Events...)
	w.Arrived(len(done.Events))
	got := show(4)
	if !strings.HasPrefix(got.Sentence, "In progress: ") || !strings.Contains(got.Sentence, "published and not started. What did run: Succeeded: charge (job-0)") || len(got.Jobs) != 1 {
		t.Errorf("got %+v", got)
	}
	// A broker that is away is said, and the evidence is shown all the same. Where
	// there is none, nobody can tell.
	environ[2] = "KAFKA_BROKERS=127.0.0.1:1"
	stdout, stderr := must(t, 0, environ, "op", "show", "op-waits")
	if !strings.Contains(stdout, "Succeeded: charge (job-0)") || !strings.Contains(strings.Join(strings.Fields(stdout), " "), "The topics could not be read") || !strings.Contains(stderr, "is not counted") {
		t.Errorf("stdout %s, stderr %s", stdout, stderr)
	}
	for _, args := range [][]string{{"op", "show", "op-other"}, {"job", "show", "other"}} {
		if _, stderr := must(t, exitFailed, environ, args...); !strings.Contains(stderr, "could not be read") {
			t.Errorf("stderr %s", stderr)
		}
	}
}

// TestShowIsRightAtAnyMoment asks about jobs that a worker runs: at once, while
// no projector has run yet, while one runs, and after it has stopped.
func TestShowIsRightAtAnyMoment(t *testing.T) {
	w := projectortest.New(t, 2)
	environ := []string{"CLICKHOUSE_ADDR=" + w.Addr, "CLICKHOUSE_DATABASE=" + w.Layout.Database, "KAFKA_BROKERS=" + strings.Join(w.Brokers, ",")}
	topic := w.Group + "-jobs"
	// Another group reads the topic and has never had a worker.
	idle := w.Group + "-idle"
	for _, g := range []string{w.Group, idle} {
		must(t, 0, environ, "topics", "apply", "--group", g, "--jobs", topic, "--partitions", "2", "--tiers", "0s")
	}
	done := make(chan string, 100)
	runWorker(t, w.Brokers, worker.Config{Group: w.Group, Topics: []string{topic}, Tiers: retrytopics.Tiers{0}, Types: []worker.Type{{Name: "charge", Handler: worker.HandlerFunc(
		func(_ context.Context, job *worker.Job) error { done <- job.OperationID; return nil })}}})
	enqueue := func(op string) {
		t.Helper()
		must(t, 0, environ, "enqueue", "--topic", topic, "--type", "charge", "--job-id", "job-of-"+op, "--operation-id", op, "--tenant", "acme")
	}
	// finished waits until the job has run and lies before the group's commit.
	finished := func(op string) {
		t.Helper()
		if got := <-done; got != op {
			t.Fatalf("%s ran, want %s", got, op)
		}
		w.Eventually("the commit moves past "+op, func() bool {
			stdout, _ := must(t, 0, environ, "queue", "list", "--group", w.Group, "-o", "json")
			return !regexp.MustCompile(`"depth": [1-9]`).MatchString(stdout)
		})
	}
	newer := func(op, why string) {
		t.Helper()
		for _, ask := range [][]string{{"op", "show", op}, {"job", "show", "job-of-" + op}, {"job", "show", "job-of-" + op, "--group", w.Group, "--tenant", "acme"}} {
			stdout, _ := must(t, 4, environ, ask...)
			if said := strings.Join(strings.Fields(stdout), " "); !strings.Contains(said, "1 "+map[string]string{"op": "job", "job": "publication"}[ask[0]]+" of it is newer than the evidence"+why) || strings.Contains(said, "not started.") {
				t.Errorf("%v says %s", ask, said)
			}
		}
	}
	enqueue("op-first")
	finished("op-first")
	newer("op-first", ": no projector has reported how far it is")
	// A store that no projector has made yet holds nothing.
	made := environ[1]
	environ[1] = "CLICKHOUSE_DATABASE=" + w.Layout.Database + "_not_made"
	newer("op-first", ": no projector has reported how far it is")
	if _, stderr := must(t, 1, environ, "op", "show", "op-first", "--no-kafka"); !strings.Contains(stderr, "a projector makes the store when it starts") {
		t.Errorf("stderr %s", stderr)
	}
	environ[1] = made
	// nobodys asks for what nobody has published. Where the brokers are too slow to
	// look at all of the topics in time, that is the answer, and it is asked again.
	nobodys := func(ask ...string) (said string) {
		t.Helper()
		w.Eventually("nobody has heard of it", func() bool {
			var out, errs strings.Builder
			code := run(t.Context(), ask, &Globals{Stdout: &out, Stderr: &errs, Environ: environ})
			said = strings.Join(strings.Fields(out.String()), " ")
			if code != 6 && (code != 4 || !strings.Contains(said, "more than could be looked at")) {
				t.Fatalf("%v: exit code %d\n%s%s", ask, code, &out, &errs)
			}
			return code == 6
		})
		return said
	}
	nobodys("op", "show", "op-never")
	nobodys("job", "show", "never")

	p := w.Project(nil)
	succeeded := func(op string) {
		t.Helper()
		for _, ask := range [][]string{{"op", "show", op, "-o", "json"}, {"job", "show", "job-of-" + op, "-o", "json"}} {
			asked := 0
			w.Eventually(op+" has succeeded", func() bool {
				var out, errs strings.Builder
				code := run(t.Context(), ask, &Globals{Stdout: &out, Stderr: &errs, Environ: environ})
				if asked++; code != 0 && code != 4 {
					t.Fatalf("%v, asked %d times: exit code %d\n%s%s", ask, asked, code, &out, &errs)
				}
				return code == 0
			})
		}
	}
	succeeded("op-first")
	// Not "op-0": the brokers are shared, and other tests have such operations.
	nth := func(i int) string { return fmt.Sprintf("%s-op-%d", w.Group, i) }
	for i := range 20 {
		op := nth(i)
		enqueue(op)
		succeeded(op)
		finished(op)
	}
	if stdout, _ := must(t, 0, environ, "op", "show", nth(19)); !strings.Contains(strings.Join(strings.Fields(stdout), " "), "Group "+idle+", which has no worker running, has not started it.") {
		t.Errorf("the other group is not named: %s", stdout)
	}

	p.Stop()
	enqueue("op-last")
	finished("op-last")
	newer("op-last", ", which is complete up to 20")
	succeeded(nth(7))
	if said := nobodys("op", "show", "op-never"); !strings.Contains(said, "no record of it in the topics") {
		t.Error(said)
	}
}

// runWorker runs a worker until the end of the test.
func runWorker(t *testing.T, brokers []string, cfg worker.Config) {
	t.Helper()
	wk, err := worker.New(cfg, worker.Deps{Kafka: []kgo.Opt{kgo.SeedBrokers(brokers...)}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- wk.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("the worker ended: %v", err)
			}
		case <-time.After(time.Minute):
			t.Error("the worker did not end within a minute")
		}
	})
}
