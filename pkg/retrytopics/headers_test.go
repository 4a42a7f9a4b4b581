package retrytopics

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"
	"pgregory.net/rapid"

	"github.com/jobtrail/jobtrail/pkg/events"
)

var (
	topicID = uuid.MustParse("0b5c2f0e-8a6d-4c7b-9a10-3a7f2d8f5e01")
	origin  = events.Publication{TopicID: topicID, Topic: "shop.jobs", Partition: 3, Offset: 41}
)

const defaultID = "0b5c2f0e-8a6d-4c7b-9a10-3a7f2d8f5e01/3/41"

func headers(pairs ...string) []kgo.RecordHeader {
	var hs []kgo.RecordHeader
	for i := 0; i < len(pairs); i += 2 {
		hs = append(hs, kgo.RecordHeader{Key: pairs[i], Value: []byte(pairs[i+1])})
	}
	return hs
}

func TestParseReadsTheHeaders(t *testing.T) {
	defaults := Meta{JobID: defaultID, JobType: "shop.jobs", ContentType: DefaultContentType}
	but := func(change func(*Meta)) Meta { m := defaults; change(&m); return m }
	const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	for _, c := range []struct {
		name    string
		headers []kgo.RecordHeader
		want    Meta
	}{
		{"none", nil, defaults},
		{"all", headers("job-id", "j", "job-type", "charge", "operation-id", "op 1", "tenant-id", "acme", "traceparent", trace, "tracestate", "a=b",
			"not-before", "2027-01-15T08:00:00Z", "deadline", "1800000001000", "content-type", "application/json"),
			Meta{"j", "charge", "op 1", "acme", trace, "a=b", 1_800_000_000_000, 1_800_000_001_000, "application/json"}},
		{"empty values are defaults", headers("job-id", "", "job-type", "", "content-type", "", "tenant-id", ""), defaults},
		{"longest id", headers("job-id", strings.Repeat("~", MaxID)), but(func(m *Meta) { m.JobID = strings.Repeat("~", MaxID) })},
		{"time with offset and fraction", headers("not-before", "2027-01-15T09:00:00.0009+01:00"), but(func(m *Meta) { m.NotBefore = 1_800_000_000_000 })},
		{"last millisecond", headers("deadline", "9999-12-31T23:59:59.999Z"), but(func(m *Meta) { m.Deadline = maxTime })},
		{"UTF-8 content type", headers("content-type", "text/plain; x=ä"), but(func(m *Meta) { m.ContentType = "text/plain; x=ä" })},
		{"broken trace context starts a new trace", headers("traceparent", "\x00", "tracestate", strings.Repeat("a", 513)), defaults},
		{"names are case-sensitive", headers("Job-Id", "j"), defaults},
		{"other headers", headers("x", "y", "x", "z"), defaults},
		{"our own are ignored", headers("jobtrail-state", "forged", "jobtrail-origin", "x", "jobtrail-not-before", "9", "jobtrail-reason", "y", "jobtrail-job-id", "z"), defaults},
	} {
		got, err := Parse(c.headers, origin)
		if err != nil || got != c.want {
			t.Errorf("%s: %+v, %v\nwant %+v", c.name, got, err, c.want)
		}
	}
}

// TestParseNamesWhatIsMalformed: each bad header is named, and its default
// stands in its place.
func TestParseNamesWhatIsMalformed(t *testing.T) {
	defaults := Meta{JobID: defaultID, JobType: "shop.jobs", ContentType: DefaultContentType}
	for _, c := range []struct {
		headers []kgo.RecordHeader
		why     string
	}{
		{headers("job-id", strings.Repeat("a", MaxID+1)), "job-id: 201 bytes are more than 200"},
		{headers("job-id", "a\nb"), "job-id: byte 1 (0x0a) is not printable ASCII"},
		{headers("job-id", "\x7f"), "job-id: byte 0 (0x7f)"},
		{headers("job-id", "ä"), "job-id: byte 0 (0xc3)"},
		{headers("job-type", "\x00"), "job-type: byte 0 (0x00)"},
		{headers("operation-id", "a\tb"), "operation-id: byte 1 (0x09)"},
		{headers("tenant-id", "\xff"), "tenant-id: byte 0 (0xff)"},
		{headers("not-before", ""), "not-before: it is neither RFC 3339 nor a number"},
		{headers("not-before", "tomorrow"), "not-before: it is neither"},
		{headers("not-before", "2027-01-15"), "not-before: it is neither"},
		{headers("not-before", "0"), "not-before: 0 ms is outside"},
		{headers("not-before", "-5"), "not-before: -5 ms is outside"},
		{headers("deadline", "253402300800000"), "deadline: 253402300800000 ms is outside"},
		{headers("deadline", "99999999999999999999"), "deadline: it is neither"},
		{headers("deadline", "1969-12-31T23:59:59Z"), "deadline: it is outside"},
		{headers("content-type", "a\rb"), "content-type: byte 1 (0x0d) is a control character"},
		{headers("content-type", "\xff"), "content-type: it is not valid UTF-8"},
		{headers("content-type", strings.Repeat("a", 257)), "content-type: 257 bytes are more than 256"},
		{headers("job-id", "a", "job-id", "b"), "job-id: it is there twice"},
		{headers("job-id", "a", "job-id", "a"), "job-id: it is there twice"},
		{headers("job-type", "a", "job-type", "b"), "job-type: it is there twice"},
		{headers("operation-id", "", "operation-id", "b"), "operation-id: it is there twice"},
		{headers("tenant-id", "a", "tenant-id", "b"), "tenant-id: it is there twice"},
		{headers("not-before", "1800000000000", "not-before", "1800000000000"), "not-before: it is there twice"},
		{headers("deadline", "1800000000000", "deadline", "1800000000001"), "deadline: it is there twice"},
		{headers("content-type", "a", "content-type", "b"), "content-type: it is there twice"},
	} {
		got, err := Parse(c.headers, origin)
		if !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), c.why) || got != defaults {
			t.Errorf("want %q: %+v, %v", c.why, got, err)
		}
	}
	_, err := Parse(headers("job-id", "\n", "deadline", "x", "tenant-id", "ok", "job-type", "\n"), origin)
	for _, want := range []string{"job-id", "deadline", "job-type"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
}

