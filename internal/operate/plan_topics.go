package operate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/jobtrail/jobtrail/pkg/retrytopics"
)

// TopicsRequest says what topics a group should have.
type TopicsRequest struct {
	Topology retrytopics.Topology
	// Partitions is the number that every topic of the group has. At least 1.
	Partitions int
	// Replication is the replication factor of topics that are created; 0 means
	// the brokers' default.
	Replication int
	// Start is where a new group begins in its job topics. The zero Start is the
	// earliest record.
	Start Start
	// GrowShared lets a job topic grow that other worker groups consume, too.
	GrowShared bool
}

// Validate returns every problem of the request, joined.
func (r TopicsRequest) Validate() error {
	errs := []error{r.Topology.Validate()}
	if r.Partitions < 1 || r.Partitions > 100_000 {
		errs = append(errs, fmt.Errorf("%d partitions: 1 to 100000 are possible", r.Partitions))
	}
	if r.Replication < 0 || r.Replication > 1000 {
		errs = append(errs, fmt.Errorf("replication factor %d: 1 to 1000 are possible, 0 means the brokers' default", r.Replication))
	}
	return errors.Join(errs...)
}

// Action is what a step of a plan does.
type Action string

// The actions.
const (
	// CreateTopic makes a topic with its settings.
	CreateTopic Action = "create"
	// GrowTopic adds partitions.
	GrowTopic Action = "grow"
	// AlterTopic changes a setting.
	AlterTopic Action = "alter"
	// SetStart commits the group's first offsets.
	SetStart Action = "start"
)

// Step is one difference between what is and what should be.
type Step struct {
	Action  Action `json:"action"`
	Topic   string `json:"topic"`
	Setting string `json:"setting"`
	Found   string `json:"found"`
	Wanted  string `json:"wanted"`
	Why     string `json:"why"`
	// Configs are the settings that a topic is created with.
	Configs map[string]string `json:"configs,omitempty"`
	// Offsets are what SetStart commits, by partition.
	Offsets map[int32]int64 `json:"offsets,omitempty"`
}

// Plan is what it takes to give a group its topics.
type Plan struct {
	Request TopicsRequest
	// Steps are in the order in which they are applied: own topics first, job
	// topics after them, start offsets last.
	Steps []Step
	// Refused are differences that cannot be applied. Nothing is applied while
	// there is one.
	Refused []retrytopics.Problem
	// Notes are facts that a person should know before applying.
	Notes []string
}

// groupState is everything that a plan rests on.
type groupState struct {
	found map[string]retrytopics.Found
	group Group
	// strays are records in the group's retry topics that are no tier of the
	// topology, by topic.
	strays map[string]int64
	// shared are, of the job topics that are to grow, the other worker groups that
	// consume them.
	shared map[string][]Group
	// first, next and begin are, of the topics that exist, the offset of the
	// first record, the offset of the next one, and where Request.Start is.
	first, next, begin map[string]map[int32]int64
}

// PlanTopics compares the group's topics and commits with what is wanted. It
// changes nothing.
func PlanTopics(ctx context.Context, cl *kgo.Client, req TopicsRequest) (Plan, error) {
	if err := req.Validate(); err != nil {
		return Plan{}, err
	}
	var state groupState
	// A new cluster makes its coordinators' topics at the first question.
	err := until(ctx, func() (done bool, err error) {
		state, err = fetchGroupState(ctx, cl, req)
		return !kerr.IsRetriable(err), err
	})
	if err != nil {
		return Plan{}, fmt.Errorf("planning the topics of group %s: %w", req.Topology.Group, err)
	}
	return plan(req, state), nil
}

func fetchGroupState(ctx context.Context, cl *kgo.Client, req TopicsRequest) (groupState, error) {
	var s groupState
	var err error
	if s.found, err = FetchTopology(ctx, cl, req.Topology); err != nil {
		return s, err
	}
	if s.group, err = fetchGroup(ctx, cl, req.Topology.Group); err != nil {
		return s, err
	}
	all, err := listTopics(ctx, cl, nil)
	if err != nil {
		return s, err
	}
	if s.shared, err = findShared(ctx, cl, req, s.found); err != nil {
		return s, err
	}
	names := slices.Sorted(maps.Keys(s.found))
	var strays []string
	for topic := range all {
		if isTier(req.Topology.Group, topic) && req.Topology.Role(topic) == retrytopics.RoleJobs {
			strays = append(strays, topic)
		}
	}
	if len(names)+len(strays) == 0 {
		return s, nil // the calls below take no names for all topics
	}
	adm := kadm.NewClient(cl)
	if s.first, err = listOffsets(adm.ListStartOffsets(ctx, append(names, strays...)...)); err != nil {
		return s, err
	}
	if s.next, err = listOffsets(adm.ListEndOffsets(ctx, append(names, strays...)...)); err != nil {
		return s, err
	}
	switch req.Start.kind {
	case startLatest:
		s.begin = s.next
	case startAt:
		if s.begin, err = listOffsets(adm.ListOffsetsAfterMilli(ctx, int64(req.Start.at), append(names, strays...)...)); err != nil {
			return s, err
		}
	default:
		s.begin = s.first
	}
	s.strays = map[string]int64{}
	for _, topic := range strays {
		for p, next := range s.next[topic] {
			s.strays[topic] += next - s.first[topic][p]
		}
	}
	return s, nil
}

