package loadtest

import (
	"bytes"
	"fmt"
	"sort"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/jobtrail/jobtrail/pkg/events"
	"github.com/jobtrail/jobtrail/pkg/retrytopics"
)

// Effect is one side effect that a witness outside the worker saw.
type Effect struct {
	JobID     string
	AttemptID uuid.UUID
	At        events.Time // the witness's clock
}

// RunKey names a run of a publication.
type RunKey struct {
	Publication events.Publication
	Run         uint32
}

// Run is what the evidence says of a run.
type Run struct {
	RunKey
	JobID, JobType string
	Job            events.Job
	Records        []Record
	Terminals      int
	Outcome        events.TerminalOutcome
	Reason         events.TerminalReason
	// Started holds the attempts' AttemptStarted by attempt, Ended what closed
	// each, Late the late facts.
	Started map[uuid.UUID]Record
	Ended   map[uuid.UUID]Record
	Late    map[uuid.UUID][]Record

	losses, solo uint32
}

// Story is what the evidence says of everything.
type Story struct {
	Runs map[RunKey]*Run
	// Duplicates holds the DuplicateSeen by the second publication.
	Duplicates map[events.Publication]Record
	// Rejected counts TransitionRejected of jobs.
	Rejected int
	// Attempts finds the run of an attempt.
	Attempts map[uuid.UUID]*Run
}

// Tell folds the evidence and adds a violation for everything in it that breaks
// the state machine or the promises about versions.
func Tell(d *Dump, add func(invariant, format string, args ...any)) *Story {
	s := &Story{Runs: make(map[RunKey]*Run), Duplicates: make(map[events.Publication]Record), Attempts: make(map[uuid.UUID]*Run)}
	if d.Undecodable > 0 {
		add("I1", "%d evidence records are no events", d.Undecodable)
	}
	for _, r := range d.Evidence {
		e := r.Event
		switch b := e.Body.(type) {
		case *events.Checkpoint, *events.DedupPage, *events.GroupEvent:
			continue
		case *events.DuplicateSeen:
			if before, ok := s.Duplicates[e.Publication]; ok {
				add("L2", "the duplicate at %s is on record twice, at offsets %d and %d", e.Publication, before.Offset, r.Offset)
			}
			s.Duplicates[e.Publication] = r
			continue
		case *events.TransitionRejected:
			if e.Source.Topic != d.Topology.Commands() {
				s.Rejected++
				add("I4", "%s was rejected for job %s: %s", b.What, e.JobID, b.Detail)
			}
			continue
		case nil:
			add("I1", "the event at %d/%d is of an unknown type", r.Partition, r.Offset)
			continue
		}
		key := RunKey{e.Publication, e.Run}
		run := s.Runs[key]
		if run == nil {
			run = &Run{RunKey: key, JobID: e.JobID, JobType: e.JobType, Started: make(map[uuid.UUID]Record), Ended: make(map[uuid.UUID]Record), Late: make(map[uuid.UUID][]Record)}
			s.Runs[key] = run
		}
		run.Records = append(run.Records, r)
		if e.Publication.Partition != r.Partition {
			add("I4", "job %s of partition %d has evidence in partition %d", e.JobID, e.Publication.Partition, r.Partition)
		}
		next, err := run.Job.Apply(e)
		if err != nil {
			add("I4", "job %s at %d/%d: %v", e.JobID, r.Partition, r.Offset, err)
			continue
		}
		run.Job = next
		switch b := e.Body.(type) {
		case *events.AttemptStarted:
			if other, ok := s.Attempts[b.AttemptID]; ok {
				add("I3", "attempt %s of job %s was started twice (also for %s)", b.AttemptID, e.JobID, other.JobID)
			}
			run.Started[b.AttemptID], s.Attempts[b.AttemptID] = r, run
		case *events.AttemptFinished:
			if e.Version == 0 {
				run.Late[b.AttemptID] = append(run.Late[b.AttemptID], r)
				continue
			}
			s.end(run, b.AttemptID, r, add)
			run.checkAdoption(b, add)
		case *events.AttemptAbandoned:
			if e.Version == 0 {
				run.Late[b.AttemptID] = append(run.Late[b.AttemptID], r)
				continue
			}
			s.end(run, b.AttemptID, r, add)
			run.checkLosses(b, add)
		case *events.JobTerminal:
			run.Terminals++
			run.Outcome, run.Reason = b.Outcome, b.Reason
			if b.Attempts != uint32(len(run.Started)) {
				add("I4", "job %s: the terminal counts %d attempts, %d were started", e.JobID, b.Attempts, len(run.Started))
			}
		}
	}
	return s
}

