package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jobtrail/jobtrail/internal/connect/documented"
)

const goodJobs = `topics: [shop.jobs]
concurrency: 7
unknown_types: skip
dedup: {window: 2h, max_ids: 9}
tiers: [0s, 5s]
types:
  charge-card:
    http: {url: "https://pay.internal/charge", headers: {Authorization: "Bearer ${PAY_TOKEN}"}}
    concurrency: 3
    idempotent: false
  thumbnail:
    exec: {argv: [sh, -c, "exit 0"]}
    timeout: 10m
`

func jobsFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "jobs.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// secret is built at run time so that no file holds something like one.
func secret() string { return strings.Repeat("s3", 5) }

func environ(t *testing.T, jobs string, more ...string) []string {
	return append([]string{
		"KAFKA_BROKERS=127.0.0.1:1", "JOBTRAIL_GROUP=shop", "JOBTRAIL_JOBS_FILE=" + jobsFile(t, jobs), "JOBTRAIL_ADMIN_ADDR=127.0.0.1:0", "PAY_TOKEN=" + secret(), "PATH=" + os.Getenv("PATH"),
	}, more...)
}

func call(environ []string, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = run(context.Background(), process{args, environ, &out, &errs})
	return code, out.String(), errs.String()
}

func TestFlags(t *testing.T) {
	for _, tt := range []struct {
		args         string
		code         int
		stdout, errs string
	}{
		{"--help", 0, "JOBTRAIL_JOBS_FILE", ""},
		{"-h", 0, "KAFKA_BROKERS", ""},
		{"--version", 0, "worker ", ""},
		{"--schema", 0, `"title": "jobtrail jobs file"`, ""},
		{"--nope", exitUsage, "", "flag provided but not defined: -nope"},
		{"run", exitUsage, "", "unexpected argument run"},
		{"", exitUsage, "", "KAFKA_BROKERS: is required and not set"},
	} {
		t.Run(tt.args, func(t *testing.T) {
			code, stdout, errs := call(nil, strings.Fields(tt.args)...)
			if code != tt.code || !strings.Contains(stdout, tt.stdout) || !strings.Contains(errs, tt.errs) || (tt.errs == "") != (errs == "") {
				t.Errorf("code %d, want %d\nstdout: %s\nstderr: %s", code, tt.code, stdout, errs)
			}
		})
	}
}

func TestHelpListsEveryVariable(t *testing.T) {
	_, stdout, _ := call(nil, "--help")
	flat := strings.Join(strings.Fields(stdout), " ")
	for _, want := range []string{
		"KAFKA_BROKERS list required Seed", "KAFKA_SASL_PASSWORD secret - SASL", "JOBTRAIL_GROUP text required Worker", "JOBTRAIL_JOBS_FILE text jobs.yaml File",
		"JOBTRAIL_ADMIN_ADDR text 127.0.0.1:8081 Where", "JOBTRAIL_SLOT text - Stable", "JOBTRAIL_GRACE duration 25s How", "JOBTRAIL_LOG text json Format",
		"OTEL_EXPORTER_OTLP_ENDPOINT text - Base", "OTEL_SDK_DISABLED switch false Send",
	} {
		if !strings.Contains(flat, want) {
			t.Errorf("no %q in\n%s", want, stdout)
		}
	}
}

