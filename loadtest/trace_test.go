package loadtest_test

import (
	"compress/gzip"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/jobtrail/jobtrail/pkg/events"
	"github.com/jobtrail/jobtrail/pkg/jobs"
)

// receiver is an OTLP receiver that keeps the spans it gets, and the bytes.
type receiver struct {
	t   *testing.T
	srv *httptest.Server

	mu    sync.Mutex
	spans []*otlp.Span
	raw   []byte
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{t: t}
	r.srv = httptest.NewServer(r)
	t.Cleanup(r.srv.Close)
	return r
}

// ServeHTTP implements http.Handler.
func (r *receiver) ServeHTTP(rw http.ResponseWriter, req *http.Request) {
	var body io.Reader = req.Body
	if req.Header.Get("Content-Encoding") == "gzip" {
		gz, err := gzip.NewReader(req.Body)
		if err != nil {
			r.t.Errorf("reading an export: %v", err)
			return
		}
		body = gz
	}
	b, err := io.ReadAll(body)
	var export collector.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(b, &export)
	}
	if err != nil || req.URL.Path != "/v1/traces" {
		r.t.Errorf("an export to %s: %v", req.URL.Path, err)
		rw.WriteHeader(http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.raw = append(r.raw, b...)
	for _, rs := range export.ResourceSpans {
		for _, ss := range rs.ScopeSpans {
			r.spans = append(r.spans, ss.Spans...)
		}
	}
}

// of returns the spans of a job's attempts in the order of their numbers.
func (r *receiver) of(job string) []*otlp.Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []*otlp.Span
	for n := int64(1); ; n++ {
		before := len(out)
		for _, s := range r.spans {
			if text(s, "jobtrail.job_id") == job && number(s, "jobtrail.attempt") == n {
				out = append(out, s)
			}
		}
		if len(out) == before {
			return out
		}
	}
}

func text(s *otlp.Span, key string) string {
	for _, a := range s.Attributes {
		if a.Key == key {
			return a.Value.GetStringValue()
		}
	}
	return ""
}

func number(s *otlp.Span, key string) int64 {
	for _, a := range s.Attributes {
		if a.Key == key {
			return a.Value.GetIntValue()
		}
	}
	return 0
}

// traceparent is what a handler is told within the span.
func traceparent(s *otlp.Span) string {
	return fmt.Sprintf("00-%s-%s-01", hex.EncodeToString(s.TraceId), hex.EncodeToString(s.SpanId))
}

// TestTraces follows traces, as an OTLP receiver sees them, from the producer
// through every attempt to the handlers, and into the evidence.
func TestTraces(t *testing.T) {
	t.Parallel()
	defer within(t, t.Name())()
	g := newGroup(t, 2)
	w := newWitness(t, g)
	rec := newReceiver(t)
	told := filepath.Join(t.TempDir(), "told")
	file := w.jobsFile(`flaky: {http: {url: "URL"}}
command: {exec: {argv: [sh, -c, 'echo "$TRACEPARENT" >> "$FILE"; [ "$JOBTRAIL_ATTEMPT" = 2 ]'], env: {FILE: "` + told + `"}}}
`)
	w.on("flaky", func(c *call) int {
		if c.number == "3" {
			return 200
		}
		return 503
	})
	exporter, err := otlptracehttp.New(t.Context(), otlptracehttp.WithEndpointURL(rec.srv.URL+"/v1/traces"))
	if err != nil {
		t.Fatal(err)
	}
	producer := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))
	ctx, checkout := producer.Tracer("shop").Start(t.Context(), "checkout")
	if _, err := g.pub.PublishAll(ctx, []jobs.Job{{ID: "f", Type: "flaky"}}); err != nil {
		t.Fatal(err)
	}
	checkout.End()
	g.publish(jobs.Job{ID: "c", Type: "command"}) // without a trace
	p := g.worker(file, "OTEL_EXPORTER_OTLP_ENDPOINT="+rec.srv.URL)
	g.until(60*time.Second, "end of both jobs", terminals(2))
	p.stop() // sends the last spans
	s := g.check()

	root := checkout.SpanContext()
	flaky, commands := rec.of("f"), rec.of("c")
	if len(flaky) != 3 || len(commands) != 2 {
		t.Fatalf("the receiver has %d and %d attempts, wanted 3 and 2", len(flaky), len(commands))
	}
	for i, sp := range flaky {
		if id, parent := hex.EncodeToString(sp.TraceId), hex.EncodeToString(sp.ParentSpanId); id != root.TraceID().String() || parent != root.SpanID().String() {
			t.Errorf("attempt %d is in trace %s below %s, wanted %s below %s", i+1, id, parent, root.TraceID(), root.SpanID())
		}
		if failed := sp.Status.GetCode() == otlp.Status_STATUS_CODE_ERROR; failed != (i < 2) {
			t.Errorf("attempt %d has status %v", i+1, sp.Status)
		}
		if c := w.of("f")[i]; c.headers.Get("traceparent") != traceparent(sp) || text(sp, "jobtrail.attempt_id") != c.attempt.String() {
			t.Errorf("attempt %d: the endpoint was told %s of %s, the span is %s of %s", i+1, c.headers.Get("traceparent"), c.attempt, traceparent(sp), text(sp, "jobtrail.attempt_id"))
		}
	}
	if id := runOf(t, s, "f").Records[0].Event.TraceID; id != root.TraceID() {
		t.Errorf("the evidence has trace %x, wanted %s", id, root.TraceID())
	}
	// A job without a trace gets one, the same for all its attempts.
	b, err := os.ReadFile(told)
	if err != nil {
		t.Fatal(err)
	}
	if want := traceparent(commands[0]) + "\n" + traceparent(commands[1]) + "\n"; string(b) != want {
		t.Errorf("the command was told\n%swanted\n%s", b, want)
	}
	if a, b := hex.EncodeToString(commands[0].TraceId), hex.EncodeToString(commands[1].TraceId); a != b {
		t.Errorf("the attempts are in traces %s and %s", a, b)
	}
}

