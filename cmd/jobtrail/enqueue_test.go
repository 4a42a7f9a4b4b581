package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/jobtrail/jobtrail/pkg/events"
	"github.com/jobtrail/jobtrail/pkg/retrytopics"
)

// published is a line of enqueue -o json.
type published struct {
	JobID     string `json:"job_id"`
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
}

func publications(t *testing.T, stdout string) []published {
	t.Helper()
	var all []published
	for line := range strings.Lines(stdout) {
		var p published
		if err := json.Unmarshal([]byte(line), &p); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		all = append(all, p)
	}
	return all
}

// recordsOf returns the records of a topic, by "partition/offset".
func recordsOf(t *testing.T, cl *kgo.Client, topic string) map[string]*kgo.Record {
	t.Helper()
	ends, err := kadm.NewClient(cl).ListEndOffsets(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	want := 0
	ends.Each(func(o kadm.ListedOffset) { want += int(o.Offset) })
	reader, err := kgo.NewClient(append(cl.Opts(), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	recs := map[string]*kgo.Record{}
	for len(recs) < want {
		fs := reader.PollFetches(t.Context())
		if err := fs.Err(); err != nil {
			t.Fatal(err)
		}
		fs.EachRecord(func(r *kgo.Record) { recs[fmt.Sprintf("%d/%d", r.Partition, r.Offset)] = r })
	}
	return recs
}

func makeTopic(t *testing.T, cl *kgo.Client, topic string, partitions int32, configs map[string]string) {
	t.Helper()
	values := map[string]*string{}
	for k, v := range configs {
		values[k] = &v
	}
	adm := kadm.NewClient(cl)
	if _, err := adm.CreateTopic(t.Context(), partitions, 1, values, topic); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), 30*time.Second, errors.New("the topic did not appear in time"))
	defer cancel()
	for {
		ends, err := adm.ListEndOffsets(ctx, topic)
		if err == nil && ends.Error() == nil && len(ends[topic]) == int(partitions) {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("%v: %v, %v", context.Cause(ctx), err, ends.Error())
		}
	}
}

func TestEnqueue(t *testing.T) {
	onBoth(t, func(t *testing.T, environ []string, cl *kgo.Client, name string) {
		topic := name + ".jobs"
		makeTopic(t, cl, topic, 3, map[string]string{"max.message.bytes": "2000000"})
		data := filepath.Join(t.TempDir(), "payload")
		payload := strings.Repeat("x", 1_500_000) // above the client's own default
		if err := os.WriteFile(data, []byte(payload), 0o600); err != nil {
			t.Fatal(err)
		}
		out, _ := must(t, 0, environ, "enqueue", "--topic", topic, "--type", "charge", "--job-id", "order-1", "--operation-id", "op-1", "--tenant", "acme",
			"--not-before", "2026-01-31T12:00:00Z", "--deadline", "1769871845000", "--content-type", "text/plain", "--key", "k", "--header", "a=1=2,3", "--header", "b=", "--data-file", data, "-o", "json")
		pubs := publications(t, out)
		if len(pubs) != 1 || pubs[0].JobID != "order-1" || pubs[0].Topic != topic {
			t.Fatalf("got %+v", pubs)
		}
		rec := recordsOf(t, cl, topic)[fmt.Sprintf("%d/%d", pubs[0].Partition, pubs[0].Offset)]
		if rec == nil || string(rec.Key) != "k" || string(rec.Value) != payload {
			t.Fatalf("the record is %v", rec)
		}
		meta, err := retrytopics.Parse(rec.Headers, events.Publication{Topic: topic})
		if err != nil {
			t.Fatal(err)
		}
		want := retrytopics.Meta{JobID: "order-1", JobType: "charge", OperationID: "op-1", TenantID: "acme", NotBefore: 1769860800000, Deadline: 1769871845000, ContentType: "text/plain"}
		if meta != want {
			t.Errorf("got %+v\nwant %+v", meta, want)
		}
		if got := headersText(rec); !strings.Contains(got, "a=1=2,3\n") || !strings.Contains(got, "b=\n") {
			t.Errorf("got headers\n%s", got)
		}
		out, _ = mustWith(t, 0, environ, "from a pipe", "enqueue", "--topic", topic, "--data-file", "-")
		id, at, ok := strings.Cut(strings.TrimSpace(out), "  ")
		if !ok || len(id) != 36 {
			t.Fatalf("got %q", out)
		}
		place := strings.TrimPrefix(at, topic+"/")
		if rec := recordsOf(t, cl, topic)[place]; rec == nil || string(rec.Value) != "from a pipe" || headersText(rec) != "job-id="+id+"\n" {
			t.Errorf("the record at %s is %v", place, rec)
		}
		_, stderr := mustWith(t, 1, environ, strings.Repeat("x", 2_000_001), "enqueue", "--topic", topic, "--data-file", "-")
		if !strings.Contains(stderr, "the topic takes 2000000") {
			t.Errorf("got %s", stderr)
		}
		if _, stderr = mustWith(t, 1, environ, "", "enqueue", "--topic", topic, "--data-file", "-"); !strings.Contains(stderr, "it is empty; leave --data-file out") {
			t.Errorf("got %s", stderr)
		}
		if _, stderr = must(t, 1, environ, "enqueue", "--topic", name+".none"); !strings.Contains(stderr, "topic "+name+".none does not exist; `jobtrail topics apply` makes it") {
			t.Errorf("got %s", stderr)
		}
		if n := len(recordsOf(t, cl, topic)); n != 2 {
			t.Errorf("%d records, want 2", n)
		}
	})
}

func headersText(rec *kgo.Record) string {
	var b strings.Builder
	for _, h := range rec.Headers {
		fmt.Fprintf(&b, "%s=%s\n", h.Key, h.Value)
	}
	return b.String()
}

func TestEnqueueMany(t *testing.T) {
	onBoth(t, func(t *testing.T, environ []string, cl *kgo.Client, name string) {
		first, second := name+".a", name+".b"
		makeTopic(t, cl, first, 3, nil)
		makeTopic(t, cl, second, 1, nil)
		var lines strings.Builder
		for i := range 25_000 {
			fmt.Fprintf(&lines, `{"job_id":"job-%d","data":"%d"}`+"\n", i, i)
		}
		fmt.Fprintf(&lines, `{"topic":%q,"type":"other","tenant":"zeta","data_base64":"AP8="}`+"\n", second)
		out, stderr := mustWith(t, 0, environ, lines.String(), "enqueue", "--topic", first, "--type", "bulk", "--tenant", "acme", "--ndjson", "-", "-o", "json")
		if !strings.HasPrefix(stderr, "published 25001 jobs in ") {
			t.Errorf("got %s", stderr)
		}
		recs := recordsOf(t, cl, first)
		pubs := publications(t, out)
		if len(pubs) != 25_001 || len(recs) != 25_000 {
			t.Fatalf("%d publications, %d records", len(pubs), len(recs))
		}
		for i, p := range pubs[:25_000] {
			rec := recs[fmt.Sprintf("%d/%d", p.Partition, p.Offset)]
			if p.JobID != fmt.Sprintf("job-%d", i) || rec == nil || string(rec.Value) != fmt.Sprint(i) || headersText(rec) != "job-id="+p.JobID+"\njob-type=bulk\ntenant-id=acme\n" {
				t.Fatalf("publication %d is %+v, its record %v", i, p, rec)
			}
		}
		if rec := recordsOf(t, cl, second)["0/0"]; string(rec.Value) != "\x00\xff" || !strings.Contains(headersText(rec), "job-type=other\ntenant-id=zeta\n") {
			t.Errorf("got %v with %s", rec, headersText(rec))
		}
	})
}

const badLines = `{"job_id":"good-1"}

{"job_id":"bad\nid"}
no JSON
{"job_id":"good-2"}
{"topic":"nowhere"}
{"data":"a","headers":{"jobtrail-state":"forged"}}
`

func TestEnqueueBadLines(t *testing.T) {
	environ, cl, _ := fakeKafka(t, kfake.SeedTopics(1, "jobs"))
	file := filepath.Join(t.TempDir(), "jobs.ndjson")
	if err := os.WriteFile(file, []byte(badLines), 0o600); err != nil {
		t.Fatal(err)
	}
	const report = "line 3: malformed header job-id: byte 3 (0x0a) is not printable ASCII\n" +
		"line 4: it is no JSON object: invalid character 'o' in literal null (expecting 'u')\n" +
		"line 6: topic nowhere does not exist; `jobtrail topics apply` makes it\n" +
		"line 7: malformed header \"jobtrail-state\": the name is reserved\n"
	out, stderr := must(t, 1, environ, "enqueue", "--topic", "jobs", "--ndjson", file)
	if out != "" || stderr != report+"jobtrail enqueue: nothing was published: 4 of 6 lines are bad; --skip-bad publishes the others\n" {
		t.Errorf("got\n%s\n%s", out, stderr)
	}
	if n := len(recordsOf(t, cl, "jobs")); n != 0 {
		t.Errorf("%d records, want none", n)
	}
	out, stderr = must(t, 1, environ, "enqueue", "--topic", "jobs", "--ndjson", file, "--skip-bad")
	if want := "good-1                                jobs/0/0\ngood-2                                jobs/0/1\n"; out != want {
		t.Errorf("got\n%s", out)
	}
	if !strings.HasPrefix(stderr, report+"published 2 jobs in ") || !strings.HasSuffix(stderr, "jobtrail enqueue: 4 of 6 lines are not published: 4 bad, 0 failed\n") {
		t.Errorf("got\n%s", stderr)
	}
	if _, stderr = mustWith(t, 1, environ, strings.Repeat("x\n", 30), "enqueue", "--topic", "jobs", "--ndjson", "-"); !strings.Contains(stderr, "line 20:") || strings.Contains(stderr, "line 21:") || !strings.Contains(stderr, "… and 10 bad lines more") {
		t.Errorf("got\n%s", stderr)
	}
}

func TestEnqueueSaysWhatABrokerRefused(t *testing.T) {
	environ, _, fake := fakeKafka(t, kfake.SeedTopics(1, "jobs", "closed"))
	fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "closed", Err: kerr.TopicAuthorizationFailed, Count: -1})
	lines := `{"job_id":"a"}` + "\n" + `{"job_id":"b","topic":"closed"}` + "\n" + `{"job_id":"c"}` + "\n"
	out, stderr := mustWith(t, 1, environ, lines, "enqueue", "--topic", "jobs", "--ndjson", "-", "-o", "json")
	if pubs := publications(t, out); len(pubs) != 2 || pubs[0].JobID != "a" || pubs[1].JobID != "c" {
		t.Errorf("got %s", out)
	}
	if !strings.Contains(stderr, "line 2: job b is refused: the Kafka user lacks Write on topic closed") || !strings.Contains(stderr, "1 of 3 lines are not published: 0 bad, 1 failed") {
		t.Errorf("got %s", stderr)
	}
	if _, stderr = must(t, 1, environ, "enqueue", "--topic", "closed"); !strings.Contains(stderr, "TOPIC_AUTHORIZATION_FAILED") {
		t.Errorf("got %s", stderr)
	}
	// A broker that never has enough replicas is waited for until the timeout.
	fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "jobs", Err: kerr.NotEnoughReplicas, Count: -1})
	if _, stderr = must(t, 1, environ, "enqueue", "--topic", "jobs", "--timeout", "300ms"); !strings.Contains(stderr, "no answer within --timeout 300ms") {
		t.Errorf("got %s", stderr)
	}
	if _, stderr = mustWith(t, 1, environ, `{"job_id":"d"}`, "enqueue", "--topic", "jobs", "--ndjson", "-", "--timeout", "300ms"); !strings.Contains(stderr, "line 1: job d may or may not be published: ") {
		t.Errorf("got %s", stderr)
	}
	if _, stderr = mustWith(t, 1, environ, lines, "enqueue", "--topic", "jobs", "--ndjson", "-", "--timeout", "300ms"); !strings.Contains(stderr, "publishing: no answer within --timeout 300ms; the lines after 3 were not tried") {
		t.Errorf("got %s", stderr)
	}
}

