package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/jobtrail/jobtrail/pkg/events"
	"github.com/jobtrail/jobtrail/pkg/retrytopics"
	"github.com/jobtrail/jobtrail/pkg/sanitize"
)

// lines is a log that can be read while it is written.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func logTo(l *lines) *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// TestEveryBadEndIsLogged says every kind of end once, and then counts.
func TestEveryBadEndIsLogged(t *testing.T) {
	var out lines
	r := newReport(logTo(&out), sanitize.New(sanitize.Config{}))
	at := func(body events.Body) *events.Event {
		return &events.Event{JobType: "charge", Publication: events.Publication{Topic: "j", Partition: 1, Offset: 7}, Run: 1, Body: body}
	}
	failed := at(&events.AttemptFinished{Outcome: events.OutcomeFailed, Error: events.Error{Class: events.ClassPermanent, Message: sanitize.Clean("404 Not Found")}})
	begun := time.Now()
	for _, said := range [][]*events.Event{
		{failed, at(&events.JobTerminal{Outcome: events.TerminalFailed, Reason: events.ReasonPermanent})},
		{at(&events.JobTerminal{Outcome: events.TerminalFailed, Reason: events.ReasonUnknownType, Detail: sanitize.Clean("no handler")})},
		{at(&events.JobTerminal{Outcome: events.TerminalFailed, Reason: events.ReasonMalformed, Detail: sanitize.Clean("job-id: bad")})},
		{at(&events.AttemptAbandoned{Cause: events.AbandonWorkerLost}), at(&events.JobTerminal{Outcome: events.TerminalFailed, Reason: events.ReasonCrashLoop})},
		{at(&events.JobTerminal{Outcome: events.TerminalExpired, Reason: events.ReasonDeadline})},
		{at(&events.JobParked{Reason: events.ParkAbandoned})},
		{at(&events.DuplicateSeen{Action: events.DuplicateRejected})},
		{at(&events.TransitionRejected{What: "job_parked", Detail: sanitize.Clean("d")})},
		{at(&events.AttemptFinished{Outcome: events.OutcomeSucceeded}), at(&events.JobTerminal{Outcome: events.TerminalSucceeded})},
	} {
		r.note(said)
		r.flush(begun, false)
	}
	for _, want := range []string{
		`level=WARN msg="a job failed for good and went to the dead-letter topic" job_type=charge reason=permanent count=1 publication=j/1/7 error_class=permanent err="404 Not Found"`,
		`reason=unknown_type count=1 publication=j/1/7 err="no handler" hint="all workers of a group must run the same types, or say unknown_types: skip"`,
		`reason=malformed count=1 publication=j/1/7 err="job-id: bad"`,
		`msg="an attempt was found without an outcome" job_type=charge reason=worker_lost count=1`,
		`reason=crash_loop count=1`,
		`level=INFO msg="a job ended without success" job_type=charge reason=expired count=1`,
		`level=WARN msg="a job was parked: it waits for a decision" job_type=charge reason=abandoned count=1`,
		`level=INFO msg="a job was published again" job_type=charge reason=rejected count=1`,
		`msg="what was to be recorded is not allowed where the job stands" job_type=charge reason=job_parked count=1`,
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the log lacks %s", want)
		}
	}
	if n := strings.Count(out.String(), "\n"); n != 9 || t.Failed() {
		t.Errorf("%d lines:\n%s", n, out.String())
	}
	// A flood is a line a minute.
	for i := range 1000 {
		r.note([]*events.Event{at(&events.DuplicateSeen{Action: events.DuplicateRejected})})
		r.flush(begun.Add(time.Duration(i)*30*time.Millisecond), false)
	}
	if n := strings.Count(out.String(), "\n"); n != 9 {
		t.Errorf("%d lines after a flood within the minute", n)
	}
	r.flush(begun.Add(reportEvery), false)
	if !strings.Contains(out.String(), "reason=rejected count=1000 ") {
		t.Errorf("the flood was not counted:\n%s", out.String())
	}
	// Names that producers make up do not fill the memory.
	for i := range 3 * maxReported {
		e := at(&events.JobTerminal{Outcome: events.TerminalFailed, Reason: events.ReasonUnknownType})
		e.JobType = fmt.Sprint("made-up-", i)
		r.note([]*events.Event{e})
	}
	if len(r.ends) > maxReported+1 {
		t.Errorf("%d kinds are remembered", len(r.ends))
	}
	r.flush(begun.Add(reportEvery), true)
	if !strings.Contains(out.String(), "job_type=others") {
		t.Error("the others are not counted")
	}
	r.flush(begun.Add(3*reportEvery), false)
	if len(r.ends) != 0 {
		t.Errorf("%d kinds are remembered for ever", len(r.ends))
	}
}

