package retrytopics

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

var shop = Topology{Group: "shop", Jobs: []string{"shop.jobs", "mail"}, Tiers: Tiers{0, time.Second, 10 * time.Minute}}

func TestTopicsComeInTheOrderOfCreation(t *testing.T) {
	var got []string
	for _, topic := range shop.Topics(1000) {
		got = append(got, topic.Name)
		if role := shop.Role(topic.Name); role != topic.Role {
			t.Errorf("%s is %s, and %s", topic.Name, topic.Role, role)
		}
	}
	want := []string{"shop.evidence", "shop.retry.0s", "shop.retry.1s", "shop.retry.10m", "shop.dlq", "shop.parked", "shop.commands", "shop.jobs", "mail"}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
	if got, want := shop.Lanes(), []string{"shop.jobs", "mail", "shop.retry.0s", "shop.retry.1s", "shop.retry.10m", "shop.commands"}; !slices.Equal(got, want) {
		t.Errorf("the lanes are %q, want %q", got, want)
	}
	for topic, want := range map[string]time.Duration{"shop.retry.0s": 0, "shop.retry.1s": time.Second, "shop.retry.10m": 10 * time.Minute} {
		if got, ok := shop.TierOf(topic); !ok || got != want {
			t.Errorf("%s has the delay %v, %v", topic, got, ok)
		}
	}
	for _, topic := range []string{"shop.jobs", "shop.retry.2s", "other.retry.1s", "shop.retry."} {
		if _, ok := shop.TierOf(topic); ok || shop.Role(topic) != RoleJobs {
			t.Errorf("%s is a tier", topic)
		}
	}
}

func TestTopicsHaveTheSettingsOfTheDesign(t *testing.T) {
	days := func(n int) string { return fmt.Sprint(int64(n) * 24 * 3600 * 1000) }
	want := map[string]struct{ retention, size string }{
		"shop.evidence":  {days(400), fmt.Sprint(2<<20 + HeaderBudget)},
		"shop.retry.0s":  {days(14), fmt.Sprint(2<<20 + HeaderBudget)},
		"shop.retry.10m": {fmt.Sprint(14*24*3600*1000 + 600_000), fmt.Sprint(2<<20 + HeaderBudget)},
		"shop.dlq":       {days(90), fmt.Sprint(2<<20 + HeaderBudget)},
		"shop.parked":    {days(90), fmt.Sprint(2<<20 + HeaderBudget)},
		"shop.commands":  {days(14), fmt.Sprint(2<<20 + HeaderBudget + EnvelopeBudget)},
	}
	for _, topic := range shop.Topics(2 << 20) {
		if topic.Role == RoleJobs {
			if !maps.Equal(topic.Configs, map[string]string{"max.message.bytes": fmt.Sprint(2 << 20)}) {
				t.Errorf("%s gets %v", topic.Name, topic.Configs)
			}
			continue
		}
		w, ok := want[topic.Name]
		if ok && !maps.Equal(topic.Configs, map[string]string{"cleanup.policy": "delete", "message.timestamp.type": "LogAppendTime", "retention.ms": w.retention,
			"retention.bytes": "-1", "max.message.bytes": w.size}) {
			t.Errorf("%s gets %v", topic.Name, topic.Configs)
		}
		delete(want, topic.Name)
	}
	if len(want) > 0 {
		t.Errorf("there is no topic for %v", want)
	}
	if got := shop.Topics(100)[0].Configs["max.message.bytes"]; got != fmt.Sprint(1<<20) {
		t.Errorf("small jobs leave %s bytes for an event", got)
	}
}

// sound is the topology as the brokers have it once it is made.
func sound() map[string]Found {
	found := make(map[string]Found)
	for _, topic := range shop.Topics(1048588) {
		found[topic.Name] = Found{Partitions: 6, Configs: maps.Clone(topic.Configs)}
	}
	return found
}

