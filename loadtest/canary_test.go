package loadtest_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/jobtrail/jobtrail/internal/localstack"
	"github.com/jobtrail/jobtrail/internal/localstack/stacktest"
	"github.com/jobtrail/jobtrail/internal/planted"
	"github.com/jobtrail/jobtrail/internal/redact"
	"github.com/jobtrail/jobtrail/loadtest"
	"github.com/jobtrail/jobtrail/pkg/events"
	"github.com/jobtrail/jobtrail/pkg/jobs"
	"github.com/jobtrail/jobtrail/pkg/retrytopics"
	"github.com/jobtrail/jobtrail/pkg/worker"
)

// canary is the state of TestCanary.
type canary struct {
	t     *testing.T
	r     *rand.Rand
	stack *localstack.Stack
	other *localstack.Stack // see refusing
	dir   string
	file  string // jobs file
	rec   *receiver
	// name is a harmless word in the names of everything: groups, types, jobs.
	// word is one that only error messages hold.
	name, word string
	// passwords are the secrets of the processes, by what they are.
	passwords map[string]string
	samples   map[string][]planted.Sample
	needles   *needles

	commands *group // its worker is a process
	embedded *group // its worker is in this process

	called chan struct{} // the job that hangs was called
	begun  time.Time

	mu    sync.Mutex
	spots []spot
}

// spot is a place where something was written, and a harmless text that must be
// found there.
type spot struct {
	name  string
	bytes []byte
	want  string
}

// did logs how long a part of the test took.
func (c *canary) did(what string) {
	c.t.Logf("%s after %v", what, time.Since(c.begun).Round(100*time.Millisecond))
}

func (c *canary) look(name string, b []byte, want string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.spots = append(c.spots, spot{name, b, want})
}

