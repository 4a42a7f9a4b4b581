package loadtest_test

import (
	"context"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/jobtrail/jobtrail/loadtest"
	"github.com/jobtrail/jobtrail/pkg/events"
	"github.com/jobtrail/jobtrail/pkg/jobs"
	"github.com/jobtrail/jobtrail/pkg/retrytopics"
)

// TestCommitsDeleted deletes all commits of a stopped group, as brokers do with
// groups that are idle for long, while work is unfinished: a handler that ran
// when its worker died, and jobs that wait in a tier. Everything goes on from
// where it was, and nothing runs again that had ended.
func TestCommitsDeleted(t *testing.T) {
	t.Parallel()
	protected(t, commitsDeleted,
		lack{"positions are not restored from the log", `job-\d+ was called 2 times`},
		lack{"without commits replay begins at the log's end", "of job held had its side effect twice"})
}

func commitsDeleted(t testing.TB, lack string) {
	const n = 200
	g := newGroup(t, 2)
	w := newWitness(t, g)
	file := w.jobsFile(`{job: {http: {url: "URL"}}, held: {http: {url: "URL"}}, flaky: {http: {url: "URL"}, retry: {initial: 4s, max_attempts: 3}}}` + "\n")
	hang := make(chan struct{})
	release := sync.OnceFunc(func() { close(hang) })
	t.Cleanup(release)
	w.on("held", func(*call) int { <-hang; return 200 })
	w.on("flaky", func(c *call) int {
		if c.number == "1" {
			return 500
		}
		return 200
	})
	p := g.worker(file)
	g.publishEach("job", 0, n, 1, nil)
	g.until(30*time.Second, "end of the plain jobs", terminals(n))
	p.stop() // its checkpoint passes them
	p = g.worker(file)
	g.publish(jobs.Job{ID: "held", Type: "held"})
	w.wait("held", 1, 30*time.Second)
	g.publish(jobs.Job{ID: "flaky-0", Type: "flaky"}, jobs.Job{ID: "flaky-1", Type: "flaky"})
	g.until(10*time.Second, "jobs in a tier", func(s *loadtest.Story) bool {
		waiting := 0
		for _, r := range s.Runs {
			if r.Job.State == events.StateRetryWaiting {
				waiting++
			}
		}
		return waiting == 2
	})
	p.kill()
	g.untilMembers(0, 30*time.Second)
	admin := g.admin()
	before, err := admin.FetchOffsets(t.Context(), g.topo.Group)
	if err != nil {
		t.Fatal(err)
	}
	if len(before.Offsets()) == 0 {
		t.Fatal("the group has no commits to delete")
	}
	if err := deleteGroup(t.Context(), admin, g.topo.Group); err != nil {
		t.Fatal(err)
	}
	after, err := admin.FetchOffsets(t.Context(), g.topo.Group)
	if err == nil && len(after.Offsets()) > 0 {
		t.Fatalf("commits are left: %v", after.Offsets())
	}
	release()
	g.lack = lack
	p = g.worker(file)
	g.until(30*time.Second, "end of all jobs", terminals(n+3))
	p.stop()
	p.says("its position comes from the evidence", 2*len(g.topo.Lanes()), 0)
	s := g.check()
	for i := range n {
		if id := fmt.Sprint("job-", i); len(w.of(id)) != 1 {
			t.Errorf("%s was called %d times, wanted 1", id, len(w.of(id)))
		}
	}
	for id, calls := range map[string]int{"held": 2, "flaky-0": 2, "flaky-1": 2} {
		if got := len(w.of(id)); got != calls {
			t.Errorf("%s was called %d times, wanted %d: %s", id, got, calls, said(runOf(t, s, id)))
		}
	}
}

func deleteGroup(ctx context.Context, admin *kadm.Client, name string) error {
	deleted, err := admin.DeleteGroups(ctx, name)
	if err != nil {
		return err
	}
	return deleted[name].Err
}

