package worker

import (
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/jobtrail/jobtrail/loadtest"
	"github.com/jobtrail/jobtrail/pkg/events"
	"github.com/jobtrail/jobtrail/pkg/retrytopics"
)

// tales are what a simulation knows beyond the topics, and what it saw go wrong
// on the way.
type tales struct {
	recoveries []simRecovery
	wrong      []string
}

// simRecovery is a shard that was handed to a worker when the evidence had at
// records, of which it had replayed [from, end).
type simRecovery struct {
	worker    string
	partition int32
	from      int64
	end       int64
	at        int64
}

// overlaps looks at what runs in a worker when an attempt is called.
func (s *sim) overlaps(w *simWorker, a *attempt) {
	bad := func(format string, args ...any) {
		s.tales.wrong = append(s.tales.wrong, fmt.Sprintf(format, args...))
	}
	beside := uint32(1)
	for _, x := range w.running {
		beside++
		if x.a.entry.publication == a.entry.publication && !s.abandonedBy(x.a, w) {
			bad("L3: job %s runs twice in worker %d at once", a.entry.meta.JobID, w.id)
		}
		if (x.a.entry.cohort > 0) != (a.entry.cohort > 0) {
			bad("suspects: job %s of cohort %d is run beside %s of cohort %d", a.entry.meta.JobID, a.entry.cohort, x.a.entry.meta.JobID, x.a.entry.cohort)
		}
	}
	if c := a.entry.cohort; c > 0 && beside > c {
		bad("suspects: job %s of cohort %d is one of %d", a.entry.meta.JobID, c, beside)
	}
	if most, of := a.slot.Concurrency, 1; most > 0 {
		for _, x := range w.running {
			if x.a.slot == a.slot {
				of++
			}
		}
		if of > most {
			bad("concurrency: %d of type %s run, %d are allowed", of, a.slot.Name, most)
		}
	}
	if beside > uint32(s.cfg.Concurrency) {
		bad("concurrency: %d run, %d are allowed", beside, s.cfg.Concurrency)
	}
}

// abandonedBy reports whether another worker than w has closed an attempt that
// still runs in w: then the next one may run beside it, and the log shows it.
func (s *sim) abandonedBy(a *attempt, w *simWorker) bool {
	for _, e := range s.evidence[a.entry.lane.partition] {
		if b, ok := e.Body.(*events.AttemptAbandoned); ok && b.AttemptID == a.id && e.Version > 0 && e.Worker != w.l.worker {
			return true
		}
	}
	return false
}

// judge holds a history against what only a simulation can know: the policies,
// what each worker knew when it decided, and what it did not live to tell.
func (s *sim) judge(story *loadtest.Story) []string {
	out := slices.Clone(s.tales.wrong)
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	for _, run := range story.Runs {
		s.judgeBudget(run, add)
		s.judgeParking(run, add)
		s.judgeCohorts(run, add)
		s.judgeKnowledge(run, add)
	}
	// Whoever lives tells what it knows, and keeps nothing of what is over.
	for _, w := range s.workers {
		if n := len(w.l.attempts) - len(w.l.told); n > 0 || w.l.running != 0 {
			add("memory: worker %d has %d attempts and %d slots in use at the end", w.id, n, w.l.running)
		}
		for id := range w.ended {
			if run := story.Attempts[id]; run != nil && !told(run, id, events.TypeAttemptFinished) {
				add("L4: worker %d lives and never told how attempt %s of job %s ended", w.id, id, run.JobID)
			}
		}
		for id := range w.missed {
			if run := story.Attempts[id]; run != nil && !told(run, id, events.TypeAttemptAbandoned) {
				add("L4: worker %d lives and never told that attempt %s of job %s was not called", w.id, id, run.JobID)
			}
		}
	}
	s.judgeDuplicates(story, add)
	slices.Sort(out)
	return out
}

func told(run *loadtest.Run, id uuid.UUID, t events.Type) bool {
	for _, r := range append(slices.Clone(run.Late[id]), run.Ended[id]) {
		if r.Event == nil || r.Event.Type() != t {
			continue
		}
		if b, ok := r.Event.Body.(*events.AttemptAbandoned); !ok || b.Cause == events.AbandonNotStarted {
			return true
		}
	}
	return false
}

// judgeBudget counts failed attempts by hand: only they use the budget up.
func (s *sim) judgeBudget(run *loadtest.Run, add func(string, ...any)) {
	most, crashes := retrytopics.DefaultPolicy().MaxAttempts, retrytopics.DefaultPolicy().MaxCrashes
	if t := typeOf(s.cfg, run.JobType); t != nil {
		most, crashes = t.Policy.MaxAttempts, t.Policy.MaxCrashes
	}
	failed, solo := 0, uint32(0)
	for _, r := range run.Records {
		switch b := r.Event.Body.(type) {
		case *events.AttemptStarted:
			if b.Deadline != 0 && r.At > b.Deadline {
				add("deadline: job %s is started %v after its deadline", run.JobID, r.At.Sub(b.Deadline))
			}
			if failed >= most {
				add("budget: job %s is started after %d failures", run.JobID, failed)
			}
		case *events.AttemptFinished:
			if r.Event.Version > 0 && (b.Outcome == events.OutcomeFailed || b.Outcome == events.OutcomeTimedOut) {
				failed++
			}
		case *events.JobTerminal:
			if b.Reason == events.ReasonExhausted && failed != most {
				add("budget: job %s is exhausted after %d failures", run.JobID, failed)
			}
			if b.Reason == events.ReasonCrashLoop && int(solo) < crashes {
				add("suspects: job %s is a crash loop after %d losses alone", run.JobID, solo)
			}
		case *events.AttemptAbandoned:
			if r.Event.Version > 0 {
				solo = b.SoloLosses
			}
		}
	}
}