func hopState() events.HopState {
	return events.HopState{Format: HopFormat, Run: 2, Version: 7, Number: 3, BudgetUsed: 2, Losses: 1, SoloLosses: 1, Step: "ship", StepOutput: []byte("out"),
		NotBefore: now, Origin: origin, OriginAt: now - 5, ErrorClass: events.ClassThrottled, AttemptID: topicID, Cause: events.CauseRetry, State: events.StateRetryWaiting}
}

func TestStateIsReadOrRefused(t *testing.T) {
	good := hopState()
	bytesOf := func(change func(*events.HopState)) string { h := hopState(); change(&h); return string(h.Append(nil)) }
	got, err := State(headers("x", "y", HeaderState, string(good.Append(nil)), HeaderOrigin, "not read"))
	if err != nil || !reflect.DeepEqual(got, good) {
		t.Errorf("%+v, %v", got, err)
	}
	for why, hs := range map[string][]kgo.RecordHeader{
		"it is missing":         headers("job-id", "j"),
		"decoding hop state":    headers(HeaderState, "\xff"),
		"format 0 is not known": headers(HeaderState, ""),
		"format 2 is not known": headers(HeaderState, bytesOf(func(h *events.HopState) { h.Format = HopFormat + 1 })),
		"it names no run":       headers(HeaderState, bytesOf(func(h *events.HopState) { h.Run = 0 })),
		"it names no origin":    headers(HeaderState, bytesOf(func(h *events.HopState) { h.Origin = events.Publication{} })),
		"it is there twice":     headers(HeaderState, string(good.Append(nil)), HeaderState, string(good.Append(nil))),
	} {
		if _, err := State(hs); !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), why) {
			t.Errorf("want %q, got %v", why, err)
		}
	}
}

func TestHopReplacesOurHeadersAndNothingElse(t *testing.T) {
	forged := hopState()
	forged.Run = 99
	rec := &kgo.Record{Topic: "shop.jobs", Partition: 3, Offset: 41, Key: []byte("k"), Value: []byte("v"),
		Headers: headers("a", "1", HeaderState, string(forged.Append(nil)), "jobtrail-anything", "x", "job-id", "j", "a", "2", HeaderReason, "forged")}
	rec.Headers = append(rec.Headers, kgo.RecordHeader{Key: "nil"})
	state := hopState()
	state.Format = 0
	for range 3 { // hop after hop: our headers are replaced, never appended
		hop := Hop(rec, "shop.retry.8s", &state)
		got, err := State(hop.Headers)
		if err != nil || !reflect.DeepEqual(got, hopState()) {
			t.Fatalf("%+v, %v", got, err)
		}
		var kept, ours []string
		for _, h := range hop.Headers {
			if Ours(h.Key) {
				ours = append(ours, h.Key+"="+string(h.Value))
			} else {
				kept = append(kept, h.Key+"="+string(h.Value))
			}
		}
		if want := []string{"a=1", "job-id=j", "a=2", "nil="}; !reflect.DeepEqual(kept, want) {
			t.Errorf("the producer's headers are %q, want %q", kept, want)
		}
		if want := []string{"jobtrail-origin=shop.jobs/3/41", "jobtrail-not-before=2027-01-15T08:00:00.000Z", "jobtrail-reason=throttled"}; !reflect.DeepEqual(ours[1:], want) {
			t.Errorf("our headers are %q, want %q", ours[1:], want)
		}
		if hop.Topic != "shop.retry.8s" || hop.Partition != 3 || string(hop.Key) != "k" || string(hop.Value) != "v" || !hop.Timestamp.IsZero() {
			t.Errorf("the hop is %+v", hop)
		}
		rec = hop
	}
}