// untilTakes waits until the brokers say that the topics take batches of at most
// so many bytes.
func (g *group) untilTakes(admin *kadm.Client, bytes string, topics ...string) {
	g.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; <-time.After(50 * time.Millisecond) {
		said, err := admin.DescribeTopicConfigs(g.t.Context(), topics...)
		if err != nil {
			g.t.Fatal(err)
		}
		there := 0
		for _, topic := range said {
			for _, c := range topic.Configs {
				if c.Key == "max.message.bytes" && c.MaybeValue() == bytes {
					there++
				}
			}
		}
		if there == len(topics) {
			return
		}
		if time.Now().After(deadline) {
			g.t.Fatalf("%d of %d topics take %s bytes", there, len(topics), bytes)
		}
	}
}

// TestRefusedHop has the brokers refuse a record of a tick with many others: a
// retry topic takes smaller records than the worker believes. The one is found,
// and ends as oversize with its evidence whole; the others go on.
func TestRefusedHop(t *testing.T) {
	t.Parallel()
	protected(t, refusedHop, lack{"what is refused is not searched", "no end of all jobs"})
}

func refusedHop(t testing.TB, lack string) {
	const n = 200
	g := newGroup(t, 2)
	g.lack = lack
	w := newWitness(t, g)
	w.concurrency = n + 1
	file := w.jobsFile(`job: {http: {url: "URL"}, retry: {initial: 1s, max_attempts: 3}}` + "\n")
	hang := make(chan struct{})
	release := sync.OnceFunc(func() { close(hang) })
	t.Cleanup(release)
	w.on("job", func(c *call) int {
		<-hang
		if c.number == "1" {
			return 500
		}
		return 200
	})
	p := g.worker(file)
	big := make([]byte, 400_000)
	_, _ = rand.NewChaCha8([32]byte{}).Read(big) // does not get smaller when it is compressed
	g.publishEach("job", 0, n, 1, []byte("small"))
	g.publish(jobs.Job{ID: "big", Type: "job", Value: big})
	for i := range n {
		w.wait(fmt.Sprint("job-", i), 1, 30*time.Second)
	}
	w.wait("big", 1, 30*time.Second)
	limit := "100000"
	var retries []string
	for _, topic := range g.topo.Lanes() {
		if g.topo.Role(topic) == retrytopics.RoleRetry {
			retries = append(retries, topic)
		}
	}
	admin := g.admin()
	if _, err := admin.AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "max.message.bytes", Value: &limit}}, retries...); err != nil {
		t.Fatal(err)
	}
	g.untilTakes(admin, limit, retries...)
	release()
	g.until(20*time.Second, "end of all jobs", terminals(n+1))
	p.stop()
	for _, r := range g.check().Runs {
		state, reason, attempts := events.StateSucceeded, events.TerminalReason(0), uint32(2)
		if r.JobID == "big" {
			state, reason, attempts = events.StateFailed, events.ReasonOversize, 1
		}
		if r.Job.State != state || r.Reason != reason || r.Job.Number != attempts {
			t.Errorf("%s ended as %v (%v) after %d attempts, wanted %v (%v) after %d", r.JobID, r.Job.State, r.Reason, r.Job.Number, state, reason, attempts)
		}
	}
}

// TestManyPartitions runs groups of 6 and of 12 partitions with workers that join,
// leave and are killed: the retries of a job stay in its partition.
func TestManyPartitions(t *testing.T) {
	t.Parallel()
	lacks := map[int][]lack{6: {{"a hop goes to the first partition", "no end of all jobs|has evidence in partition 0"}}}
	for _, n := range []int{6, 12} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			protected(t, func(t testing.TB, lack string) { manyPartitions(t, lack, n) }, lacks[n]...)
		})
	}
}

