package evidence

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/jobtrail/jobtrail/pkg/events"
)

// rank orders the verdicts: the smaller outweighs.
var rank = map[Verdict]int{NeedsDecision: 0, InProgress: 1, Failed: 2, SucceededAfterRetries: 3, Succeeded: 4, Unknown: 5}

// verdict judges one run.
func (r *Run) verdict() Verdict {
	switch r.State {
	case "parked":
		return NeedsDecision
	case "pending", "running", "deciding", "retry_waiting":
		return InProgress
	case "failed", "cancelled", "expired":
		return Failed
	case "erased":
		// What it was: it had succeeded, or it ended without.
		if !slices.ContainsFunc(r.Attempts, func(a Attempt) bool { return a.Outcome != nil && *a.Outcome == "succeeded" }) {
			return Failed
		}
		fallthrough
	case "succeeded":
		if slices.ContainsFunc(r.Attempts, Attempt.wrong) {
			return SucceededAfterRetries
		}
		return Succeeded
	}
	return Unknown
}

// deciding returns the runs that the verdict looks at: of each job the last run
// of the latest publication that ran. A job that ran in another operation only,
// of which this one holds duplicates, counts by elsewhere, keyed by job.
func deciding(runs []Run, elsewhere map[job]Run) []Run {
	type candidate struct {
		run   Run
		first Run // the publication's first run
	}
	latest := map[job]candidate{}
	firstOf := map[publication]Run{}
	var order []job
	seen := map[job]bool{}
	for _, r := range runs {
		if !seen[r.origin.job] {
			seen[r.origin.job] = true
			order = append(order, r.origin.job)
		}
		if r.Run == 0 || r.State == "none" {
			continue
		}
		if _, ok := firstOf[r.origin]; !ok {
			firstOf[r.origin] = r
		}
		first := firstOf[r.origin]
		c, ok := latest[r.origin.job]
		newer := !ok || first.FirstAt.After(c.first.FirstAt) || (first.origin == c.first.origin && r.Run > c.run.Run) ||
			(first.FirstAt.Equal(c.first.FirstAt) && first.origin != c.first.origin && cmp.Compare(first.origin.offset, c.first.origin.offset) > 0)
		if newer {
			latest[r.origin.job] = candidate{r, first}
		}
	}
	var decide []Run
	for _, j := range order {
		if c, ok := latest[j]; ok {
			decide = append(decide, c.run)
		} else if r, ok := elsewhere[j]; ok {
			decide = append(decide, r)
		}
	}
	return decide
}

// judge sets the verdict, the sentence and what follows from the runs.
func (o *Operation) judge(elsewhere map[job]Run) {
	decide := deciding(o.Jobs, elsewhere)
	o.Verdict = Unknown
	for i := range decide {
		if v := decide[i].verdict(); rank[v] < rank[o.Verdict] {
			o.Verdict = v
		}
	}
	for i := range o.Jobs {
		if g := o.Jobs[i].WorkerGroup; !slices.Contains(o.Groups, g) {
			o.Groups = append(o.Groups, g)
		}
	}
	o.Retries = retries(o.Jobs)
	o.Sentence = o.sentence(decide)
}

