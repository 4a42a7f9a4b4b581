package projector

import (
	"bytes"
	"crypto/sha256"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/jobtrail/jobtrail/pkg/events"
	"github.com/jobtrail/jobtrail/pkg/sanitize"
)

var logID = uuid.MustParse("7f6b7f0a-2b1e-4d0c-8a43-5f0b1c2d3e4f")

// anyEvent draws events of every type, legal or not, with values inside and
// outside of what columns take, and with fields that this build does not know.
func anyEvent(t *rapid.T) *events.Event {
	tame := rapid.IntRange(0, 3).Draw(t, "tame") > 0 // as a sound writer writes it
	text := rapid.StringMatching(`[a-zA-Z0-9/=,. é\n]{0,12}`)
	name := rapid.SampledFrom([]string{"", "a", "shop", "x/y", "jobs"})
	small := rapid.Uint32Range(0, 5)
	when := rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(1700000000000, 1800000000000))
	offset := rapid.Int64Range(0, 100)
	enums := rapid.IntRange(0, 9)
	if !tame {
		small = rapid.OneOf(small, rapid.Uint32())
		when = rapid.OneOf(when, rapid.Int64())
		offset = rapid.OneOf(offset, rapid.Int64())
		enums = rapid.OneOf(enums, rapid.IntRange(0, 255))
	}
	id := rapid.Custom(func(t *rapid.T) (u uuid.UUID) {
		if rapid.Bool().Draw(t, "set") {
			copy(u[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))
		}
		return u
	})
	at := func() events.Time { return events.Time(when.Draw(t, "time")) }
	byteOf := func() uint8 { return uint8(enums.Draw(t, "enum")) }
	state := func() events.State {
		if tame {
			return rapid.SampledFrom(append([]events.State{0}, events.States()...)).Draw(t, "state")
		}
		return events.State(byteOf())
	}
	free := func() sanitize.Text { return sanitize.Clean(text.Draw(t, "text")) }
	pub := func() events.Publication {
		if tame {
			return events.Publication{TopicID: logID, Topic: "jobs", Partition: 3, Offset: offset.Draw(t, "offset")}
		}
		return rapid.OneOf(rapid.Just(events.Publication{}), rapid.Custom(func(t *rapid.T) events.Publication {
			return events.Publication{TopicID: rapid.SampledFrom([]uuid.UUID{{}, logID, {1}}).Draw(t, "topic id"), Topic: name.Draw(t, "topic"),
				Partition: rapid.SampledFrom([]int32{0, 3, 4}).Draw(t, "partition"), Offset: offset.Draw(t, "offset")}
		})).Draw(t, "publication")
	}
	e := &events.Event{
		MinReader: small.Draw(t, "min reader"), OccurredAt: at(), Group: rapid.SampledFrom([]string{"g", "shop"}).Draw(t, "group"), TenantID: name.Draw(t, "tenant"), JobID: text.Draw(t, "job"),
		JobType: name.Draw(t, "type"), OperationID: text.Draw(t, "operation"), Publication: pub(), Run: small.Draw(t, "run"), Version: small.Draw(t, "version"), State: state(),
		Number: small.Draw(t, "number"), OriginAt: at(), Source: events.Source{Topic: name.Draw(t, "source"), Partition: rapid.SampledFrom([]int32{0, 3}).Draw(t, "sp"), Offset: offset.Draw(t, "so")},
		Worker: name.Draw(t, "worker"), Generation: small.Draw(t, "generation"), CodeVersion: name.Draw(t, "code"),
	}
	if tame {
		e.OriginAt, e.Source = 1700000000000, events.Source{Topic: "jobs", Partition: 3, Offset: e.Source.Offset}
	}
	copy(e.TraceID[:], rapid.SliceOfN(rapid.Byte(), 0, 16).Draw(t, "trace"))
	switch events.Type(rapid.IntRange(0, 15).Draw(t, "body")) {
	case events.TypeAttemptStarted:
		b := &events.AttemptStarted{AttemptID: id.Draw(t, "a"), Step: name.Draw(t, "s"), Cause: events.StartCause(byteOf()), Cohort: small.Draw(t, "c"), EnqueuedAt: at(), Deadline: at(), Delivery: small.Draw(t, "d")}
		b.IdempotencyKey = events.IdempotencyKey(e.Group, e.TenantID, e.JobID, b.Step)
		if !tame {
			b.IdempotencyKey = rapid.SampledFrom([]uuid.UUID{{}, {9}, events.IdempotencyKey(e.Group, e.TenantID, e.JobID, b.Step)}).Draw(t, "key")
		}
		e.Body = b
	case events.TypeAttemptFinished:
		e.Body = &events.AttemptFinished{AttemptID: id.Draw(t, "a"), Outcome: events.Outcome(byteOf()), Error: events.Error{Class: events.ErrorClass(byteOf()), Type: name.Draw(t, "et"), Message: free(), Fingerprint: rapid.Uint64().Draw(t, "f")},
			StartedAt: at(), FinishedAt: at(), Next: events.Next{RetryAt: at(), Tier: name.Draw(t, "tier")}, Late: rapid.Bool().Draw(t, "late"), AdoptedFrom: offset.Draw(t, "from"), Delivery: small.Draw(t, "d")}
	case events.TypeAttemptAbandoned:
		detector := e.Worker
		if !tame {
			detector = name.Draw(t, "det")
		}
		e.Body = &events.AttemptAbandoned{AttemptID: id.Draw(t, "a"), Cause: events.AbandonCause(byteOf()), Losses: small.Draw(t, "l"), SoloLosses: small.Draw(t, "sl"), Detector: detector, BasedOn: offset.Draw(t, "on"), Delivery: small.Draw(t, "d")}
	case events.TypeStepCompleted:
		e.Body = &events.StepCompleted{Step: name.Draw(t, "s"), NextStep: name.Draw(t, "n")}
	case events.TypeJobDeferred:
		e.Body = &events.JobDeferred{Reason: events.DeferReason(byteOf()), Until: at(), Tier: name.Draw(t, "tier")}
	case events.TypeJobParked:
		e.Body = &events.JobParked{Reason: events.ParkReason(byteOf())}
	case events.TypeJobResolved:
		e.Body = &events.JobResolved{Verb: events.ResolveVerb(byteOf()), Actor: name.Draw(t, "actor"), Reason: free(), CommandID: id.Draw(t, "c")}
	case events.TypeJobTerminal:
		e.Body = &events.JobTerminal{Outcome: events.TerminalOutcome(byteOf()), Reason: events.TerminalReason(byteOf()), Attempts: rapid.SampledFrom([]uint32{e.Number, 7}).Draw(t, "n"), Detail: free(),
			ValueSHA256: rapid.SliceOfN(rapid.Byte(), 0, 4).Draw(t, "sha"), ValueSize: offset.Draw(t, "size")}
	case events.TypeJobRedriven:
		e.Body = &events.JobRedriven{RedriveID: id.Draw(t, "r"), Actor: name.Draw(t, "actor")}
	case events.TypeDuplicateSeen:
		e.Body = &events.DuplicateSeen{First: pub(), FirstOperationID: text.Draw(t, "fo"), FirstState: state(), Action: events.DuplicateAction(byteOf())}
	case events.TypeTransitionRejected:
		e.Body = &events.TransitionRejected{What: name.Draw(t, "what"), Expected: state(), Found: state(), Detail: free(), CommandID: id.Draw(t, "c")}
	case events.TypeGroupEvent:
		b := &events.GroupEvent{Kind: name.Draw(t, "kind")}
		for range rapid.IntRange(0, 2).Draw(t, "fields") {
			b.Fields = append(b.Fields, events.GroupField{Name: name.Draw(t, "fn"), Value: free()})
		}
		e.Body = b
	}
	raw := events.Append(nil, e)
	if rapid.Bool().Draw(t, "unknown") {
		// A field of a later schema, in the event and in its body.
		raw = append(raw, 0xc0, 0x3e, 0x05) // field 1000, varint 5
		if e.Body != nil {
			tag := uint64(32+e.Type())<<3 | 2
			raw = append(raw, byte(tag)|0x80, byte(tag>>7), 3, 0xc0, 0x3e, 0x07)
		}
	}
	decoded, err := events.Decode(raw)
	if err != nil {
		t.Fatalf("decoding: %v", err)
	}
	return decoded
}