func manyPartitions(t testing.TB, lack string, partitions int) {
	const n = 360
	g := newGroup(t, partitions)
	g.lack = lack
	w := newWitness(t, g)
	file := w.jobsFile(`job: {http: {url: "URL"}, retry: {initial: 1s, max_attempts: 4}}` + "\n")
	w.on("job", func(c *call) int {
		if c.number == "1" && strings.HasSuffix(c.job, "0") {
			return 500
		}
		return 200
	})
	workers := []*process{g.worker(file), g.worker(file), g.worker(file)}
	g.untilMembers(3, 30*time.Second)
	for i := range n {
		g.publish(jobs.Job{ID: fmt.Sprint("job-", i), Type: "job", Key: []byte(fmt.Sprint(i))})
		switch i {
		case n / 3:
			workers[0].kill()
		case n / 2:
			workers[0] = g.worker(file)
		case n * 2 / 3:
			workers[1].stop()
		}
	}
	g.until(20*time.Second, "end of all jobs", terminals(n))
	workers[0].stop()
	workers[2].stop()
	s := g.check()
	used := make(map[int32]bool)
	for _, r := range s.Runs {
		used[r.Publication.Partition] = true
		if r.Job.State != events.StateSucceeded {
			t.Errorf("%s ended as %v", r.JobID, r.Job.State)
		}
	}
	if len(used) != partitions {
		t.Errorf("jobs were in %d of %d partitions", len(used), partitions)
	}
}

// TestForeignRecords runs records that others made: without a key, without a
// value, with a key in the partition that librdkafka's consistent partitioner
// chooses, with a key of bytes that are no text. They are retried and
// dead-lettered in their partition with their exact bytes.
func TestForeignRecords(t *testing.T) {
	t.Parallel()
	protected(t, foreignRecords,
		lack{"null becomes empty on a hop", "has other bytes than its origin"},
		lack{"a hop goes to the first partition", "no end of all jobs|has evidence in partition 0"})
}

