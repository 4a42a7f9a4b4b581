package main

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/jobtrail/jobtrail/internal/operate"
	"github.com/jobtrail/jobtrail/pkg/retrytopics"
)

const wantPlan = `group t: job topics t-a, t-b, 2 partitions, tiers 0s 2m
ACTION  TOPIC       SETTING                 FOUND  WANTED
create  t.evidence  partitions              -      2
create  t.retry.0s  partitions              -      2
create  t.retry.2m  partitions              -      2
create  t.dlq       partitions              -      2
create  t.parked    partitions              -      2
create  t.commands  partitions              -      2
create  t-a         partitions              -      2
create  t-b         partitions              -      2
start   t-a         offset of 2 partitions  -      earliest
start   t-b         offset of 2 partitions  -      earliest
start   t.retry.0s  offset of 2 partitions  -      earliest
start   t.retry.2m  offset of 2 partitions  -      earliest
start   t.commands  offset of 2 partitions  -      earliest
13 differences. ` + "`jobtrail topics apply` makes them.\n"

func TestTopics(t *testing.T) {
	onBoth(t, func(t *testing.T, environ []string, cl *kgo.Client, name string) {
		testTopics(t, environ, cl, name, name+"-a,"+name+"-b")
	})
}

func testTopics(t *testing.T, environ []string, cl *kgo.Client, group, jobs string) {
	args := func(verb string, partitions string, more ...string) []string {
		return append([]string{"topics", verb, "--group", group, "--jobs", jobs, "--partitions", partitions, "--tiers", "0s 2m"}, more...)
	}
	if out, _ := must(t, 0, environ, args("plan", "2")...); group == "t" && out != wantPlan {
		t.Errorf("got\n%s\nwant\n%s", out, wantPlan)
	}
	if out, _ := must(t, 0, environ, args("plan", "2")...); !strings.Contains(out, "13 differences") {
		t.Errorf("planning twice, got\n%s", out)
	}
	if out, _ := must(t, 0, environ, args("apply", "2")...); !strings.HasSuffix(out, "\nDone: 13 changes.\n") {
		t.Errorf("got\n%s", out)
	}
	// kfake does not keep what a broker would enforce: look at the topics.
	topology := mustTopology(t, group, jobs)
	found, err := operate.FetchTopology(t.Context(), cl, topology)
	if err != nil {
		t.Fatal(err)
	}
	if problems := topology.Check(found); len(problems) > 0 {
		t.Errorf("a worker would refuse: %v", problems)
	}
	if out, _ := must(t, 0, environ, args("apply", "2", "--start", "latest")...); !strings.Contains(out, "Nothing to do") {
		t.Errorf("applying twice, got\n%s", out)
	}
	if out, stderr := must(t, 1, environ, args("apply", "1", "-o", "json")...); !strings.Contains(out, `"applied": false`) || !strings.Contains(stderr, "nothing was changed") {
		t.Errorf("shrinking, got\n%s\n%s", out, stderr)
	}
	if out, _ := must(t, 0, environ, args("apply", "3")...); !strings.Contains(out, "grow") || !strings.HasSuffix(out, "Done: 13 changes.\n") {
		t.Errorf("growing, got\n%s", out)
	}
	offsets, err := kadm.NewClient(cl).FetchOffsets(t.Context(), group)
	if err != nil {
		t.Fatal(err)
	}
	for _, lane := range topology.Lanes() {
		for p := range int32(3) {
			o, ok := offsets.Lookup(lane, p)
			if !ok || o.At != 0 || o.Metadata != "" {
				t.Errorf("lane %s/%d: got %+v, want offset 0 without metadata", lane, p, o)
			}
		}
	}
	var plan struct {
		Steps []operate.Step
		Notes []string
	}
	out, _ := must(t, 0, environ, args("plan", "3", "-o", "json")...)
	if err := json.Unmarshal([]byte(out), &plan); err != nil || plan.Steps == nil || len(plan.Steps) > 0 {
		t.Errorf("got %v\n%s", err, out)
	}
	alter(t, cl, topology.Retry(2*time.Minute), "retention.ms", "1000")
	alter(t, cl, topology.Evidence(), "retention.ms", "86400000000")
	out, _ = must(t, 0, environ, args("apply", "3")...)
	if !strings.Contains(out, "retention.ms   1000  1209720000") || !strings.HasSuffix(out, "Done: 1 change.\n") {
		t.Errorf("altering, got\n%s", out)
	}
	found, err = operate.FetchTopology(t.Context(), cl, topology)
	if err != nil || found[topology.Evidence()].Configs["retention.ms"] != "86400000000" {
		t.Errorf("a retention that somebody tuned is %s, %v", found[topology.Evidence()].Configs["retention.ms"], err)
	}

	// Another group begins at the end of what is there.
	first, _, _ := strings.Cut(jobs, ",")
	for i := range int32(3) {
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: first, Partition: i % 2}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	other := group + "2"
	for start, want := range map[string]string{"earliest": "Topic " + first + " holds at most 3 records", "latest": "latest", "2001-01-01T00:00:00Z": "holds at most 3", "2200-01-01T00:00:00Z": "2200-01-01"} {
		out, _ := must(t, 0, environ, "topics", "plan", "--group", other, "--jobs", jobs, "--partitions", "3", "--tiers", "0s", "--start", start)
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	must(t, 0, environ, "topics", "apply", "--group", other, "--jobs", jobs, "--partitions", "3", "--tiers", "0s", "--start", "latest")
	offsets, err = kadm.NewClient(cl).FetchOffsets(t.Context(), other)
	if err != nil {
		t.Fatal(err)
	}
	for p, want := range []int64{2, 1, 0} {
		if o, _ := offsets.Lookup(first, int32(p)); o.At != want {
			t.Errorf("partition %d begins at %d, want %d", p, o.At, want)
		}
	}
	testTopicsOfARunningGroup(t, environ, cl, other, jobs)
}

func testTopicsOfARunningGroup(t *testing.T, environ []string, cl *kgo.Client, group, jobs string) {
	member, err := kgo.NewClient(append(cl.Opts(), kgo.ConsumerGroup(group), kgo.ConsumeTopics(strings.Split(jobs, ",")...), kgo.ClientID("member"), kgo.Balancers(kgo.RangeBalancer()), kgo.ServerSideBalancer())...)
	if err != nil {
		t.Fatal(err)
	}
	defer member.Close()
	ctx, cancel := context.WithTimeoutCause(t.Context(), 30*time.Second, errors.New("the member did not join in time"))
	defer cancel()
	for {
		groups, err := operate.DiscoverGroups(ctx, cl, group)
		if err != nil {
			t.Fatal(err)
		}
		if len(groups[0].Members) == 1 {
			if m := groups[0].Members[0]; m.ClientID != "member" {
				t.Errorf("got %+v", m)
			}
			break
		}
		poll, stop := context.WithTimeout(ctx, 100*time.Millisecond)
		member.PollFetches(poll)
		stop()
	}
	args := []string{"--group", group, "--jobs", jobs, "--tiers", "0s", "--partitions"}
	if out, _ := must(t, 0, environ, append([]string{"topics", "apply"}, append(args, "3")...)...); !strings.Contains(out, "Nothing to do") {
		t.Errorf("got\n%s", out)
	}
	if _, stderr := must(t, 1, environ, append([]string{"topics", "apply"}, append(args, "4")...)...); !strings.Contains(stderr, "members of group "+group+" is 1, wanted 0") {
		t.Errorf("got\n%s", stderr)
	}
}

func alter(t *testing.T, cl *kgo.Client, topic, setting, value string) {
	t.Helper()
	responses, err := kadm.NewClient(cl).AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Name: setting, Value: &value}}, topic)
	if err == nil {
		_, err = responses.On(topic, func(r *kadm.AlterConfigsResponse) error { return r.Err })
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestTopicsUsage(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"topics plan", "missing flags"},
		{"topics plan --group g --jobs a --partitions 0", "0 partitions"},
		{"topics plan --group g --jobs a --partitions 1 --tiers 5s", "--tiers: the first tier must be 0s"},
		{"topics plan --group g --jobs a --partitions 1 --start tomorrow", "--start: start \"tomorrow\""},
		{"topics plan --group g --jobs g.dlq,g.dlq --partitions 1", "is the group's own dlq topic"},
	} {
		if _, stderr := must(t, exitUsage, []string{"KAFKA_BROKERS=127.0.0.1:1"}, strings.Fields(tt.args)...); !strings.Contains(stderr, tt.want) {
			t.Errorf("%s: no %q in %s", tt.args, tt.want, stderr)
		}
	}
	if _, stderr := must(t, exitFailed, []string{"KAFKA_BROKERS=127.0.0.1:1"}, "topics", "plan", "--group", "g", "--jobs", "a", "--partitions", "1"); !strings.Contains(stderr, "no Kafka broker answers at KAFKA_BROKERS=127.0.0.1:1") || !strings.Contains(stderr, "refused") {
		t.Errorf("got %s", stderr)
	}
}

