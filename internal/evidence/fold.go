package evidence

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/jobtrail/jobtrail/pkg/events"
)

// job is the identity of a job, and publication that of a record of it.
type job struct{ group, tenant, id string }

type publication struct {
	job
	topicID   uuid.UUID
	topic     string
	partition uint16
	offset    uint64
}

func (p publication) String() string { return fmt.Sprintf("%s/%d/%d", p.topic, p.partition, p.offset) }

// fold turns the events of an operation or a job into its runs, in the order
// in which the publications were first seen.
func fold(es []event) []Run {
	es = inLogOrder(es)
	type key struct {
		publication
		run uint16
	}
	byRun := map[key][]event{}
	var order []key
	firstRun := map[publication]uint16{}
	for _, e := range es {
		if e.JobID == "" {
			continue
		}
		p := publication{job{e.WorkerGroup, e.TenantID, e.JobID}, e.OriginTopicID, e.OriginTopic, e.Partition, e.OriginOffset}
		k := key{p, e.Run}
		if _, ok := byRun[k]; !ok {
			order = append(order, k)
		}
		byRun[k] = append(byRun[k], e)
		if e.Run > 0 && (firstRun[p] == 0 || e.Run < firstRun[p]) {
			firstRun[p] = e.Run
		}
	}
	types, partitions := map[job]map[string]bool{}, map[job]map[uint16]bool{}
	for _, k := range order {
		add(types, k.job, byRun[k][0].JobType)
		add(partitions, k.job, k.partition)
	}
	var runs []Run
	for _, k := range order {
		about := byRun[k]
		first := firstRun[k.publication]
		if k.run == 0 && first > 0 {
			continue // told below with the run
		}
		if k.run == first && first > 0 {
			about = inLogOrder(append(slices.Clone(byRun[key{k.publication, 0}]), about...))
		}
		r := foldRun(k.publication, k.run, about)
		if len(types[k.job]) > 1 {
			r.flag(FlagIDCollision)
		}
		if len(partitions[k.job]) > 1 {
			r.flag(FlagSplitIdentity)
		}
		runs = append(runs, r)
	}
	return runs
}

func add[K, V comparable](m map[K]map[V]bool, k K, v V) {
	if m[k] == nil {
		m[k] = map[V]bool{}
	}
	m[k][v] = true
}

func (r *Run) flag(f string) {
	if !slices.Contains(r.Flags, f) {
		r.Flags = append(r.Flags, f)
	}
}

func (r *Run) has(f string) bool { return slices.Contains(r.Flags, f) }

