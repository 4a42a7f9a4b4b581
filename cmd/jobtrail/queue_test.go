package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/jobtrail/jobtrail/internal/operate"
	"github.com/jobtrail/jobtrail/pkg/events"
	"github.com/jobtrail/jobtrail/pkg/retrytopics"
)

func TestQueueList(t *testing.T) {
	onBoth(t, func(t *testing.T, environ []string, cl *kgo.Client, name string) {
		topology := makeGroup(t, environ, name)
		jobs, tier := topology.Jobs[0], topology.Retry(2*time.Minute)
		var recs []*kgo.Record
		for i := range 2500 {
			recs = append(recs, &kgo.Record{Topic: jobs, Partition: 1}, &kgo.Record{Topic: jobs, Partition: 0})
			if i == 9 {
				break
			}
		}
		for len(recs) < 2520 {
			recs = append(recs, &kgo.Record{Topic: jobs, Partition: 1})
		}
		if err := cl.ProduceSync(t.Context(), recs...).FirstErr(); err != nil {
			t.Fatal(err)
		}
		inTransaction(t, cl, kgo.TryCommit, dead(tier, 0, "a", nil), dead(tier, 0, "b", nil), dead(topology.DLQ(), 0, "c", nil))
		inTransaction(t, cl, kgo.TryAbort, dead(tier, 1, "d", nil))
		// Two jobs of partition 0 are finished, and the first waiting retry.
		var done kadm.Offsets
		done.AddOffset(jobs, 0, 2, -1)
		done.AddOffset(tier, 0, 1, -1)
		if err := kadm.NewClient(cl).CommitAllOffsets(t.Context(), name, done); err != nil {
			t.Fatal(err)
		}
		var out struct {
			At     time.Time
			Groups []struct {
				Group      string
				Partitions int
				Queues     []struct {
					Topic     string
					Role      string
					Tier      *string
					Depth     int64
					Exact     bool
					OldestAt  *time.Time `json:"oldest_at"`
					NextDueAt *time.Time `json:"next_due_at"`
				}
			}
		}
		text, _ := must(t, 0, environ, "queue", "list", "--group", name, "-o", "json")
		if err := json.Unmarshal([]byte(text), &out); err != nil {
			t.Fatal(err)
		}
		if len(out.Groups) != 1 || out.Groups[0].Partitions != 2 || len(out.Groups[0].Queues) != 6 {
			t.Fatalf("got %s", text)
		}
		for _, q := range out.Groups[0].Queues {
			depth, exact := map[string]int64{jobs: 2518, tier: 1, topology.DLQ(): 1}[q.Topic], q.Topic != jobs
			if q.Depth != depth || q.Exact != exact || (q.OldestAt == nil) != (depth == 0) || (q.NextDueAt == nil) != (q.Topic != tier) {
				t.Errorf("got %+v, want a depth of %d, exact %t", q, depth, exact)
			}
			if q.NextDueAt != nil && (q.NextDueAt.Sub(*q.OldestAt) != 2*time.Minute || *q.Tier != "2m") {
				t.Errorf("got %+v", q)
			}
		}
		table, _ := must(t, 0, environ, "queue", "list", "--group", name)
		if !strings.HasPrefix(table, "group "+name+": Empty, 0 members, 2 partitions\nQUEUE") || !strings.Contains(table, "≤2518") || !strings.Contains(table, "in 1m5") {
			t.Errorf("got\n%s", table)
		}
		if all, _ := must(t, 0, environ, "queue", "list"); !strings.Contains(all, table[:strings.Index(table, "\n")]) {
			t.Errorf("not among all groups:\n%s", all)
		}
	})
}

func TestQueueListWithoutGroups(t *testing.T) {
	environ, _, _ := fakeKafka(t)
	if out, _ := must(t, 0, environ, "queue", "list"); out != "There is no worker group; `jobtrail topics apply` makes one.\n" {
		t.Errorf("got %s", out)
	}
	if out, _ := must(t, 0, environ, "queue", "list", "-o", "json"); !strings.Contains(out, `"groups": []`) {
		t.Errorf("got %s", out)
	}
	if _, stderr := must(t, 1, environ, "queue", "list", "--group", "g"); !strings.Contains(stderr, "topic g.evidence does not exist") {
		t.Errorf("got %s", stderr)
	}
}

func TestQueueTable(t *testing.T) {
	var out strings.Builder
	g := &Globals{Stdout: &out}
	const now = events.Time(1769860800000)
	group := operate.Group{Topology: retrytopics.Topology{Group: "shop"}, State: "Stable", Members: make([]operate.Member, 2), Partitions: 12}
	err := printQueues(g, group, []operate.Queue{
		{Topic: "shop.jobs", Role: retrytopics.RoleJobs, Depth: 120412, Oldest: now - 192_000, NoCommit: 3},
		{Topic: "shop.retry.0s", Role: retrytopics.RoleRetry, Exact: true},
		{Topic: "shop.retry.2m", Role: retrytopics.RoleRetry, Depth: 7, Exact: true, Tier: 2 * time.Minute, Oldest: now - 61_500, NextDue: now + 58_500},
		{Topic: "shop.retry.1h", Role: retrytopics.RoleRetry, Depth: 1, Exact: true, Tier: time.Hour, Oldest: now - 187_400_000, NextDue: now - 183_800_000},
		{Topic: "shop.parked", Role: retrytopics.RoleParked, Depth: 12, Exact: true, Oldest: now - 1},
	}, now)
	if err != nil {
		t.Fatal(err)
	}
	if out.String() != wantQueues {
		t.Errorf("got\n%s\nwant\n%s", &out, wantQueues)
	}
}

const wantQueues = `group shop: Stable, 2 members, 12 partitions
QUEUE          ROLE      DEPTH  OLDEST  NEXT DUE  OVERDUE
shop.jobs      jobs    ≤120412  3m12s   -         -
shop.retry.0s  retry         0  -       -         -
shop.retry.2m  retry         7  1m1s    in 58s    -
shop.retry.1h  retry         1  2d4h    now       2d3h
shop.parked    parked       12  1ms     -         -
3 partitions without a commit: no worker has run there yet.
`
