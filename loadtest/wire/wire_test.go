// Package wire_test holds the record format of docs/wire-format.md against a
// producer in another language.
package wire_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/jobtrail/jobtrail/internal/localstack"
	"github.com/jobtrail/jobtrail/internal/localstack/stacktest"
	"github.com/jobtrail/jobtrail/internal/operate"
	"github.com/jobtrail/jobtrail/pkg/events"
	"github.com/jobtrail/jobtrail/pkg/jobs"
	"github.com/jobtrail/jobtrail/pkg/retrytopics"
	"github.com/jobtrail/jobtrail/pkg/worker"
)

func TestMain(m *testing.M) { stacktest.Main(m) }

const examples = "../../docs/examples/"

// python returns a command that runs Python with what the example needs, which
// is fetched once into the cache of the local stack.
func python(ctx context.Context, t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	interpreter, err := exec.LookPath("python3")
	if err != nil {
		t.Fatal("python3 is missing: this test runs the producer of docs/wire-format.md (Debian: python3 and python3-pip)")
	}
	wanted, err := os.ReadFile(examples + "requirements.txt")
	if err != nil {
		t.Fatal(err)
	}
	version, err := exec.CommandContext(ctx, interpreter, "-c", "import sys; print(sys.implementation.cache_tag)").Output()
	if err != nil {
		t.Fatalf("asking python3 for its version: %v", err)
	}
	cache, err := localstack.CacheDir(os.Environ())
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(append(wanted, version...))
	dir := filepath.Join(cache, "python-"+hex.EncodeToString(sum[:])[:12])
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		install(ctx, t, interpreter, cache, dir)
	} else if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, interpreter, args...)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+dir, "PYTHONUTF8=1")
	return cmd
}

func install(ctx context.Context, t *testing.T, interpreter, cache, dir string) {
	t.Helper()
	if err := os.MkdirAll(cache, 0o755); err != nil {
		t.Fatal(err)
	}
	// Beside its final place, since it is moved there.
	partial, err := os.MkdirTemp(cache, "python-partial-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(partial)
	t.Logf("fetching %srequirements.txt with pip into %s (once)", examples, cache)
	pip := exec.CommandContext(ctx, interpreter, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", "--no-deps",
		"--only-binary", ":all:", "--require-hashes", "--target", partial, "-r", examples+"requirements.txt")
	if out, err := pip.CombinedOutput(); err != nil {
		t.Fatalf("pip: %v\n%s", err, out)
	}
	// Another process may have been faster; what is there is complete then.
	if err := os.Rename(partial, dir); err != nil {
		if _, there := os.Stat(dir); there != nil {
			t.Fatal(err)
		}
	}
}

// lines are what the example publishes, with what the headers must mean.
var lines = []struct {
	json  string
	meta  retrytopics.Meta
	value []byte
}{
	{`{"job_id": "order-1/charge", "job_type": "charge", "operation_id": "op-1", "tenant_id": "acme", "not_before": "2026-01-31T12:00:00.5+01:00", "deadline": 4102444800000, "content_type": "application/json", "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "data": "{\"amount\": 1, \"note\": \"ü漢\"}"}`,
		retrytopics.Meta{JobID: "order-1/charge", JobType: "charge", OperationID: "op-1", TenantID: "acme", NotBefore: 1769857200500, Deadline: 4102444800000,
			ContentType: "application/json", TraceParent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}, []byte(`{"amount": 1, "note": "ü漢"}`)},
	{`{"job_id": "null-value", "job_type": "charge"}`, retrytopics.Meta{JobID: "null-value", JobType: "charge", ContentType: "application/octet-stream"}, nil},
	{`{"job_id": "empty-value", "job_type": "charge", "data": ""}`, retrytopics.Meta{JobID: "empty-value", JobType: "charge", ContentType: "application/octet-stream"}, []byte{}},
	{`{"job_id": "order-2/charge", "job_type": "charge", "tenant_id": "acme", "data": "x"}`, retrytopics.Meta{JobID: "order-2/charge", JobType: "charge", TenantID: "acme", ContentType: "application/octet-stream"}, []byte("x")},
}

func TestProducerInPython(t *testing.T) {
	ctx, cancel := context.WithTimeoutCause(t.Context(), 4*time.Minute, errors.New("the test took more than 4 minutes"))
	defer cancel()
	brokers := stacktest.ForTest(t).Brokers
	name := "w" + strings.ReplaceAll(uuid.NewString()[:13], "-", "")
	topic := name + "-jobs"
	topology := retrytopics.Topology{Group: name, Jobs: []string{topic}, Tiers: retrytopics.Tiers{0, time.Second}}
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.MetadataMinAge(100*time.Millisecond), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	plan, err := operate.PlanTopics(ctx, cl, operate.TopicsRequest{Topology: topology, Partitions: 6})
	if err != nil {
		t.Fatal(err)
	}
	if err := operate.ApplyTopics(ctx, cl, plan, func(operate.Step) {}); err != nil {
		t.Fatal(err)
	}

	var stdin bytes.Buffer
	for _, l := range lines {
		stdin.WriteString(l.json + "\n")
	}
	cmd := python(ctx, t, examples+"produce.py", strings.Join(brokers, ","), topic)
	cmd.Stdin = &stdin
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("produce.py: %v\n%s", err, &stderr)
	}
	checkRecords(ctx, t, cl, topic, string(out))
	checkPartitions(ctx, t, cl, topic, string(out))
	runJobs(ctx, t, brokers, topology)

	// A job that the client refuses keeps nobody else from being published.
	cmd = python(ctx, t, examples+"produce.py", strings.Join(brokers, ","), topic)
	cmd.Stdin = strings.NewReader(lines[1].json + "\n" + `{"job_id": "large", "data": "` + strings.Repeat("x", 1_100_000) + "\"}\nno JSON\n" + lines[2].json + "\n")
	stderr.Reset()
	cmd.Stderr = &stderr
	again, err := cmd.Output()
	if cmd.ProcessState.ExitCode() != 1 || strings.Count(string(again), "\n") != 2 || !strings.Contains(string(again), lines[2].meta.JobID) {
		t.Errorf("produce.py: %v, printed %s", err, again)
	}
	if said := stderr.String(); !strings.Contains(said, "line 2: ") || !strings.Contains(said, "MSG_SIZE_TOO_LARGE") || !strings.Contains(said, "line 3: ") || strings.Contains(said, "Traceback") {
		t.Errorf("produce.py says %.2000s", said)
	}
}