// findShared returns the other worker groups of the job topics that are to grow.
func findShared(ctx context.Context, cl *kgo.Client, req TopicsRequest, found map[string]retrytopics.Found) (map[string][]Group, error) {
	shared := map[string][]Group{}
	for _, topic := range req.Topology.Jobs {
		if f, ok := found[topic]; ok && f.Partitions < req.Partitions {
			shared[topic] = nil
		}
	}
	if len(shared) == 0 {
		return nil, nil
	}
	groups, err := DiscoverGroups(ctx, cl, "")
	if err != nil {
		return nil, fmt.Errorf("looking for other worker groups of the job topics: %w", err)
	}
	for _, g := range groups {
		for _, topic := range g.Topology.Jobs {
			if _, ok := shared[topic]; ok && g.Topology.Group != req.Topology.Group {
				shared[topic] = append(shared[topic], g)
			}
		}
	}
	return shared, nil
}

// listOffsets returns offsets by topic and partition, or the first error.
func listOffsets(listed kadm.ListedOffsets, err error) (map[string]map[int32]int64, error) {
	if err != nil {
		return nil, fmt.Errorf("listing offsets: %w", err)
	}
	offsets := make(map[string]map[int32]int64, len(listed))
	for topic, partitions := range listed {
		offsets[topic] = make(map[int32]int64, len(partitions))
		for p, o := range partitions {
			if o.Err != nil {
				return nil, fmt.Errorf("listing offsets of %s/%d: %w", topic, p, o.Err)
			}
			offsets[topic][p] = o.Offset
		}
	}
	return offsets, nil
}

// share refuses to grow a topic of others, or says what follows from it.
func (p *Plan) share(others []Group, topic string, partitions int) {
	if len(others) == 0 {
		return
	}
	names, commands := make([]string, len(others)), make([]string, len(others))
	for i, g := range others {
		names[i], commands[i] = g.Topology.Group, "`"+g.Topology.ApplyCommand(p.Request.Partitions)+"`"
	}
	who := "worker group " + names[0] + " consumes"
	if len(names) > 1 {
		who = "worker groups " + strings.Join(names, ", ") + " consume"
	}
	if p.Request.GrowShared {
		p.Notes = append(p.Notes, fmt.Sprintf("The %s topic %s, too, and cannot work while its own topics have other partitions than that one. With its workers stopped: %s.", who, topic, strings.Join(commands, ", ")))
		return
	}
	p.Refused = append(p.Refused, retrytopics.Problem{Topic: topic, Setting: "partitions", Found: strconv.Itoa(partitions), Wanted: strconv.Itoa(p.Request.Partitions),
		Why: fmt.Sprintf("%s it, too, and would stop; ask for %d partitions, or stop those workers, use --grow-shared, and go on with %s", who, partitions, strings.Join(commands, ", "))})
}

func plan(req TopicsRequest, s groupState) Plan {
	p := Plan{Request: req}
	t := req.Topology
	broken := map[string][]retrytopics.Problem{}
	for _, problem := range t.Check(s.found) {
		broken[problem.Topic] = append(broken[problem.Topic], problem)
	}
	grows := false
	for _, topic := range t.Topics(t.MaxJobBytes(s.found)) {
		f, ok := s.found[topic.Name]
		wanted := strconv.Itoa(req.Partitions)
		switch {
		case !ok:
			p.Steps = append(p.Steps, Step{Action: CreateTopic, Topic: topic.Name, Setting: "partitions", Found: "-", Wanted: wanted,
				Why: "the group's " + string(topic.Role) + " topic is missing", Configs: topic.Configs})
			continue
		case f.Partitions > req.Partitions:
			p.Refused = append(p.Refused, retrytopics.Problem{Topic: topic.Name, Setting: "partitions", Found: strconv.Itoa(f.Partitions), Wanted: wanted,
				Why: "Kafka cannot take partitions away; ask for at least as many as there are"})
		case f.Partitions < req.Partitions:
			p.Steps = append(p.Steps, Step{Action: GrowTopic, Topic: topic.Name, Setting: "partitions", Found: strconv.Itoa(f.Partitions), Wanted: wanted,
				Why: "all topics of the group need the same partitions"})
			grows = grows || topic.Role == retrytopics.RoleJobs
			p.share(s.shared[topic.Name], topic.Name, f.Partitions)
		}
		for _, problem := range broken[topic.Name] {
			switch {
			case problem.Setting == "partitions":
			case topic.Role == retrytopics.RoleJobs:
				problem.Why += "; the topic is its producers', so change it there"
				p.Refused = append(p.Refused, problem)
			default:
				p.Steps = append(p.Steps, Step{Action: AlterTopic, Topic: topic.Name, Setting: problem.Setting, Found: problem.Found, Wanted: problem.Wanted, Why: problem.Why})
			}
		}
	}
	planStarts(&p, s)
	if grows {
		p.Notes = append(p.Notes, "Growing a job topic sends keys to other partitions: a job id that is published before and after it is no longer recognised as a duplicate.")
	}
	for _, topic := range slices.Sorted(maps.Keys(s.strays)) {
		if n := s.strays[topic]; n > 0 {
			p.Notes = append(p.Notes, fmt.Sprintf("Topic %s is no tier of this plan and holds at most %d records: a group that does not name the tier never runs them.", topic, n))
		}
	}
	return p
}
