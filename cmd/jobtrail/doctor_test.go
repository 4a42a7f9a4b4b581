package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/jobtrail/jobtrail/internal/localstack/stacktest"
	"github.com/jobtrail/jobtrail/internal/operate"
	"github.com/jobtrail/jobtrail/pkg/events"
)

// finding returns the findings of a check, one a line: status, about, found.
// shownFinding is a finding as JSON shows it.
type shownFinding struct {
	Check, About, Found, Do string
	Status                  operate.Status
}

func shownFindings(list []operate.Finding) (shown []shownFinding) {
	for _, f := range list {
		shown = append(shown, shownFinding{f.Check, f.About, f.Found.String(), f.Do, f.Status})
	}
	return shown
}

func finding(findings []shownFinding, check string) string {
	var b strings.Builder
	for _, f := range findings {
		if f.Check == check {
			fmt.Fprintf(&b, "%s %s: %s\n", f.Status, f.About, f.Found)
		}
	}
	return b.String()
}

func doctor(t *testing.T, code int, environ []string, group string) []shownFinding {
	t.Helper()
	args := []string{"doctor", "-o", "json"}
	if group != "" {
		args = append(args, "--group", group)
	}
	out, _ := must(t, code, environ, args...)
	var report struct {
		OK       bool
		Findings []shownFinding
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatal(err)
	}
	if report.OK != (code == 0) {
		t.Errorf("ok is %t, the exit code %d", report.OK, code)
	}
	for _, f := range report.Findings {
		if (f.Status == operate.OK) != (f.Do == "") {
			t.Errorf("%+v: exactly what is not ok needs something to do", f)
		}
	}
	return report.Findings
}

func TestDoctorOnAHealthyStack(t *testing.T) {
	stack := stacktest.ForTest(t)
	environ, cl := clientFor(t, strings.Join(stack.Brokers, ","))
	environ = append(environ, "CLICKHOUSE_ADDR="+stack.ClickHouseAddr, "CLICKHOUSE_DATABASE=nobody_migrated_this")
	name := "t" + uuid.NewString()[:8]
	topology := makeGroup(t, environ, name)
	member, err := kgo.NewClient(append(cl.Opts(), kgo.ConsumerGroup(name), kgo.ConsumeTopics(topology.Lanes()...), kgo.ClientID("worker-1"), kgo.Balancers(kgo.RangeBalancer()), kgo.ServerSideBalancer())...)
	if err != nil {
		t.Fatal(err)
	}
	defer member.Close()
	await(t, member, func() bool {
		groups, err := operate.DiscoverGroups(t.Context(), cl, name)
		return err == nil && len(groups[0].Members) == 1 && groups[0].Members[0].Lanes == 8
	})
	found := doctor(t, 0, environ, name)
	for check, want := range map[string]string{
		"kafka":        "ok : answers: broker 1\n",
		"version":      "ok broker 1: speaks like Kafka v4.3\n",
		"features":     "ok : transaction.version 2 and group.version 1 are on\n",
		"session":      "ok broker 1: a lost worker is noticed after 3s (the least possible is 3s, heartbeats every 500ms)\n",
		"topics":       "ok " + name + ": as workers demand: 7 topics, partitions 0 to 1, job topics " + name + "-jobs, tiers 0s 2m\n",
		"start":        "",
		"replicas":     "warn " + name + ": a topic has one replica: a lost disk loses its jobs and evidence\n",
		"members":      "ok " + name + ": at work, stable: worker-1 (8 lanes)\n",
		"queues":       "ok " + name + ": not finished: at most 0; waiting for a retry: at most 0\n",
		"projector":    "warn " + name + ": no projector has run: the evidence is only on the log\n",
		"transactions": "ok " + name + ": no transaction is open for more than 1m0s (records in open ones: 0)\n",
		"clickhouse":   "ok : answers; its version is 26.7.2\n",
		"database":     "warn nobody_migrated_this: has no tables yet",
		"clock":        "ok : not compared with the brokers'",
	} {
		if got := finding(found, check); got != want && (!strings.HasPrefix(got, want) || strings.HasSuffix(want, "\n") || want == "") {
			t.Errorf("%s: got %q, want %q", check, got, want)
		}
	}
	out, _ := must(t, 0, environ, "doctor", "--group", name)
	for line := range strings.Lines(out) {
		if len([]rune(line)) > 101 {
			t.Errorf("a line of %d columns: %s", len(line), line)
		}
	}
	if !strings.Contains(out, "\n10 ok, 3 warn, 0 fail\n") {
		t.Errorf("got\n%s", out)
	}
}

