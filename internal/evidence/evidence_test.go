package evidence_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jobtrail/jobtrail/internal/evidence"
	"github.com/jobtrail/jobtrail/internal/localstack/stacktest"
	"github.com/jobtrail/jobtrail/internal/projector/projectortest"
	"github.com/jobtrail/jobtrail/pkg/events"
)

func TestMain(m *testing.M) { stacktest.Main(m) }

// a case is the history of an operation and the answer it must give.
type operationCase struct {
	name  string
	build func(h func(job string) *projectortest.History) []*projectortest.History
	// per run, in order: state, then flags; attempts as "number:outcome" with
	// late and abandoned after it.
	verdict  evidence.Verdict
	runs     []string
	attempts []string
	says     []string // parts of the sentence
}

var cases = []operationCase{
	{
		name: "good",
		build: func(h func(string) *projectortest.History) []*projectortest.History {
			return []*projectortest.History{h("a").Good(), h("b").Good()}
		},
		verdict: evidence.Succeeded, runs: []string{"1 succeeded", "1 succeeded"}, attempts: []string{"1:succeeded", "1:succeeded"},
		says: []string{"Succeeded: all 2 jobs succeeded at the first attempt."},
	},
	{
		name: "retried, timed out and exhausted",
		build: func(h func(string) *projectortest.History) []*projectortest.History {
			a := h("a")
			a.Started(events.CauseFirst)
			a.Retry(events.OutcomeTimedOut, events.ClassTimeout, "no answer in 30s")
			a.Deferred(events.DeferTier, a.Clock+500)
			a.Started(events.CauseRetry)
			a.GaveUp(events.OutcomeFailed, events.ClassTransient, "503 Service Unavailable")
			a.Terminal(events.TerminalFailed, events.ReasonExhausted)
			return []*projectortest.History{a, h("b").Good()}
		},
		verdict: evidence.Failed, runs: []string{"1 failed", "1 succeeded"}, attempts: []string{"1:timed_out timeout", "2:failed transient", "1:succeeded"},
		says: []string{"Failed: charge (a) ended as failed (exhausted) after 2 attempts; the last error was transient: 503 Service Unavailable.", "The other job succeeded."},
	},
	{
		name: "interrupted, then good",
		build: func(h func(string) *projectortest.History) []*projectortest.History {
			a := h("a")
			a.Started(events.CauseFirst)
			a.Retry(events.OutcomeInterrupted, 0, "")
			a.Started(events.CauseRedelivery)
			a.Succeeded()
			a.Terminal(events.TerminalSucceeded, 0)
			return []*projectortest.History{a}
		},
		verdict: evidence.Succeeded, runs: []string{"1 succeeded"}, attempts: []string{"1:interrupted", "2:succeeded"},
	},
	{
		name: "abandoned, then rerun, and a late outcome that overlaps",
		build: func(h func(string) *projectortest.History) []*projectortest.History {
			a := h("a")
			a.Started(events.CauseFirst)
			lost := a.Attempt()
			a.Worker = "host-2/bbbb0002"
			a.Abandoned(events.AbandonWorkerLost, events.StateRetryWaiting)
			a.Started(events.CauseRedelivery)
			a.Worker, a.Clock = "host-1/aaaa0001", a.Clock+60_000 // it ended long after the second began
			a.Late(lost, events.OutcomeSucceeded)
			a.Worker = "host-2/bbbb0002"
			a.Succeeded()
			a.Terminal(events.TerminalSucceeded, 0)
			return []*projectortest.History{a}
		},
		verdict: evidence.SucceededAfterRetries, runs: []string{"1 succeeded late overlapped"}, attempts: []string{"1: abandoned=worker_lost late=succeeded", "2:succeeded"},
		says: []string{"after 1 attempt (worker lost)", "Two attempts of charge (a) ran at the same time."},
	},
	{
		name: "a late success in a run that failed",
		build: func(h func(string) *projectortest.History) []*projectortest.History {
			a := h("a")
			a.Started(events.CauseFirst)
			lost := a.Attempt()
			a.Abandoned(events.AbandonMovedAway, events.StateDeciding)
			a.Terminal(events.TerminalFailed, events.ReasonCrashLoop)
			a.Clock = a.Clock - 60_000 // it had ended before
			a.Late(lost, events.OutcomeSucceeded)
			return []*projectortest.History{a}
		},
		verdict: evidence.Failed, runs: []string{"1 failed late conflicting_outcomes"}, attempts: []string{"1: abandoned=moved_away late=succeeded"},
		says: []string{"The outcomes told of charge (a) contradict each other."},
	},
	{
		name: "a late outcome equal to what the owner knew is no news",
		build: func(h func(string) *projectortest.History) []*projectortest.History {
			a := h("a").Good()
			a.Late(a.Attempt(), events.OutcomeSucceeded)
			a.Late(a.Attempt(), events.OutcomeSucceeded)
			return []*projectortest.History{a}
		},
		verdict: evidence.Succeeded, runs: []string{"1 succeeded"}, attempts: []string{"1:succeeded"},
	},
	{
		name: "a late outcome that contradicts what the owner knew",
		build: func(h func(string) *projectortest.History) []*projectortest.History {
			a := h("a").Good()
			a.Late(a.Attempt(), events.OutcomeFailed)
			return []*projectortest.History{a}
		},
		verdict: evidence.Succeeded, runs: []string{"1 succeeded late conflicting_outcomes"}, attempts: []string{"1:succeeded late=failed"},
	},
	{
		name: "a late outcome that the owner adopts",
		build: func(h func(string) *projectortest.History) []*projectortest.History {
			a := h("a")
			a.Started(events.CauseFirst)
			a.Late(a.Attempt(), events.OutcomeSucceeded)
			a.Adopted(events.OutcomeSucceeded, 1)
			a.Terminal(events.TerminalSucceeded, 0)
			return []*projectortest.History{a}
		},
		verdict: evidence.Succeeded, runs: []string{"1 succeeded late"}, attempts: []string{"1:succeeded late=succeeded"},
	},
	{
		name: "abandoned before the handler ran, told twice",
		build: func(h func(string) *projectortest.History) []*projectortest.History {
			a := h("a")
			a.Started(events.CauseFirst)
			a.NotStarted()
			a.NotStarted()
			a.Abandoned(events.AbandonMovedAway, events.StateRetryWaiting)
			a.Started(events.CauseRedelivery)
			return []*projectortest.History{a}
		},
		verdict: evidence.InProgress, runs: []string{"1 running"}, attempts: []string{"1: abandoned=moved_away", "2:"},
		says: []string{"In progress: charge (a) is running attempt 2."},
	},
	{
		name: "parked, and another one fails",
		build: func(h func(string) *projectortest.History) []*projectortest.History {
			a := h("a")
			a.Started(events.CauseFirst)
			a.Abandoned(events.AbandonWorkerLost, events.StateDeciding)
			a.Parked(events.ParkAbandoned)
			b := h("b")
			b.Terminal(events.TerminalFailed, events.ReasonMalformed)
			return []*projectortest.History{a, b}
		},
		verdict: evidence.NeedsDecision, runs: []string{"1 parked", "1 failed"}, attempts: []string{"1: abandoned=worker_lost"},
		says: []string{"Needs a decision: charge (a) is parked", "The other job failed."},
	},
	{
		name: "parked, resolved, retried; a stale decision is refused",
		build: func(h func(string) *projectortest.History) []*projectortest.History {
			a := h("a")
			a.Started(events.CauseFirst)
			a.Abandoned(events.AbandonWorkerLost, events.StateDeciding)
			a.Parked(events.ParkAbandoned)
			a.Resolved(events.ResolveRetry, "ops", "not charged")
			a.Rejected("resolve", events.StateParked)
			a.Started(events.CauseResolve)
			a.Succeeded()
			a.Terminal(events.TerminalSucceeded, 0)
			return []*projectortest.History{a}
		},
		verdict: evidence.SucceededAfterRetries, runs: []string{"1 succeeded rejected"}, attempts: []string{"1: abandoned=worker_lost", "2:succeeded"},
	},
	{
		name: "waits for a retry",
		build: func(h func(string) *projectortest.History) []*projectortest.History {
			a := h("a")
			a.Started(events.CauseFirst)
			a.Retry(events.OutcomeFailed, events.ClassThrottled, "429")
			return []*projectortest.History{h("b").Good(), a}
		},
		verdict: evidence.InProgress, runs: []string{"1 succeeded", "1 retry_waiting"}, attempts: []string{"1:succeeded", "1:failed throttled"},
		says: []string{"In progress: charge (a) waits for its next attempt due at 20", "after 1 attempt; the last error was throttled: 429. The other job succeeded."},
	},
	{
		name: "steps",
		build: func(h func(string) *projectortest.History) []*projectortest.History {
			a := h("a")
			a.Started(events.CauseFirst)
			a.Succeeded()
			a.StepCompleted("charge", "ship")
			a.Started(events.CauseFirst)
			a.Succeeded()
			a.Terminal(events.TerminalSucceeded, 0)
			return []*projectortest.History{a}
		},
		verdict: evidence.Succeeded, runs: []string{"1 succeeded"}, attempts: []string{"1:succeeded", "2:succeeded step=ship"},
	},
	{
		name: "published twice",
		build: func(h func(string) *projectortest.History) []*projectortest.History {
			a, again := h("a").Good(), h("a")
			again.DuplicateOf(a, events.DuplicateRejected)
			return []*projectortest.History{a, again}
		},
		verdict: evidence.Succeeded, runs: []string{"1 succeeded", "0 none duplicate_of"}, attempts: []string{"1:succeeded"},
		says: []string{"Succeeded: charge (a) succeeded at the first attempt.", "charge (a) was published again (jobs/0/2) and not run: a duplicate of jobs/0/1."},
	},
	{
		name: "published twice and run twice by policy: the latest counts",
		build: func(h func(string) *projectortest.History) []*projectortest.History {
			a, again := h("a").Good(), h("a")
			again.DuplicateOf(a, events.DuplicateRun)
			again.Started(events.CauseFirst)
			again.GaveUp(events.OutcomeFailed, events.ClassPermanent, "409")
			again.Terminal(events.TerminalFailed, events.ReasonPermanent)
			return []*projectortest.History{a, again}
		},
		verdict: evidence.Failed, runs: []string{"1 succeeded", "1 failed duplicate_of"}, attempts: []string{"1:succeeded", "1:failed permanent"},
	},
	{
		name: "one id, two types",
		build: func(h func(string) *projectortest.History) []*projectortest.History {
			a, b := h("a").Good(), h("a")
			b.Type = "refund"
			b.DuplicateOf(a, events.DuplicateIDCollision)
			b.Good()
			return []*projectortest.History{a, b}
		},
		verdict: evidence.Succeeded, runs: []string{"1 succeeded id_collision", "1 succeeded duplicate_of id_collision"}, attempts: []string{"1:succeeded", "1:succeeded"},
		says: []string{"was used with two job types"},
	},
	{
		name: "one id, two partitions",
		build: func(h func(string) *projectortest.History) []*projectortest.History {
			a, b := h("a").Good(), h("a")
			b.Pub.Partition = 1
			b.Good()
			return []*projectortest.History{a, b}
		},
		verdict: evidence.Succeeded, runs: []string{"1 succeeded split_identity", "1 succeeded split_identity"}, attempts: []string{"1:succeeded", "1:succeeded"},
	},
	{
		name: "redriven after a failure: the last run counts",
		build: func(h func(string) *projectortest.History) []*projectortest.History {
			a := h("a")
			a.Started(events.CauseFirst)
			a.GaveUp(events.OutcomeFailed, events.ClassPermanent, "404")
			a.Terminal(events.TerminalFailed, events.ReasonPermanent)
			a.Redriven("ops")
			a.Started(events.CauseRedrive)
			a.Succeeded()
			a.Terminal(events.TerminalSucceeded, 0)
			return []*projectortest.History{a}
		},
		verdict: evidence.Succeeded, runs: []string{"1 failed", "2 succeeded"}, attempts: []string{"1:failed permanent", "1:succeeded"},
	},
	{
		name: "cancelled, expired",
		build: func(h func(string) *projectortest.History) []*projectortest.History {
			a, b := h("a"), h("b")
			a.Terminal(events.TerminalCancelled, events.ReasonOperator)
			b.Deferred(events.DeferNotBefore, b.Clock+500)
			b.Terminal(events.TerminalExpired, events.ReasonDeadline)
			return []*projectortest.History{a, b}
		},
		verdict: evidence.Failed, runs: []string{"1 cancelled", "1 expired"}, says: []string{"charge (a) ended as cancelled (operator) after 0 attempts; charge (b) ended as expired (deadline) after 0 attempts."},
	},
	{
		name: "erased while pending, and after a success",
		build: func(h func(string) *projectortest.History) []*projectortest.History {
			a := h("a")
			a.Started(events.CauseFirst)
			a.Succeeded()
			a.Terminal(events.TerminalErased, events.ReasonOperator)
			return []*projectortest.History{a}
		},
		verdict: evidence.Succeeded, runs: []string{"1 erased"}, attempts: []string{"1:succeeded"},
	},
	{
		name: "a hole: a version is missing",
		build: func(h func(string) *projectortest.History) []*projectortest.History {
			a := h("a")
			a.Started(events.CauseFirst)
			a.Retry(events.OutcomeFailed, events.ClassTransient, "x")
			a.Started(events.CauseRetry)
			a.Succeeded()
			a.Terminal(events.TerminalSucceeded, 0)
			a.Events = slices.Delete(a.Events, 1, 3) // the first end and the second start
			return []*projectortest.History{a}
		},
		verdict: evidence.Succeeded, runs: []string{"1 succeeded incomplete"}, attempts: []string{"1:", "2:succeeded"},
		says: []string{"Evidence of charge (a) is incomplete: 2 of 5 versions, the start of 1 of 2 attempts missing."},
	},
	{
		name: "two events at one version",
		build: func(h func(string) *projectortest.History) []*projectortest.History {
			a := h("a")
			a.Started(events.CauseFirst)
			a.GaveUp(events.OutcomeFailed, events.ClassPermanent, "x")
			a.Terminal(events.TerminalFailed, events.ReasonPermanent)
			other := *a.Events[2]
			other.State, other.Worker = events.StateCancelled, "zombie/1"
			other.Body = &events.JobTerminal{Outcome: events.TerminalCancelled, Reason: events.ReasonOperator, Attempts: 1}
			a.Events = append(a.Events, &other)
			return []*projectortest.History{a}
		},
		verdict: evidence.Failed, runs: []string{"1 cancelled conflict"}, attempts: []string{"1:failed permanent"},
		says: []string{"Two events claim one version of charge (a)."},
	},
}