// checkRecords holds the records on the topic against the lines.
func checkRecords(ctx context.Context, t *testing.T, cl *kgo.Client, topic, out string) {
	t.Helper()
	records := map[string]*kgo.Record{}
	for len(records) < len(lines) {
		fs := cl.PollFetches(ctx)
		if err := fs.Err(); err != nil {
			t.Fatal(err)
		}
		fs.EachRecord(func(r *kgo.Record) { records[string(r.Key)] = r })
	}
	for _, l := range lines {
		r := records[l.meta.JobID]
		if r == nil {
			t.Fatalf("%s is not on the topic", l.meta.JobID)
		}
		meta, err := retrytopics.Parse(r.Headers, events.Publication{Topic: topic, Partition: r.Partition, Offset: r.Offset})
		if err != nil || meta != l.meta {
			t.Errorf("got %+v, %v\nwant %+v", meta, err, l.meta)
		}
		if !bytes.Equal(r.Value, l.value) || (r.Value == nil) != (l.value == nil) {
			t.Errorf("%s: the value is %q, want %q", l.meta.JobID, r.Value, l.value)
		}
		if want := fmt.Sprintf("%s %s/%d/%d\n", l.meta.JobID, topic, r.Partition, r.Offset); !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// checkPartitions publishes the same ids from Go: each lands beside the first.
func checkPartitions(ctx context.Context, t *testing.T, cl *kgo.Client, topic, out string) {
	t.Helper()
	publisher, err := jobs.New(jobs.Config{Topic: topic}, cl)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range lines {
		pub, err := publisher.Publish(ctx, jobs.Job{ID: l.meta.JobID, Type: l.meta.JobType, TenantID: l.meta.TenantID})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out, fmt.Sprintf("%s %s/%d/", l.meta.JobID, topic, pub.Partition)) {
			t.Errorf("%s goes to partition %d from Go, from Python\n%s", l.meta.JobID, pub.Partition, out)
		}
	}
}

// runJobs runs them: of each id the first publication, which is Python's.
func runJobs(ctx context.Context, t *testing.T, brokers []string, topology retrytopics.Topology) {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ran := make(chan *worker.Job, 100)
	w, err := worker.New(worker.Config{Group: topology.Group, Topics: topology.Jobs, Tiers: topology.Tiers, Types: []worker.Type{{Name: "charge",
		Handler: worker.HandlerFunc(func(_ context.Context, job *worker.Job) error { ran <- job; return nil })}}},
		worker.Deps{Kafka: []kgo.Opt{kgo.SeedBrokers(brokers...)}})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	got := map[string]*worker.Job{}
	for len(got) < len(lines) {
		select {
		case job := <-ran:
			if got[job.ID] != nil {
				t.Errorf("%s ran twice", job.ID)
			}
			got[job.ID] = job
		case err := <-ended:
			t.Fatalf("the worker ended: %v", err)
		case <-ctx.Done():
			t.Fatalf("%d of %d jobs ran: %v", len(got), len(lines), context.Cause(ctx))
		}
	}
	for _, l := range lines {
		job := got[l.meta.JobID]
		if job == nil || job.OperationID != l.meta.OperationID || job.TenantID != l.meta.TenantID || job.ContentType != l.meta.ContentType || !bytes.Equal(job.Value, l.value) {
			t.Errorf("%s ran as %+v", l.meta.JobID, job)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("the worker ended with %v", err)
	}
}

// TestDocs holds the page against the example.
func TestDocs(t *testing.T) {
	page, err := os.ReadFile("../../docs/wire-format.md")
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile(examples + "produce.py")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(page, append(append([]byte("```python\n"), example...), "```\n"...)) {
		t.Error("docs/wire-format.md does not show docs/examples/produce.py as it is")
	}
	for _, header := range []string{retrytopics.HeaderJobID, retrytopics.HeaderJobType, retrytopics.HeaderOperationID, retrytopics.HeaderTenantID, retrytopics.HeaderTraceParent, retrytopics.HeaderTraceState,
		retrytopics.HeaderNotBefore, retrytopics.HeaderDeadline, retrytopics.HeaderContentType, retrytopics.HeaderState, retrytopics.HeaderOrigin, retrytopics.HeaderDueAt, retrytopics.HeaderReason} {
		if !bytes.Contains(page, []byte("`"+header+"`")) {
			t.Errorf("docs/wire-format.md does not name the header %s", header)
		}
	}
}