func TestEveryProblemIsReportedAtOnce(t *testing.T) {
	path := jobsFile(t, "topics: []\nbogus: 1\ntypes:\n  t:\n    exec: {argv: [x]}\n    timeout: ${WAIT}\n")
	code, _, stderr := call([]string{
		"KAFKA_BROKERS=nowhere", "KAFKA_TLS=x", "JOBTRAIL_GROUP=a/b", "JOBTRAIL_JOBS_FILE=" + path, "JOBTRAIL_ADMIN_ADDR=8081", "JOBTRAIL_GRACE=0s", "JOBTRAIL_LOG=xml", "JOBTRAIL_LOG_LEVEL=loud",
		"OTEL_EXPORTER_OTLP_ENDPOINT=collector:4318", "OTEL_EXPORTER_OTLP_PROTOCOL=grpc",
	})
	if code != exitUsage {
		t.Errorf("code %d", code)
	}
	for _, want := range []string{
		`KAFKA_TLS is "x", it must be true or false`, `JOBTRAIL_GROUP: group "a/b": 1 to 200 letters`, `JOBTRAIL_ADMIN_ADDR: "8081" is not host:port`, "JOBTRAIL_GRACE: 0s is not positive",
		`JOBTRAIL_LOG: "xml" is neither json nor text`, `JOBTRAIL_LOG_LEVEL: "loud" is none of`, "OTEL_EXPORTER_OTLP_ENDPOINT: it is no http or https URL", `OTEL_EXPORTER_OTLP_PROTOCOL: "grpc" is not supported`,
		path + ":1:1: topics: must not be empty", path + ":2:1: bogus: the key is not known here", path + ":6:14: types.t.timeout: the environment variable WAIT is not set",
	} {
		if !strings.Contains(stderr, "\n  "+want) {
			t.Errorf("no line %q in\n%s", want, stderr)
		}
	}
}

func TestProblemsOfTheWhole(t *testing.T) {
	for _, tt := range []struct {
		name, jobs string
		more       []string
		want       string
	}{
		{"no file", "", []string{"JOBTRAIL_JOBS_FILE=/nowhere/jobs.yaml"}, "JOBTRAIL_JOBS_FILE: open /nowhere/jobs.yaml: no such file"},
		{"no TLS file", goodJobs, []string{"KAFKA_TLS=true", "KAFKA_TLS_CA_FILE=/nowhere/ca.pem"}, "KAFKA_TLS_CA_FILE: open /nowhere/ca.pem"},
		{"no command", strings.Replace(goodJobs, "[sh,", "[jobtrail-no-such-command,", 1), nil, `:12:19: types.thumbnail.exec.argv[0]: no such command: it is not in PATH`},
		{"no command beside another problem", strings.NewReplacer("[sh,", "[./nowhere.sh,", "timeout: 10m", "timeout: soon").Replace(goodJobs), nil, `:12:19: types.thumbnail.exec.argv[0]: it cannot be run in the command's directory: `},
		{"the group's own topic", strings.Replace(goodJobs, "[shop.jobs]", "[shop.dlq]", 1), nil, `job topic "shop.dlq" is the group's own dlq topic`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			code, _, stderr := call(environ(t, tt.jobs, tt.more...), "--check")
			if code != exitUsage || !strings.Contains(stderr, tt.want) {
				t.Errorf("code %d, no %q in\n%s", code, tt.want, stderr)
			}
		})
	}
}

func TestCheckRunsNothing(t *testing.T) {
	code, stdout, stderr := call(environ(t, goodJobs), "--check")
	if code != 0 || stdout != "ok: 2 job types, topics shop.jobs\n" || stderr != "" {
		t.Errorf("code %d\n%s%s", code, stdout, stderr)
	}
}

