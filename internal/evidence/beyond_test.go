package evidence_test

import (
	"testing"
	"time"

	"github.com/jobtrail/jobtrail/internal/evidence"
)

func TestAddsWhatIsBeyondTheStore(t *testing.T) {
	at := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	fresh, old := at.Add(-time.Second), at.Add(-time.Hour)
	const unknown = "Unknown: there is no evidence of this operation."
	for _, tt := range []struct {
		name     string
		before   evidence.Verdict
		said     string
		beyond   evidence.Beyond
		verdict  evidence.Verdict
		sentence string
	}{
		{"nothing at all", evidence.Unknown, unknown, evidence.Beyond{CompleteUpTo: &at}, evidence.Unknown,
			"Unknown: there is no evidence of this operation, and no record of it in the topics of any worker group."},
		{"newer", evidence.Unknown, unknown, evidence.Beyond{Newer: 1, CompleteUpTo: &fresh}, evidence.InProgress,
			"In progress: 1 job of it is newer than the evidence, which is complete up to 2026-01-31 11:59:59.000 UTC; look again in a moment."},
		{"far behind", evidence.Unknown, unknown, evidence.Beyond{Newer: 2, CompleteUpTo: &old}, evidence.InProgress,
			"In progress: 2 jobs of it are newer than the evidence, which is complete up to 2026-01-31 11:00:00.000 UTC: the projector is behind or not running; see `jobtrail doctor`, and look again."},
		{"no projector", evidence.Unknown, unknown, evidence.Beyond{Newer: 1, Waiting: 1}, evidence.InProgress,
			"In progress: 1 job of it is newer than the evidence: no projector has reported how far it is; see `jobtrail doctor`, and look again. 1 job of it is published and not started."},
		{"too much to read", evidence.Unknown, unknown, evidence.Beyond{Partial: true, CompleteUpTo: &old}, evidence.InProgress,
			"In progress: nothing is known of it, and the topics hold more than could be looked at beyond the evidence, which is complete up to 2026-01-31 11:00:00.000 UTC: the projector is behind or not running; see `jobtrail doctor`, and look again."},
		{"beside what ran", evidence.Succeeded, "Succeeded: a.", evidence.Beyond{Waiting: 1, CompleteUpTo: &at}, evidence.InProgress,
			"In progress: 1 job of it is published and not started. What did run: Succeeded: a."},
		{"beside a decision", evidence.NeedsDecision, "Needs a decision: a.", evidence.Beyond{Newer: 1, CompleteUpTo: &fresh}, evidence.NeedsDecision,
			"Needs a decision: a. 1 job of it is newer than the evidence, which is complete up to 2026-01-31 11:59:59.000 UTC; look again in a moment."},
		{"updated", evidence.InProgress, "In progress: a.", evidence.Beyond{Updated: true, CompleteUpTo: &fresh}, evidence.InProgress,
			"In progress: a. The log has newer events of it than the evidence, which is complete up to 2026-01-31 11:59:59.000 UTC; look again in a moment."},
		{"other groups", evidence.Succeeded, "Succeeded: a.", evidence.Beyond{Unbegun: []evidence.Unbegun{{"g", true}, {"h", false}}, CompleteUpTo: &at}, evidence.Succeeded,
			"Succeeded: a. Group g has not started it, or passes over its type. Group h, which has no worker running, has not started it."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := evidence.Operation{Verdict: tt.before, Sentence: tt.said}
			tt.beyond.At = at
			o.Add(tt.beyond)
			if o.Verdict != tt.verdict || o.Sentence != tt.sentence || o.CompleteUpTo != tt.beyond.CompleteUpTo {
				t.Errorf("got %s, %q, complete up to %v\nwant %s, %q", o.Verdict, o.Sentence, o.CompleteUpTo, tt.verdict, tt.sentence)
			}
		})
	}
}

func TestClassIsNotSaidTwice(t *testing.T) {
	for _, tt := range []struct{ class, message, want string }{
		{"panic", "panic: boom", "panic: boom"}, {"transient", "503", "transient: 503"}, {"panic", "panicked", "panic: panicked"},
	} {
		if got := evidence.Classed(tt.class, tt.message); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}
