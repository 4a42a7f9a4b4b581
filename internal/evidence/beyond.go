package evidence

import (
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
)

// places are the places on the logs that an answer was read from.
type places map[place]struct{}

type place struct {
	log       uuid.UUID
	partition uint16
	offset    uint64
}

func placesOf(es []event) places {
	ps := make(places, len(es))
	for i := range es {
		ps[place{es[i].LogID, es[i].Partition, es[i].Offset}] = struct{}{}
	}
	return ps
}

func (ps places) hold(log uuid.UUID, partition int32, offset int64) bool {
	_, ok := ps[place{log, uint16(partition), uint64(offset)}]
	return ok
}

// Holds reports whether the answer rests on the event at that place.
func (o *Operation) Holds(log uuid.UUID, partition int32, offset int64) bool {
	return o.read.hold(log, partition, offset)
}

// Holds reports whether the answer rests on the event at that place.
func (j *Job) Holds(log uuid.UUID, partition int32, offset int64) bool {
	return j.read.hold(log, partition, offset)
}

// Beyond is what the topics hold of an operation or a job beyond the store. The
// zero Beyond says that they were looked at and hold nothing.
type Beyond struct {
	// Newer counts publications that the store has no event of, and the log has.
	Newer int
	// Waiting counts those that no log has an event of: published and not started.
	Waiting int
	// Updated says that the log has events of runs in the store which the store
	// lacks.
	Updated bool
	// Partial says that the topics or logs could not be read whole, so that there
	// may be more.
	Partial bool
	// Unbegun are groups that have not started what another group has. They do not
	// count for the verdict: such a group may pass over the job's type.
	Unbegun []Unbegun
	// CompleteUpTo is that of the store, for the groups concerned.
	CompleteUpTo *time.Time
	// At is when the topics were looked at.
	At time.Time
}

// Unbegun is a group that has not started a job, and whether a worker of it runs.
type Unbegun struct {
	Group  string
	Manned bool
}

// behindAfter is by how much the store may lag before something is wrong: a
// projector that runs writes every few seconds how far it is.
const behindAfter = 15 * time.Second

const (
	unknownOperation = "Unknown: there is no evidence of this operation."
	// notLooked is added where only the store could be asked.
	notLooked = " The topics were not looked at, so what is newer than the evidence is not counted."
	// unread is added where they could not be read.
	unread = " The topics could not be read, so what is newer than the evidence is not counted."
)

// Add adds to the answer what lies beyond the store. What is newer than the
// evidence, or waits to be started, is in progress, unless something needs a
// decision.
func (o *Operation) Add(b Beyond) {
	o.CompleteUpTo = b.CompleteUpTo
	o.Verdict, o.Sentence = b.judge("job", o.Verdict, o.Sentence)
	if o.Verdict == Unknown {
		o.Sentence = "Unknown: there is no evidence of this operation, and no record of it in the topics of any worker group."
	}
}

// AddNothing says in the answer that only the store was asked.
func (o *Operation) AddNothing() {
	if o.Verdict == Unknown {
		o.Sentence += notLooked
	}
}

// AddUnread says in the answer that the topics could not be read.
func (o *Operation) AddUnread() { o.Sentence += unread }

// AddUnread says in the answer that the topics could not be read.
func (j *Job) AddUnread() { j.Sentence += unread }

// Add is Operation.Add for a job.
func (j *Job) Add(b Beyond) {
	j.CompleteUpTo = b.CompleteUpTo
	j.Verdict, j.Sentence = b.judge("publication", j.Verdict, j.Sentence)
}

// Fresh returns the answer about a job that the store knows nothing of.
func Fresh(jobID, tenant, group string, b Beyond) Job {
	j := Job{JobID: jobID, TenantID: tenant, WorkerGroup: group, Verdict: Unknown, Operations: []string{}, Runs: []JobRun{}}
	j.Add(b)
	return j
}

func (b *Beyond) judge(what string, verdict Verdict, sentence string) (Verdict, string) {
	var open, also []string
	if b.Newer > 0 {
		open = append(open, fmt.Sprintf("%s of it %s newer than the evidence%s.", count(b.Newer, what), plural(b.Newer, "is", "are"), b.reach()))
	}
	if b.Waiting > 0 {
		open = append(open, fmt.Sprintf("%s of it %s published and not started.", count(b.Waiting, what), plural(b.Waiting, "is", "are")))
	}
	switch {
	case len(open) > 0:
	case verdict == Unknown && b.Partial:
		open = append(open, fmt.Sprintf("nothing is known of it, and the topics hold more than could be looked at beyond the evidence%s.", b.reach()))
	case b.Updated:
		also = append(also, fmt.Sprintf("The log has newer events of it than the evidence%s.", b.reach()))
	}
	for _, u := range b.Unbegun {
		if u.Manned {
			also = append(also, fmt.Sprintf("Group %s has not started it, or passes over its type.", u.Group))
		} else {
			also = append(also, fmt.Sprintf("Group %s, which has no worker running, has not started it.", u.Group))
		}
	}
	if len(open) > 0 && rank[InProgress] < rank[verdict] {
		said := "In progress: " + strings.Join(open, " ")
		if verdict != Unknown {
			said += " What did run: " + sentence
		}
		verdict, sentence = InProgress, said
	} else {
		for _, s := range open {
			sentence += " " + strings.ToUpper(s[:1]) + s[1:]
		}
	}
	for _, s := range also {
		sentence += " " + s
	}
	return verdict, sentence
}

// reach says how far the evidence goes, and what to do.
func (b *Beyond) reach() string {
	switch {
	case b.CompleteUpTo == nil:
		return ": no projector has reported how far it is; see `jobtrail doctor`, and look again"
	case b.At.Sub(*b.CompleteUpTo) > behindAfter:
		return fmt.Sprintf(", which is complete up to %s: the projector is behind or not running; see `jobtrail doctor`, and look again", stamp(*b.CompleteUpTo))
	}
	return fmt.Sprintf(", which is complete up to %s; look again in a moment", stamp(*b.CompleteUpTo))
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000 UTC") }