// TestCanary plants secrets of every class where they come from, runs jobs that
// fail with them in every way on real servers, and then searches everything that
// was written down. Only the jobs themselves may hold them.
func TestCanary(t *testing.T) {
	t.Parallel()
	defer within(t, t.Name())()
	c := newCanary(t)
	c.did("the servers run")
	c.migrate()
	c.did("the tables are there")
	rec := newReceiver(t)
	c.rec = rec
	c.file = c.jobsFile()
	env := c.environment()
	traced := append(slices.Clip(env), "OTEL_EXPORTER_OTLP_ENDPOINT="+rec.srv.URL, "OTEL_EXPORTER_OTLP_HEADERS=x-tenant="+c.passwords["header of the exporter"],
		"OTEL_RESOURCE_ATTRIBUTES=deployment="+c.name+",db.password="+c.passwords["attribute of the resource"])
	w := c.commands.worker(c.file, traced...)
	log, stop, registry := c.embed()
	n := c.publish()
	w.says("partition recovered", 2, 40*time.Second)
	pr := start(t, "projector", append(slices.Clip(env), "JOBTRAIL_GROUPS="+c.commands.topo.Group+","+c.embedded.topo.Group, "CLICKHOUSE_DATABASE="+c.name)...)

	c.did("jobs are published")
	c.wrongLogins(env)
	select {
	case <-c.called:
	case <-time.After(40 * time.Second):
		t.Fatal("the job that hangs is not called")
	}
	c.did("wrong logins were tried")
	w2 := c.commands.worker(c.file, traced...)
	w.kill() // the job that hangs is parked
	c.commands.until(40*time.Second, "end of the jobs of commands and endpoints", terminals(n))
	c.embedded.until(40*time.Second, "end of the jobs of the embedded worker", terminals(c.embeddedJobs()))
	c.did("the jobs ended")
	c.untilStored()

	c.did("the store has everything")
	c.look("metrics of the worker", w2.get("/metrics"), c.name)
	c.look("readiness of the worker", w2.get("/readyz"), "ok")
	c.look("metrics of the projector", pr.get("/metrics"), c.name)
	c.look("readiness of the projector", pr.get("/readyz"), "ok")
	rw := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(rw, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	c.look("metrics of the embedded worker", rw.Body.Bytes(), c.name)
	c.commandLine(env)
	c.did("the command line has answered")
	stop()
	w2.stop()
	pr.stop()
	c.look("log of the first worker", w.log(), c.name)
	c.look("log of the second worker", w2.log(), c.name)
	c.look("log of the projector", pr.log(), c.name)
	c.look("log of the embedded worker", log.bytes(), c.word)
	c.look("spans", rec.bytes(), c.word)
	c.did("the processes ended")
	c.headers()
	c.files()
	c.tables()

	c.did("everything is read")
	for _, s := range c.spots {
		if !bytes.Contains(s.bytes, []byte(s.want)) {
			t.Errorf("%s: the harmless %q is not there, so nothing is proved of it:\n%.2000s", s.name, s.want, s.bytes)
		}
		for i, found := range c.needles.find(s.bytes) {
			if i == 5 {
				break
			}
			t.Errorf("%s holds the secret: %s", s.name, found)
		}
	}
	c.did("everything is searched")
	t.Logf("%d secrets in %d forms each were looked for in %d places", len(c.passwords)+len(c.samples)*len(c.samples["jwt"]), len(forms("any password")), len(c.spots))
}

func newCanary(t *testing.T) *canary {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	c := &canary{t: t, begun: time.Now(), called: make(chan struct{}), r: rand.New(rand.NewPCG(seed, 5)), dir: t.TempDir(), passwords: make(map[string]string), needles: newNeedles()}
	c.name, c.word = "canary"+planted.Draw(c.r, 8, planted.Lower), "pelican"+planted.Draw(c.r, 8, planted.Lower)
	// By their looks these are words: only because they are known can they be found.
	for _, what := range []string{"password of the broker", "password of the store", "wrong password of the broker", "wrong password of the store", "token of the jobs file",
		"header of the exporter", "attribute of the resource", "password of another database", "password of a proxy", "password in an address"} {
		c.passwords[what] = planted.Draw(c.r, 16, planted.Lower)
		c.needles.add(what, planted.Sample{Text: c.passwords[what], Secret: c.passwords[what]})
	}
	c.samples = plant(t, c.r, 3)
	for class, samples := range c.samples {
		for _, s := range samples {
			c.needles.add(class, s)
		}
	}
	users := filepath.Join(t.TempDir(), "canary.xml")
	digest := sha256.Sum256([]byte(c.passwords["password of the store"]))
	if err := os.WriteFile(users, []byte("<clickhouse><users><canary><password_sha256_hex>"+hex.EncodeToString(digest[:])+
		"</password_sha256_hex><networks><ip>127.0.0.1</ip></networks><profile>default</profile><quota>default</quota></canary></users></clickhouse>"), 0o600); err != nil {
		t.Fatal(err)
	}
	// Beside the other, and on its own: see refusing.
	c.other = stacktest.Private(t, localstack.Config{ClickHouseUsersFiles: []string{users}, WithoutKafka: true})
	c.stack = stacktest.Private(t, localstack.Config{Dir: c.dir, ClickHouseUsersFiles: []string{users}, KafkaPasswords: map[string]string{"canary": c.passwords["password of the broker"]}})
	c.commands, c.embedded = c.group("commands"), c.group("embedded")
	return c
}

// group makes a worker group whose topics are written as they are.
func (c *canary) group(suffix string) *group {
	c.t.Helper()
	tiers, err := retrytopics.ParseTiers("0s 1s")
	if err != nil {
		c.t.Fatal(err)
	}
	g := &group{t: c.t, brokers: c.stack.Brokers(), topo: retrytopics.Topology{Group: c.name + "-" + suffix, Jobs: []string{c.name + "-" + suffix + "-jobs"}, Tiers: tiers},
		kafka: []kgo.Opt{kgo.SeedBrokers(c.stack.Brokers()...), kgo.SASL(plain.Auth{User: "canary", Pass: c.passwords["password of the broker"]}.AsMechanism())}}
	g.apply(2)
	cl, err := kgo.NewClient(g.kafka...)
	if err != nil {
		c.t.Fatal(err)
	}
	defer cl.Close()
	topics := append(g.topo.Lanes(), g.topo.Evidence(), g.topo.DLQ(), g.topo.Parked())
	resp, err := kadm.NewClient(cl).AlterTopicConfigs(c.t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "compression.type", Value: new("uncompressed")}}, topics...)
	for _, r := range resp {
		err = errors.Join(err, r.Err)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return g
}