// TestTraceReceiverAway runs jobs while no receiver takes their traces.
func TestTraceReceiverAway(t *testing.T) {
	hanging, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { hanging.Close() })
	for name, addr := range map[string]string{"dead": "127.0.0.1:1", "hanging": hanging.Addr().String()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			defer within(t, t.Name())()
			g := newGroup(t, 2)
			w := newWitness(t, g)
			const n = 300
			p := g.worker(w.jobsFile(`job: {http: {url: "URL"}}`+"\n"), "OTEL_EXPORTER_OTLP_ENDPOINT=http://"+addr)
			list := make([]jobs.Job, n)
			for i := range list {
				list[i] = jobs.Job{ID: fmt.Sprint("job-", i), Type: "job"}
			}
			g.publish(list...)
			g.until(60*time.Second, "end of all jobs", terminals(n))
			if name == "dead" {
				p.says("traces are not sent", 1, 20*time.Second)
			}
			begun := time.Now()
			p.stop()
			if took := time.Since(begun); took > 10*time.Second {
				t.Errorf("the shutdown took %v", took)
			}
			if name == "hanging" {
				p.says("traces are lost", 1, time.Second)
			}
			if s := g.check(); len(s.Attempts) != n {
				t.Errorf("%d attempts for %d jobs", len(s.Attempts), n)
			}
		})
	}
}

// TestCommandsOnRecord runs commands and looks at what the evidence says of
// them: classes, types and messages, without the secrets that they print.
func TestCommandsOnRecord(t *testing.T) {
	t.Parallel()
	defer within(t, t.Name())()
	g := newGroup(t, 2)
	w := newWitness(t, g)
	secret := strings.Repeat("s3", 5)
	file := w.jobsFile(`refused: {exec: {argv: [sh, -c, 'echo "order $(cat) is unknown to $TOKEN" >&2; exit 65'], env: {TOKEN: "${SHOP_TOKEN}"}, exit_codes: {65: permanent}}}
crashes: {exec: {argv: [sh, -c, 'kill -SEGV $$']}, retry: {max_attempts: 1}}
hangs: {exec: {argv: [sh, -c, 'sleep 60'], kill_after: 1s}, timeout: 500ms, retry: {max_attempts: 1}}
moved: {http: {url: "URL"}}
`)
	w.on("moved", func(*call) int { return 301 })
	for _, typ := range []string{"refused", "crashes", "hangs", "moved"} {
		g.publish(jobs.Job{ID: typ, Type: typ, Value: []byte("4711")})
	}
	p := g.worker(file, "SHOP_TOKEN="+secret)
	g.until(60*time.Second, "end of all jobs", terminals(4))
	p.stop()
	s := g.check()
	for job, want := range map[string]string{
		"refused": "failed permanent exit_65: order 4711 is unknown to [REDACTED]; terminal failed permanent",
		"crashes": "failed crash signal_segv: ended by SIGSEGV; terminal failed exhausted",
		"hangs":   "timed_out timeout timeout: the command was ended: the attempt's timeout passed: context deadline exceeded; terminal failed exhausted",
		"moved":   "failed permanent http_301: HTTP/1.1 301 Moved Permanently; terminal failed permanent",
	} {
		var got []string
		for _, r := range runOf(t, s, job).Records {
			switch b := r.Event.Body.(type) {
			case *events.AttemptFinished:
				got = append(got, fmt.Sprintf("%s %s %s: %s", b.Outcome, b.Error.Class, b.Error.Type, b.Error.Message))
			case *events.JobTerminal:
				got = append(got, fmt.Sprintf("terminal %s %s", b.Outcome, b.Reason))
			}
		}
		if strings.Join(got, "; ") != want {
			t.Errorf("%s: the evidence says\n%s\nwanted\n%s", job, strings.Join(got, "; "), want)
		}
	}
}
