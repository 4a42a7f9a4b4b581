package operate

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/jobtrail/jobtrail/pkg/retrytopics"
)

var shop = retrytopics.Topology{Group: "shop", Jobs: []string{"orders"}, Tiers: retrytopics.Tiers{0, time.Hour}}

// existing returns the state after `apply` of shop with n partitions.
func existing(n int) groupState {
	s := groupState{found: map[string]retrytopics.Found{}, group: Group{Commits: map[string]map[int32]kadm.Offset{}},
		strays: map[string]int64{}, first: map[string]map[int32]int64{}, next: map[string]map[int32]int64{}}
	for _, topic := range shop.Topics(1 << 20) {
		s.found[topic.Name] = retrytopics.Found{Partitions: n, Configs: topic.Configs}
		s.first[topic.Name], s.next[topic.Name] = map[int32]int64{}, map[int32]int64{}
	}
	s.begin = s.first
	for _, topic := range shop.Lanes() {
		s.group.Commits[topic] = map[int32]kadm.Offset{}
		for p := range int32(n) {
			s.group.Commits[topic][p] = kadm.Offset{}
		}
	}
	return s
}

func write(p Plan) string {
	var b strings.Builder
	for _, s := range p.Steps {
		fmt.Fprintf(&b, "%s %s %s %s>%s", s.Action, s.Topic, s.Setting, s.Found, s.Wanted)
		for q := range int32(8) {
			if at, ok := s.Offsets[q]; ok {
				fmt.Fprintf(&b, " %d@%d", q, at)
			}
		}
		b.WriteString("\n")
	}
	for _, r := range p.Refused {
		fmt.Fprintf(&b, "refused %s %s %s>%s\n", r.Topic, r.Setting, r.Found, r.Wanted)
	}
	for _, n := range p.Notes {
		b.WriteString("note " + strings.Join(strings.Fields(n)[:4], " ") + "\n")
	}
	return b.String()
}

