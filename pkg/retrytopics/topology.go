package retrytopics

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
)

// Topology names the topics of a worker group. All have the same number of
// partitions: everything about a job stays in one partition number.
type Topology struct {
	Group string
	// Jobs are the job topics that the group consumes.
	Jobs  []string
	Tiers Tiers
}

// Role is what a topic is for.
type Role string

// The roles.
const (
	RoleJobs     Role = "jobs"
	RoleEvidence Role = "evidence"
	RoleRetry    Role = "retry"
	RoleDLQ      Role = "dlq"
	RoleParked   Role = "parked"
	RoleCommands Role = "commands"
)

const (
	day = 24 * time.Hour
	// EvidenceRetention is how long the evidence log is kept by default.
	EvidenceRetention = 400 * day
	// RetryRetention is how long a retry tier keeps a record by default, the
	// tier's own delay on top of it: the outage that waiting jobs survive.
	RetryRetention = 14 * day
	// DeadRetention is how long the dead-letter and parked topics keep a record.
	DeadRetention = 90 * day
	// CommandRetention is how long commands are kept.
	CommandRetention = 14 * day
	// EnvelopeBudget is how many bytes a command may add to the record it moves.
	EnvelopeBudget = 64 << 10
)

var legalGroup = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,200}$`)

// Validate returns what is wrong with the topology's names, nil when nothing is.
func (t Topology) Validate() error {
	var errs []error
	if !legalGroup.MatchString(t.Group) {
		errs = append(errs, fmt.Errorf("group %q: 1 to 200 letters, digits, dots, dashes and underscores are allowed", t.Group))
	}
	if len(t.Jobs) == 0 {
		errs = append(errs, errors.New("no job topic is named"))
	}
	for i, j := range t.Jobs {
		switch {
		case j == "":
			errs = append(errs, errors.New("a job topic has no name"))
		case slices.Contains(t.Jobs[:i], j):
			errs = append(errs, fmt.Errorf("job topic %q is named twice", j))
		case strings.HasPrefix(j, t.Group+"."):
			if role := t.Role(j); role != RoleJobs {
				errs = append(errs, fmt.Errorf("job topic %q is the group's own %s topic", j, role))
			}
		}
	}
	errs = append(errs, t.Tiers.Validate())
	return errors.Join(errs...)
}

// Evidence returns the name of the evidence log.
func (t Topology) Evidence() string { return t.Group + ".evidence" }

// DLQ returns the name of the dead-letter topic.
func (t Topology) DLQ() string { return t.Group + ".dlq" }

// Parked returns the name of the topic of jobs that wait for a decision.
func (t Topology) Parked() string { return t.Group + ".parked" }

// Commands returns the name of the topic of operators' commands.
func (t Topology) Commands() string { return t.Group + ".commands" }

// Retry returns the name of the topic of a tier.
func (t Topology) Retry(tier time.Duration) string { return t.Group + ".retry." + TierName(tier) }

// Lanes returns the names of the topics that workers consume: the job topics,
// the tiers and the commands.
func (t Topology) Lanes() []string {
	lanes := slices.Clone(t.Jobs)
	for _, d := range t.Tiers {
		lanes = append(lanes, t.Retry(d))
	}
	return append(lanes, t.Commands())
}

// Role returns what a topic is for.
func (t Topology) Role(topic string) Role {
	switch topic {
	case t.Evidence():
		return RoleEvidence
	case t.DLQ():
		return RoleDLQ
	case t.Parked():
		return RoleParked
	case t.Commands():
		return RoleCommands
	}
	for _, d := range t.Tiers {
		if topic == t.Retry(d) {
			return RoleRetry
		}
	}
	return RoleJobs
}

// TierOf returns the delay of a tier's topic.
func (t Topology) TierOf(topic string) (time.Duration, bool) {
	for _, d := range t.Tiers {
		if topic == t.Retry(d) {
			return d, true
		}
	}
	return 0, false
}

// Topic is a topic as it is wanted: with the settings it is created with.
type Topic struct {
	Name    string
	Role    Role
	Configs map[string]string
}

// Topics returns the topics that the group needs, its own first and the job
// topics last, the order in which they are created and grown. maxJob is the
// max.message.bytes of the job topics.
func (t Topology) Topics(maxJob int) []Topic {
	own := func(name string, role Role, retention time.Duration, size int) Topic {
		return Topic{name, role, map[string]string{
			"cleanup.policy":         "delete",
			"message.timestamp.type": "LogAppendTime",
			"retention.ms":           strconv.FormatInt(retention.Milliseconds(), 10),
			"retention.bytes":        "-1",
			"max.message.bytes":      strconv.Itoa(size),
		}}
	}
	hop := maxJob + HeaderBudget
	topics := []Topic{own(t.Evidence(), RoleEvidence, EvidenceRetention, max(hop, 1<<20))}
	for _, d := range t.Tiers {
		topics = append(topics, own(t.Retry(d), RoleRetry, d+RetryRetention, hop))
	}
	topics = append(topics,
		own(t.DLQ(), RoleDLQ, DeadRetention, hop),
		own(t.Parked(), RoleParked, DeadRetention, hop),
		own(t.Commands(), RoleCommands, CommandRetention, hop+EnvelopeBudget))
	for _, j := range t.Jobs {
		topics = append(topics, Topic{Name: j, Role: RoleJobs, Configs: map[string]string{"max.message.bytes": strconv.Itoa(maxJob)}})
	}
	return topics
}

// Found is a topic as the brokers have it.
type Found struct {
	ID         uuid.UUID
	Partitions int
	// Configs are the effective settings, defaults included.
	Configs map[string]string
}

// Problem is a setting with which the group would lose or misroute records.
type Problem struct {
	Topic   string
	Setting string
	Found   string
	Wanted  string
	// Why says what would go wrong.
	Why string
}

// String returns the problem as one line.
func (p Problem) String() string {
	return fmt.Sprintf("topic %s: %s is %s, wanted %s: %s", p.Topic, p.Setting, p.Found, p.Wanted, p.Why)
}

// Summarise returns the problems as lines, those that differ only by their
// topic as one.
func Summarise(problems []Problem) []string {
	var lines []string
	for i, p := range problems {
		same := func(o Problem) bool {
			return p.Setting == o.Setting && p.Found == o.Found && p.Wanted == o.Wanted && p.Why == o.Why
		}
		if p.Setting == "existence" {
			same = func(o Problem) bool { return o.Setting == "existence" }
		}
		if slices.ContainsFunc(problems[:i], same) {
			continue
		}
		var topics []string
		for _, o := range problems[i:] {
			if same(o) {
				topics = append(topics, o.Topic)
			}
		}
		switch {
		case len(topics) == 1:
			lines = append(lines, p.String())
		case p.Setting == "existence":
			lines = append(lines, fmt.Sprintf("topics %s are missing: records would have no place; run `jobtrail topics apply`", shortList(topics)))
		default:
			lines = append(lines, fmt.Sprintf("topics %s: %s is %s, wanted %s: %s", shortList(topics), p.Setting, p.Found, p.Wanted, p.Why))
		}
	}
	return lines
}

// shortList names the first topics and counts the others.
func shortList(topics []string) string {
	const shown = 4
	if len(topics) <= shown+1 {
		return strings.Join(topics[:len(topics)-1], ", ") + " and " + topics[len(topics)-1]
	}
	return fmt.Sprintf("%s and %d more", strings.Join(topics[:shown], ", "), len(topics)-shown)
}

// ApplyCommand is the command that gives the group its topics. partitions is
// that of a topic found, or 0 to leave the number open.
func (t Topology) ApplyCommand(partitions int) string {
	n := "N"
	if partitions > 0 {
		n = strconv.Itoa(partitions)
	}
	command := fmt.Sprintf("jobtrail topics apply --group %s --jobs %s --partitions %s", t.Group, strings.Join(t.Jobs, ","), n)
	if !slices.Equal(t.Tiers, DefaultTiers()) {
		command += fmt.Sprintf(" --tiers '%s'", t.Tiers)
	}
	return command
}

// MaxJobBytes returns the largest max.message.bytes of the job topics found,
// Kafka's default when none is.
func (t Topology) MaxJobBytes(found map[string]Found) int {
	largest := 0
	for _, j := range t.Jobs {
		n, _ := strconv.Atoi(found[j].Configs["max.message.bytes"])
		largest = max(largest, n)
	}
	if largest == 0 {
		return 1048588
	}
	return largest
}

// Check returns what is wrong with the topics found; a worker starts only when
// nothing is.
func (t Topology) Check(found map[string]Found) []Problem {
	var problems []Problem
	want := 0
	for _, j := range t.Jobs {
		if f, ok := found[j]; ok && want == 0 {
			want = f.Partitions
		}
	}
	maxJob := t.MaxJobBytes(found)
	for _, topic := range t.Topics(maxJob) {
		f, ok := found[topic.Name]
		if !ok {
			problems = append(problems, Problem{topic.Name, "existence", "missing", "a topic", "records of the " + string(topic.Role) + " topic would have no place; run `jobtrail topics apply`"})
			continue
		}
		if want != 0 && f.Partitions != want {
			problems = append(problems, Problem{topic.Name, "partitions", strconv.Itoa(f.Partitions), strconv.Itoa(want), "a hop keeps the partition number, so all topics of the group need the same partitions"})
		}
		if topic.Role == RoleJobs {
			if strings.Contains(f.Configs["cleanup.policy"], "compact") {
				problems = append(problems, Problem{topic.Name, "cleanup.policy", f.Configs["cleanup.policy"], "delete", "compaction removes jobs that wait to be read"})
			}
			continue
		}
		problems = append(problems, t.checkOwn(topic, f)...)
	}
	return problems
}

func (t Topology) checkOwn(want Topic, f Found) []Problem {
	var problems []Problem
	add := func(setting, why string) {
		problems = append(problems, Problem{want.Name, setting, f.Configs[setting], want.Configs[setting], why})
	}
	if strings.Contains(f.Configs["cleanup.policy"], "compact") {
		add("cleanup.policy", "compaction removes records that are still needed")
	}
	if f.Configs["message.timestamp.type"] != "LogAppendTime" {
		add("message.timestamp.type", "delays and evidence are measured by the brokers' append time")
	}
	number := func(setting string) int64 {
		n, err := strconv.ParseInt(f.Configs[setting], 10, 64)
		if err != nil {
			return 0
		}
		return n
	}
	wanted, _ := strconv.ParseInt(want.Configs["max.message.bytes"], 10, 64)
	if number("max.message.bytes") < wanted {
		add("max.message.bytes", "a job of the largest size with its headers would not fit")
	}
	if tier, ok := t.TierOf(want.Name); ok {
		if ms := number("retention.ms"); ms >= 0 && ms < (tier+day).Milliseconds() {
			add("retention.ms", "waiting jobs would be deleted before they are due")
		}
		if number("retention.bytes") >= 0 {
			add("retention.bytes", "waiting jobs would be deleted when there are many")
		}
	}
	return problems
}