// environment returns the variables of all processes.
func (c *canary) environment() []string {
	return []string{
		"KAFKA_BROKERS=" + strings.Join(c.stack.Brokers(), ","), "KAFKA_SASL_MECHANISM=PLAIN", "KAFKA_SASL_USERNAME=canary", "KAFKA_SASL_PASSWORD=" + c.passwords["password of the broker"],
		"CLICKHOUSE_ADDR=" + c.stack.ClickHouseAddr(), "CLICKHOUSE_USERNAME=canary", "CLICKHOUSE_PASSWORD=" + c.passwords["password of the store"], "CLICKHOUSE_DATABASE=" + c.name,
		"SHOP_TOKEN=" + c.passwords["token of the jobs file"], "REPORTS_DB_PASSWORD=" + c.passwords["password of another database"],
		"FTP_PROXY=ftp://svc:" + c.passwords["password of a proxy"] + "@proxy.internal:2121", "JOBTRAIL_LOG_LEVEL=debug",
	}
}

// migrate makes the store's tables, and lets them write everything as it is.
func (c *canary) migrate() {
	c.t.Helper()
	c.run("migration", c.environment(), c.name, "migrate")
	conn := c.open()
	defer conn.Close()
	rows, err := conn.Query(c.t.Context(), `SELECT database, table, groupArray(name) FROM system.columns WHERE (database, table) IN
		(SELECT database, name FROM system.tables WHERE startsWith(database, ?) AND engine LIKE '%MergeTree') AND default_kind NOT IN ('ALIAS', 'EPHEMERAL') GROUP BY 1, 2`, c.name)
	if err != nil {
		c.t.Fatal(err)
	}
	defer rows.Close()
	tables := 0
	for rows.Next() {
		var database, table string
		var columns []string
		if err := rows.Scan(&database, &table, &columns); err != nil {
			c.t.Fatal(err)
		}
		for i := range columns {
			columns[i] = "MODIFY COLUMN `" + columns[i] + "` CODEC(NONE)"
		}
		columns = append(columns, "MODIFY SETTING compress_primary_key = 0, compress_marks = 0")
		if err := conn.Exec(c.t.Context(), fmt.Sprintf("ALTER TABLE %s.%s %s", database, table, strings.Join(columns, ", "))); err != nil {
			c.t.Fatalf("%s.%s: %v", database, table, err)
		}
		tables++
	}
	if err := rows.Err(); err != nil || tables < 10 {
		c.t.Fatalf("%d tables, %v", tables, err)
	}
}

// open opens the store as the user that needs no password.
func (c *canary) open() driver.Conn {
	c.t.Helper()
	conn, err := clickhouse.Open(&clickhouse.Options{Addr: []string{c.stack.ClickHouseAddr()}})
	if err != nil {
		c.t.Fatal(err)
	}
	return conn
}

