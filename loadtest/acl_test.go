package loadtest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/jobtrail/jobtrail/internal/localstack"
	"github.com/jobtrail/jobtrail/internal/localstack/stacktest"
	"github.com/jobtrail/jobtrail/internal/planted"
	"github.com/jobtrail/jobtrail/pkg/retrytopics"
)

// aclRow is a row of the table of docs/operations.md.
type aclRow struct {
	user, resource, name, pattern string
	operations                    []string
}

func (r aclRow) String() string {
	return r.user + " " + r.resource + " " + r.name + " " + strings.Join(r.operations, ", ")
}

func aclTable(t *testing.T) (rows []aclRow) {
	t.Helper()
	page, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "<!-- acls -->\n")
	table, _, ok := strings.Cut(table, "<!-- end -->")
	if !ok {
		t.Fatal("docs/operations.md has no table of ACLs")
	}
	for _, m := range regexp.MustCompile("(?m)^\\| (\\w+) \\| (\\w+) \\| `([^`]+)` \\| (literal|prefixed) \\| ([\\w, ]+) \\|").FindAllStringSubmatch(table, -1) {
		rows = append(rows, aclRow{m[1], m[2], m[3], m[4], strings.Split(m[5], ", ")})
	}
	if lines := strings.Count(table, "\n") - 2; len(rows) != lines {
		t.Fatalf("%d of %d rows of the table were read", len(rows), lines)
	}
	return rows
}

// locked is a broker where only ACLs allow anything, and a group on it.
type locked struct {
	t         *testing.T
	stack     *localstack.Stack
	admin     *kgo.Client
	passwords map[string]string
	jobsFile  string
}

const (
	lockedGroup = "shop"
	lockedJobs  = "orders"
)

func newLocked(t *testing.T) *locked {
	t.Helper()
	l := &locked{t: t, passwords: map[string]string{}}
	r := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 7))
	// The first by name may do anything.
	for _, user := range []string{"aaa", "administrator", "producer", "projector", "reader", "worker"} {
		l.passwords[user] = planted.Draw(r, 16, planted.Lower)
	}
	l.stack = stacktest.Private(t, localstack.Config{KafkaPasswords: l.passwords, KafkaAuthorized: true})
	var err error
	l.admin, err = kgo.NewClient(kgo.SeedBrokers(l.stack.Brokers()...), kgo.SASL(plain.Auth{User: "aaa", Pass: l.passwords["aaa"]}.AsMechanism()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.admin.Close)
	return l
}

// allow makes the ACLs of rows.
func (l *locked) allow(rows ...aclRow) {
	l.t.Helper()
	req := kmsg.NewPtrCreateACLsRequest()
	for _, r := range rows {
		for _, b := range l.bindings(r) {
			c := kmsg.NewCreateACLsRequestCreation()
			c.ResourceType, c.ResourceName, c.ResourcePatternType, c.Principal, c.Host, c.Operation, c.PermissionType = b.resource, r.name, b.pattern, "User:"+r.user, "*", b.operation, kmsg.ACLPermissionTypeAllow
			req.Creations = append(req.Creations, c)
		}
	}
	resp, err := req.RequestWith(l.t.Context(), l.admin)
	if err != nil {
		l.t.Fatal(err)
	}
	for i, c := range resp.Results {
		if err := kerr.ErrorForCode(c.ErrorCode); err != nil {
			l.t.Fatalf("creating ACL %+v: %v", req.Creations[i], err)
		}
	}
}

// forbid takes the ACLs of a row away.
func (l *locked) forbid(r aclRow) {
	l.t.Helper()
	req := kmsg.NewPtrDeleteACLsRequest()
	for _, b := range l.bindings(r) {
		f := kmsg.NewDeleteACLsRequestFilter()
		f.ResourceType, f.ResourceName, f.ResourcePatternType, f.Principal, f.Host, f.Operation, f.PermissionType = b.resource, new(r.name), b.pattern, new("User:"+r.user), new("*"), b.operation, kmsg.ACLPermissionTypeAllow
		req.Filters = append(req.Filters, f)
	}
	resp, err := req.RequestWith(l.t.Context(), l.admin)
	if err != nil {
		l.t.Fatal(err)
	}
	for i, c := range resp.Results {
		if err := kerr.ErrorForCode(c.ErrorCode); err != nil || len(c.MatchingACLs) != 1 {
			l.t.Fatalf("deleting ACL %+v: %d found, %v", req.Filters[i], len(c.MatchingACLs), err)
		}
	}
}

type binding struct {
	resource  kmsg.ACLResourceType
	pattern   kmsg.ACLResourcePatternType
	operation kmsg.ACLOperation
}