// TestRowsLoseNothing: columns and rest together are the event.
func TestRowsLoseNothing(t *testing.T) {
	var m mapper
	rapid.Check(t, func(t *rapid.T) {
		e := anyEvent(t)
		want := events.Append(nil, e)
		var r Row
		m.fill(&r, e, Place{LogID: logID, Partition: 3, Offset: 12, At: time.Now().UnixMilli()}, want)
		got, err := Restore(&r)
		if err != nil {
			t.Fatal(err)
		}
		if again := events.Append(nil, got); !bytes.Equal(again, want) {
			t.Fatalf("restored %+v\nbody %+v\nwant %+v\nbody %+v\nrest %x", got, got.Body, e, e.Body, r.Rest)
		}
		for _, ms := range []int64{r.OriginAt, r.EnqueuedAt, r.Deadline, r.StartedAt, r.FinishedAt, r.DueAt, r.OccurredAt, r.LogAt} {
			if ms < 0 || ms > maxMillis {
				t.Fatalf("time %d is out of the columns' range", ms)
			}
		}
		if r.State != 0 && !knownStates[r.State] {
			t.Fatalf("state %d is none of the column's", r.State)
		}
	})
}

func TestBulkOfCheckpointsIsNotStored(t *testing.T) {
	var m mapper
	for _, b := range []events.Body{&events.Checkpoint{ID: logID, Parts: 2, DedupPages: []int64{1, 2}}, &events.DedupPage{Job: []uint64{1}}} {
		e := &events.Event{Group: "g", Worker: "w", Body: b}
		value := events.Append(nil, e)
		var r Row
		m.fill(&r, e, Place{LogID: logID, Partition: 3, Offset: 12, At: 1}, value)
		if sum := sha256.Sum256(value); !bytes.Equal(r.Rest, sum[:]) {
			t.Errorf("%s: rest is %x", e.Type(), r.Rest)
		}
		if got, err := Restore(&r); err != nil || got.Type() != e.Type() || got.Worker != "w" {
			t.Errorf("%s: restored %+v, %v", e.Type(), got, err)
		}
	}
}