// jobsFile has an endpoint and a command that repeat what they are given.
func (c *canary) jobsFile() string {
	var called sync.Once
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.HasPrefix(r.Header.Get("Jobtrail-Job-Type"), "once") {
			called.Do(func() { close(c.called) })
			<-r.Context().Done()
			return
		}
		conn, _, err := http.NewResponseController(rw).Hijack()
		if err != nil {
			c.t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprintf(conn, "HTTP/1.1 500 %s %s for %s\r\nX-Echo: %s\r\nRetry-After: %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
			c.word, body, r.Header.Get("Authorization"), body, body, len(body), body)
	}))
	c.t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	path := filepath.Join(c.t.TempDir(), "jobs.yaml")
	text := fmt.Sprintf(`topics: [%s]
tiers: [0s, 1s]
defaults: {retry: {max_attempts: 2, initial: 1s}, timeout: 60s}
types:
  http-%[2]s: {http: {url: "%[3]s/hook?token=${SHOP_TOKEN}", headers: {Authorization: "Bearer ${SHOP_TOKEN}"}}}
  once-%[2]s: {http: {url: "%[3]s"}, idempotent: false}
  exec-%[2]s: {exec: {argv: [sh, -c, 'echo begun >&2; printf "%[4]s %%s " "$TOKEN" >&2; cat >&2; exit 75'], env: {TOKEN: "${SHOP_TOKEN}"}}}
`, c.commands.topo.Jobs[0], c.name, srv.URL, c.word)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
	return path
}

// logBuffer is written by several goroutines.
type logBuffer struct {
	mu sync.Mutex
	b  []byte
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.b = append(b.b, p...)
	return len(p), nil
}

func (b *logBuffer) bytes() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.b)
}

// embed runs a worker as a Go team does, with handlers that fail with what they
// are given. The log is not one that cleans.
func (c *canary) embed() (log *logBuffer, stop func(), registry *prometheus.Registry) {
	c.t.Helper()
	log, registry = &logBuffer{}, prometheus.NewRegistry()
	exporter, err := otlptracehttp.New(c.t.Context(), otlptracehttp.WithEndpointURL(c.rec.srv.URL+"/v1/traces"))
	if err != nil {
		c.t.Fatal(err)
	}
	tracer := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter))
	fail := func(name string, how func(text string) error) worker.Type {
		return worker.Type{Name: name + "-" + c.name, Policy: policy(func(p *retrytopics.Policy) { p.MaxAttempts = 1 }),
			Handler: worker.HandlerFunc(func(_ context.Context, j *worker.Job) error { return how(c.word + " " + string(j.Value)) })}
	}
	w, err := worker.New(worker.Config{Group: c.embedded.topo.Group, Topics: c.embedded.topo.Jobs, Tiers: c.embedded.topo.Tiers, Types: []worker.Type{
		fail("error", func(text string) error { return fmt.Errorf("calling the bank: %w", errors.New(text)) }),
		fail("joined", func(text string) error { return errors.Join(errors.New("first"), worker.Permanent(errors.New(text))) }),
		fail("type", func(text string) error {
			return &worker.Error{Class: events.ClassPermanent, Type: text, Err: errors.New(c.word)}
		}),
		fail("panic", func(text string) error { panic(text) }),
		fail("panic-error", func(text string) error { panic(errors.New(text)) }),
	}}, worker.Deps{Kafka: c.embedded.kafka, Log: slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})), Registry: registry, Tracer: tracer,
		Sanitizer: redact.New(nil, c.environment())})
	if err != nil {
		c.t.Fatal(err)
	}
	end := runUntilStopped(c.t, w)
	stop = sync.OnceFunc(func() {
		end()
		last, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := tracer.Shutdown(last); err != nil {
			c.t.Errorf("sending the last spans: %v", err)
		}
	})
	c.t.Cleanup(stop)
	return log, stop, registry
}

var embeddedTypes = []string{"error", "joined", "type", "panic", "panic-error"}

func (c *canary) embeddedJobs() int { return len(c.samples) * len(embeddedTypes) }