func (o *Operation) sentence(decide []Run) string {
	if len(decide) == 0 {
		return unknownOperation
	}
	var said []string
	for i := range decide {
		r := &decide[i]
		if r.verdict() == o.Verdict && len(said) < 3 {
			said = append(said, r.clause())
		}
	}
	same := 0
	counts := map[Verdict]int{}
	for i := range decide {
		v := decide[i].verdict()
		counts[v]++
		if v == o.Verdict {
			same++
		}
	}
	var b strings.Builder
	switch o.Verdict {
	case NeedsDecision:
		b.WriteString("Needs a decision: ")
	case InProgress:
		b.WriteString("In progress: ")
	case Failed:
		b.WriteString("Failed: ")
	case SucceededAfterRetries:
		b.WriteString("Succeeded after retries: ")
	case Succeeded:
		if len(decide) > 1 {
			said, same = []string{fmt.Sprintf("all %d jobs succeeded at the first attempt", len(decide))}, 1
		}
		b.WriteString("Succeeded: ")
	default:
		b.WriteString("Unknown: ")
	}
	b.WriteString(strings.Join(said, "; "))
	if more := same - len(said); more > 0 {
		fmt.Fprintf(&b, "; and %s more", count(more, "job"))
	}
	b.WriteString(".")
	if len(decide) > same && o.Verdict != Succeeded {
		var others []string
		for _, v := range []Verdict{InProgress, Failed, SucceededAfterRetries, Succeeded, Unknown} {
			if n := counts[v]; n > 0 && v != o.Verdict {
				others = append(others, fmt.Sprintf("%d %s", n, standing(v, n)))
			}
		}
		switch rest := len(decide) - same; {
		case rest == 1:
			_, how, _ := strings.Cut(others[0], " ")
			fmt.Fprintf(&b, " The other job %s.", how)
		case len(others) == 1:
			_, how, _ := strings.Cut(others[0], " ")
			fmt.Fprintf(&b, " The other %d jobs %s.", rest, how)
		default:
			fmt.Fprintf(&b, " Of the other %d jobs %s.", rest, strings.Join(others, ", "))
		}
	}
	b.WriteString(o.caveats())
	return b.String()
}

// standing says how n jobs of a verdict stand, as the predicate of a sentence.
func standing(v Verdict, n int) string {
	switch v {
	case InProgress:
		return plural(n, "is", "are") + " in progress"
	case Unknown:
		return plural(n, "is", "are") + " unknown"
	}
	return strings.ReplaceAll(string(v), "_", " ")
}

// caveats is what a reader must know beside the verdict.
func (o *Operation) caveats() string {
	var b strings.Builder
	told := map[string]bool{}
	say := func(s string) {
		if !told[s] {
			told[s] = true
			b.WriteString(" " + s)
		}
	}
	for i := range o.Jobs {
		r := &o.Jobs[i]
		name := r.name()
		if r.has(FlagIncomplete) {
			say(fmt.Sprintf("Evidence of %s is incomplete: %s missing.", name, strings.Join(r.Missing, ", ")))
		}
		if r.has(FlagConflict) {
			say(fmt.Sprintf("Two events claim one version of %s.", name))
		}
		if r.has(FlagOverlapped) {
			say(fmt.Sprintf("Two attempts of %s ran at the same time.", name))
		}
		if r.has(FlagConflictingOutcomes) {
			say(fmt.Sprintf("The outcomes told of %s contradict each other.", name))
		}
		if r.has(FlagDuplicateOf) && r.Run == 0 {
			where := ""
			if r.FirstOp != "" && r.FirstOp != o.OperationID {
				where = " of operation " + r.FirstOp
			}
			say(fmt.Sprintf("%s was published again (%s) and not run: a duplicate of %s%s.", name, r.Publication, r.DuplicateOf, where))
		}
		if r.has(FlagIDCollision) {
			say(fmt.Sprintf("The id of %s was used with two job types.", name))
		}
		if r.has(FlagSplitIdentity) {
			say(fmt.Sprintf("%s was published to two partitions.", name))
		}
	}
	return b.String()
}

// name is what people call the job.
func (r *Run) name() string {
	if r.JobID == "" {
		return r.JobType
	}
	return fmt.Sprintf("%s (%s)", r.JobType, r.JobID)
}

