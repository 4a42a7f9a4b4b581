package localstack_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/jobtrail/jobtrail/internal/localstack"
	"github.com/jobtrail/jobtrail/internal/localstack/stacktest"
)

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func kafkaClient(t *testing.T, brokers []string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append(opts, kgo.SeedBrokers(brokers...))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

func clickHouseConn(t *testing.T, addr string) driver.Conn {
	t.Helper()
	conn, err := clickhouse.Open(&clickhouse.Options{Addr: []string{addr}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// makeStores makes the topic and the table of the marks.
func makeStores(ctx context.Context, t *testing.T, brokers []string, addr string) {
	t.Helper()
	if _, err := kadm.NewClient(kafkaClient(t, brokers)).CreateTopic(ctx, 1, 1, nil, "marks"); err != nil {
		t.Fatal(err)
	}
	conn := clickHouseConn(t, addr)
	for _, query := range []string{
		"CREATE DATABASE marks",
		"CREATE TABLE marks.marks (mark String) ENGINE = MergeTree ORDER BY mark",
	} {
		if err := conn.Exec(ctx, query); err != nil {
			t.Fatal(err)
		}
	}
}

// writeMark writes one record and one row.
func writeMark(ctx context.Context, t *testing.T, brokers []string, addr, mark string) {
	t.Helper()
	cl := kafkaClient(t, brokers)
	if err := cl.ProduceSync(ctx, &kgo.Record{Topic: "marks", Value: []byte(mark)}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if err := clickHouseConn(t, addr).Exec(ctx, "INSERT INTO marks.marks VALUES (?)", mark); err != nil {
		t.Fatal(err)
	}
}

// wantMarks reads both stores from their start.
func wantMarks(ctx context.Context, t *testing.T, brokers []string, addr string, want ...string) {
	t.Helper()
	cl := kafkaClient(t, brokers, kgo.ConsumeTopics("marks"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	var got []string
	for len(got) < len(want) {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			t.Fatalf("reading the topic after %q: %v", got, err)
		}
		fetches.EachRecord(func(r *kgo.Record) { got = append(got, string(r.Value)) })
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the topic holds %q, want %q", got, want)
	}
	var rows []string
	if err := clickHouseConn(t, addr).QueryRow(ctx, "SELECT groupArray(mark) FROM (SELECT mark FROM marks.marks ORDER BY mark)").Scan(&rows); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(rows) != fmt.Sprint(want) {
		t.Errorf("the table holds %q, want %q", rows, want)
	}
}

func TestDataSurvivesStopKillAndRestart(t *testing.T) {
	ctx := testContext(t)
	stack := stacktest.Private(t, localstack.Config{})
	brokers, addr := stack.Brokers(), stack.ClickHouseAddr()
	makeStores(ctx, t, brokers, addr)
	writeMark(ctx, t, brokers, addr, "1")
	servers := []*localstack.Server{stack.Kafka, stack.ClickHouse}

	for i, fault := range []struct {
		name string
		do   func(*localstack.Server) error
	}{
		{"kill -9", func(s *localstack.Server) error { return errors.Join(s.Kill(), s.Start(ctx)) }},
		{"restart", func(s *localstack.Server) error { return s.Restart(ctx) }},
	} {
		began := time.Now()
		for _, s := range servers {
			before := s.PID()
			if err := fault.do(s); err != nil {
				t.Fatalf("%s: %v", fault.name, err)
			}
			if s.PID() == before || s.PID() == 0 {
				t.Fatalf("%s: process %d became %d", fault.name, before, s.PID())
			}
		}
		if got := stack.Brokers()[0]; got != brokers[0] {
			t.Fatalf("%s: the broker moved from %s to %s", fault.name, brokers[0], got)
		}
		t.Logf("%s and start of both servers took %s", fault.name, time.Since(began).Round(time.Millisecond))
		writeMark(ctx, t, brokers, addr, strconv.Itoa(i+2))
	}
	wantMarks(ctx, t, brokers, addr, "1", "2", "3")
}

func TestKilledFromOutside(t *testing.T) {
	ctx := testContext(t)
	stack := stacktest.Private(t, localstack.Config{WithoutKafka: true})
	kill(t, stack.ClickHouse.PID())
	waitFor(t, "the server's end", func() bool { return stack.ClickHouse.PID() == 0 })
	if err := stack.ClickHouse.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if stack.ClickHouse.PID() == 0 {
		t.Error("it does not run")
	}
	if err := stack.ClickHouse.Start(ctx); err == nil || !strings.Contains(err.Error(), "runs already") {
		t.Errorf("a second start: got %v", err)
	}
}

// serverPID is the process that a supervisor runs.
func serverPID(t *testing.T, supervisor int) int {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		stat, err := os.ReadFile(link)
		if err != nil {
			continue
		}
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if fields[1] == strconv.Itoa(supervisor) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(link)))
			if err != nil {
				t.Fatal(err)
			}
			return pid
		}
	}
	return 0
}

// What makes the ClickHouse library abort: its server comes back, with its data.
func TestAServerThatAbortsComesBack(t *testing.T) {
	ctx := testContext(t)
	stack := stacktest.Private(t, localstack.Config{})
	brokers, addr := stack.Brokers(), stack.ClickHouseAddr()
	makeStores(ctx, t, brokers, addr)
	writeMark(ctx, t, brokers, addr, "0")
	want := []string{"0"}
	for i, fault := range []struct {
		name   string
		server *localstack.Server
		do     func()
	}{
		{"a wrong password", stack.ClickHouse, func() {
			conn, err := clickhouse.Open(&clickhouse.Options{Addr: []string{addr}, Auth: clickhouse.Auth{Username: "default", Password: t.Name()}})
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if err := conn.Ping(ctx); err == nil || !strings.Contains(err.Error(), "Authentication failed") {
				t.Errorf("a wrong password: got %v", err)
			}
		}},
		{"a Kafka client at the native port", stack.ClickHouse, func() {
			short, cancel := context.WithTimeout(ctx, 2*time.Second)
			defer cancel()
			if err := kafkaClient(t, []string{addr}).Ping(short); err == nil {
				t.Error("ClickHouse answered a Kafka client")
			}
		}},
		{"kill -9 of the ClickHouse server itself", stack.ClickHouse, func() { kill(t, serverPID(t, stack.ClickHouse.PID())) }},
		{"kill -9 of the broker itself", stack.Kafka, func() { kill(t, serverPID(t, stack.Kafka.PID())) }},
	} {
		supervisor, before := fault.server.PID(), serverPID(t, fault.server.PID())
		fault.do()
		waitFor(t, "another server process after "+fault.name, func() bool {
			now := serverPID(t, supervisor)
			return now != 0 && now != before
		})
		waitFor(t, "an answer after "+fault.name, func() bool {
			short, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			return clickHouseConn(t, addr).Ping(short) == nil && kafkaClient(t, brokers).Ping(short) == nil
		})
		if got := fault.server.PID(); got != supervisor {
			t.Errorf("%s: the supervisor %d became %d", fault.name, supervisor, got)
		}
		mark := strconv.Itoa(i + 1)
		writeMark(ctx, t, brokers, addr, mark)
		want = append(want, mark)
	}
	wantMarks(ctx, t, brokers, addr, want...)
	if got := strings.Count(stack.Restarts(), "has ended by itself ("); got != 4 {
		t.Errorf("%d restarts are in the logs, want 4:\n%s", got, stack.Restarts())
	}
	// kill -9 of the supervisor is kill -9 of the server, which stays away.
	kill(t, stack.ClickHouse.PID())
	waitFor(t, "the server's end", func() bool { return stack.ClickHouse.PID() == 0 })
	if l, err := net.Listen("tcp4", addr); err != nil {
		t.Errorf("the server outlives its supervisor: %v", err)
	} else {
		l.Close()
	}
}

func kill(t *testing.T, pid int) {
	t.Helper()
	p, err := os.FindProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
}

func TestClickHouseIsCalledWhatItCallsItself(t *testing.T) {
	ctx := testContext(t)
	var progress lockedBuffer
	stack := stacktest.Private(t, localstack.Config{WithoutKafka: true, Progress: &progress})
	var version string
	if err := clickHouseConn(t, stack.ClickHouseAddr()).QueryRow(ctx, "SELECT version()").Scan(&version); err != nil {
		t.Fatal(err)
	}
	if version = version[:strings.LastIndexByte(version, '.')]; !strings.Contains(progress.String(), "ClickHouse "+version+" answers after") {
		t.Errorf("the server calls itself %s; progress says\n%s", version, progress.String())
	}
}

func TestPauseStopsAnswers(t *testing.T) {
	ctx := testContext(t)
	stack := stacktest.Private(t, localstack.Config{WithoutKafka: true})
	conn := clickHouseConn(t, stack.ClickHouseAddr())
	if err := conn.Ping(ctx); err != nil {
		t.Fatal(err)
	}
	if err := stack.ClickHouse.Pause(); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	if err := conn.Ping(short); err == nil {
		t.Error("a paused server answered")
	}
	if err := stack.ClickHouse.Continue(); err != nil {
		t.Fatal(err)
	}
	if err := conn.Ping(ctx); err != nil {
		t.Errorf("after Continue: %v", err)
	}
	// A paused server can still be stopped in an orderly way.
	if err := stack.ClickHouse.Pause(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := stack.ClickHouse.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 8*time.Second {
		t.Errorf("stopping a paused server took %s: it was killed", took)
	}
	if err := stack.ClickHouse.Pause(); err == nil {
		t.Error("a stopped server was paused")
	}
}

func TestBrokerIsSetUpForTheLedger(t *testing.T) {
	ctx := testContext(t)
	shared := stacktest.ForTest(t)
	cl := kafkaClient(t, shared.Brokers)
	admin := kadm.NewClient(cl)

	ask := kmsg.NewPtrApiVersionsRequest()
	ask.ClientSoftwareName, ask.ClientSoftwareVersion = "jobtrail", "test"
	answer, err := ask.RequestWith(ctx, cl)
	if err != nil {
		t.Fatal(err)
	}
	features := map[string]int16{}
	for _, feature := range answer.FinalizedFeatures {
		features[feature.Name] = feature.MaxVersionLevel
	}
	for name, want := range map[string]int16{"transaction.version": 2, "group.version": 1} {
		if features[name] < want {
			t.Errorf("feature %s is at %d, want %d; all: %v", name, features[name], want, features)
		}
	}

	configs, err := admin.DescribeBrokerConfigs(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, config := range configs[0].Configs {
		got[config.Key] = config.MaybeValue()
	}
	for name, want := range map[string]string{
		"auto.create.topics.enable":                                   "false",
		"group.consumer.min.session.timeout.ms":                       "3000",
		"group.consumer.session.timeout.ms":                           "3000",
		"group.consumer.heartbeat.interval.ms":                        "500",
		"group.consumer.assignors":                                    "range,uniform",
		"transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
		"transaction.state.log.num.partitions":                        "4",
		"offsets.topic.num.partitions":                                "4",
		"message.max.bytes":                                           "16777216",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}

	topics, err := admin.ListTopicsWithInternal(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"__consumer_offsets", "__transaction_state"} {
		if n := len(topics[name].Partitions); n != 4 {
			t.Errorf("%s has %d partitions, want 4", name, n)
		}
	}
	if err := cl.ProduceSync(ctx, &kgo.Record{Topic: "nobody-made-this", Value: []byte("x")}).FirstErr(); err == nil {
		t.Error("a topic was made by producing to it")
	}
}

func TestConsumerProtocolWithRange(t *testing.T) {
	ctx := testContext(t)
	shared := stacktest.ForTest(t)
	topic, group := fmt.Sprintf("range-%d", time.Now().UnixNano()), fmt.Sprintf("range-group-%d", time.Now().UnixNano())
	admin := kadm.NewClient(kafkaClient(t, shared.Brokers))
	if _, err := admin.CreateTopic(ctx, 4, 1, nil, topic); err != nil {
		t.Fatal(err)
	}
	assigned := make(chan int, 16)
	kafkaClient(t, shared.Brokers, kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic),
		kgo.ServerSideBalancer(), kgo.Balancers(kgo.RangeBalancer()),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, m map[string][]int32) { assigned <- len(m[topic]) }))
	for total := 0; total < 4; {
		select {
		case n := <-assigned:
			total += n
		case <-ctx.Done():
			t.Fatal("no assignment")
		}
	}
	groups, err := admin.DescribeConsumerGroups(ctx, group)
	if err != nil {
		t.Fatal(err)
	}
	if g := groups[group]; g.Err != nil || g.AssignorName != "range" || len(g.Members) != 1 {
		t.Errorf("got %+v, want one member under range", g)
	}
}

func TestClickHouseAnswersLikeAServer(t *testing.T) {
	ctx := testContext(t)
	users := filepath.Join(t.TempDir(), "reader.xml")
	if err := os.WriteFile(users, []byte(`<clickhouse>
  <profiles><reading><readonly>2</readonly></reading></profiles>
  <users><reader><password/><networks><ip>127.0.0.1</ip></networks><profile>reading</profile><quota>default</quota>
    <grants><query>GRANT SELECT ON marks.*</query></grants></reader></users>
</clickhouse>`), 0o644); err != nil {
		t.Fatal(err)
	}
	stack := stacktest.Private(t, localstack.Config{WithoutKafka: true, ClickHouseUsersFiles: []string{users}})
	conn := clickHouseConn(t, stack.ClickHouseAddr())
	for _, query := range []string{"CREATE DATABASE marks", "CREATE TABLE marks.t (n UInt64) ENGINE = MergeTree ORDER BY n"} {
		if err := conn.Exec(ctx, query); err != nil {
			t.Fatal(err)
		}
	}
	batch, err := conn.PrepareBatch(ctx, "INSERT INTO marks.t")
	if err != nil {
		t.Fatal(err)
	}
	const rows = 100_000
	for n := range uint64(rows) {
		if err := batch.Append(n); err != nil {
			t.Fatal(err)
		}
	}
	if err := batch.Send(); err != nil {
		t.Fatal(err)
	}

	reader, err := clickhouse.Open(&clickhouse.Options{Addr: []string{stack.ClickHouseAddr()}, Auth: clickhouse.Auth{Username: "reader"}})
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	var count, sum uint64
	if err := reader.QueryRow(ctx, "SELECT count(), sum(n) FROM marks.t").Scan(&count, &sum); err != nil {
		t.Fatal(err)
	}
	if count != rows || sum != rows*(rows-1)/2 {
		t.Errorf("got %d rows with sum %d", count, sum)
	}
	if err := reader.Exec(ctx, "INSERT INTO marks.t VALUES (1)"); err == nil {
		t.Error("a read-only user wrote")
	}
	web, err := net.DialTimeout("tcp", stack.ClickHouseHTTPAddr(), time.Second)
	if err != nil {
		t.Errorf("the HTTP port: %v", err)
	} else {
		web.Close()
	}
}

func TestPortTaken(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	for _, cfg := range []localstack.Config{{KafkaPort: port}, {ClickHousePort: port}, {ClickHouseHTTPPort: port}} {
		dir := t.TempDir()
		cfg.Dir, cfg.Cache = dir, cacheDir(t)
		_, err := localstack.Start(testContext(t), cfg)
		taken, ok := errors.AsType[*localstack.PortTakenError](err)
		if !ok || taken.Port != port {
			t.Fatalf("got %v, want a PortTakenError of %d", err, port)
		}
		if left := runningIn(t, dir); left != "" {
			t.Errorf("still running: %s", left)
		}
	}
}

// A server that cannot start takes the other one down again.
func TestFailedStartLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(t.TempDir(), "bad.xml")
	if err := os.WriteFile(bad, []byte("<clickhouse><users></clickhouse>"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := localstack.Start(testContext(t), localstack.Config{Dir: dir, Cache: cacheDir(t), ClickHouseUsersFiles: []string{bad}})
	if err == nil {
		t.Fatal("it started")
	}
	if !strings.Contains(err.Error(), "ended before it answered") {
		t.Errorf("got %v", err)
	}
	t.Logf("the message: %v", err)
	if left := runningIn(t, dir); left != "" {
		t.Errorf("still running: %s", left)
	}
}

func TestSecondStackInOneFolderIsRefused(t *testing.T) {
	dir := t.TempDir()
	stack := stacktest.Private(t, localstack.Config{Dir: dir, WithoutKafka: true})
	_, err := localstack.Start(testContext(t), localstack.Config{Dir: dir, Cache: cacheDir(t), WithoutKafka: true})
	if err == nil || !strings.Contains(err.Error(), "runs there already, as process "+strconv.Itoa(stack.ClickHouse.PID())) {
		t.Errorf("got %v", err)
	}
}

func TestMissingTools(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	fake := func(name, script string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(os.Getenv("PATH"), name), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	emptyCache := t.TempDir()
	start := func(cfg localstack.Config) string {
		t.Helper()
		cfg.Dir, cfg.Cache = t.TempDir(), emptyCache
		_, err := localstack.Start(testContext(t), cfg)
		if err == nil {
			t.Fatal("it started")
		}
		return err.Error()
	}
	onlyKafka, onlyClickHouse := localstack.Config{WithoutClickHouse: true}, localstack.Config{WithoutKafka: true}
	steps := []struct {
		prepare func()
		cfg     localstack.Config
		want    string
	}{
		{func() {}, onlyKafka, "java is not in PATH: Kafka needs Java 17 or newer"},
		{func() { fake("java", `echo 'openjdk version "11.0.2"' >&2`) }, onlyKafka, "is Java 11: Kafka needs Java 17 or newer"},
		{func() { fake("java", `echo 'java version "1.8.0_392"' >&2`) }, onlyKafka, "is Java 8: Kafka needs Java 17 or newer"},
		{func() { fake("java", `echo 'openjdk version "21.0.1"' >&2`) }, onlyKafka, "mvn is not in PATH: it fetches Kafka once"},
		{func() { fake("mvn", "echo no route to the repository; exit 1") }, onlyKafka, "fetching kafka-4.3.1: mvn -q -B dependency:copy-dependencies"},
		{func() {}, onlyKafka, "no route to the repository"},
		{func() {}, onlyClickHouse, "node is not in PATH: npm needs it"},
		{func() { fake("node", "") }, onlyClickHouse, "npm is not in PATH: it fetches ClickHouse once"},
		{func() { fake("npm", "") }, onlyClickHouse, "checking what was fetched for clickhouse-26.7.3"},
	}
	for _, step := range steps {
		step.prepare()
		if got := start(step.cfg); !strings.Contains(got, step.want) {
			t.Errorf("got  %s\nwant …%s…", got, step.want)
		}
	}
	left, err := filepath.Glob(filepath.Join(emptyCache, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range left {
		if !strings.HasSuffix(name, ".lock") {
			t.Errorf("a failed fetch left %s", name)
		}
	}
}

func TestCacheDir(t *testing.T) {
	for _, tt := range []struct {
		environ []string
		want    string
	}{
		{[]string{"HOME=/h", "XDG_CACHE_HOME=/x", "JOBTRAIL_CACHE_DIR=/j"}, "/j"},
		{[]string{"HOME=/h", "XDG_CACHE_HOME=/x"}, "/x/jobtrail"},
		{[]string{"HOME=/h", "XDG_CACHE_HOME="}, "/h/.cache/jobtrail"},
		{nil, ""},
	} {
		got, err := localstack.CacheDir(tt.environ)
		if got != tt.want || (err != nil) != (tt.want == "") {
			t.Errorf("%v: got %q, %v; want %q", tt.environ, got, err, tt.want)
		}
	}
}

func cacheDir(t *testing.T) string {
	t.Helper()
	dir, err := localstack.CacheDir(os.Environ())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// runningIn lists the processes whose working folder is dir, as servers' are.
func runningIn(t *testing.T, dir string) string {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil && to == dir {
			found = append(found, link)
		}
	}
	return strings.Join(found, " ")
}

func waitFor(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("waited a minute for %s", what)
		}
		<-tick.C
	}
}

// Servers of Start die with the process that started them, however it dies.
func TestServersDieWithTheirProcess(t *testing.T) {
	if dir, ok := strings.CutPrefix(os.Getenv("LOCALSTACK_TEST_PARENT"), "dir="); ok {
		stacktest.Private(t, localstack.Config{Dir: dir})
		fmt.Fprintln(os.Stdout, "parent is ready")
		<-t.Context().Done() // never: it is killed
		return
	}
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^TestServersDieWithTheirProcess$", "-test.timeout=2m")
	cmd.Env = append(os.Environ(), "LOCALSTACK_TEST_PARENT=dir="+dir)
	var output lockedBuffer
	cmd.Stdout = &output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { cmd.Wait(); close(ended) }()
	deadline := time.After(90 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !strings.Contains(output.String(), "parent is ready") {
		select {
		case <-ended:
			t.Fatalf("the parent ended early:\n%s", output.String())
		case <-deadline:
			t.Fatal("the parent is not ready")
		case <-tick.C:
		}
	}
	if n := len(strings.Fields(runningIn(t, dir))); n != 4 {
		t.Errorf("%d processes run, want 2 servers and their supervisors", n)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-ended
	waitFor(t, "the servers' end", func() bool { return runningIn(t, dir) == "" })
}

type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
