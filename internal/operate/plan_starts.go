package operate

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/jobtrail/jobtrail/pkg/events"
	"github.com/jobtrail/jobtrail/pkg/retrytopics"
)

// Start is where a new group begins in its job topics.
type Start struct {
	kind startKind
	at   events.Time
}

type startKind uint8

const (
	startEarliest startKind = iota
	startLatest
	startAt
)

// ParseStart parses "earliest", "latest" or a time: RFC 3339 or milliseconds
// since the Unix epoch. Empty text is the earliest record.
func ParseStart(s string) (Start, error) {
	switch s {
	case "", "earliest":
		return Start{}, nil
	case "latest":
		return Start{kind: startLatest}, nil
	}
	at, err := parseTime(s)
	if err != nil {
		return Start{}, fmt.Errorf("start %q is neither earliest nor latest nor a time: %w", s, err)
	}
	return Start{kind: startAt, at: at}, nil
}

// String returns the text that ParseStart parses.
func (s Start) String() string {
	switch s.kind {
	case startLatest:
		return "latest"
	case startAt:
		return s.at.Time().Format(time.RFC3339Nano)
	}
	return "earliest"
}

// planStarts adds the first offsets of every lane that has no commit.
//
// A shard (all lanes of one partition number) commits all its lanes together.
// So a lane without a commit beside one with a commit is new; a shard without
// any commit but with evidence has lost its commits, and its worker restores
// them from the log: no offset is set there.
func planStarts(p *Plan, s groupState) {
	t := p.Request.Topology
	lanes := t.Lanes()
	committed := func(topic string, partition int32) bool {
		_, ok := s.group.Commits[topic][partition]
		return ok
	}
	var restored []int32
	lost := func(partition int32) bool {
		if s.next[t.Evidence()][partition] == 0 {
			return false
		}
		for topic := range s.group.Commits {
			if committed(topic, partition) {
				return false
			}
		}
		return true
	}
	for partition := range int32(p.Request.Partitions) {
		if lost(partition) {
			restored = append(restored, partition)
		}
	}
	for _, topic := range lanes {
		job := t.Role(topic) == retrytopics.RoleJobs
		grown := job && len(s.group.Commits[topic]) > 0
		step := Step{Action: SetStart, Topic: topic, Setting: "offset", Found: "-", Wanted: "earliest",
			Why: "the group has no commit there", Offsets: map[int32]int64{}}
		begin := s.first
		if job && !grown {
			begin, step.Wanted = s.begin, p.Request.Start.String()
		}
		waiting := int64(0)
		for partition := range int32(p.Request.Partitions) {
			if committed(topic, partition) || slices.Contains(restored, partition) {
				continue
			}
			// What does not exist yet begins at 0.
			at := begin[topic][partition]
			step.Offsets[partition] = at
			waiting += s.next[topic][partition] - at
		}
		if len(step.Offsets) == 0 {
			continue
		}
		p.Steps = append(p.Steps, step)
		if job && waiting > 0 {
			p.Notes = append(p.Notes, fmt.Sprintf("Topic %s holds at most %d records from its start offsets on: the group will run them.", topic, waiting))
		}
	}
	if len(restored) > 0 {
		p.Notes = append(p.Notes, fmt.Sprintf("Partitions %v have evidence but no commit (commits of an idle group expire): no offset is set there, the workers restore them from the log.", restored))
	}
	starts := slices.IndexFunc(p.Steps, func(step Step) bool { return step.Action == SetStart })
	if starts >= 0 && len(s.group.Members) > 0 {
		p.Refused = append(p.Refused, retrytopics.Problem{Topic: p.Steps[starts].Topic, Setting: "members of group " + t.Group, Found: strconv.Itoa(len(s.group.Members)), Wanted: "0",
			Why: "the topic needs start offsets, and those of a group that runs belong to its workers; stop them and apply again"})
	}
}