func TestPlan(t *testing.T) {
	for _, tt := range []struct {
		name       string
		partitions int
		start      Start
		change     func(*groupState)
		want       string
	}{
		{"nothing to do", 2, Start{}, func(*groupState) {}, ""},
		{"nothing exists", 2, Start{}, func(s *groupState) { *s = groupState{} }, `
create shop.evidence partitions ->2
create shop.retry.0s partitions ->2
create shop.retry.1h partitions ->2
create shop.dlq partitions ->2
create shop.parked partitions ->2
create shop.commands partitions ->2
create orders partitions ->2
start orders offset ->earliest 0@0 1@0
start shop.retry.0s offset ->earliest 0@0 1@0
start shop.retry.1h offset ->earliest 0@0 1@0
start shop.commands offset ->earliest 0@0 1@0
`},
		{"a second group begins at the end", 2, Start{kind: startLatest}, func(s *groupState) {
			s.group.Commits = nil
			s.next["orders"] = map[int32]int64{0: 70, 1: 80}
			s.begin = s.next
		}, `
start orders offset ->latest 0@70 1@80
start shop.retry.0s offset ->earliest 0@0 1@0
start shop.retry.1h offset ->earliest 0@0 1@0
start shop.commands offset ->earliest 0@0 1@0
`},
		{"a second group begins at the first record that is left", 2, Start{}, func(s *groupState) {
			delete(s.group.Commits, "orders")
			s.first["orders"] = map[int32]int64{0: 60, 1: 80}
			s.begin = s.first
			s.next["orders"] = map[int32]int64{0: 70, 1: 80}
		}, `
start orders offset ->earliest 0@60 1@80
note Topic orders holds at
`},
		{"growing begins the new partitions at their start whatever was asked", 4, Start{kind: startLatest}, func(s *groupState) {
			s.next["orders"] = map[int32]int64{0: 70, 1: 80}
			s.begin = s.next
		}, `
grow shop.evidence partitions 2>4
grow shop.retry.0s partitions 2>4
grow shop.retry.1h partitions 2>4
grow shop.dlq partitions 2>4
grow shop.parked partitions 2>4
grow shop.commands partitions 2>4
grow orders partitions 2>4
start orders offset ->earliest 2@0 3@0
start shop.retry.0s offset ->earliest 2@0 3@0
start shop.retry.1h offset ->earliest 2@0 3@0
start shop.commands offset ->earliest 2@0 3@0
note Growing a job topic
`},
		{"growing was cut short", 4, Start{}, func(s *groupState) {
			for name, f := range s.found {
				f.Partitions = 4
				s.found[name] = f
			}
			s.next["orders"] = map[int32]int64{2: 5}
		}, `
start orders offset ->earliest 2@0 3@0
start shop.retry.0s offset ->earliest 2@0 3@0
start shop.retry.1h offset ->earliest 2@0 3@0
start shop.commands offset ->earliest 2@0 3@0
note Topic orders holds at
`},
		{"shrinking is refused", 1, Start{}, func(*groupState) {}, `
refused shop.evidence partitions 2>1
refused shop.retry.0s partitions 2>1
refused shop.retry.1h partitions 2>1
refused shop.dlq partitions 2>1
refused shop.parked partitions 2>1
refused shop.commands partitions 2>1
refused orders partitions 2>1
`},
		{"members own the offsets", 4, Start{}, func(s *groupState) { s.group.Members = make([]Member, 3) }, `
grow shop.evidence partitions 2>4
grow shop.retry.0s partitions 2>4
grow shop.retry.1h partitions 2>4
grow shop.dlq partitions 2>4
grow shop.parked partitions 2>4
grow shop.commands partitions 2>4
grow orders partitions 2>4
start orders offset ->earliest 2@0 3@0
start shop.retry.0s offset ->earliest 2@0 3@0
start shop.retry.1h offset ->earliest 2@0 3@0
start shop.commands offset ->earliest 2@0 3@0
refused orders members of group shop 3>0
note Growing a job topic
`},
		{"commits that expired are restored from the log", 2, Start{}, func(s *groupState) {
			s.group.Commits = nil
			s.next["shop.evidence"] = map[int32]int64{1: 9}
		}, `
start orders offset ->earliest 0@0
start shop.retry.0s offset ->earliest 0@0
start shop.retry.1h offset ->earliest 0@0
start shop.commands offset ->earliest 0@0
note Partitions [1] have evidence
`},
		{"a lane beside lanes with commits is new, with evidence too", 2, Start{}, func(s *groupState) {
			delete(s.group.Commits, "shop.retry.1h")
			s.next["shop.evidence"] = map[int32]int64{0: 9, 1: 9}
		}, `
start shop.retry.1h offset ->earliest 0@0 1@0
`},
		{"what a worker refuses is altered, what somebody tuned is kept", 2, Start{}, func(s *groupState) {
			s.found["shop.evidence"].Configs["retention.ms"] = "1000000000000"
			s.found["shop.evidence"].Configs["message.timestamp.type"] = "CreateTime"
			s.found["shop.retry.1h"].Configs["retention.ms"] = "3600000"
			s.found["shop.dlq"].Configs["max.message.bytes"] = "1000"
		}, `
alter shop.evidence message.timestamp.type CreateTime>LogAppendTime
alter shop.retry.1h retention.ms 3600000>1213200000
alter shop.dlq max.message.bytes 1000>1114112
`},
		{"a job topic is its producers'", 2, Start{}, func(s *groupState) {
			s.found["orders"].Configs["cleanup.policy"] = "compact"
		}, `
refused orders cleanup.policy compact>delete
`},
		{"a tier that is not named any more", 2, Start{}, func(s *groupState) {
			s.strays = map[string]int64{"shop.retry.5s": 3, "shop.retry.6s": 0}
		}, `
note Topic shop.retry.5s is no
`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := existing(2)
			tt.change(&s)
			got := write(plan(TopicsRequest{Topology: shop, Partitions: tt.partitions, Start: tt.start}, s))
			if want := strings.TrimPrefix(tt.want, "\n"); got != want {
				t.Errorf("got\n%swant\n%s", got, want)
			}
		})
	}
}

func TestParseStart(t *testing.T) {
	for text, want := range map[string]string{"": "earliest", "earliest": "earliest", "latest": "latest",
		"2026-01-31T15:04:05Z": "2026-01-31T15:04:05Z", "1769871845000": "2026-01-31T15:04:05Z", "2026-01-31T16:04:05.25+01:00": "2026-01-31T15:04:05.25Z"} {
		if got, err := ParseStart(text); err != nil || got.String() != want {
			t.Errorf("%q: got %v, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"now", "-5", "0", "1950-01-01T00:00:00Z", "99999999999999999"} {
		if got, err := ParseStart(text); err == nil {
			t.Errorf("%q: got %v, want an error", text, got)
		}
	}
}

func TestTopicsRequestReportsEveryProblem(t *testing.T) {
	err := TopicsRequest{Topology: retrytopics.Topology{Group: "a b", Jobs: []string{"x", "x"}}, Replication: -1}.Validate()
	for _, want := range []string{`group "a b"`, `"x" is named twice`, "first tier", "0 partitions", "replication factor -1"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
}