func TestEnqueueUsage(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"enqueue", "--topic is needed"},
		{"enqueue --data-file /nowhere", "--data-file: open /nowhere"},
		{"enqueue --skip-bad --data-file /nowhere", "--topic is needed\n--skip-bad goes with --ndjson\n--data-file: open /nowhere"},
		{"enqueue --ndjson /nowhere --job-id a", "--ndjson: open /nowhere"},
		{"enqueue --topic t --skip-bad", "--skip-bad goes with --ndjson"},
		{"enqueue --ndjson f --job-id a", "--job-id and --data-file do not go with --ndjson"},
		{"enqueue --topic t --not-before soon --header x", "--not-before \"soon\": want RFC 3339"},
		{"enqueue --topic t --header x", "--header \"x\": want name=value"},
	} {
		if _, stderr := must(t, exitUsage, []string{"KAFKA_BROKERS=127.0.0.1:1"}, strings.Fields(tt.args)...); !strings.Contains(stderr, tt.want) {
			t.Errorf("%s: no %q in %s", tt.args, tt.want, stderr)
		}
	}
	environ, _, _ := fakeKafka(t, kfake.SeedTopics(1, "jobs"))
	if _, stderr := must(t, 1, environ, "enqueue", "--topic", "jobs", "--ndjson", "/nowhere"); !strings.Contains(stderr, "--ndjson: open /nowhere: no such file") {
		t.Errorf("got %s", stderr)
	}
	if _, stderr := must(t, 1, environ, "enqueue", "--topic", "jobs", "--data-file", "/nowhere"); !strings.Contains(stderr, "--data-file: open /nowhere") {
		t.Errorf("got %s", stderr)
	}
}