func TestHopTellsPeopleWhy(t *testing.T) {
	for _, c := range []struct {
		state events.HopState
		want  string
	}{
		{events.HopState{}, ""},
		{events.HopState{ErrorClass: events.ClassPanic}, "panic"},
		{events.HopState{ErrorClass: events.ClassPanic, ParkReason: events.ParkInterrupted}, "interrupted"},
		{events.HopState{ErrorClass: events.ClassPanic, Reason: events.ReasonExhausted}, "exhausted"},
	} {
		got := ""
		for _, h := range Hop(&kgo.Record{}, "t", &c.state).Headers {
			if h.Key == HeaderDueAt {
				t.Errorf("%+v: a due time without one", c.state)
			}
			if h.Key == HeaderReason {
				got = string(h.Value)
			}
		}
		if got != c.want {
			t.Errorf("%+v: %q, want %q", c.state, got, c.want)
		}
	}
}

// TestHopKeepsNilAndEmptyApart: a null value is a tombstone to its producer, an
// empty one is not.
func TestHopKeepsNilAndEmptyApart(t *testing.T) {
	state := hopState()
	for _, b := range [][]byte{nil, {}, []byte("v")} {
		hop := Hop(&kgo.Record{Key: b, Value: b}, "t", &state)
		if (hop.Key == nil) != (b == nil) || (hop.Value == nil) != (b == nil) || !bytes.Equal(hop.Value, b) || !bytes.Equal(hop.Key, b) {
			t.Errorf("%#v becomes key %#v and value %#v", b, hop.Key, hop.Value)
		}
	}
}

// TestHopFitsItsBudget: what a hop adds is within HeaderBudget, so a job of the
// largest size fits the group's own topics.
func TestHopFitsItsBudget(t *testing.T) {
	long := strings.Repeat("t", 249)
	state := hopState()
	state.Step, state.StepOutput, state.Origin.Topic = strings.Repeat("s", MaxID), make([]byte, MaxStepOutput), long
	rec := &kgo.Record{Value: make([]byte, 1000)}
	if added := Size(Hop(rec, "t", &state)) - Size(rec); added > HeaderBudget {
		t.Errorf("a hop adds %d bytes", added)
	}
	rapid.Check(t, func(t *rapid.T) {
		r := &kgo.Record{Key: rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "key"), Value: rapid.SliceOfN(rapid.Byte(), 0, 3000).Draw(t, "value")}
		n := len(r.Key) + len(r.Value)
		for range rapid.IntRange(0, 5).Draw(t, "headers") {
			h := kgo.RecordHeader{Key: rapid.StringN(0, 20, 80).Draw(t, "name"), Value: rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "header")}
			r.Headers = append(r.Headers, h)
			n += len(h.Key) + len(h.Value) + 2 // at least two lengths
		}
		if Size(r) < n+61+7 { // batch overhead, and a record's least
			t.Fatalf("a record of %d bytes has size %d", n, Size(r))
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add("job-id", []byte("j"), "job-type", []byte("charge"))
	f.Add("not-before", []byte("2027-01-15T08:00:00Z"), "deadline", []byte("1800000000000"))
	f.Add("job-id", []byte("\xff"), "job-id", []byte(""))
	f.Add("jobtrail-state", []byte("x"), "content-type", []byte("a\nb"))
	f.Fuzz(func(t *testing.T, k1 string, v1 []byte, k2 string, v2 []byte) {
		m, err := Parse([]kgo.RecordHeader{{Key: k1, Value: v1}, {Key: k2, Value: v2}}, origin)
		if err != nil && !errors.Is(err, ErrMalformed) {
			t.Fatalf("%v", err)
		}
		if m.JobID == "" || m.JobType == "" || m.ContentType == "" {
			t.Fatalf("a default is missing: %+v", m)
		}
		for _, s := range []string{m.JobID, m.JobType, m.OperationID, m.TenantID} {
			if _, err := printable([]byte(s)); err != nil {
				t.Fatalf("%q: %v", s, err)
			}
		}
		for _, at := range []events.Time{m.NotBefore, m.Deadline} {
			if at < 0 || at > maxTime {
				t.Fatalf("time %d", at)
			}
			if back, err := parseTime(FormatTime(at)); at != 0 && (err != nil || back != at) {
				t.Fatalf("%d is written as %s and read as %d, %v", at, FormatTime(at), back, err)
			}
		}
	})
}

func FuzzState(f *testing.F) {
	good := hopState()
	f.Add(good.Append(nil))
	f.Add([]byte{})
	f.Add([]byte{8, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := State([]kgo.RecordHeader{{Key: HeaderState, Value: b}})
		if err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Fatalf("%v", err)
			}
			return
		}
		again, err := State(Hop(&kgo.Record{}, "t", &h).Headers)
		if err != nil || !reflect.DeepEqual(again, h) {
			t.Fatalf("hopping changes %+v to %+v, %v", h, again, err)
		}
	})
}