// publish publishes a job of every type for every class, some that cannot be
// decoded, and one that hangs. It returns how many the commands' group gets.
func (c *canary) publish() (n int) {
	c.t.Helper()
	var list, embedded []jobs.Job
	job := func(typ, id, text string) jobs.Job {
		// The producer's own headers and its key hold what the payload holds.
		return jobs.Job{ID: id + "-" + typ + "-" + c.name, Type: typ + "-" + c.name, OperationID: "op-" + c.name, TenantID: "tenant-" + c.name, Value: []byte(text), Key: []byte(text),
			Headers: []kgo.RecordHeader{{Key: "x-secret", Value: []byte(text)}}}
	}
	for class, samples := range c.samples {
		for k, typ := range []string{"exec", "http"} {
			list = append(list, job(typ, class, samples[k].Text))
		}
		for k, typ := range embeddedTypes {
			embedded = append(embedded, job(typ, class, samples[k%len(samples)].Text))
		}
	}
	for what, password := range c.passwords {
		// What the processes hold is found by its value alone.
		if !strings.HasPrefix(what, "wrong") && what != "password in an address" {
			id := "known-" + planted.Draw(c.r, 6, planted.Lower)
			list = append(list, job("exec", id, "logging in with "+password+" failed"), job("http", id, "logging in with "+password+" failed"))
		}
	}
	list = append(list, job("once", "hangs", c.samples["jwt"][0].Text))
	c.commands.publish(list...)
	c.embedded.publish(embedded...)

	cl, err := kgo.NewClient(append(c.commands.kafka, kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))...)
	if err != nil {
		c.t.Fatal(err)
	}
	defer cl.Close()
	var raw []*kgo.Record
	for class, samples := range c.samples {
		text := samples[2].Text
		for _, header := range []string{retrytopics.HeaderJobID, retrytopics.HeaderNotBefore, retrytopics.HeaderDeadline} {
			value := c.word + "\n" + text
			h := []kgo.RecordHeader{{Key: retrytopics.HeaderJobType, Value: []byte("http-" + c.name)}, {Key: header, Value: []byte(value)}, {Key: retrytopics.HeaderContentType, Value: []byte(text)}}
			raw = append(raw, &kgo.Record{Topic: c.commands.topo.Jobs[0], Value: []byte(text), Headers: h})
		}
		// A good job with a trace state that no tracer would write.
		raw = append(raw, &kgo.Record{Topic: c.commands.topo.Jobs[0], Value: []byte(text), Headers: []kgo.RecordHeader{
			{Key: retrytopics.HeaderJobType, Value: []byte("exec-" + c.name)}, {Key: retrytopics.HeaderJobID, Value: []byte("traced-" + class + "-" + c.name)},
			{Key: retrytopics.HeaderTraceParent, Value: []byte("00-" + planted.Draw(c.r, 32, "123456789abcdef") + "-" + planted.Draw(c.r, 16, "123456789abcdef") + "-01")},
			{Key: retrytopics.HeaderTraceState, Value: []byte("shop=" + c.samples["vendor"][0].Secret)}}})
	}
	if err := cl.ProduceSync(c.t.Context(), raw...).FirstErr(); err != nil {
		c.t.Fatal(err)
	}
	return len(list) + len(raw)
}