func typeOf(cfg Config, name string) *Type {
	for i := range cfg.Types {
		if cfg.Types[i].Name == name {
			return &cfg.Types[i]
		}
	}
	return nil
}

// judgeParking: a job that must not simply be repeated is not started again
// after an attempt of unknown outcome.
func (s *sim) judgeParking(run *loadtest.Run, add func(string, ...any)) {
	if run.JobType != "park" {
		return
	}
	unknown := false
	for _, r := range run.Records {
		if r.Event.Version == 0 {
			continue
		}
		switch b := r.Event.Body.(type) {
		case *events.AttemptStarted:
			if unknown {
				add("parking: job %s is started again after an attempt of unknown outcome", run.JobID)
			}
		case *events.AttemptFinished:
			unknown = b.Outcome == events.OutcomeInterrupted
		case *events.AttemptAbandoned:
			unknown = b.Cause != events.AbandonNotStarted
		}
	}
}

// judgeCohorts: the workers that a run has lost say among how many it runs next.
func (s *sim) judgeCohorts(run *loadtest.Run, add func(string, ...any)) {
	losses := uint32(0)
	for _, r := range run.Records {
		switch b := r.Event.Body.(type) {
		case *events.AttemptStarted:
			if want := suspicion(losses); b.Cohort != want {
				add("suspects: job %s runs in a cohort of %d after %d losses, wanted %d", run.JobID, b.Cohort, losses, want)
			}
		case *events.AttemptAbandoned:
			if r.Event.Version > 0 {
				losses = b.Losses
			}
		}
	}
}

// judgeKnowledge: an owner abandons no attempt whose end it knows from replay. A
// fact that another worker appends after the replay is just a fact.
func (s *sim) judgeKnowledge(run *loadtest.Run, add func(string, ...any)) {
	for id, r := range run.Ended {
		b, ok := r.Event.Body.(*events.AttemptAbandoned)
		if !ok {
			continue
		}
		for _, fact := range run.Late[id] {
			if !s.knew(r.Event.Worker, r.Partition, r.Offset, fact.Offset) {
				continue
			}
			if fact.Event.Type() == events.TypeAttemptFinished {
				add("L4: attempt %s of job %s is abandoned, though its outcome stood at %d", id, run.JobID, fact.Offset)
			} else if b.Cause != events.AbandonNotStarted {
				add("L4: attempt %s of job %s is abandoned as %s, though the log said that it was not started", id, run.JobID, b.Cause)
			}
		}
	}
}

// knew reports whether a worker that wrote at an offset had replayed the record
// at another one, or began with the checkpoint of somebody who had.
func (s *sim) knew(worker string, partition int32, wrote, record int64) bool {
	var last *simRecovery
	for i, c := range s.tales.recoveries {
		if c.worker == worker && c.partition == partition && c.at <= wrote {
			last = &s.tales.recoveries[i]
		}
	}
	switch {
	case last == nil || record >= last.end:
		return false
	case record >= last.from:
		return true
	}
	records := s.log[laneKey{s.topo.Evidence(), partition}]
	checkpoint, err := events.Decode(records[last.from].Value)
	if err != nil {
		s.t.Fatal(err)
	}
	return s.knew(checkpoint.Worker, partition, last.from, record)
}

// judgeDuplicates: a copy of a job that is open, parked or succeeded is not run,
// where both are of one type and partition. Histories are shorter than the window.
func (s *sim) judgeDuplicates(story *loadtest.Story, add func(string, ...any)) {
	// A decision may wait for a stalled worker, but no longer.
	const late = 10_000
	for _, r := range story.Duplicates {
		b, ok := r.Event.Body.(*events.DuplicateSeen)
		if !ok || b.Action != events.DuplicateRejected {
			continue
		}
		first := story.Runs[loadtest.RunKey{Publication: b.First, Run: 1}]
		if first == nil {
			continue
		}
		if last := first.Records[len(first.Records)-1]; first.Job.State.Final() && first.Job.State != events.StateSucceeded && last.At+late < r.At {
			add("duplicates: job %s at %s was rejected %v after %s had %s", r.Event.JobID, r.Event.Publication, r.At.Sub(last.At), b.First, first.Job.State)
		}
	}
	type key struct {
		job       string
		partition int32
	}
	copies := make(map[key][]*loadtest.Run)
	for _, run := range story.Runs {
		k := key{run.JobID, run.Publication.Partition}
		copies[k] = append(copies[k], run)
	}
	for _, runs := range copies {
		simple := true
		for _, run := range runs {
			t := typeOf(s.cfg, run.JobType)
			simple = simple && run.JobType == runs[0].JobType && t != nil && t.Policy.OnDuplicate == retrytopics.RejectDuplicates && run.Reason != events.ReasonMalformed
		}
		if !simple {
			continue
		}
		for _, second := range runs {
			begun := second.Records[0].Offset
			for _, first := range runs {
				var job events.Job
				for _, r := range first.Records {
					if first != second && r.Offset < begun {
						job, _ = job.Apply(r.Event)
					}
				}
				if job.Version > 0 && (job.State.Open() || job.State == events.StateSucceeded) {
					add("duplicates: job %s at %s was begun while %s was %s", second.JobID, second.Publication, first.Publication, job.State)
				}
			}
		}
	}
}