// foldRun folds the events of one run, in log order, and the facts about its
// publication.
func foldRun(p publication, run uint16, es []event) Run {
	first := es[0]
	r := Run{
		JobID: p.id, JobType: first.JobType, Publication: p.String(), Run: int(run), State: "none", Attempts: []Attempt{}, Flags: []string{},
		OperationID: first.OperationID, TenantID: p.tenant, WorkerGroup: p.group, OriginAt: first.OriginAt, FirstAt: first.LogAt, LastAt: es[len(es)-1].LogAt, origin: p,
	}
	versions := map[uint32]int{}
	var highest uint32
	var started uint16
	attempts := map[uuid.UUID]*told{}
	attempt := func(id uuid.UUID) *told {
		if attempts[id] == nil {
			attempts[id] = &told{id: id}
		}
		return attempts[id]
	}
	var top *event
	for i := range es {
		e := &es[i]
		if r.TraceID == "" && strings.Trim(e.TraceID, "0") != "" {
			r.TraceID = e.TraceID
		}
		if e.Version > 0 {
			versions[e.Version]++
			started = max(started, e.Number)
			// Of two events at one version the table jobs takes the greater state.
			if e.Version > highest || (e.Version == highest && stateNumbers[e.State] > stateNumbers[top.State]) {
				highest, top = e.Version, e
			}
			r.History = append(r.History, Transition{Version: int(e.Version), At: e.LogAt, Type: e.Type, State: e.State, Detail: detail(e)})
		}
		switch e.Type {
		case "attempt_started":
			a := attempt(e.AttemptID)
			if a.start == nil {
				a.start = e
			}
		case "attempt_finished":
			a := attempt(e.AttemptID)
			switch {
			case e.Late && a.late == nil:
				a.late = e
			case e.Late && a.late.Outcome != e.Outcome:
				a.disputed = true
			case !e.Late && a.end == nil:
				a.end = e
			case !e.Late && a.end.Outcome != e.Outcome:
				a.disputed = true
			}
		case "attempt_abandoned":
			a := attempt(e.AttemptID)
			if a.abandoned == nil || (a.abandoned.Version == 0 && e.Version > 0) {
				a.abandoned = e
			}
		case "job_terminal":
			if r.Terminal == nil && e.Version > 0 {
				r.Terminal = &Terminal{Outcome: e.Outcome, Reason: e.Reason, At: e.LogAt, Detail: e.Note}
			}
		case "job_parked":
			r.ParkReason = e.Reason
		case "duplicate_seen":
			r.flag(FlagDuplicateOf)
			r.DuplicateOf, r.FirstOp, r.FirstState = e.DuplicateOf, e.FirstOperation, e.FoundState
			if e.Action == "id_collision" {
				r.flag(FlagIDCollision)
			}
		case "transition_rejected":
			r.flag(FlagRejected)
		}
	}
	if top != nil {
		r.State = top.State
		if (top.State == "retry_waiting" || top.Type == "job_deferred") && top.DueAt.Unix() > 0 {
			r.WaitsUntil = &top.DueAt
		}
	}
	for _, n := range versions {
		if n > 1 {
			r.flag(FlagConflict)
		}
	}
	slices.SortFunc(r.History, func(a, b Transition) int { return cmp.Compare(a.Version, b.Version) })
	r.judgeAttempts(attempts)
	r.missing(run, versions, highest, started, attempts)
	return r
}

var stateNumbers = func() map[string]events.State {
	m := map[string]events.State{}
	for _, s := range events.States() {
		m[s.String()] = s
	}
	return m
}()

// told is what the events say about one attempt.
type told struct {
	id                          uuid.UUID
	start, end, late, abandoned *event
	disputed                    bool // its outcomes differ
}

// any is an event about the attempt.
func (a *told) any() *event { return cmp.Or(a.start, a.end, a.abandoned, a.late) }

func (r *Run) judgeAttempts(attempts map[uuid.UUID]*told) {
	all := slices.SortedFunc(maps.Values(attempts), func(a, b *told) int {
		return cmp.Or(cmp.Compare(a.any().Number, b.any().Number), a.any().LogAt.Compare(b.any().LogAt), slices.Compare(a.id[:], b.id[:]))
	})
	for _, a := range all {
		// A late outcome that only repeats what the owner knew is no news.
		if a.late != nil && a.end != nil && a.end.Outcome == a.late.Outcome && a.end.BasedOn == 0 {
			a.late = nil
		}
		out := Attempt{AttemptID: a.id.String(), Number: int(a.any().Number), Worker: a.any().Worker}
		if a.start != nil {
			out.Step, out.Worker, out.Cause, out.StartedAt = a.start.Step, a.start.Worker, a.start.Cause, new(a.start.LogAt)
		}
		if a.abandoned != nil {
			out.Abandoned = &a.abandoned.Cause
		}
		if a.end != nil {
			out.FinishedAt, out.Outcome, out.EndedAt, out.Adopted = new(a.end.LogAt), &a.end.Outcome, new(a.end.LogAt), a.end.BasedOn > 0
			out.setError(a.end)
		}
		if a.late != nil {
			r.flag(FlagLate)
			out.LateOutcome = &a.late.Outcome
			out.EndedAt = new(ended(a.late))
			if a.end == nil {
				out.setError(a.late)
			}
			contradicts := a.end != nil && a.end.Outcome != a.late.Outcome
			againstEnd := a.late.Outcome == "succeeded" && r.Terminal != nil && r.Terminal.Outcome != "succeeded"
			if contradicts || againstEnd {
				r.flag(FlagConflictingOutcomes)
			}
		}
		if a.disputed {
			r.flag(FlagConflictingOutcomes)
		}
		r.Attempts = append(r.Attempts, out)
	}
	for i := range r.Attempts {
		for j := i + 1; j < len(r.Attempts); j++ {
			if r.Attempts[i].overlaps(&r.Attempts[j]) {
				r.flag(FlagOverlapped)
			}
		}
	}
}

