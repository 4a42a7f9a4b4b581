package jobs_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.opentelemetry.io/otel/trace"

	"github.com/jobtrail/jobtrail/pkg/events"
	"github.com/jobtrail/jobtrail/pkg/jobs"
	"github.com/jobtrail/jobtrail/pkg/retrytopics"
)

const topic = "shop.jobs"

// newClient returns a client of a broker of its own with the job topic in it.
func newClient(t testing.TB, partitions int32, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(partitions, topic))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(c.ListenAddrs()...), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

func newPublisher(t testing.TB, cl *kgo.Client) *jobs.Publisher {
	t.Helper()
	p, err := jobs.New(jobs.Config{Topic: topic}, cl)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func bounded(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// read returns the next n records of the topic.
func read(t testing.TB, cl *kgo.Client, n int) []*kgo.Record {
	t.Helper()
	ctx := bounded(t)
	var recs []*kgo.Record
	for len(recs) < n {
		fs := cl.PollFetches(ctx)
		if err := fs.Err(); err != nil {
			t.Fatalf("reading %d records, got %d: %v", n, len(recs), err)
		}
		recs = append(recs, fs.Records()...)
	}
	return recs
}

func headersOf(rec *kgo.Record) string {
	var b strings.Builder
	for _, h := range rec.Headers {
		fmt.Fprintf(&b, "%s=%s\n", h.Key, h.Value)
	}
	return b.String()
}

func TestPublishWritesTheRecordOfTheContract(t *testing.T) {
	cl := newClient(t, 3)
	at := time.Date(2026, 3, 1, 12, 0, 0, 1, time.FixedZone("", 3600)) // 1 ns past the second
	sc := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled})
	ctx := trace.ContextWithSpanContext(bounded(t), sc)
	pub, err := newPublisher(t, cl).Publish(ctx, jobs.Job{
		ID: "order-1/charge", Type: "charge-card", OperationID: "op-1", TenantID: "acme", NotBefore: at, Deadline: at.Add(time.Hour),
		ContentType: "application/json", Value: []byte(`{"amount":1}`), Headers: []kgo.RecordHeader{{Key: "x-shop", Value: []byte("eu")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	rec := read(t, cl, 1)[0]
	if pub != (jobs.Publication{JobID: "order-1/charge", Topic: topic, Partition: rec.Partition, Offset: rec.Offset}) {
		t.Errorf("got %+v, the record is at %d/%d", pub, rec.Partition, rec.Offset)
	}
	if string(rec.Key) != "order-1/charge" || string(rec.Value) != `{"amount":1}` {
		t.Errorf("got key %q, value %q", rec.Key, rec.Value)
	}
	want := `job-id=order-1/charge
job-type=charge-card
operation-id=op-1
tenant-id=acme
not-before=2026-03-01T11:00:00.001Z
deadline=2026-03-01T12:00:00.001Z
content-type=application/json
traceparent=00-01000000000000000000000000000000-0200000000000000-01
x-shop=eu
`
	if got := headersOf(rec); got != want {
		t.Errorf("got headers\n%s", got)
	}
	meta, err := retrytopics.Parse(rec.Headers, events.Publication{Topic: topic})
	if err != nil || meta.NotBefore.Time().Before(at) {
		t.Errorf("read back %+v, %v", meta, err)
	}
}

func TestPublishFillsOnlyTheID(t *testing.T) {
	cl := newClient(t, 3)
	p := newPublisher(t, cl)
	pub, err := p.Publish(bounded(t), jobs.Job{})
	if err != nil {
		t.Fatal(err)
	}
	rec := read(t, cl, 1)[0]
	if id, err := uuid.Parse(pub.JobID); err != nil || id.Version() != 7 {
		t.Errorf("the id %q is no UUIDv7: %v", pub.JobID, err)
	}
	if string(rec.Key) != pub.JobID || len(rec.Value) != 0 || headersOf(rec) != "job-id="+pub.JobID+"\n" {
		t.Errorf("got key %q, value %q, headers %s", rec.Key, rec.Value, headersOf(rec))
	}
	if again, err := p.Publish(bounded(t), jobs.Job{}); err != nil || again.JobID == pub.JobID {
		t.Errorf("the second job got id %q, %v", again.JobID, err)
	}
}

// The partition of a key is that of Kafka's own producers: murmur2 of
// org.apache.kafka.common.utils.Utils, whose values are given here.
func TestKeysGoWhereKafkaPutsThem(t *testing.T) {
	cl := newClient(t, 12)
	p := newPublisher(t, cl)
	for key, hash := range map[string]int32{"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536, "abc": 479470107} {
		pub, err := p.Publish(bounded(t), jobs.Job{ID: key})
		if want := (hash & 0x7fffffff) % 12; err != nil || pub.Partition != want {
			t.Errorf("%s: partition %d, want %d; %v", key, pub.Partition, want, err)
		}
		other, err := p.Publish(bounded(t), jobs.Job{ID: "other", Key: []byte(key)})
		if err != nil || other.Partition != pub.Partition {
			t.Errorf("%s as a key: partition %d, want %d; %v", key, other.Partition, pub.Partition, err)
		}
	}
}

func TestBadJobsAreNamedAndNotSent(t *testing.T) {
	cl := newClient(t, 1)
	p, err := jobs.New(jobs.Config{}, cl)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	for _, tt := range []struct {
		name string
		job  jobs.Job
		want []string
	}{
		{"no topic", jobs.Job{}, []string{"no topic is named"}},
		{"long id", jobs.Job{Topic: topic, ID: strings.Repeat("x", 201)}, []string{"malformed header job-id: 201 bytes are more than 200"}},
		{"id in another script", jobs.Job{Topic: topic, ID: "Zahlung-ü"}, []string{"malformed header job-id: byte 8 (0xc3) is not printable ASCII"}},
		{"several", jobs.Job{Type: "a\nb", OperationID: "\x00", TenantID: "\x7f", ContentType: "a\rb"}, []string{
			"no topic", "job-type: byte 1 (0x0a)", "operation-id: byte 0 (0x00)", "tenant-id: byte 0 (0x7f)", "content-type: byte 1 (0x0d) is a control character"}},
		{"times out of range", jobs.Job{Topic: topic, NotBefore: time.Unix(0, 0), Deadline: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}, []string{"not-before: it is outside", "deadline: it is"}},
		{"deadline before start", jobs.Job{Topic: topic, NotBefore: now, Deadline: now.Add(-time.Second)}, []string{"deadline: it is before not-before"}},
		{"reserved headers", jobs.Job{Topic: topic, Headers: []kgo.RecordHeader{{Key: "job-id"}, {Key: "Jobtrail-State"}, {Key: ""}, {Key: "traceparent"}}},
			[]string{`"job-id": the name is reserved`, `"Jobtrail-State": the name is reserved`, `"": the name is reserved`, `"traceparent": the name is reserved`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := p.Publish(bounded(t), tt.job)
			_, all := p.PublishAll(bounded(t), []jobs.Job{{Topic: topic, ID: "innocent"}, tt.job})
			for _, err := range []error{err, all} {
				for _, want := range tt.want {
					if err == nil || !strings.Contains(err.Error(), want) {
						t.Errorf("no %q in %v", want, err)
					}
				}
			}
			if je, ok := errors.AsType[*jobs.JobError](all); !ok || je.Index != 1 {
				t.Errorf("got %v, want a JobError of job 1", all)
			}
		})
	}
	// A job that is published now is the first of the topic.
	if pub, err := p.Publish(bounded(t), jobs.Job{Topic: topic}); err != nil || pub.Offset != 0 {
		t.Errorf("got offset %d, %v; want 0", pub.Offset, err)
	}
}

func TestPublishAllPlacesEveryJob(t *testing.T) {
	cl := newClient(t, 5)
	batch := make([]jobs.Job, 1000)
	for i := range batch {
		batch[i] = jobs.Job{ID: fmt.Sprintf("job-%d", i), Value: fmt.Append(nil, i)}
	}
	pubs, err := newPublisher(t, cl).PublishAll(bounded(t), batch)
	if err != nil {
		t.Fatal(err)
	}
	at := make(map[jobs.Publication]string)
	for _, rec := range read(t, cl, len(batch)) {
		at[jobs.Publication{JobID: string(rec.Key), Topic: rec.Topic, Partition: rec.Partition, Offset: rec.Offset}] = string(rec.Value)
	}
	for i, pub := range pubs {
		if v, ok := at[pub]; !ok || v != fmt.Sprint(i) {
			t.Fatalf("job %d: nothing of it at %+v (%q)", i, pub, v)
		}
	}
	if pubs, err := newPublisher(t, cl).PublishAll(bounded(t), nil); len(pubs) != 0 || err != nil {
		t.Errorf("an empty batch gave %v, %v", pubs, err)
	}
}

func TestPublishAllSaysWhichJobFailed(t *testing.T) {
	cl := newClient(t, 1, kgo.ProducerBatchMaxBytes(4096))
	pubs, err := newPublisher(t, cl).PublishAll(bounded(t), []jobs.Job{{ID: "a"}, {ID: "b", Value: bytes.Repeat([]byte("x"), 8192)}, {ID: "c"}})
	je, ok := errors.AsType[*jobs.JobError](err)
	if !ok || je.Index != 1 || je.JobID != "b" || strings.Count(err.Error(), "publishing job") != 1 {
		t.Fatalf("got %v, want one JobError, of b", err)
	}
	if pubs[0].Offset != 0 || pubs[1].Offset != -1 || pubs[2].Offset != 1 {
		t.Errorf("got %+v", pubs)
	}
}

func TestPublishEndsWithItsContext(t *testing.T) {
	cl, err := kgo.NewClient(kgo.SeedBrokers("127.0.0.1:1"))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	pub, err := newPublisher(t, cl).Publish(ctx, jobs.Job{ID: "a"})
	if !errors.Is(err, context.DeadlineExceeded) || pub.Offset != -1 || !strings.Contains(err.Error(), `publishing job "a"`) {
		t.Errorf("got %+v, %v", pub, err)
	}
}

func TestNewRefusesAClientThatMayLose(t *testing.T) {
	if _, err := jobs.New(jobs.Config{}, nil); err == nil {
		t.Error("no client was accepted")
	}
	cl := newClient(t, 1, kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite())
	if _, err := jobs.New(jobs.Config{}, cl); err == nil || !strings.Contains(err.Error(), "in-sync") {
		t.Errorf("got %v", err)
	}
}
