package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// story is what `jobtrail op show -o json` says.
type story struct {
	OperationID string `json:"operation_id"`
	TenantID    string `json:"tenant_id"`
	Verdict     string `json:"verdict"`
	Jobs        []run  `json:"jobs"`
}

type run struct {
	JobID    string    `json:"job_id"`
	JobType  string    `json:"job_type"`
	Run      int       `json:"run"`
	State    string    `json:"state"`
	Attempts []attempt `json:"attempts"`
	Terminal *struct {
		Outcome string `json:"outcome"`
		Reason  string `json:"reason"`
	} `json:"terminal"`
	Flags []string `json:"flags"`
}

type attempt struct {
	Number     int     `json:"number"`
	Cause      string  `json:"cause"`
	Outcome    *string `json:"outcome"`
	ErrorClass string  `json:"error_class"`
	Abandoned  *string `json:"abandoned"`
}

// expected is what the evidence of each job must say: how its attempts ended, and
// how it ended itself.
var expected = map[string]struct{ attempts, end string }{
	"mail-1": {"succeeded", "succeeded"},
	"mail-2": {"succeeded", "succeeded"},
	"mail-3": {"succeeded", "succeeded"},
	"mail-4": {"succeeded", "succeeded"},
	"mail-5": {"succeeded", "succeeded"},
	"stock":  {"failed transient, failed transient, succeeded", "succeeded"},
	"charge": {"failed permanent", "failed permanent"},
	"report": {"succeeded", "succeeded"},
	"poison": {"", "failed malformed"},
	"crash":  {"worker_lost, worker_lost, worker_lost, worker_lost, worker_lost", "failed crash_loop"},
}

// watch waits until so many jobs have ended, and shows how far it is.
func (d *demo) watch(ctx context.Context, worker *supervisor, wanted int) (*story, error) {
	before := ""
	for {
		out, err := d.jobtrail(ctx, nil, "op", "show", d.operation, "-o", "json")
		var s story
		if answered(err) {
			if err := json.Unmarshal(out, &s); err != nil {
				return nil, fmt.Errorf("reading the answer of op show: %w", err)
			}
		}
		ended, duplicates := 0, 0
		for _, r := range s.Jobs {
			switch {
			case r.Terminal != nil:
				ended++
			case isDuplicate(r):
				duplicates++
			}
		}
		if line := fmt.Sprintf("%d of %d jobs have ended, %d duplicate seen, the worker was killed %d times", ended, len(expected), duplicates, worker.crashes()); line != before && answered(err) {
			before = line
			progress(line)
		}
		switch {
		case ended >= wanted && duplicates >= 1:
			return &s, nil
		case worker.failure() != nil:
			return nil, worker.failure()
		case ctx.Err() != nil:
			return &s, fmt.Errorf("only %d of %d jobs have ended after %v", ended, wanted, patience)
		}
		select {
		case <-time.After(500 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// answered reports whether op show could answer, whatever the verdict.
func answered(err error) bool { code := exitCode(err); return code == 0 || code >= 3 }

// progress shows a line, in place where people look.
func progress(line string) {
	if info, err := os.Stderr.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
		fmt.Fprintf(os.Stderr, "\r\x1b[K  %s", line)
		return
	}
	fmt.Fprintln(os.Stderr, "  "+line)
}

func isDuplicate(r run) bool {
	return slices.ContainsFunc(r.Flags, func(f string) bool { return strings.HasPrefix(f, "duplicate_of") })
}

// judge returns what of the story is not as expected.
func judge(s *story) (wrong []string) {
	if s.Verdict != "failed" {
		wrong = append(wrong, fmt.Sprintf("the verdict is %s, wanted failed", s.Verdict))
	}
	seen := make(map[string]int)
	duplicates := 0
	for _, r := range s.Jobs {
		name := r.JobID[strings.LastIndex(r.JobID, "/")+1:]
		if isDuplicate(r) && r.Terminal == nil {
			duplicates++
			if name != "mail-1" {
				wrong = append(wrong, "job "+name+" is said to be a duplicate")
			}
			continue
		}
		seen[name]++
		want, ok := expected[name]
		if !ok {
			wrong = append(wrong, "job "+r.JobID+" was never published")
			continue
		}
		var attempts []string
		for i, a := range r.Attempts {
			if a.Number != i+1 {
				wrong = append(wrong, fmt.Sprintf("job %s: attempt %d has number %d", name, i+1, a.Number))
			}
			attempts = append(attempts, a.String())
		}
		// An innocent job may be in flight when its worker is killed, and is run
		// again: that is an attempt more, closed as lost, and no retry.
		got := strings.Join(attempts, ", ")
		if name != "crash" {
			got = strings.Join(slices.DeleteFunc(attempts, func(a string) bool { return a == "worker_lost" || a == "not_started" }), ", ")
		}
		if got != want.attempts {
			wrong = append(wrong, fmt.Sprintf("job %s: its attempts ended as %q, wanted %q", name, got, want.attempts))
		}
		end := r.State
		if r.Terminal != nil {
			end = strings.TrimSpace(r.Terminal.Outcome + " " + r.Terminal.Reason)
		}
		if end != want.end {
			wrong = append(wrong, fmt.Sprintf("job %s ended as %q, wanted %q", name, end, want.end))
		}
	}
	for name := range expected {
		if seen[name] != 1 {
			wrong = append(wrong, fmt.Sprintf("job %s is there %d times", name, seen[name]))
		}
	}
	if duplicates != 1 {
		wrong = append(wrong, fmt.Sprintf("%d duplicates were seen, wanted 1", duplicates))
	}
	slices.Sort(wrong)
	return wrong
}

// String says how the attempt ended.
func (a attempt) String() string {
	switch {
	case a.Abandoned != nil:
		return *a.Abandoned
	case a.Outcome == nil:
		return "running"
	}
	return strings.TrimSpace(*a.Outcome + " " + a.ErrorClass)
}