func (l *locked) bindings(r aclRow) (all []binding) {
	l.t.Helper()
	resource, err := kmsg.ParseACLResourceType(r.resource)
	pattern, err2 := kmsg.ParseACLResourcePatternType(r.pattern)
	if err := errors.Join(err, err2); err != nil {
		l.t.Fatalf("%v: %v", r, err)
	}
	for _, name := range r.operations {
		operation, err := kmsg.ParseACLOperation(name)
		if err != nil {
			l.t.Fatalf("%v: %v", r, err)
		}
		all = append(all, binding{resource, pattern, operation})
	}
	return all
}

// as returns the environment of a user.
func (l *locked) as(user string) []string {
	return []string{"KAFKA_BROKERS=" + strings.Join(l.stack.Brokers(), ","), "KAFKA_SASL_MECHANISM=PLAIN", "KAFKA_SASL_USERNAME=" + user, "KAFKA_SASL_PASSWORD=" + l.passwords[user],
		"CLICKHOUSE_ADDR=" + l.stack.ClickHouseAddr(), "JOBTRAIL_GROUP=" + lockedGroup, "JOBTRAIL_GROUPS=" + lockedGroup, "JOBTRAIL_JOBS_FILE=" + l.jobsFile}
}

// cli runs the command line as a user.
func (l *locked) cli(user string, args ...string) (out string, code int) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, built(l.t, "jobtrail"), args...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + l.t.TempDir()}, l.as(user)...)
	cmd.Stdin = strings.NewReader("42")
	var b bytes.Buffer
	cmd.Stdout, cmd.Stderr = &b, &b
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return b.String(), exit.ExitCode()
	}
	if err != nil {
		l.t.Fatal(err)
	}
	return b.String(), 0
}

func (l *locked) must(user string, args ...string) string {
	l.t.Helper()
	out, code := l.cli(user, args...)
	if code != 0 {
		l.t.Fatalf("jobtrail %s as %s ends with %d:\n%s", strings.Join(args, " "), user, code, out)
	}
	return out
}

// ready reports whether /readyz of a process says so.
func (p *process) ready() bool {
	select {
	case <-p.done:
		p.t.Fatalf("%s has ended: %v", p.name, p.err)
	default:
	}
	resp, err := (&http.Client{Timeout: 5 * time.Second}).Get("http://" + string(adminAddr.FindSubmatch(p.log())[1]) + "/readyz")
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

func (p *process) untilReady(limit time.Duration) {
	p.t.Helper()
	p.says("admin_addr=", 1, 30*time.Second)
	for deadline := time.Now().Add(limit); !p.ready(); <-time.After(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			p.t.Fatalf("%s is not ready within %v: %s", p.name, limit, p.get("/readyz"))
		}
	}
}