func TestCheckNamesEveryProblem(t *testing.T) {
	if problems := shop.Check(sound()); len(problems) > 0 {
		t.Fatalf("a sound topology: %v", problems)
	}
	set := func(topic, setting, value string) func(map[string]Found) {
		return func(f map[string]Found) { f[topic].Configs[setting] = value }
	}
	partitions := func(topic string, n int) func(map[string]Found) {
		return func(f map[string]Found) { x := f[topic]; x.Partitions = n; f[topic] = x }
	}
	missing := func(topic string) func(map[string]Found) { return func(f map[string]Found) { delete(f, topic) } }
	hop := fmt.Sprint(1048588 + HeaderBudget)
	for _, c := range []struct {
		name   string
		change func(map[string]Found)
		want   string
	}{
		{"evidence missing", missing("shop.evidence"), "topic shop.evidence: existence is missing, wanted a topic: records of the evidence topic would have no place"},
		{"tier missing", missing("shop.retry.1s"), "topic shop.retry.1s: existence is missing"},
		{"job topic missing", missing("mail"), "topic mail: existence is missing"},
		{"fewer partitions", partitions("shop.retry.1s", 5), "topic shop.retry.1s: partitions is 5, wanted 6: a hop keeps the partition number"},
		{"more partitions", partitions("shop.dlq", 7), "topic shop.dlq: partitions is 7, wanted 6"},
		{"job topics differ", partitions("mail", 12), "topic mail: partitions is 12, wanted 6"},
		{"job topic compacted", set("mail", "cleanup.policy", "compact"), "topic mail: cleanup.policy is compact, wanted delete: compaction removes jobs"},
		{"evidence compacted", set("shop.evidence", "cleanup.policy", "compact,delete"), "topic shop.evidence: cleanup.policy is compact,delete, wanted delete"},
		{"time of creation", set("shop.retry.10m", "message.timestamp.type", "CreateTime"), "topic shop.retry.10m: message.timestamp.type is CreateTime, wanted LogAppendTime"},
		{"small messages", set("shop.dlq", "max.message.bytes", "1048588"), "topic shop.dlq: max.message.bytes is 1048588, wanted " + hop + ": a job of the largest size"},
		{"small commands", set("shop.commands", "max.message.bytes", hop), "topic shop.commands: max.message.bytes is " + hop + ", wanted " + fmt.Sprint(1048588+HeaderBudget+EnvelopeBudget)},
		{"unreadable size", set("shop.parked", "max.message.bytes", "lots"), "topic shop.parked: max.message.bytes is lots"},
		{"larger jobs", set("mail", "max.message.bytes", "4194304"), "topic shop.evidence: max.message.bytes is " + hop + ", wanted " + fmt.Sprint(4194304+HeaderBudget)},
		{"short retention", set("shop.retry.10m", "retention.ms", "60000"), "topic shop.retry.10m: retention.ms is 60000, wanted 1210200000: waiting jobs would be deleted before they are due"},
		{"bounded tier", set("shop.retry.10m", "retention.bytes", "1000"), "topic shop.retry.10m: retention.bytes is 1000, wanted -1: waiting jobs would be deleted when there are many"},
	} {
		found := sound()
		c.change(found)
		problems := shop.Check(found)
		if !slices.ContainsFunc(problems, func(p Problem) bool { return strings.HasPrefix(p.String(), c.want) }) {
			t.Errorf("%s: %v\nwant %q", c.name, problems, c.want)
		}
		if c.name != "larger jobs" && len(problems) != 1 {
			t.Errorf("%s: %d problems, want 1: %v", c.name, len(problems), problems)
		}
	}
	for name, change := range map[string]func(map[string]Found){
		"retention without end":     set("shop.retry.10m", "retention.ms", "-1"),
		"a day beyond the delay":    set("shop.retry.10m", "retention.ms", fmt.Sprint(24*3600*1000+600_000)),
		"evidence of any retention": set("shop.evidence", "retention.ms", "1000"),
		"larger than needed":        set("shop.dlq", "max.message.bytes", "99999999"),
	} {
		found := sound()
		change(found)
		if problems := shop.Check(found); len(problems) > 0 {
			t.Errorf("%s: %v", name, problems)
		}
	}
	if problems := shop.Check(nil); len(problems) != 9 {
		t.Errorf("of nothing: %v", problems)
	}
	if n := shop.MaxJobBytes(nil); n != 1048588 {
		t.Errorf("jobs of unknown topics have up to %d bytes", n)
	}
}

func TestValidateNamesBadTopologies(t *testing.T) {
	if err := shop.Validate(); err != nil {
		t.Errorf("%v", err)
	}
	err := Topology{Group: "a b", Jobs: []string{"j", "", "j"}, Tiers: Tiers{1}}.Validate()
	for _, want := range []string{`group "a b"`, "a job topic has no name", `job topic "j" is named twice`, "first tier must be 0s"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	if err := (Topology{Group: "g", Tiers: Tiers{0}}).Validate(); err == nil || !strings.Contains(err.Error(), "no job topic is named") {
		t.Errorf("%v", err)
	}
	for _, own := range []string{"g.evidence", "g.dlq", "g.parked", "g.commands", "g.retry.0s"} {
		if err := (Topology{Group: "g", Jobs: []string{own}, Tiers: Tiers{0}}).Validate(); err == nil || !strings.Contains(err.Error(), "the group's own") {
			t.Errorf("%s: %v", own, err)
		}
	}
	if err := (Topology{Group: "g", Jobs: []string{"g.jobs"}, Tiers: Tiers{0}}).Validate(); err != nil {
		t.Errorf("%v", err)
	}
}

func TestProblemsThatAreTheSameAreOneLine(t *testing.T) {
	grown := func(topic string) Problem { return Problem{topic, "partitions", "2", "3", "why"} }
	for _, tt := range []struct {
		problems []Problem
		want     []string
	}{
		{nil, nil},
		{[]Problem{grown("a")}, []string{"topic a: partitions is 2, wanted 3: why"}},
		{[]Problem{grown("a"), {"a", "retention.ms", "1", "2", "x"}, grown("b")}, []string{"topics a and b: partitions is 2, wanted 3: why", "topic a: retention.ms is 1, wanted 2: x"}},
		{[]Problem{grown("a"), grown("b"), grown("c"), grown("d"), grown("e"), grown("f")}, []string{"topics a, b, c, d and 2 more: partitions is 2, wanted 3: why"}},
		{[]Problem{{"a", "existence", "missing", "a topic", "records of the dlq"}, {"b", "existence", "missing", "a topic", "records of the jobs"}},
			[]string{"topics a and b are missing: records would have no place; run `jobtrail topics apply`"}},
	} {
		if got := Summarise(tt.problems); !slices.Equal(got, tt.want) {
			t.Errorf("got  %q\nwant %q", got, tt.want)
		}
	}
}

func TestApplyCommand(t *testing.T) {
	const own = "jobtrail topics apply --group shop --jobs shop.jobs,mail --partitions N --tiers '0s 1s 10m'"
	if got := shop.ApplyCommand(0); got != own {
		t.Errorf("got %s", got)
	}
	if got := (Topology{Group: "g", Jobs: []string{"j"}, Tiers: DefaultTiers()}).ApplyCommand(6); got != "jobtrail topics apply --group g --jobs j --partitions 6" {
		t.Errorf("got %s", got)
	}
}