func TestConfigureMakesTheWorkersConfiguration(t *testing.T) {
	password, header := "pw"+secret(), "h d"+secret()
	p, clean, err := configure(environ(t, goodJobs, "KAFKA_SASL_MECHANISM=PLAIN", "KAFKA_SASL_USERNAME=u", "KAFKA_SASL_PASSWORD="+password,
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_HEADERS=authorization=h%20d"+secret()+",x=y", "JOBTRAIL_SLOT=w1", "JOBTRAIL_GRACE=3s"))
	if err != nil {
		t.Fatal(err)
	}
	w := p.worker
	if got := fmt.Sprintf("%v %v %v %v %v %v %v %v %v", w.Group, w.Topics, w.Tiers, w.Concurrency, w.UnknownTypes, w.DedupWindow, w.DedupMax, w.Slot, w.Grace); got != "shop [shop.jobs] 0s 5s 7 skip 2h0m0s 9 w1 3s" {
		t.Errorf("got %s", got)
	}
	charge, thumb := w.Types[0], w.Types[1]
	if charge.Name != "charge-card" || charge.Concurrency != 3 || charge.Policy.Idempotent || thumb.Name != "thumbnail" || thumb.Policy.Timeout != 10*time.Minute {
		t.Errorf("got %+v", w.Types)
	}
	if c, ok := charge.Handler.(*caller); !ok || c.client.Transport.(*http.Transport).MaxIdleConnsPerHost != 3 || c.header.Get("Authorization") != "Bearer "+secret() {
		t.Errorf("got %+v", charge.Handler)
	}
	if _, ok := thumb.Handler.(*runner); !ok {
		t.Errorf("got %T", thumb.Handler)
	}
	for _, s := range []string{secret(), password, header} {
		if got := clean.Clean("got " + s + " here").String(); got != "got [REDACTED] here" {
			t.Errorf("the secret with %d bytes is not registered", len(s))
		}
	}
}

func TestDocumented(t *testing.T) {
	documented.Check(t, "../../docs/configuration.md", "worker", variables{})
	documented.Check(t, "../../docs/configuration.md", "tracing", tracing{})
}

// syncBuffer is a buffer that a run writes to while the test reads.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func TestATakenAdminPortEndsTheStart(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	code, _, stderr := call(environ(t, goodJobs, "JOBTRAIL_ADMIN_ADDR="+l.Addr().String()))
	if code != exitFailed || !strings.Contains(stderr, "opening the admin address "+l.Addr().String()) {
		t.Errorf("code %d\n%s", code, stderr)
	}
}

// The worker waits for its brokers, says that it is not ready, and ends in order.
func TestTheAdminServerAnswersWhileTheWorkerStarts(t *testing.T) {
	var stderr syncBuffer
	// A broker that never answers.
	broker := rawServer(t, func(_ int, _ net.Conn, br *bufio.Reader) { _, _ = io.Copy(io.Discard, br) })
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan int, 1)
	go func() {
		done <- run(ctx, process{nil, environ(t, goodJobs, "KAFKA_BROKERS="+broker, "JOBTRAIL_GRACE=100ms"), io.Discard, &stderr})
	}()
	var addr string
	eventually(t, "the admin address in the log", func() bool {
		m := regexp.MustCompile(`"admin_addr":"([^"]+)"`).FindStringSubmatch(stderr.String())
		if m != nil {
			addr = m[1]
		}
		return m != nil
	})
	if !strings.Contains(stderr.String(), `"msg":"a job type with a long timeout shares its topics with others","job_type":"thumbnail"`) {
		t.Errorf("no warning of the long timeout in\n%s", stderr.String())
	}
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	get := func(path string) (int, string) {
		resp, err := client.Get("http://" + addr + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(b)
	}
	if status, body := get("/livez"); status != 200 {
		t.Errorf("/livez: %d %s", status, body)
	}
	if status, body := get("/readyz"); status != 503 {
		t.Errorf("/readyz: %d %s", status, body)
	}
	if _, body := get("/metrics"); !strings.Contains(body, "\njobtrail_worker_") || !strings.Contains(body, "\ngo_goroutines ") {
		t.Errorf("/metrics has %.300s", body)
	}
	cancel()
	select {
	case code := <-done:
		if code != exitDone {
			t.Errorf("exit code %d\n%s", code, stderr.String())
		}
		if strings.Contains(stderr.String(), secret()) {
			t.Errorf("the log shows a secret:\n%s", stderr.String())
		}
	case <-time.After(30 * time.Second):
		t.Fatalf("no end within 30 s of the signal\n%s", stderr.String())
	}
}

// The helper is this test's binary: it says when its context ended, and goes on.
func TestASecondSignalEndsTheProcessAtOnce(t *testing.T) {
	var out syncBuffer
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), helperSignals+"=1")
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan struct{})
	go func() { _ = cmd.Wait(); close(exited) }()
	says := func(word string) { eventually(t, word, func() bool { return strings.Contains(out.String(), word) }) }
	says("started")
	_ = cmd.Process.Signal(syscall.SIGTERM)
	says("first signal")
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for timeout := time.After(10 * time.Second); ; {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-exited:
			if ws := cmd.ProcessState.Sys().(syscall.WaitStatus); !ws.Signaled() || ws.Signal() != syscall.SIGTERM {
				t.Errorf("it ended with %v", cmd.ProcessState)
			}
			return
		case <-tick.C:
		case <-timeout:
			_ = cmd.Process.Kill()
			t.Fatal("further signals do not end it")
		}
	}
}