// TestAccessControlLists makes the ACLs of docs/operations.md and no others, and
// runs everything as the users of that page. Then each row is taken away, and
// somebody must say what is missing.
func TestAccessControlLists(t *testing.T) {
	t.Parallel()
	defer within(t, t.Name())()
	rows := aclTable(t)
	l := newLocked(t)
	l.allow(rows...)

	topo := retrytopics.Topology{Group: lockedGroup, Jobs: []string{lockedJobs}}
	tiers, err := retrytopics.ParseTiers("0s 1s")
	if err != nil {
		t.Fatal(err)
	}
	topo.Tiers = tiers
	l.must("administrator", applied("2", "0s 1s")...)
	l.must("administrator", "migrate")
	l.jobsFile = filepath.Join(t.TempDir(), "jobs.yaml")
	mark := filepath.Join(t.TempDir(), "held")
	if err := os.WriteFile(l.jobsFile, fmt.Appendf(nil, `topics: [%s]
tiers: [0s, 1s]
defaults: {retry: {max_attempts: 2, initial: 1s}, timeout: 60s}
types:
  good: {exec: {argv: [cat]}}
  flaky: {exec: {argv: [sh, -c, "exit 1"]}}
  held: {idempotent: false, exec: {argv: [sh, -c, "touch %s; sleep 60"]}}
`, lockedJobs, mark), 0o600); err != nil {
		t.Fatal(err)
	}

	// A worker that died within a transaction: its successor may end it.
	hang(t, topo, kgo.SeedBrokers(l.stack.Brokers()...), kgo.SASL(plain.Auth{User: "worker", Pass: l.passwords["worker"]}.AsMechanism()))
	w := start(t, "worker", l.as("worker")...)
	w.untilReady(10 * time.Second) // less than the transaction's own timeout
	w.says("a hung transaction was fenced", 1, 10*time.Second)
	p := start(t, "projector", l.as("projector")...)
	for _, typ := range []string{"good", "flaky", "held"} {
		l.must("producer", "enqueue", "--topic", lockedJobs, "--type", typ, "--job-id", typ+"-1", "--operation-id", "op-"+typ, "--tenant", "acme", "--data-file", "-")
	}
	until(t, "the job that holds its worker runs", func() bool { _, err := os.Stat(mark); return err == nil })
	until(t, "a job succeeds and one fails for good", func() bool {
		_, good := l.cli("reader", "op", "show", "op-good")
		_, flaky := l.cli("reader", "op", "show", "op-flaky")
		return good == 0 && flaky == 3
	})
	w.kill()
	w = start(t, "worker", l.as("worker")...)
	until(t, "a job is parked", func() bool { _, code := l.cli("reader", "op", "show", "op-held"); return code == 5 })
	for _, args := range [][]string{{"op", "show", "op-good"}, {"job", "show", "good-1"}, {"job", "list"}, {"queue", "list", "--group", lockedGroup}, {"dlq", "list", "--group", lockedGroup},
		{"dlq", "show", "flaky-1", "--group", lockedGroup}, {"parked", "list", "--group", lockedGroup}, {"parked", "show", "held-1", "--group", lockedGroup}} {
		l.must("reader", args...)
	}
	if out := l.must("reader", "doctor", "--group", lockedGroup); strings.Contains(out, "AUTHORIZATION") {
		t.Errorf("doctor may not see everything:\n%s", out)
	}
	l.must("administrator", "topics", "plan", "--group", lockedGroup, "--jobs", lockedJobs, "--partitions", "2", "--tiers", "0s 1s")
	w.stop()
	p.stop()
	l.must("administrator", applied("3", "0s 1s")...)
	l.must("administrator", "rebuild")

	// Nobody may do what is not in the table.
	if out, code := l.cli("projector", "enqueue", "--topic", lockedJobs, "--type", "good", "--data-file", "-"); code == 0 {
		t.Errorf("the projector may publish:\n%s", out)
	}

	// What is taken away is said, by the one who misses it: each row, and then
	// single operations of some.
	w = nil
	for _, m := range missed {
		i := slices.IndexFunc(rows, func(r aclRow) bool { return r.user+" "+r.resource+" "+r.name == m.row })
		if i < 0 {
			t.Errorf("there is no row %s", m.row)
			continue
		}
		r := rows[i]
		if m.operation != "" {
			r.operations = []string{m.operation}
		}
		// Who reads sees the members, too; what changes topics needs them away.
		if (r.user == "reader") != (w != nil) {
			if w == nil {
				w = start(t, "worker", l.as("worker")...)
				w.untilReady(30 * time.Second)
			} else {
				w.stop()
				w = nil
			}
		}
		if m.operation == "AlterConfigs" { // apply has a setting to put right
			if _, err := kadm.NewClient(l.admin).AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.bytes", Value: new("1000000")}}, topo.Retry(0)); err != nil {
				t.Fatal(err)
			}
		}
		l.forbid(r)
		var out string
		switch {
		case r.user == "worker" || r.user == "projector":
			q := start(t, r.user, l.as(r.user)...)
			deadline := time.Now().Add(20 * time.Second)
			for over := false; !strings.Contains(out, m.says) && !over; <-time.After(20 * time.Millisecond) {
				select {
				case <-q.done:
					over = true
				default:
					over = time.Now().After(deadline)
				}
				out = string(q.log())
			}
			if !strings.Contains(out, m.says) {
				t.Errorf("without %s, the %s does not say %q:\n%s", r, r.user, m.says, out)
			}
			q.end()
		default:
			var code int
			if out, code = l.cli(r.user, m.run...); !strings.Contains(out, m.says) || code == 0 && m.run[0] != "doctor" {
				t.Errorf("without %s, jobtrail %s ends with %d and does not say %q:\n%s", r, strings.Join(m.run, " "), code, m.says, out)
			}
		}
		l.allow(r)
	}
	// A permission that is taken away while a worker runs stops it, is said, and
	// costs nothing when it is given back.
	w = start(t, "worker", l.as("worker")...)
	w.untilReady(30 * time.Second)
	evidence := aclRow{"worker", "Topic", topo.Evidence(), "literal", []string{"Write"}}
	l.forbid(evidence)
	l.must("producer", "enqueue", "--topic", lockedJobs, "--type", "good", "--job-id", "good-2", "--data-file", "-")
	until(t, "the worker is not ready and says why", func() bool {
		return strings.Contains(string(w.get("/readyz")), "the Kafka user lacks Write on topic "+topo.Evidence())
	})
	l.allow(evidence)
	w.untilMetric(`jobtrail_worker_terminals_total{job_type="good",outcome="succeeded",reason=""}`, 1, 60*time.Second)
	w.untilReady(30 * time.Second)
	w.stop()

	for _, r := range rows {
		if !slices.ContainsFunc(missed, func(m missing) bool { return m.row == r.user+" "+r.resource+" "+r.name && m.operation == "" }) {
			t.Errorf("nobody is asked what is missing without %s", r)
		}
	}
}