// wrongLogins runs processes with wrong passwords, and with passwords in wrong
// places.
func (c *canary) wrongLogins(env []string) {
	c.t.Helper()
	brokers := c.start("worker", append(slices.Clip(env), "KAFKA_SASL_PASSWORD="+c.passwords["wrong password of the broker"]))
	address := c.start("worker", append(slices.Clip(env), "KAFKA_BROKERS=kafka://svc:"+c.passwords["password in an address"]+"@127.0.0.1:1"))
	address2 := c.start("projector", append(slices.Clip(env), "CLICKHOUSE_ADDR=svc:"+c.passwords["password in an address"]+"@127.0.0.1:1"))
	file := filepath.Join(c.t.TempDir(), "jobs.yaml")
	if err := os.WriteFile(file, []byte("topics: [x]\ntypes:\n  x: {exec: {argv: [\"${SHOP_TOKEN}\"]}}\n"), 0o600); err != nil {
		c.t.Fatal(err)
	}
	wrongFile := start(c.t, "worker", append(slices.Clip(env), "JOBTRAIL_GROUP="+c.name, "JOBTRAIL_JOBS_FILE="+file)...)
	other := c.refusing()
	store := c.start("projector", append(slices.Clip(env), other...))
	store.says("the store is not ready", 1, 30*time.Second)
	for n := 2; !bytes.Contains(store.log(), []byte("code: 516")); n++ { // it aborted before it answered
		c.refusing()
		store.says("the store is not ready", n, 30*time.Second)
	}
	c.look("readiness of a projector with a wrong password", store.get("/readyz"), c.name)
	c.look("metrics of a projector with a wrong password", store.get("/metrics"), "jobtrail_projector")
	store.kill()
	<-brokers.done
	<-address.done
	<-address2.done
	<-wrongFile.done
	c.look("log of a worker with a wrong password", brokers.log(), "SASL_AUTHENTICATION_FAILED")
	c.look("log of a projector with a wrong password", store.log(), "code: 516")
	c.look("words of a worker whose command is a token", wrongFile.log(), "types.x.exec.argv")
	c.look("words of a worker with a password in an address", address.log(), "KAFKA_BROKERS")
	c.look("words of a projector with a password in an address", address2.log(), "CLICKHOUSE_ADDR")
}

// refusing returns variables with a wrong password for a ClickHouse that refuses
// it. It is one of its own: the embedded library answers, and then aborts.
func (c *canary) refusing() []string {
	c.t.Helper()
	if c.other.ClickHouse.PID() == 0 {
		if err := c.other.ClickHouse.Restart(c.t.Context()); err != nil {
			c.t.Fatal(err)
		}
	}
	return []string{"CLICKHOUSE_ADDR=" + c.other.ClickHouseAddr(), "CLICKHOUSE_PASSWORD=" + c.passwords["wrong password of the store"]}
}

func (c *canary) start(name string, env []string) *process {
	c.t.Helper()
	return start(c.t, name, append(slices.Clip(env), "JOBTRAIL_GROUP="+c.name+"-other", "JOBTRAIL_GROUPS="+c.name+"-other", "JOBTRAIL_JOBS_FILE="+c.file)...)
}

// log returns what the process has said.
func (p *process) log() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return []byte(strings.Join(p.lines, "\n"))
}

var adminAddr = regexp.MustCompile(`admin_addr=(\S+)`)

// get asks the process's admin server.
func (p *process) get(path string) []byte {
	p.t.Helper()
	p.says("admin_addr=", 1, 30*time.Second)
	client := &http.Client{Timeout: 20 * time.Second}
	resp, err := client.Get("http://" + string(adminAddr.FindSubmatch(p.log())[1]) + path)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return b
}

func (r *receiver) bytes() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.raw)
}

// untilStored waits until the store holds the logs of both groups.
func (c *canary) untilStored() {
	c.t.Helper()
	conn := c.open()
	defer conn.Close()
	var want int
	for _, g := range []*group{c.commands, c.embedded} {
		d, err := loadtest.ReadDump(c.t.Context(), g.kafka, g.topo)
		if err != nil {
			c.t.Fatal(err)
		}
		want += len(d.Evidence)
	}
	var n uint64
	for deadline := time.Now().Add(30 * time.Second); ; <-time.After(100 * time.Millisecond) {
		if err := conn.QueryRow(c.t.Context(), "SELECT count() FROM "+c.name+".evidence").Scan(&n); err != nil {
			c.t.Fatal(err)
		}
		if n >= uint64(want) {
			return
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("the store has %d of %d events", n, want)
		}
	}
}