// clause says how a run stands.
func (r *Run) clause() string {
	n := len(r.Attempts)
	last := r.lastTrouble()
	after := func(s string) string {
		if last != "" {
			return s + "; the last error was " + last
		}
		return s
	}
	switch r.State {
	case "succeeded":
		if n <= 1 {
			return r.name() + " succeeded at the first attempt"
		}
		return fmt.Sprintf("%s succeeded at attempt %d, after %s", r.name(), r.Attempts[n-1].Number, r.troubles())
	case "failed", "cancelled", "expired":
		why := r.State
		if r.Terminal != nil && r.Terminal.Reason != "" {
			why += " (" + strings.ReplaceAll(r.Terminal.Reason, "_", " ")
			if r.Terminal.Detail != "" {
				why += ": " + r.Terminal.Detail
			}
			why += ")"
		}
		return after(fmt.Sprintf("%s ended as %s after %s", r.name(), why, count(n, "attempt")))
	case "parked":
		why := strings.ReplaceAll(r.ParkReason, "_", " ")
		switch r.ParkReason {
		case events.ParkAbandoned.String():
			why = "its worker was lost while it ran, and it is not safe to repeat"
		case events.ParkInterrupted.String():
			why = "it was cut off while it ran, and it is not safe to repeat"
		}
		return fmt.Sprintf("%s is parked after %s because %s; somebody must decide whether it is done, failed or to be tried again (docs/guarantees.md says what can be done)", r.name(), count(n, "attempt"), why)
	case "retry_waiting":
		until := ""
		if r.WaitsUntil != nil {
			until = " due at " + r.WaitsUntil.UTC().Format("2006-01-02 15:04:05 UTC")
		}
		return after(fmt.Sprintf("%s waits for its next attempt%s after %s", r.name(), until, count(n, "attempt")))
	case "running":
		return fmt.Sprintf("%s is running attempt %d", r.name(), n)
	case "pending":
		if r.WaitsUntil != nil {
			return fmt.Sprintf("%s waits until %s", r.name(), r.WaitsUntil.UTC().Format("2006-01-02 15:04:05 UTC"))
		}
		return r.name() + " waits to be started"
	case "deciding":
		return r.name() + " has run and what follows is being decided"
	case "erased":
		return r.name() + " was erased"
	}
	return r.name() + " has no state on record"
}

// wrong reports whether the attempt failed, timed out or was abandoned.
func (a Attempt) wrong() bool {
	return a.Abandoned != nil || (a.Outcome != nil && (*a.Outcome == "failed" || *a.Outcome == "timed_out"))
}

// trouble is what went wrong in an attempt, in a few words.
func (a *Attempt) trouble() string {
	switch {
	case a.Abandoned != nil:
		return strings.ReplaceAll(*a.Abandoned, "_", " ")
	case a.Outcome == nil || *a.Outcome == "succeeded":
		return ""
	case a.ErrorClass != nil && *a.Outcome != "timed_out":
		return strings.ReplaceAll(*a.Outcome, "_", " ") + ", " + *a.ErrorClass
	}
	return strings.ReplaceAll(*a.Outcome, "_", " ")
}

func (r *Run) lastTrouble() string {
	for i := len(r.Attempts) - 1; i >= 0; i-- {
		a := &r.Attempts[i]
		switch {
		case a.Abandoned != nil:
			return a.trouble()
		case a.ErrorClass != nil && a.ErrorMessage != nil:
			return Classed(*a.ErrorClass, *a.ErrorMessage)
		case a.ErrorClass != nil:
			return *a.ErrorClass
		}
	}
	return ""
}

// Classed puts an error's class before its message, unless it says so itself.
func Classed(class, message string) string {
	if strings.HasPrefix(message, class+": ") {
		return message
	}
	return class + ": " + message
}

// troubles counts what went wrong before the last attempt.
func (r *Run) troubles() string {
	counts := map[string]int{}
	var order []string
	for i := range r.Attempts[:len(r.Attempts)-1] {
		t := cmp.Or(r.Attempts[i].trouble(), "no outcome")
		if counts[t] == 0 {
			order = append(order, t)
		}
		counts[t]++
	}
	for i, t := range order {
		order[i] = fmt.Sprintf("%s (%s)", count(counts[t], "attempt"), t)
	}
	return strings.Join(order, " and ")
}

func retries(runs []Run) []RetryCount {
	counts := map[RetryCount]int{}
	for i := range runs {
		for j := range runs[i].Attempts {
			a := &runs[i].Attempts[j]
			if a.Cause == "" || a.Cause == events.CauseFirst.String() {
				continue
			}
			k := RetryCount{Cause: a.Cause}
			if j > 0 {
				k.After = runs[i].Attempts[j-1].trouble()
			}
			counts[k]++
		}
	}
	var out []RetryCount
	for k, n := range counts {
		k.Count = n
		out = append(out, k)
	}
	slices.SortFunc(out, func(a, b RetryCount) int {
		return cmp.Or(-cmp.Compare(a.Count, b.Count), cmp.Compare(a.Cause, b.Cause), cmp.Compare(a.After, b.After))
	})
	return out
}

func count(n int, what string) string {
	return fmt.Sprintf("%d %s", n, plural(n, what, what+"s"))
}

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