// missing is what somebody says who lacks a row of the table, or one operation
// of it: a process in its log, the command line when that verb is run.
type missing struct {
	row, operation, says string
	run                  []string
}

func applied(partitions, tiers string) []string {
	return []string{"topics", "apply", "--group", lockedGroup, "--jobs", lockedJobs, "--partitions", partitions, "--tiers", tiers}
}

var missed = []missing{
	{row: "worker Topic orders", says: "lacks Read, DescribeConfigs on topic orders"},
	{row: "worker Topic shop.evidence", says: "lacks Read, Write, DescribeConfigs on topic shop.evidence"},
	{row: "worker Topic shop.evidence", operation: "Write", says: "lacks Write on topic shop.evidence"},
	{row: "worker Topic shop.retry.", says: "lacks Read, Write, DescribeConfigs on topic shop.retry.0s; Read, Write, DescribeConfigs on topic shop.retry.1s"},
	{row: "worker Topic shop.dlq", says: "lacks Write, DescribeConfigs on topic shop.dlq"},
	{row: "worker Topic shop.parked", says: "lacks Write, DescribeConfigs on topic shop.parked"},
	{row: "worker Topic shop.commands", says: "lacks Read, DescribeConfigs on topic shop.commands"},
	{row: "worker Group shop", says: "lacks Read, DescribeConfigs on group shop"},
	{row: "worker Group shop", operation: "DescribeConfigs", says: "lacks DescribeConfigs on group shop"},
	{row: "worker TransactionalId shop/", says: "lacks Write on transactional ids that begin with shop/"},
	{row: "worker Cluster kafka-cluster", says: "lacks DescribeConfigs on the cluster"},
	{row: "projector Topic shop.evidence", says: "lacks Read on topic shop.evidence"},
	{row: "projector Group shop.projector.jobtrail_", says: "lacks Read on group shop.projector.jobtrail_"},
	{row: "producer Topic orders", says: "lacks Write on topic orders", run: []string{"enqueue", "--topic", lockedJobs, "--type", "good", "--data-file", "-"}},
	{row: "reader Topic orders", says: "lacks Describe on a topic that the members of group shop consume", run: []string{"queue", "list", "--group", lockedGroup}},
	{row: "reader Topic shop.", says: "lacks Describe on topic shop.evidence", run: []string{"dlq", "list", "--group", lockedGroup}},
	{row: "reader Group shop", says: "lacks Describe on group shop", run: []string{"queue", "list", "--group", lockedGroup}},
	{row: "reader Group shop.projector.", says: "lacks Describe on groups that begin with shop.projector.", run: []string{"doctor", "-o", "json", "--group", lockedGroup}},
	{row: "reader TransactionalId shop/", says: "lacks Describe on transactional ids that begin with shop/", run: []string{"doctor", "-o", "json", "--group", lockedGroup}},
	{row: "reader Cluster kafka-cluster", says: "lacks DescribeConfigs on the cluster", run: []string{"doctor", "-o", "json", "--group", lockedGroup}},
	{row: "administrator Topic orders", says: "lacks Describe on topic orders", run: applied("3", "0s 1s")},
	{row: "administrator Topic shop.", says: "lacks Describe on topic shop.evidence", run: applied("3", "0s 1s")},
	{row: "administrator Topic shop.", operation: "Create", says: "lacks Create on topic shop.retry.4s", run: applied("3", "0s 1s 4s")},
	{row: "administrator Topic shop.", operation: "AlterConfigs", says: "lacks AlterConfigs on topic shop.retry.0s", run: applied("3", "0s 1s")},
	{row: "administrator Group shop", says: "lacks Describe on group shop", run: applied("3", "0s 1s")},
	{row: "administrator Group shop.projector.", says: "lacks Read, Delete on group shop.projector.", run: []string{"rebuild", "--discard-kept"}},
	{row: "administrator Topic shop.", operation: "Alter", says: "lacks Alter on topic shop.evidence", run: applied("4", "0s 1s")},
	{row: "administrator Topic orders", operation: "Read", says: "lacks Read on topic orders", run: applied("4", "0s 1s")},
}

// end ends the process, which may have ended by itself.
func (p *process) end() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// until waits until cond holds, for at most 30 s.
func until(t *testing.T, what string, cond func() bool) {
	t.Helper()
	const limit = 30 * time.Second
	for deadline := time.Now().Add(limit); !cond(); <-time.After(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}