func (s *Story) end(run *Run, id uuid.UUID, r Record, add func(string, string, ...any)) {
	if _, ok := run.Started[id]; !ok {
		add("I3", "attempt %s of job %s ended without a start", id, run.JobID)
	}
	if before, ok := run.Ended[id]; ok {
		add("I3", "attempt %s of job %s ended twice, at offsets %d and %d", id, run.JobID, before.Offset, r.Offset)
	}
	run.Ended[id] = r
}

// checkAdoption holds an outcome that an owner took over against the late fact
// that it names.
func (run *Run) checkAdoption(b *events.AttemptFinished, add func(string, string, ...any)) {
	if b.AdoptedFrom == 0 {
		return
	}
	for _, r := range run.Late[b.AttemptID] {
		if fact, ok := r.Event.Body.(*events.AttemptFinished); ok && r.Offset == b.AdoptedFrom-1 {
			if fact.Outcome != b.Outcome {
				add("L3", "attempt %s of job %s is adopted as %s, but ended as %s", b.AttemptID, run.JobID, b.Outcome, fact.Outcome)
			}
			return
		}
	}
	add("L3", "attempt %s of job %s is adopted from offset %d, where no late outcome of it is", b.AttemptID, run.JobID, b.AdoptedFrom-1)
}

// checkLosses counts the workers that the run has lost, and those of them that
// were lost while it ran alone, and holds an abandonment against it.
func (run *Run) checkLosses(b *events.AttemptAbandoned, add func(string, string, ...any)) {
	start, ok := run.Started[b.AttemptID]
	if !ok {
		return
	}
	if b.BasedOn != 0 && b.BasedOn-1 != start.Offset {
		add("L3", "the abandonment of attempt %s of job %s is based on offset %d, but it was started at %d", b.AttemptID, run.JobID, b.BasedOn-1, start.Offset)
	}
	if b.Cause == events.AbandonWorkerLost {
		run.losses++
		if body, ok := start.Event.Body.(*events.AttemptStarted); ok && body.Cohort == 1 {
			run.solo++
		}
	}
	if b.Losses != run.losses || b.SoloLosses != run.solo {
		add("L3", "job %s has lost %d workers, %d of them alone, but attempt %s says %d and %d", run.JobID, run.losses, run.solo, b.AttemptID, b.Losses, b.SoloLosses)
	}
}

// Check holds a dump, taken when nothing is under way any more, against what was
// published to the job topics and what the witness saw. It returns every
// violation as "I3: what is wrong".
func Check(d *Dump, effects []Effect) (violations []string, story *Story) {
	add := func(invariant, format string, args ...any) {
		violations = append(violations, invariant+": "+fmt.Sprintf(format, args...))
	}
	s := Tell(d, add)

	// I1: every record of a job topic has a run that is at rest, or is a known duplicate.
	for _, topic := range d.Topology.Jobs {
		for _, rec := range d.Records[topic] {
			pub := events.Publication{TopicID: d.TopicIDs[topic], Topic: topic, Partition: rec.Partition, Offset: rec.Offset}
			dup, seen := s.Duplicates[pub]
			rejected := seen && dup.Event.Body.(*events.DuplicateSeen).Action == events.DuplicateRejected
			run := s.last(pub)
			switch {
			case run == nil && !rejected:
				add("I1", "the job at %s is lost: nothing is on record of it", pub)
			case run != nil && rejected:
				add("I1", "the duplicate at %s was rejected and run", pub)
			case run != nil && run.Job.State.Open() && run.Job.State != events.StateParked:
				add("I1", "the job %s at %s is still %s", run.JobID, pub, run.Job.State)
			}
			if commit, ok := d.Commits[topic][rec.Partition]; ok && commit <= rec.Offset {
				add("I5", "the position of %s/%d is %d, but the job at %d is done", topic, rec.Partition, commit, rec.Offset)
			}
		}
	}
	// I3, I4: every attempt ended, every run has one end.
	for _, run := range s.Runs {
		for id := range run.Started {
			if _, ok := run.Ended[id]; !ok {
				add("I3", "attempt %s of job %s has no end", id, run.JobID)
			}
		}
		want := 1
		if run.Job.State == events.StateParked {
			want = 0
		}
		if run.Terminals != want {
			add("I4", "job %s has %d terminals in run %d, wanted %d", run.JobID, run.Terminals, run.Run, want)
		}
	}
	// I10: no attempt is early.
	for _, run := range s.Runs {
		var due events.Time
		for _, r := range run.Records {
			switch b := r.Event.Body.(type) {
			case *events.AttemptStarted:
				if r.At < due {
					add("I10", "job %s: attempt %d was started %v early", run.JobID, r.Event.Number, due.Sub(r.At))
				}
			case *events.AttemptFinished:
				if r.Event.Version > 0 {
					due = b.Next.RetryAt
				}
			case *events.JobDeferred:
				due = b.Until
			}
		}
	}
	// I2, I3: each side effect has an attempt of its own, on record before it.
	count := make(map[uuid.UUID]int)
	for _, e := range effects {
		run := s.Attempts[e.AttemptID]
		if run == nil {
			add("I2", "a side effect of job %s has no attempt %s on record", e.JobID, e.AttemptID)
			continue
		}
		if at := run.Started[e.AttemptID].At; at > e.At+1 {
			add("I2", "attempt %s of job %s is on record %v after its side effect", e.AttemptID, e.JobID, at.Sub(e.At))
		}
		if count[e.AttemptID]++; count[e.AttemptID] == 2 {
			add("I3", "attempt %s of job %s had its side effect twice", e.AttemptID, e.JobID)
		}
	}
	s.checkDead(d, add)
	s.checkHops(d, add)
	sort.Strings(violations)
	return violations, s
}