func mustTopology(t *testing.T, group, jobs string) retrytopics.Topology {
	t.Helper()
	tiers, err := retrytopics.ParseTiers("0s 2m")
	if err != nil {
		t.Fatal(err)
	}
	return retrytopics.Topology{Group: group, Jobs: strings.Split(jobs, ","), Tiers: tiers}
}

// A job topic of two groups is not grown under the feet of the other one.
func TestTopicsOfOthersDoNotGrowUnasked(t *testing.T) {
	onBoth(t, func(t *testing.T, environ []string, cl *kgo.Client, name string) {
		args := func(verb, group, partitions string, more ...string) []string {
			return append([]string{"topics", verb, "--group", group, "--jobs", name + "-j", "--partitions", partitions, "--tiers", "0s 2m"}, more...)
		}
		one, two := name+"1", name+"2"
		must(t, 0, environ, args("apply", one, "2")...)
		must(t, 0, environ, args("apply", two, "2")...)
		command := "`jobtrail topics apply --group " + one + " --jobs " + name + "-j --partitions 3 --tiers '0s 2m'`"
		for _, verb := range []string{"plan", "apply"} {
			_, stderr := must(t, exitFailed, environ, args(verb, two, "3")...)
			if !strings.Contains(stderr, "worker group "+one+" consumes it, too, and would stop") || !strings.Contains(stderr, command) || !strings.Contains(stderr, "--grow-shared") {
				t.Errorf("%s: %s", verb, stderr)
			}
		}
		topics, err := kadm.NewClient(cl).ListTopics(t.Context(), name+"-j", two+".evidence")
		if err != nil {
			t.Fatal(err)
		}
		for topic, d := range topics {
			if len(d.Partitions) != 2 {
				t.Errorf("%s has %d partitions", topic, len(d.Partitions))
			}
		}
		out, _ := must(t, 0, environ, args("apply", two, "3", "--grow-shared")...)
		if flat := strings.Join(strings.Fields(out), " "); !strings.Contains(flat, "note: The worker group "+one+" consumes topic "+name+"-j, too, and cannot work") || !strings.Contains(flat, command) {
			t.Errorf("got %s", out)
		}
		// The doctor says the one fact once, and what to do.
		out = diagnosed(t, environ, one)
		if n := strings.Count(out, "partitions is 2, wanted 3"); n != 1 || !strings.Contains(out, "stop the group's workers") || !strings.Contains(out, strings.Trim(command, "`")) {
			t.Errorf("the fact is said %d times in\n%s", n, out)
		}
		// What the group lacks is its own to grow.
		must(t, 0, environ, args("apply", one, "3")...)
		if out := diagnosed(t, environ, one); strings.Contains(out, "partitions is") {
			t.Errorf("got %s", out)
		}
	})
}

// diagnosed is what doctor says, flat, whatever it finds.
func diagnosed(t *testing.T, environ []string, group string) string {
	t.Helper()
	_, out, _ := call(t, environ, "doctor", "--group", group)
	return strings.Join(strings.Fields(out), " ")
}