// await polls the client until the condition holds.
func await(t *testing.T, cl *kgo.Client, ok func() bool) {
	t.Helper()
	ctx := bounded(t, 30*time.Second)
	for !ok() {
		if ctx.Err() != nil {
			t.Fatal("the condition did not come true in time")
		}
		poll, stop := boundedBy(ctx, 100*time.Millisecond)
		cl.PollFetches(poll)
		stop()
	}
}

func TestDoctorFindsWhatIsWrong(t *testing.T) {
	onBoth(t, func(t *testing.T, environ []string, cl *kgo.Client, name string) {
		topology := makeGroup(t, environ, name)
		alter(t, cl, topology.Evidence(), "message.timestamp.type", "CreateTime")
		alter(t, cl, topology.Parked(), "retention.ms", "3600000")
		if _, err := kadm.NewClient(cl).UpdatePartitions(t.Context(), 3, topology.DLQ()); err != nil {
			t.Fatal(err)
		}
		inTransaction(t, cl, kgo.TryCommit, dead(topology.Parked(), 0, "p", nil), dead(topology.Retry(0), 0, "r", nil),
			&kgo.Record{Topic: topology.Evidence(), Timestamp: time.Now().Add(time.Hour)})
		// A worker that stops in the middle of a transaction.
		hung, err := kgo.NewClient(append(cl.Opts(), kgo.TransactionalID(name+"/boot/a"), kgo.TransactionTimeout(10*time.Minute))...)
		if err != nil {
			t.Fatal(err)
		}
		defer hung.Close()
		if err := hung.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := hung.ProduceSync(t.Context(), &kgo.Record{Topic: topology.Evidence(), Partition: 1}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if got := finding(doctor(t, 1, environ, name), "transactions"); !strings.HasPrefix(got, "ok "+name+": no transaction is open for more than 1m0s (records in open ones: 1)") {
			t.Errorf("a young transaction: %s", got)
		}
		// Ten minutes later.
		found := shownFindings(operate.Diagnose(t.Context(), operate.Diagnosis{Kafka: cl, Group: name, Now: func() events.Time { return events.TimeOf(time.Now().Add(10 * time.Minute)) }}))
		for check, want := range map[string][]string{
			"topics":       {"fail " + name + ": topic " + name + ".evidence: message.timestamp.type is CreateTime, wanted LogAppendTime", name + ".dlq: partitions is 3, wanted 2"},
			"members":      {"warn " + name + ": no worker runs"},
			"queues":       {"warn " + name + ": the first record of " + name + ".retry.0s is overdue by 10m", "waiting for a retry: at most 1"},
			"retention":    {"warn " + name + ": the oldest record of " + name + ".parked is deleted in 1h"},
			"transactions": {"fail " + name + ": a transaction on " + name + ".evidence/1 is open since offset 0 and silent for 10m", "transactional id " + name + "/boot/a"},
			"clock":        {"warn : this machine's clock is at least "},
			"clickhouse":   {"warn : not checked: CLICKHOUSE_ADDR is not set"},
		} {
			for _, want := range want {
				if got := finding(found, check); !strings.Contains(got, want) {
					t.Errorf("%s: no %q in %q", check, want, got)
				}
			}
		}
		if err := hung.EndTransaction(t.Context(), kgo.TryAbort); err != nil {
			t.Fatal(err)
		}
	})
}

func TestDoctorOnOldBrokers(t *testing.T) {
	environ, cl, _ := fakeKafka(t, kfake.MaxVersions(kversion.V3_8_0()), kfake.BrokerConfigs(map[string]string{"auto.create.topics.enable": "true"}))
	found := doctor(t, 1, environ, "")
	for check, want := range map[string]string{
		"version":     "fail broker 0: speaks like Kafka between v1.0 and v1.1, 4.3 is needed\n", // kfake lacks calls that a broker has
		"features":    "fail broker 0: transaction.version is at level 0, 2 is needed: transactions are only safe with KIP-890 part 2\nfail broker 0: group.version is at level 0, 1 is needed: the consumer group protocol of KIP-848 is needed\n",
		"auto-create": "warn broker 0: a misspelt topic name makes a topic, whose jobs nobody runs\n",
		"group":       "warn : there is no worker group\n",
	} {
		if got := finding(found, check); got != want {
			t.Errorf("%s: got %q, want %q", check, got, want)
		}
	}
	topology := makeGroup(t, environ, "g")
	member, err := kgo.NewClient(append(cl.Opts(), kgo.ConsumerGroup("g"), kgo.ConsumeTopics(topology.Jobs...))...)
	if err != nil {
		t.Fatal(err)
	}
	defer member.Close()
	await(t, member, func() bool {
		groups, err := operate.DiscoverGroups(t.Context(), cl, "g")
		return err == nil && len(groups[0].Members) == 1 && groups[0].Members[0].Lanes == 2
	})
	if got := finding(doctor(t, 1, environ, ""), "members"); !strings.HasPrefix(got, "fail g: the group uses the classic protocol") || !strings.Contains(got, "warn g: 2 of 8 lanes have an owner") {
		t.Errorf("got %s", got)
	}
}

func TestDoctorSaysWhatItCouldNotCheck(t *testing.T) {
	environ, _, fake := fakeKafka(t)
	makeGroup(t, environ, "g")
	fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DescribeConfigs}, Err: kerr.ClusterAuthorizationFailed, Count: -1})
	fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ListGroups}, TopLevel: true, Err: kerr.ClusterAuthorizationFailed, Count: -1})
	found := doctor(t, 1, environ, "g") // of the version, see above
	for check, want := range map[string]string{"session": "warn : could not be checked: the Kafka user lacks DescribeConfigs on the cluster", "topics": "warn g: could not be checked: ", "projector": "warn g: could not be checked: "} {
		if got := finding(found, check); !strings.HasPrefix(got, want) {
			t.Errorf("%s: got %q, want %q", check, got, want)
		}
	}
}

func TestDoctorWithoutServers(t *testing.T) {
	environ := []string{"KAFKA_BROKERS=127.0.0.1:1", "CLICKHOUSE_ADDR=127.0.0.1:2"}
	if out, stderr := must(t, 1, environ, "doctor"); out != wantNoServers || stderr != "" {
		t.Errorf("got\n%s%s", out, stderr)
	}
	if found := doctor(t, 1, environ, ""); len(found) != 2 {
		t.Errorf("got %v", found)
	}
	fakeEnviron, _, _ := fakeKafka(t)
	if got := finding(doctor(t, 1, fakeEnviron, "nobody"), "group"); !strings.HasPrefix(got, "fail nobody: no such worker group") {
		t.Errorf("got %s", got)
	}
}

const wantNoServers = `fail  kafka: no broker answers: unable to dial: dial tcp 127.0.0.1:1: connect: connection refused
      → start the brokers, or correct KAFKA_BROKERS and its TLS and SASL variables
fail  clickhouse: does not answer: dial tcp 127.0.0.1:2: connect: connection refused
      → start the server, or correct CLICKHOUSE_ADDR and its user, password and TLS variables
0 ok, 0 warn, 2 fail
`