// ended is when the handler of a late outcome returned: the fact itself was
// appended some time after that.
func ended(late *event) time.Time {
	if late.FinishedAt.Unix() > 0 && late.FinishedAt.Before(late.LogAt) {
		return late.FinishedAt
	}
	return late.LogAt
}

// overlaps reports whether both are known to have run at one moment.
func (a *Attempt) overlaps(b *Attempt) bool {
	if a.StartedAt == nil || b.StartedAt == nil || a.EndedAt == nil {
		return false
	}
	if b.StartedAt.Before(*a.StartedAt) {
		return b.overlaps(a)
	}
	return b.StartedAt.Before(*a.EndedAt)
}

func (a *Attempt) setError(e *event) {
	if e.ErrorClass != "" {
		a.ErrorClass = &e.ErrorClass
	}
	if e.ErrorMessage != "" {
		a.ErrorMessage = &e.ErrorMessage
	}
}

// missing finds what of the run is not in the store.
func (r *Run) missing(run uint16, versions map[uint32]int, highest uint32, started uint16, attempts map[uuid.UUID]*told) {
	if run == 0 {
		return
	}
	if highest == 0 {
		r.Missing = append(r.Missing, "every event that changed the state")
	}
	if holes := highest - uint32(len(versions)); holes > 0 {
		r.Missing = append(r.Missing, fmt.Sprintf("%d of %d versions", holes, highest))
	}
	seen := map[uint16]bool{}
	for _, a := range attempts {
		if a.start != nil {
			seen[a.start.Number] = true
		}
	}
	if n := int(started) - len(seen); n > 0 {
		r.Missing = append(r.Missing, fmt.Sprintf("the start of %d of %d attempts", n, started))
	}
	if len(r.Missing) > 0 {
		r.flag(FlagIncomplete)
	}
}

// detail is what an event adds to its type and state, in a few words.
func detail(e *event) string {
	var words []string
	say := func(format string, v string) {
		if v != "" {
			words = append(words, fmt.Sprintf(format, v))
		}
	}
	switch e.Type {
	case "attempt_started":
		say("%s", e.Cause)
		say("step %s", e.Step)
	case "attempt_finished":
		say("%s", e.Outcome)
		say("%s", e.ErrorClass)
		say("%s", e.ErrorMessage)
		say("waits in %s", e.Tier)
		if e.BasedOn > 0 {
			words = append(words, "adopted from a late outcome")
		}
	case "attempt_abandoned":
		say("%s", e.Cause)
	case "step_completed":
		say("%s", e.Step)
		say("next %s", e.NextStep)
	case "job_deferred":
		say("%s", e.Reason)
		say("waits in %s", e.Tier)
	case "job_parked":
		say("%s", e.Reason)
	case "job_resolved":
		say("%s", e.Action)
		say("by %s", e.Actor)
		say("%s", e.Note)
	case "job_terminal":
		say("%s", e.Outcome)
		say("%s", e.Reason)
		say("%s", e.Note)
	case "job_redriven":
		say("by %s", e.Actor)
	}
	return strings.Join(words, ", ")
}