// commandLine asks the command line for everything, in both formats.
func (c *canary) commandLine(env []string) {
	group := c.commands.topo.Group
	for _, output := range []string{"table", "json"} {
		for _, q := range []struct {
			want string
			args []string
		}{
			{c.word, []string{"op", "show", "op-" + c.name}},
			{c.word, []string{"job", "show", "jwt-exec-" + c.name}},
			{c.word, []string{"job", "show", "pem-panic-" + c.name}},
			{c.name, []string{"job", "list"}},
			{c.name, []string{"dlq", "list", "--group", group}},
			{c.name, []string{"dlq", "show", "opaque-http-" + c.name, "--group", group}},
			{c.name, []string{"dlq", "show", "card-type-" + c.name, "--group", c.embedded.topo.Group}},
			{c.name, []string{"parked", "list", "--group", group}},
			{c.name, []string{"parked", "show", "hangs-once-" + c.name, "--group", group}},
			{c.name, []string{"queue", "list"}},
			{c.name, []string{"doctor"}},
		} {
			c.run(strings.Join(q.args, " "), env, q.want, append(q.args, "-o", output)...)
		}
	}
	// Records that cannot be decoded have no job id.
	for p := range 2 {
		c.run("malformed", env, "malformed", "dlq", "list", "--group", group, "--reason", "malformed", "-o", "json")
		c.malformed(env, group, int32(p))
	}
	c.run("doctor with wrong passwords", append(append(slices.Clip(env), "KAFKA_SASL_PASSWORD="+c.passwords["wrong password of the broker"]), c.refusing()...), "SASL_AUTHENTICATION_FAILED", "doctor")
	c.run("op show with a wrong password", append(slices.Clip(env), c.refusing()...), "no ClickHouse answers", "op", "show", "op-"+c.name)
	c.run("dlq list with a wrong password", append(slices.Clip(env), "KAFKA_SASL_PASSWORD="+c.passwords["wrong password of the broker"]), "SASL_AUTHENTICATION_FAILED", "dlq", "list", "--group", group)
	c.run("queue list with a password in an address", append(slices.Clip(env), "KAFKA_BROKERS=kafka://svc:"+c.passwords["password in an address"]+"@127.0.0.1:1"), "KAFKA_BROKERS", "queue", "list")
}

// malformed shows a record of the dead-letter topic that could not be decoded.
func (c *canary) malformed(env []string, group string, partition int32) {
	d, err := loadtest.ReadDump(c.t.Context(), c.commands.kafka, c.commands.topo)
	if err != nil {
		c.t.Fatal(err)
	}
	shown := 0
	for _, r := range d.Records[c.commands.topo.DLQ()] {
		if s, err := retrytopics.State(r.Headers); err == nil && s.Reason == events.ReasonMalformed && r.Partition == partition && shown < 4 {
			c.run("dlq show of a malformed record", env, "malformed", "dlq", "show", fmt.Sprintf("%d/%d", r.Partition, r.Offset), "--group", group)
			shown++
		}
	}
	if shown == 0 {
		c.t.Errorf("no malformed record in partition %d", partition)
	}
}

// run runs the command line, and looks at both of its streams.
func (c *canary) run(what string, env []string, want string, args ...string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 40*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, built(c.t, "jobtrail"), args...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + c.t.TempDir()}, env...)
	out, err := cmd.CombinedOutput()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		c.t.Fatal(err)
	}
	c.look("jobtrail "+what, out, want)
}