// TestTellsAnOperatorAndAHandler runs jobs that end badly: the log says so and
// why, and a handler sees the producer's headers only, in every attempt.
func TestTellsAnOperatorAndAHandler(t *testing.T) {
	c, cl, _ := fakeKafka(t)
	publish := func(headers ...string) {
		t.Helper()
		rec := &kgo.Record{Topic: "j", Partition: 0}
		for i := 0; i < len(headers); i += 2 {
			rec.Headers = append(rec.Headers, kgo.RecordHeader{Key: headers[i], Value: []byte(headers[i+1])})
		}
		if err := cl.ProduceSync(t.Context(), rec).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	publish("job-type", "charge", "x-shop", "42", "jobtrail-state", "forged")
	publish("job-type", "chrage")
	publish("Job-Type", "charge")
	publish()
	publish("job-type", "charge", "not-before", "tomorrow", "job-id", "a\tb")
	var out lines
	seen := make(chan []kgo.RecordHeader, 10)
	policy := retrytopics.DefaultPolicy()
	policy.Initial = 10 * time.Millisecond
	w, err := New(Config{Group: "g", Topics: fakeTopology.Jobs, Tiers: fakeTopology.Tiers, Types: []Type{{Name: "charge", Policy: policy, Handler: HandlerFunc(func(_ context.Context, job *Job) error {
		seen <- job.Headers
		if job.Attempt == 1 {
			return errors.New("once")
		}
		return nil
	})}}}, Deps{Kafka: []kgo.Opt{kgo.SeedBrokers(c.ListenAddrs()...)}, Log: logTo(&out)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	for attempt := range 2 {
		select {
		case got := <-seen:
			if len(got) != 2 || got[0].Key != "job-type" || got[1].Key != "x-shop" || string(got[1].Value) != "42" {
				t.Errorf("attempt %d was given %v", attempt+1, got)
			}
		case err := <-ended:
			t.Fatalf("the worker ended: %v", err)
		case <-time.After(30 * time.Second):
			t.Fatal("the job does not run")
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`job_type=chrage reason=unknown_type count=1 publication=j/0/1 err="no handler is configured for this type"`,
		`err="there is no header job-type, so the type is the topic's name"`,
		`job_type=charge reason=malformed count=1 publication=j/0/4 err="not-before: it is neither RFC 3339 nor a number of milliseconds; job-id: byte 1 (0x09) is not printable ASCII"`,
		`level=DEBUG msg="attempt ended" job_type=charge`, `outcome=failed error_class=transient err=once`, `outcome=succeeded`,
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the log lacks %s", want)
		}
	}
	if t.Failed() {
		t.Log(out.String())
	}
}

func TestUntypedSaysWhatIsWrong(t *testing.T) {
	for _, tt := range []struct{ key, want string }{
		{"job-type", "no handler is configured for this type"},
		{"Job-Type", "there is no header job-type (Job-Type is another one: case counts), so the type is the topic's name"},
		{"x", "there is no header job-type, so the type is the topic's name"},
	} {
		e := &entry{rec: &kgo.Record{Headers: []kgo.RecordHeader{{Key: tt.key}}}}
		if got := e.untyped(); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.key, got, tt.want)
		}
	}
}