func TestOperations(t *testing.T) {
	w := projectortest.New(t, 2)
	w.Project(nil)
	total := 0
	for i, tt := range cases {
		offset := int64(0)
		all := tt.build(func(job string) *projectortest.History {
			offset++
			return projectortest.NewHistory(t, w.Group, fmt.Sprintf("tenant-%d", i), fmt.Sprintf("op-%d", i), job, "charge", 0, offset)
		})
		for _, h := range all {
			for _, e := range h.Events {
				w.WriteEvents(h.Pub.Partition, e)
				// Each has a log time of its own: what ran at once is judged by them.
				for begun := time.Now(); time.Since(begun) < 2*time.Millisecond; {
					runtime.Gosched()
				}
			}
			total += len(h.Events)
		}
	}
	w.Arrived(total)
	check := func(t *testing.T, store *evidence.Store) {
		for i, tt := range cases {
			t.Run(tt.name, func(t *testing.T) {
				o, err := store.Operation(t.Context(), fmt.Sprintf("op-%d", i), nil)
				if err != nil {
					t.Fatal(err)
				}
				var runs, attempts []string
				for _, r := range o.Jobs {
					runs = append(runs, strings.TrimSpace(fmt.Sprintf("%d %s %s", r.Run, r.State, strings.Join(r.Flags, " "))))
					for _, a := range r.Attempts {
						attempts = append(attempts, describe(a))
					}
				}
				if o.Verdict != tt.verdict || !slices.Equal(runs, tt.runs) || !slices.Equal(attempts, tt.attempts) {
					t.Errorf("verdict %s, runs %q, attempts %q\n   want %s, %q, %q", o.Verdict, runs, attempts, tt.verdict, tt.runs, tt.attempts)
				}
				for _, part := range tt.says {
					if !strings.Contains(o.Sentence, part) {
						t.Errorf("the sentence is %q, want %q in it", o.Sentence, part)
					}
				}
				if o.TenantID != fmt.Sprintf("tenant-%d", i) {
					t.Errorf("tenant is %q", o.TenantID)
				}
			})
		}
	}
	store := evidence.New(w.Conn, w.Layout.Database)
	t.Run("as written", func(t *testing.T) { check(t, store) })

	// The same rows again, twice, in another order and in other blocks.
	again := projectortest.New(t, 1)
	a, b := w.Layout.Generation("a"), again.Layout.Generation("a")
	for round := range 2 {
		seed := rand.Uint64()
		if err := again.Conn.Exec(t.Context(), fmt.Sprintf("INSERT INTO %s.evidence SELECT * FROM %s.evidence ORDER BY cityHash64(log_id, offset, %d) SETTINGS max_block_size = 7, min_insert_block_size_rows = 7, min_insert_block_size_bytes = 0, max_threads = 1, deduplicate_insert_select = 'disable'", b, a, seed)); err != nil {
			t.Fatalf("round %d, seed %d: %v", round, seed, err)
		}
	}
	if n := again.Count("SELECT count() FROM " + b + ".evidence"); n <= uint64(total) {
		t.Fatalf("the rows are not there twice: %d", n)
	}
	t.Run("twice and shuffled", func(t *testing.T) { check(t, evidence.New(again.Conn, again.Layout.Database)) })
	for _, view := range []string{"v_jobs", "v_attempts", "v_operations", "v_rates_1m", "v_failures", "v_duplicates", "v_rejected"} {
		sum := func(database string) uint64 {
			return w.Count("SELECT groupBitXor(cityHash64(toString(tuple(*)))) + count() FROM " + database + "." + view)
		}
		if x, y := sum(a), sum(b); x != y {
			t.Errorf("%s differs when rows are there twice and shuffled", view)
		}
	}

	t.Run("jobs view agrees with the fold", func(t *testing.T) {
		listed, err := store.Jobs(t.Context(), evidence.Filter{Limit: 1000})
		if err != nil {
			t.Fatal(err)
		}
		byRun := map[string]evidence.ListedJob{}
		for _, j := range listed {
			byRun[fmt.Sprint(j.OperationID, j.Publication, j.Run)] = j
		}
		for i := range cases {
			o, err := store.Operation(t.Context(), fmt.Sprintf("op-%d", i), nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range o.Jobs {
				j, ok := byRun[fmt.Sprint(o.OperationID, r.Publication, r.Run)]
				if ok != (r.Run > 0) {
					t.Errorf("%s run %d is in the list: %v", r.Publication, r.Run, ok)
				}
				holes := slices.ContainsFunc(r.Missing, func(s string) bool { return strings.Contains(s, "versions") })
				if ok && (j.State != r.State || j.Complete == nil || *j.Complete == holes) {
					t.Errorf("%s %s: the list says %s, complete %v; the fold says %s, %v", cases[i].name, r.Publication, j.State, *j.Complete, r.State, r.Missing)
				}
			}
		}
	})
}

func describe(a evidence.Attempt) string {
	s := fmt.Sprintf("%d:", a.Number)
	if a.Outcome != nil {
		s += *a.Outcome
	}
	if a.ErrorClass != nil {
		s += " " + *a.ErrorClass
	}
	if a.Step != "" {
		s += " step=" + a.Step
	}
	if a.Abandoned != nil {
		s += " abandoned=" + *a.Abandoned
	}
	if a.LateOutcome != nil {
		s += " late=" + *a.LateOutcome
	}
	return s
}

func TestJobAndNeighbours(t *testing.T) {
	w := projectortest.New(t, 2)
	w.Project(nil)
	store := evidence.New(w.Conn, w.Layout.Database)
	first := projectortest.NewHistory(t, w.Group, "acme", "op-1", "job", "charge", 0, 1)
	first.Started(events.CauseFirst)
	again := projectortest.NewHistory(t, w.Group, "acme", "op-2", "job", "charge", 0, 2)
	again.DuplicateOf(first, events.DuplicateRejected)
	first.Retry(events.OutcomeFailed, events.ClassTransient, "x")
	other := projectortest.NewHistory(t, w.Group, "globex", "op-1", "job", "charge", 0, 3).Good()
	total := 0
	for _, h := range []*projectortest.History{first, again, other} {
		w.WriteEvents(0, h.Events...)
		total += len(h.Events)
	}
	w.WriteEvents(1, &events.Event{Group: w.Group, Worker: "w", Body: &events.GroupEvent{Kind: "topology"}}, &events.Event{Group: w.Group, Worker: "w", Body: &events.Checkpoint{Parts: 1}})
	total += 2
	w.Arrived(total)

	if _, err := store.Operation(t.Context(), "op-1", nil); err == nil {
		t.Error("an operation of two tenants was answered")
	} else if several, ok := errors.AsType[*evidence.TenantsError](err); !ok || !slices.Equal(several.Tenants, []string{"acme", "globex"}) {
		t.Errorf("got %v", err)
	}
	acme := "acme"
	// The second operation holds only a duplicate: it stands as the first stands.
	o, err := store.Operation(t.Context(), "op-2", nil)
	if err != nil || o.Verdict != evidence.InProgress || !strings.Contains(o.Sentence, "a duplicate of jobs/0/1 of operation op-1") {
		t.Errorf("got %+v, %v", o, err)
	}
	jobs, err := store.Job(t.Context(), "job", &acme, nil)
	if err != nil || len(jobs) != 1 || len(jobs[0].Runs) != 2 || !slices.Equal(jobs[0].Operations, []string{"op-1", "op-2"}) {
		t.Fatalf("got %+v, %v", jobs, err)
	}
	if h := jobs[0].Runs[0].History; len(h) != 2 || h[1].State != "retry_waiting" || !strings.Contains(h[1].Detail, "waits in "+w.Group+".retry.1s") {
		t.Errorf("history is %+v", h)
	}
	if _, err := store.Job(t.Context(), "job", nil, nil); err == nil {
		t.Error("a job of two tenants was answered")
	}
	if got, err := store.Job(t.Context(), "nobody", nil, nil); err != nil || got != nil {
		t.Errorf("got %v, %v", got, err)
	}
	place, err := store.Attempt(t.Context(), first.Attempt())
	if err != nil || place == nil || *place != (evidence.AttemptPlace{OperationID: "op-1", TenantID: "acme", JobID: "job"}) {
		t.Errorf("got %+v, %v", place, err)
	}
	if place, err := store.Attempt(t.Context(), projectortest.TopicID); err != nil || place != nil {
		t.Errorf("got %+v, %v", place, err)
	}
	w.Eventually("how complete it is is known", func() bool {
		o, err := store.Operation(t.Context(), "op-2", nil)
		return err == nil && o.CompleteUpTo != nil && o.CompleteUpTo.After(first.Clock.Time().Add(-1e10))
	})
	if groups, err := store.Groups(t.Context()); err != nil || !slices.Equal(groups, []string{w.Group}) {
		t.Errorf("groups are %v, %v", groups, err)
	}
	o, err = store.Operation(t.Context(), "op-nobody", &acme)
	if err != nil || o.Verdict != evidence.Unknown || len(o.Jobs) != 0 {
		t.Errorf("got %+v, %v", o, err)
	}
	if b, err := json.Marshal(o); err != nil || !strings.Contains(string(b), `"jobs":[]`) {
		t.Errorf("%s, %v", b, err)
	}
	o.Add(evidence.Beyond{Waiting: 2})
	if o.Verdict != evidence.InProgress || o.Sentence != "In progress: 2 jobs of it are published and not started." {
		t.Errorf("got %s, %q", o.Verdict, o.Sentence)
	}
}

// TestReadsOneKeyRange holds the reads of an operation to granules of its own.
func TestReadsOneKeyRange(t *testing.T) {
	w := projectortest.New(t, 1)
	w.Project(nil)
	var all []*events.Event
	for i := range 4000 {
		all = append(all, projectortest.NewHistory(t, w.Group, "acme", fmt.Sprintf("op-%05d", i), fmt.Sprintf("job-%d", i), "charge", 0, int64(i)).Good().Events...)
	}
	w.WriteEvents(0, all...)
	w.Arrived(len(all))
	if err := w.Conn.Exec(t.Context(), "OPTIMIZE TABLE "+w.Layout.Generation("a")+".evidence FINAL"); err != nil {
		t.Fatal(err)
	}
	rows, err := w.Conn.Query(t.Context(), "EXPLAIN indexes = 1 SELECT count() FROM "+w.Layout.Database+".evidence WHERE operation_id = 'op-02000' AND tenant_id = 'acme' AND NOT ignore(job_id)")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var plan []string
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			t.Fatal(err)
		}
		plan = append(plan, strings.TrimSpace(line))
	}
	i := slices.Index(plan, "PrimaryKey")
	if i < 0 || !slices.ContainsFunc(plan[i:], func(l string) bool {
		return strings.HasPrefix(l, "Granules: 1/") || strings.HasPrefix(l, "Granules: 2/")
	}) {
		t.Errorf("the plan reads more than the operation:\n%s", strings.Join(plan, "\n"))
	}
}