// headers looks at what jobtrail adds to records: all but payload, key and the
// producer's own headers.
func (c *canary) headers() {
	for _, g := range []*group{c.commands, c.embedded} {
		d, err := loadtest.ReadDump(c.t.Context(), g.kafka, g.topo)
		if err != nil {
			c.t.Fatal(err)
		}
		for topic, records := range d.Records {
			var ours []byte
			for _, r := range records {
				for _, h := range r.Headers {
					if retrytopics.Ours(h.Key) {
						ours = append(append(append(append(ours, h.Key...), 0), h.Value...), 0)
					}
				}
			}
			if len(records) == 0 || g.topo.Role(topic) == retrytopics.RoleJobs {
				continue
			}
			c.look("headers of "+strings.TrimPrefix(topic, c.name), ours, c.name)
		}
	}
	for _, topic := range []string{c.commands.topo.Retry(time.Second), c.commands.topo.DLQ(), c.commands.topo.Parked(), c.embedded.topo.DLQ()} {
		if !slices.ContainsFunc(c.spots, func(s spot) bool { return s.name == "headers of "+strings.TrimPrefix(topic, c.name) }) {
			c.t.Errorf("no record was in %s", topic)
		}
	}
}

// files looks at all files of both servers but those that hold jobs, in which
// every class must be found.
func (c *canary) files() {
	c.t.Helper()
	holdsJobs := func(path string) bool {
		for _, g := range []*group{c.commands, c.embedded} {
			for _, topic := range append(slices.Clone(g.topo.Jobs), g.topo.DLQ(), g.topo.Parked(), g.topo.Group+".retry.") {
				if strings.Contains(path, "/"+topic) {
					return true
				}
			}
		}
		return false
	}
	var held []byte
	evidence := make(map[string][]byte)
	err := filepath.WalkDir(c.dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) { // a part that was merged away
			return nil
		}
		if err != nil || !d.Type().IsRegular() || filepath.Base(path) == "server.properties" || filepath.Base(path) == "format.properties" {
			return err
		}
		if strings.HasSuffix(path, ".index") || strings.HasSuffix(path, ".timeindex") {
			return nil // offsets and times, in 10 MB of zeros each
		}
		b, err := os.ReadFile(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case holdsJobs(path):
			held = append(held, b...)
			return nil
		}
		for _, g := range []*group{c.commands, c.embedded} {
			if strings.Contains(path, "/"+g.topo.Evidence()+"-") && strings.HasSuffix(path, ".log") {
				evidence[g.topo.Evidence()] = append(evidence[g.topo.Evidence()], b...)
				return nil
			}
		}
		c.look("file "+strings.TrimPrefix(path, c.dir), b, "")
		return nil
	})
	if err != nil {
		c.t.Fatal(err)
	}
	for _, g := range []*group{c.commands, c.embedded} {
		c.look("segments of "+g.topo.Evidence(), evidence[g.topo.Evidence()], c.word)
	}
	// The search would find them.
	found := strings.Join(c.needles.find(held), " ")
	for class := range c.samples {
		if !strings.Contains(found, class+" (raw)") {
			c.t.Errorf("%s is not found in the segments of job topics, so the search proves nothing", class)
		}
	}
}

// tables looks at the parts of every table.
func (c *canary) tables() {
	c.t.Helper()
	conn := c.open()
	defer conn.Close()
	rows, err := conn.Query(c.t.Context(), "SELECT table, path FROM system.parts WHERE startsWith(database, ?) AND active AND rows > 0", c.name)
	if err != nil {
		c.t.Fatal(err)
	}
	defer rows.Close()
	parts := make(map[string][]byte)
	for rows.Next() {
		var table, path string
		if err := rows.Scan(&table, &path); err != nil {
			c.t.Fatal(err)
		}
		err := filepath.WalkDir(path, func(file string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) || err == nil && d.IsDir() { // merged away meanwhile
				return nil
			}
			b, err := os.ReadFile(file)
			parts[table] = append(parts[table], b...)
			return err
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			c.t.Fatal(err)
		}
	}
	if err := rows.Err(); err != nil {
		c.t.Fatal(err)
	}
	for table, want := range map[string]string{"evidence": c.word, "failures": c.name, "jobs": c.name, "timeline": c.name, "attempt_ids": c.name} {
		c.look("parts of the table "+table, parts[table], want)
	}
	c.t.Logf("parts of %d tables", len(parts))
}
