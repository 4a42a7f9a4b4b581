package events

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/jobtrail/jobtrail/pkg/sanitize"
)

var (
	topicID = uuid.MustParse("0b5c2f0e-8a6d-4c7b-9a10-3a7f2d8f5e01")
	otherID = uuid.MustParse("7f6b7f0a-2b1e-4d0c-8a43-5f0b1c2d3e4f")
	pub     = Publication{TopicID: topicID, Topic: "shop.jobs", Partition: 3, Offset: 41}
)

// bodies is one event body of each type with every field set.
func bodies() []Body {
	errText := Error{Class: ClassThrottled, Type: "http_503", Message: sanitize.Clean("503 Service Unavailable"), Fingerprint: 77}
	finished := AttemptFinished{AttemptID: topicID, Outcome: OutcomeFailed, Error: errText, StartedAt: 1700000000001, FinishedAt: 1700000000321,
		Next: Next{RetryAt: 1700000002321, Tier: "shop.retry.2s"}, Late: true, AdoptedFrom: 99, Delivery: 2}
	late := finished
	return []Body{
		&AttemptStarted{AttemptID: topicID, Step: "charge", Cause: CauseRetry, Cohort: 4, EnqueuedAt: 1700000000000, Deadline: 1800000000000, IdempotencyKey: otherID, Delivery: 2},
		&finished,
		&AttemptAbandoned{AttemptID: topicID, Cause: AbandonWorkerLost, Losses: 3, SoloLosses: 1, Detector: "host/1", BasedOn: 12, Delivery: 1},
		&StepCompleted{Step: "charge", NextStep: "ship"},
		&JobDeferred{Reason: DeferBreaker, Until: 1700000000500, Tier: "shop.retry.1s"},
		&JobParked{Reason: ParkAbandoned},
		&JobResolved{Verb: ResolveRetry, Actor: "ops", Reason: sanitize.Clean("checked by hand"), CommandID: otherID},
		&JobTerminal{Outcome: TerminalFailed, Reason: ReasonOversize, Attempts: 5, ValueSHA256: []byte{1, 2, 3}, ValueSize: 1 << 21, Detail: sanitize.Clean("job-id: it is there twice")},
		&JobRedriven{RedriveID: otherID, Actor: "ops"},
		&DuplicateSeen{First: pub, FirstOperationID: "op-1", FirstState: StateRunning, Action: DuplicateRejected},
		&TransitionRejected{What: "redrive", Expected: StateFailed, Found: StateRunning, Detail: sanitize.Clean("already in flight"), CommandID: otherID},
		&Checkpoint{ID: otherID, Part: 1, Parts: 2, Committed: []Source{{Topic: "shop.jobs", Partition: 3, Offset: 40}},
			Open: []OpenEntry{{TenantID: "t", JobID: "j", JobType: "charge", OperationID: "op", Publication: pub, Run: 1, Version: 300, State: StateRunning, Number: 2,
				Step: "s", OriginAt: 5, Source: Source{Topic: "shop.jobs", Partition: 3, Offset: 41}, Delivery: 2, BudgetUsed: 1, Losses: 2, SoloLosses: 1, Cohort: 32,
				AttemptID: topicID, Worker: "w", StartedOffset: 900, StartedAt: 7, Late: &late, LateOffset: 901, NotStarted: true}},
			Finished: []OffsetRange{{Topic: "shop.jobs", First: 42, Last: 300}}, DedupPages: []int64{1, 2, 300000},
			Marks: []Mark{{Publication: pub, Run: 1, State: StateCancelled, Actor: "ops", CommandID: otherID}}},
		&GroupEvent{Kind: "topology", Fields: []GroupField{{Name: "partitions", Value: sanitize.Clean("12")}}},
		&DedupPage{Job: []uint64{1, 1 << 60}, JobType: []uint32{7, 8}, Topic: []uint32{0, 0}, Offset: []int64{41, 42}, State: []State{StateRunning, StateSucceeded},
			LastAt: []uint32{1700000000, 1700000001}, Topics: []Publication{{TopicID: topicID, Topic: "shop.jobs", Partition: 3}}},
	}
}

func eventWith(b Body) *Event {
	return &Event{MinReader: 1, OccurredAt: 1700000000123, Group: "shop", TenantID: "acme", JobID: "job-1", JobType: "charge", OperationID: "op-1", Publication: pub,
		Run: 2, Version: 5, State: StateRetryWaiting, Number: 2, OriginAt: 1699999999000, TraceID: [16]byte{0x4b, 0xf9, 15: 0x36},
		Source: Source{Topic: "shop.retry.1s", Partition: 3, Offset: 9}, Worker: "host/0011aabb", Generation: 7, CodeVersion: "v1", Body: b}
}

func TestEveryTypeRoundTrips(t *testing.T) {
	for i, b := range bodies() {
		if got := Type(i + 1); b.Type() != got {
			t.Errorf("body %d has type %v", i, b.Type())
		}
		want := eventWith(b)
		got, err := Decode(Append(nil, want))
		if err != nil {
			t.Fatalf("%v: %v", b.Type(), err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%v:\n got %+v\nwant %+v", b.Type(), got, want)
		}
	}
}

// TestGoldenBytes holds the bytes of version 1: they are decoded, and written
// the same, for ever.
func TestGoldenBytes(t *testing.T) {
	for _, b := range bodies() {
		name := filepath.Join("testdata", "v1", b.Type().String()+".hex")
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatalf("reading the golden event: %v", err)
		}
		golden, err := hex.DecodeString(strings.TrimSpace(string(raw)))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		e, err := Decode(golden)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !reflect.DeepEqual(e, eventWith(b)) {
			t.Errorf("%s decodes to %+v", name, e)
		}
		if again := Append(nil, e); !bytes.Equal(again, golden) {
			t.Errorf("%s is written as %x", name, again)
		}
	}
}

func TestMalformedInputIsRefused(t *testing.T) {
	whole := Append(nil, eventWith(bodies()[11]))
	for n := range whole {
		if _, err := Decode(whole[:n]); err != nil && !errors.Is(err, ErrMalformed) {
			t.Fatalf("cut at %d: %v", n, err)
		}
	}
	if _, err := Decode([]byte{0xff}); !errors.Is(err, ErrMalformed) {
		t.Errorf("got %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	for _, b := range bodies() {
		f.Add(Append(nil, eventWith(b)))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := Decode(b)
		if err != nil {
			return
		}
		again, err := Decode(Append(nil, e))
		if err != nil {
			t.Fatalf("decoding what was encoded: %v", err)
		}
		if !reflect.DeepEqual(e, again) {
			t.Fatalf("not stable:\n%+v\n%+v", e, again)
		}
	})
}

func BenchmarkAppend(b *testing.B) {
	e := eventWith(bodies()[0])
	buf := make([]byte, 0, 1024)
	var enc Encoder
	b.ReportAllocs()
	for b.Loop() {
		buf = enc.Append(buf[:0], e)
	}
	b.SetBytes(int64(len(buf)))
}

func BenchmarkDecode(b *testing.B) {
	raw := Append(nil, eventWith(bodies()[0]))
	var d Decoder
	var e Event
	b.ReportAllocs()
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		if err := d.Decode(raw, &e); err != nil {
			b.Fatal(err)
		}
	}
}
