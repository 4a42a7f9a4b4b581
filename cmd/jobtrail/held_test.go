package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/jobtrail/jobtrail/pkg/events"
	"github.com/jobtrail/jobtrail/pkg/retrytopics"
)

// makeGroup applies the topics of a group with two partitions and a tier of 2m.
func makeGroup(t *testing.T, environ []string, name string) retrytopics.Topology {
	t.Helper()
	topology := mustTopology(t, name, name+"-jobs")
	must(t, 0, environ, "topics", "apply", "--group", name, "--jobs", name+"-jobs", "--partitions", "2", "--tiers", "0s 2m")
	return topology
}

// inTransaction writes records as a worker does, or as one that died before its
// commit.
func inTransaction(t *testing.T, cl *kgo.Client, end kgo.TransactionEndTry, recs ...*kgo.Record) {
	t.Helper()
	producer, err := kgo.NewClient(append(cl.Opts(), kgo.TransactionalID("t-"+uuid.NewString()))...)
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	if err := producer.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := producer.ProduceSync(t.Context(), recs...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if err := producer.EndTransaction(t.Context(), end); err != nil {
		t.Fatal(err)
	}
	// The markers that make the records visible are written a moment later.
	adm := kadm.NewClient(cl)
	for deadline := time.Now().Add(30 * time.Second); ; <-time.After(10 * time.Millisecond) {
		visible := true
		for _, r := range recs {
			ends, err := adm.ListEndOffsets(t.Context(), r.Topic)
			stable, err2 := adm.ListCommittedOffsets(t.Context(), r.Topic)
			if err := errors.Join(err, err2); err != nil {
				t.Fatal(err)
			}
			last, _ := ends.Lookup(r.Topic, r.Partition)
			seen, _ := stable.Lookup(r.Topic, r.Partition)
			visible = visible && seen.Offset == last.Offset
		}
		if visible {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("a transaction that was ended is not visible within 30 s")
		}
	}
}

// dead returns the record of a job that failed for good.
func dead(topic string, partition int32, id string, change func(*kgo.Record, *events.HopState)) *kgo.Record {
	rec := &kgo.Record{Partition: partition, Key: []byte("k-" + id), Value: []byte("payload of " + id), Headers: []kgo.RecordHeader{
		{Key: "job-id", Value: []byte(id)}, {Key: "job-type", Value: []byte("charge-card")}, {Key: "tenant-id", Value: []byte("acme")},
		{Key: "operation-id", Value: []byte("op-" + id)}, {Key: "x-shop", Value: []byte("eu")}}}
	state := &events.HopState{Run: 1, Version: 9, Number: 5, BudgetUsed: 5, Origin: events.Publication{TopicID: uuid.UUID{1}, Topic: "jobs", Partition: partition, Offset: 7}, OriginAt: 1769860800000,
		ErrorClass: events.ClassTransient, AttemptID: uuid.UUID{2}, Reason: events.ReasonExhausted, State: events.StateFailed}
	if change != nil {
		change(rec, state)
	}
	return retrytopics.Hop(rec, topic, state)
}

func TestHeld(t *testing.T) {
	onBoth(t, func(t *testing.T, environ []string, cl *kgo.Client, name string) {
		topology := makeGroup(t, environ, name)
		list := func(args ...string) []string { return append([]string{"dlq", "list", "--group", name}, args...) }
		if out, _ := must(t, 0, environ, list()...); out != "Nothing in "+name+".dlq, of 0 records looked at.\n" {
			t.Errorf("got %s", out)
		}
		dlq := topology.DLQ()
		for i := range 30 {
			inTransaction(t, cl, kgo.TryCommit, dead(dlq, int32(i%2), fmt.Sprintf("job-%d", i), nil))
		}
		inTransaction(t, cl, kgo.TryAbort, dead(dlq, 0, "aborted", nil))
		inTransaction(t, cl, kgo.TryCommit, dead(dlq, 1, "job-1", func(r *kgo.Record, s *events.HopState) {
			s.Reason, s.Run, s.ErrorClass = events.ReasonPermanent, 2, events.ClassPermanent
			r.Value = nil
		}))
		inTransaction(t, cl, kgo.TryCommit, dead(dlq, 0, "bad\x1b[2J", func(_ *kgo.Record, s *events.HopState) { s.Reason, s.Number = events.ReasonMalformed, 0 }))
		// Nobody but a worker should write here, but somebody did.
		inTransaction(t, cl, kgo.TryCommit, &kgo.Record{Topic: dlq, Partition: 0, Key: []byte{0xff}, Value: []byte("stranger\x1b]0;x\x07"),
			Headers: []kgo.RecordHeader{{Key: "x\x1b[31m", Value: []byte("y\u202e\x07")}}})

		var page struct {
			Records []heldJSON
			Scanned int64
			More    bool
		}
		get := func(args ...string) {
			t.Helper()
			out, _ := must(t, 0, environ, append(list(args...), "-o", "json")...)
			page.Records = nil
			if err := json.Unmarshal([]byte(out), &page); err != nil {
				t.Fatal(err)
			}
		}
		get()
		if len(page.Records) != 33 || page.More || page.Scanned != 33 {
			t.Errorf("%d records of %d, more %t", len(page.Records), page.Scanned, page.More)
		}
		for i := 1; i < len(page.Records); i++ {
			if *page.Records[i].At > *page.Records[i-1].At {
				t.Errorf("record %d is newer than the one before it", i)
			}
		}
		get("--limit", "3")
		if len(page.Records) != 3 || !page.More || page.Records[0].StateError == nil {
			t.Errorf("got %+v", page)
		}
		get("--reason", "permanent")
		if len(page.Records) != 1 || page.Records[0].State.Run != 2 || page.Records[0].Size != nil {
			t.Errorf("got %+v", page)
		}
		get("--job-id", "job-1", "--tenant", "acme", "--operation", "op-job-1", "--type", "charge-card", "--since", "1h")
		if len(page.Records) != 2 || page.Records[0].State.Run != 2 || page.Records[1].State.Run != 1 {
			t.Errorf("got %+v", page)
		}
		get("--since", "2999-01-01T00:00:00Z")
		if len(page.Records) != 0 || page.More {
			t.Errorf("got %+v", page)
		}
		get("--job-id", "job-0", "--scan", "5")
		if len(page.Records) > 1 || page.Scanned < 5 {
			t.Errorf("got %+v", page)
		}

		out, _ := must(t, 0, environ, list("--limit", "2")...)
		lines := strings.Split(out, "\n")
		if len(lines) != 5 || !strings.HasPrefix(lines[0], "AT (UTC)             PLACE") || !strings.HasSuffix(lines[1], "?          0  -            -") || !strings.HasSuffix(lines[2], "malformed  0  charge-card  01000000-0000-0000-0000-000000000000/0/7") || !strings.Contains(lines[3], "There may be older ones") {
			t.Errorf("got\n%s", out)
		}
		safe(t, out)
		for _, line := range lines[:3] {
			if len(line) > 100 && name == "t" {
				t.Errorf("%d columns: %s", len(line), line)
			}
		}

		show := func(code int, args ...string) (string, string) {
			t.Helper()
			return must(t, code, environ, append([]string{"dlq", "show", "--group", name}, args...)...)
		}
		out, stderr := show(0, "job-1")
		if !strings.Contains(stderr, "The job has 1 older record") || !strings.Contains(out, "\nvalue                   null\n") || !strings.Contains(out, "\nreason                  permanent\n") {
			t.Errorf("got\n%s%s", out, stderr)
		}
		out, _ = show(0, "job-4", "-o", "json")
		var one heldJSON
		if err := json.Unmarshal([]byte(out), &one); err != nil {
			t.Fatal(err)
		}
		if one.Payload != nil || *one.Key.Size != 7 || *one.Size != 16 || one.State.Attempts != 5 || one.State.Origin != "jobs/0/7" || len(*one.ValueSHA256) != 64 {
			t.Errorf("got %s", out)
		}
		at := fmt.Sprintf("%d/%d", one.Partition, one.Offset)
		if out, _ = show(0, at, "-o", "json", "--headers"); !strings.Contains(out, `"text": "k-job-4"`) || !strings.Contains(out, `"text": "eu"`) {
			t.Errorf("got %s", out)
		}
		out, _ = show(0, at)
		want := strings.ReplaceAll(wantShow, "{dlq}", dlq)
		want = strings.ReplaceAll(want, "{at}", at)
		want = strings.ReplaceAll(want, "{written}", *one.At)
		if out != want {
			t.Errorf("got\n%s\nwant\n%s", out, want)
		}
		if out, _ = show(0, at, "--payload"); out != "payload of job-4" {
			t.Errorf("got %q", out)
		}
		if out, _ = show(0, at, "--payload", "-o", "json"); !strings.Contains(out, `"payload_base64": "cGF5bG9hZCBvZiBqb2ItNA=="`) {
			t.Errorf("got %s", out)
		}
		get("--limit", "1")
		stranger := fmt.Sprintf("%d/%d", page.Records[0].Partition, page.Records[0].Offset)
		if out, _ = show(0, stranger); !strings.Contains(out, `header x\x1b[31m  5 bytes (--headers shows them)`) {
			t.Errorf("got\n%s", out)
		}
		out, _ = show(0, stranger, "--headers")
		safe(t, out)
		if !strings.Contains(out, "unknown: malformed header jobtrail-state: it is missing") || !strings.Contains(out, `header x\x1b[31m  y\u202e\a`) || !strings.Contains(out, "1 bytes, no text") {
			t.Errorf("got\n%s", out)
		}
		out, _ = show(0, stranger, "-o", "json", "--payload")
		safe(t, out)

		_, stderr = show(1, "0/1") // the marker of the first transaction
		if !strings.Contains(stderr, "no such record") || !strings.Contains(stderr, "marker") && name != "t" {
			t.Errorf("got %s", stderr)
		}
		for id, want := range map[string]string{"0/100000": "the partition holds offsets 0 to", "9/0": "the topic has 2 partitions", "nobody": `no record of job "nobody" among 33 records`} {
			if _, stderr = show(1, id); !strings.Contains(stderr, want) {
				t.Errorf("%s: got %s", id, stderr)
			}
		}
		inTransaction(t, cl, kgo.TryCommit, dead(topology.Parked(), 1, "job-p", func(r *kgo.Record, s *events.HopState) {
			s.Reason, s.ParkReason, s.State = 0, events.ParkAbandoned, events.StateParked
			r.Headers[2].Value = []byte("zeta")
		}), dead(topology.Parked(), 1, "job-p", func(_ *kgo.Record, s *events.HopState) { s.Reason, s.ParkReason = 0, events.ParkInterrupted }))
		if out, _ = must(t, 0, environ, "parked", "list", "--group", name, "--reason", "abandoned"); !strings.Contains(out, "abandoned  5  charge-card  job-p") || strings.Contains(out, "interrupted") {
			t.Errorf("got\n%s", out)
		}
		if _, stderr = must(t, 2, environ, "parked", "show", "job-p", "--group", name); !strings.Contains(stderr, `is there of 2 tenants; say --tenant: ["acme" "zeta"]`) {
			t.Errorf("got %s", stderr)
		}
		if out, _ = must(t, 0, environ, "parked", "show", "job-p", "--group", name, "--tenant", "zeta"); !strings.Contains(out, "reason                  abandoned") {
			t.Errorf("got\n%s", out)
		}
	})
}

const wantShow = `place                   {dlq}/{at}
written                 {written}
job                     job-4
type                    charge-card
tenant                  acme
operation               op-job-4
state                   failed
reason                  exhausted
error class             transient
run                     1
version                 9
attempts                5 (5 of the step's budget, 0 lost with their worker, 0 of them alone)
last attempt            02000000-0000-0000-0000-000000000000
step                    -
step output             0 bytes
published               jobs/0/7 at 2026-01-31T12:00:00.000Z
key                     7 bytes (--headers shows them)
value                   16 bytes, sha256 904734637bfba864e2e59cfa6dfbcf15091d70ee9b1d336eebd35536dac3e5f2
header job-id           job-4
header job-type         charge-card
header tenant-id        acme
header operation-id     op-job-4
header x-shop           2 bytes (--headers shows them)
header jobtrail-origin  jobs/0/7
header jobtrail-reason  exhausted
`

// safe fails the test when a terminal would act on the text.
func safe(t *testing.T, out string) {
	t.Helper()
	if strings.ContainsAny(out, "\x1b\x07\x7f") {
		t.Errorf("control characters in %q", out)
	}
}

func TestHeldReadsBackwardsInSteps(t *testing.T) {
	environ, cl, _ := fakeKafka(t)
	topology := makeGroup(t, environ, "t")
	recs := make([]*kgo.Record, 3000)
	for i := range recs {
		// All but one are in partition 0: the other's only record is in the middle.
		recs[i] = dead(topology.DLQ(), 0, fmt.Sprintf("job-%d", i), nil)
		if i == 1500 {
			recs[i].Partition = 1
		}
	}
	for len(recs) > 0 {
		if err := cl.ProduceSync(t.Context(), recs[:500]...).FirstErr(); err != nil {
			t.Fatal(err)
		}
		recs = recs[500:]
	}
	out, _ := must(t, 0, environ, "dlq", "list", "--limit", "10")
	if !strings.Contains(out, "job-2999\n") || !strings.Contains(out, "job-2990\n") || strings.Contains(out, "job-2989\n") || strings.Contains(out, "of 3000") {
		t.Errorf("got\n%s", out)
	}
	if out, _ = must(t, 0, environ, "dlq", "list", "--job-id", "job-3"); !strings.Contains(out, " job-3\n") {
		t.Errorf("got\n%s", out)
	}
}

func TestHeldUsage(t *testing.T) {
	environ, _, _ := fakeKafka(t)
	for _, tt := range []struct {
		code       int
		args, want string
	}{
		{exitUsage, "dlq list --limit 0", "--limit must be 1 to 100000"},
		{exitUsage, "dlq list --since soon", "--since \"soon\": want RFC 3339"},
		{exitUsage, "dlq show", "expected \"<place|job-id>\""},
		{exitFailed, "dlq list", "no such worker group: there is none; `jobtrail topics apply` makes one"},
		{exitFailed, "parked show x --group g", "no such worker group: topic g.evidence does not exist"},
	} {
		if _, stderr := must(t, tt.code, environ, strings.Fields(tt.args)...); !strings.Contains(stderr, tt.want) {
			t.Errorf("%s: no %q in %s", tt.args, tt.want, stderr)
		}
	}
	makeGroup(t, environ, "a")
	makeGroup(t, environ, "b")
	if _, stderr := must(t, exitUsage, environ, "dlq", "list"); !strings.Contains(stderr, `jobtrail dlq list: which group? there are ["a" "b"]; say one with --group`) {
		t.Errorf("got %s", stderr)
	}
}