// last returns the last run of a publication.
func (s *Story) last(p events.Publication) *Run {
	var last *Run
	for run := uint32(1); ; run++ {
		r := s.Runs[RunKey{p, run}]
		if r == nil {
			return last
		}
		last = r
	}
}

// checkDead holds the dead-letter and parked topics against the runs that ended
// there: each once, with the bytes of its origin.
func (s *Story) checkDead(d *Dump, add func(string, string, ...any)) {
	origin := make(map[events.Publication]*kgo.Record)
	for topic, recs := range d.Records {
		for _, r := range recs {
			origin[events.Publication{TopicID: d.TopicIDs[topic], Topic: topic, Partition: r.Partition, Offset: r.Offset}] = r
		}
	}
	dead := make(map[RunKey]int)
	for _, topic := range []string{d.Topology.DLQ(), d.Topology.Parked()} {
		for _, r := range d.Records[topic] {
			h, err := retrytopics.State(r.Headers)
			if err != nil {
				add("L2", "the record at %s/%d/%d: %v", topic, r.Partition, r.Offset, err)
				continue
			}
			dead[RunKey{h.Origin, h.Run}]++
			if o := origin[h.Origin]; o != nil && (!bytes.Equal(o.Value, r.Value) || (o.Value == nil) != (r.Value == nil) || !bytes.Equal(o.Key, r.Key)) {
				add("L2", "the record at %s/%d/%d has other bytes than its origin %s", topic, r.Partition, r.Offset, h.Origin)
			}
		}
	}
	for key, run := range s.Runs {
		want := 0
		switch run.Job.State {
		case events.StateFailed, events.StateExpired, events.StateCancelled, events.StateParked:
			want = 1
			if run.Reason == events.ReasonOversize {
				want = 0
			}
		}
		if dead[key] != want {
			add("L2", "job %s, which is %s, stands %d times in the dead-letter and parked topics, wanted %d", run.JobID, run.Job.State, dead[key], want)
		}
	}
}

// checkHops holds the retry tiers against the events that sent a record there:
// each one record, and no record without an event.
func (s *Story) checkHops(d *Dump, add func(string, string, ...any)) {
	type hop struct {
		RunKey
		version uint32
		tier    string
	}
	there := make(map[hop]int)
	for _, topic := range d.Topology.Lanes() {
		if d.Topology.Role(topic) != retrytopics.RoleRetry {
			continue
		}
		for _, r := range d.Records[topic] {
			h, err := retrytopics.State(r.Headers)
			if err != nil {
				continue // nobody's hop: it ends as malformed
			}
			there[hop{RunKey{h.Origin, h.Run}, h.Version, topic}]++
		}
	}
	for key, run := range s.Runs {
		for _, r := range run.Records {
			tier := ""
			switch b := r.Event.Body.(type) {
			case *events.AttemptFinished:
				tier = b.Next.Tier
			case *events.JobDeferred:
				tier = b.Tier
			}
			if r.Event.Version == 0 {
				continue
			}
			at := hop{key, r.Event.Version, tier}
			if n := there[at]; tier != "" && n != 1 {
				add("L2", "version %d of job %s was sent %d times to %s, wanted once", at.version, run.JobID, n, tier)
			}
			delete(there, at)
		}
	}
	for at, n := range there {
		run := s.Runs[at.RunKey]
		known := false
		if run != nil {
			for _, r := range run.Records {
				known = known || r.Event.Version == at.version && n == 1
			}
		}
		if !known {
			add("L2", "%d records on %s are of version %d of %s, of which there is no event", n, at.tier, at.version, at.Publication)
		}
	}
}