func foreignRecords(t testing.TB, lack string) {
	const partitions = 6
	g := newGroup(t, partitions)
	g.lack = lack
	w := newWitness(t, g)
	file := w.jobsFile(`{flaky: {http: {url: "URL"}, retry: {initial: 1s, max_attempts: 3}}, bad: {http: {url: "URL"}, retry: {initial: 1s, max_attempts: 2}}}` + "\n")
	w.on("flaky", func(c *call) int {
		if c.number == "1" {
			return 500
		}
		return 200
	})
	w.on("bad", func(*call) int { return 500 })
	producer, err := kgo.NewClient(append(slices.Clone(g.kafka), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	var list []*kgo.Record
	for i, kv := range []struct{ key, value []byte }{
		{nil, nil}, {nil, []byte("value")}, {[]byte("key"), nil}, {[]byte{}, []byte{}}, {[]byte("order-4711"), []byte("{}")}, {[]byte{0xff, 0, 0xfe}, []byte{0, 0xff, '\n'}}, {[]byte("ключ"), []byte("значение")},
	} {
		for _, typ := range []string{"flaky", "bad"} {
			partition := int32(i % partitions)
			if kv.key != nil {
				partition = int32(crc32.ChecksumIEEE(kv.key) % partitions)
			}
			list = append(list, &kgo.Record{Topic: g.topo.Jobs[0], Partition: partition, Key: kv.key, Value: kv.value,
				Headers: []kgo.RecordHeader{{Key: "job-id", Value: []byte(fmt.Sprintf("%s-%d", typ, i))}, {Key: "job-type", Value: []byte(typ)}}})
		}
	}
	if err := producer.ProduceSync(t.Context(), list...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	p := g.worker(file)
	g.until(20*time.Second, "end of all jobs", terminals(len(list)))
	p.stop()
	s := g.check()
	for _, rec := range list {
		id := string(rec.Headers[0].Value)
		r := runOf(t, s, id)
		want := events.StateSucceeded
		if strings.HasPrefix(id, "bad") {
			want = events.StateFailed
		}
		if r.Job.State != want || r.Job.Number != 2 || r.Publication.Partition != rec.Partition {
			t.Errorf("%s of partition %d ended as %v after %d attempts in partition %d, wanted %v after 2", id, rec.Partition, r.Job.State, r.Job.Number, r.Publication.Partition, want)
		}
		for _, c := range w.of(id) {
			if c.body != string(rec.Value) {
				t.Errorf("%s was called with %q, wanted %q", id, c.body, rec.Value)
			}
		}
	}
}

// TestOldNewOld rolls a newer build out and back while jobs run, and kills each
// build once. The newer one writes events of a type that the old one does not
// know, and which it may pass over.
func TestOldNewOld(t *testing.T) {
	t.Parallel()
	protected(t, oldNewOld, lack{"an event of an unknown type is not passed over", "no end of "})
}

func oldNewOld(t testing.TB, lack string) {
	g := newGroup(t, 2)
	w := newWitness(t, g)
	file := w.jobsFile(`job: {http: {url: "URL"}, retry: {initial: 1s, max_attempts: 4}, idempotent: true}` + "\n")
	w.on("job", func(c *call) int {
		if c.number == "1" && strings.HasSuffix(c.job, "0") {
			return 500
		}
		return 200
	})
	n := 0
	publish := func() {
		g.publishEach("job", n, n+50, 1, nil)
		n += 50
	}
	old := func() *process { g.lack = lack; return g.worker(file) }
	newer := func() *process { g.lack = "events of a newer type"; return g.worker(file) }

	first := old()
	publish()
	g.until(30*time.Second, "end of the first jobs", terminals(50))
	second := newer()
	g.untilMembers(2, 20*time.Second)
	publish()
	first.kill()
	publish()
	g.until(30*time.Second, "end of the newer build's jobs", terminals(150))
	third := old()
	g.untilMembers(2, 20*time.Second)
	publish()
	second.kill()
	publish()
	g.until(20*time.Second, "end of all jobs", terminals(n))
	third.stop()

	g.newer = true
	s := g.check()
	for _, r := range s.Runs {
		if r.Job.State != events.StateSucceeded {
			t.Errorf("%s ended as %v", r.JobID, r.Job.State)
		}
	}
	if facts := g.unknown(); facts == 0 {
		t.Error("no event is of a newer type")
	} else {
		t.Logf("%d events are of a newer type", facts)
	}
}

// unknown counts the events of a type that this build does not know.
func (g *group) unknown() (n int) {
	g.t.Helper()
	d, err := loadtest.ReadDump(g.t.Context(), g.kafka, g.topo)
	if err != nil {
		g.t.Fatal(err)
	}
	for _, r := range d.Evidence {
		if r.Event.Body == nil {
			n++
		}
	}
	return n
}

// TestTooNew starts an old build on a log that says that it would misread it: it
// runs nothing and says so. The newer build goes on where it was.
func TestTooNew(t *testing.T) {
	t.Parallel()
	protected(t, tooNew, lack{"min_reader is not looked at", "was run by a build that cannot read the log"})
}

func tooNew(t testing.TB, lack string) {
	g := newGroup(t, 1)
	g.newer = true
	w := newWitness(t, g)
	file := w.jobsFile(`job: {http: {url: "URL"}}` + "\n")
	g.lack = "events that need a newer build"
	p := g.worker(file)
	g.publish(jobs.Job{ID: "before", Type: "job"})
	g.until(30*time.Second, "end of the first job", terminals(1))
	p.kill()
	g.untilMembers(0, 20*time.Second)
	g.lack = lack
	p = g.worker(file)
	g.publish(jobs.Job{ID: "meanwhile", Type: "job"})
	if lack == "" {
		p.says("the evidence is of a newer version", 3, 30*time.Second)
	} else {
		w.wait("meanwhile", 1, 30*time.Second)
	}
	if len(w.of("meanwhile")) > 0 {
		t.Error("the job was run by a build that cannot read the log")
	}
	p.stop()
	g.lack = "events that need a newer build"
	p = g.worker(file)
	g.until(30*time.Second, "end of all jobs", terminals(2))
	p.stop()
	g.check()
}