// TestOrdinaryEventsNeedNoRest keeps the rows small: what a worker writes day
// by day has a column.
func TestOrdinaryEventsNeedNoRest(t *testing.T) {
	var m mapper
	p := events.Publication{TopicID: logID, Topic: "jobs", Partition: 3, Offset: 4}
	for _, b := range []events.Body{
		&events.AttemptStarted{AttemptID: logID, Cause: events.CauseRetry, EnqueuedAt: 5, Deadline: 9, Delivery: 2, Cohort: 4, IdempotencyKey: events.IdempotencyKey("g", "t", "j", "")},
		&events.AttemptFinished{AttemptID: logID, Outcome: events.OutcomeFailed, Error: events.Error{Class: events.ClassTimeout, Type: "x", Message: sanitize.Clean("m"), Fingerprint: 3}, StartedAt: 1, FinishedAt: 2,
			Next: events.Next{RetryAt: 7, Tier: "g.retry.1s"}, Late: true, AdoptedFrom: 5, Delivery: 2},
		&events.AttemptAbandoned{AttemptID: logID, Cause: events.AbandonWorkerLost, Losses: 2, SoloLosses: 1, Detector: "w", BasedOn: 8, Delivery: 1},
		&events.StepCompleted{Step: "a", NextStep: "b"}, &events.JobDeferred{Reason: events.DeferTier, Until: 9, Tier: "x"}, &events.JobParked{Reason: events.ParkAbandoned},
		&events.JobResolved{Verb: events.ResolveRetry, Actor: "ops", Reason: sanitize.Clean("r"), CommandID: logID}, &events.JobTerminal{Outcome: events.TerminalFailed, Reason: events.ReasonExhausted, Attempts: 2, Detail: sanitize.Clean("d")},
		&events.JobRedriven{RedriveID: logID, Actor: "ops"}, &events.DuplicateSeen{First: p, FirstOperationID: "op", FirstState: events.StateRunning, Action: events.DuplicateRejected},
		&events.TransitionRejected{What: "redrive", Expected: events.StateFailed, Found: events.StateRunning, Detail: sanitize.Clean("d"), CommandID: logID},
	} {
		e := &events.Event{MinReader: 1, OccurredAt: 5, Group: "g", TenantID: "t", JobID: "j", JobType: "x", OperationID: "op", Publication: p, Run: 1, Version: 3, State: events.StateRunning, Number: 2, OriginAt: 6,
			TraceID: [16]byte{1}, Source: events.Source{Topic: "jobs", Partition: 3, Offset: 4}, Worker: "w", Generation: 2, CodeVersion: "v", Body: b}
		var r Row
		m.fill(&r, e, Place{LogID: logID, Partition: 3, Offset: 12, At: 1}, nil)
		if len(r.Rest) > 0 {
			t.Errorf("%s: rest is %x", e.Type(), r.Rest)
		}
	}
}
