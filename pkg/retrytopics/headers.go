package retrytopics

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/jobtrail/jobtrail/pkg/events"
)

// Headers of a job record that its producer may set.
const (
	HeaderJobID       = "job-id"
	HeaderJobType     = "job-type"
	HeaderOperationID = "operation-id"
	HeaderTenantID    = "tenant-id"
	HeaderTraceParent = "traceparent"
	HeaderTraceState  = "tracestate"
	HeaderNotBefore   = "not-before"
	HeaderDeadline    = "deadline"
	HeaderContentType = "content-type"
)

// Headers that only jobtrail sets, on the group's own topics. Only HeaderState
// is read; the others are for people.
const (
	headerPrefix = "jobtrail-"
	HeaderState  = "jobtrail-state"
	HeaderOrigin = "jobtrail-origin"
	HeaderDueAt  = "jobtrail-not-before"
	HeaderReason = "jobtrail-reason"
)

const (
	// MaxID is the longest job, operation and tenant id, in bytes.
	MaxID = 200
	// HeaderBudget is how many bytes a hop may add to a record.
	HeaderBudget = 64 << 10
	// MaxStepOutput is the largest output of a step, in bytes.
	MaxStepOutput = 16 << 10
	// DefaultContentType is handed to handlers when the producer names none.
	DefaultContentType = "application/octet-stream"
	// HopFormat is the version of HopState that this build writes.
	HopFormat = 1
)

// ErrMalformed is wrapped by errors about headers that cannot be used.
var ErrMalformed = errors.New("malformed header")

// Meta is what the headers of a job record say, with defaults filled in.
type Meta struct {
	JobID       string
	JobType     string
	OperationID string
	TenantID    string
	TraceParent string
	TraceState  string
	NotBefore   events.Time
	Deadline    events.Time
	ContentType string
}

// Parse reads the headers of a job record whose origin is given. The error,
// which wraps ErrMalformed, names every header that cannot be used; the Meta is
// then still filled, with the default for each of those.
func Parse(headers []kgo.RecordHeader, origin events.Publication) (Meta, error) {
	var m Meta
	var errs []error
	var seen uint16
	for _, h := range headers {
		var bit uint16
		var err error
		switch h.Key {
		case HeaderJobID:
			bit = 1
			m.JobID, err = printable(h.Value)
		case HeaderJobType:
			bit = 2
			m.JobType, err = printable(h.Value)
		case HeaderOperationID:
			bit = 4
			m.OperationID, err = printable(h.Value)
		case HeaderTenantID:
			bit = 8
			m.TenantID, err = printable(h.Value)
		case HeaderNotBefore:
			bit = 16
			m.NotBefore, err = parseTime(h.Value)
		case HeaderDeadline:
			bit = 32
			m.Deadline, err = parseTime(h.Value)
		case HeaderContentType:
			bit = 64
			m.ContentType, err = line(h.Value, 256)
		case HeaderTraceParent: // a broken trace context starts a new trace, as W3C says
			m.TraceParent, _ = line(h.Value, 64)
		case HeaderTraceState:
			m.TraceState, _ = line(h.Value, 512)
		default:
			continue
		}
		if bit != 0 && seen&bit != 0 {
			err = errors.New("it is there twice")
			m.forget(h.Key)
		}
		seen |= bit
		if err != nil {
			errs = append(errs, fmt.Errorf("%w %s: %w", ErrMalformed, h.Key, err))
		}
	}
	if m.JobID == "" {
		m.JobID = origin.DefaultJobID()
	}
	if m.JobType == "" {
		m.JobType = origin.Topic
	}
	if m.ContentType == "" {
		m.ContentType = DefaultContentType
	}
	return m, errors.Join(errs...)
}

// forget drops what was read of a header that is there twice: nobody can tell
// which one was meant.
func (m *Meta) forget(key string) {
	switch key {
	case HeaderJobID:
		m.JobID = ""
	case HeaderJobType:
		m.JobType = ""
	case HeaderOperationID:
		m.OperationID = ""
	case HeaderTenantID:
		m.TenantID = ""
	case HeaderNotBefore:
		m.NotBefore = 0
	case HeaderDeadline:
		m.Deadline = 0
	case HeaderContentType:
		m.ContentType = ""
	}
}

// printable returns an id of printable ASCII, empty with an error otherwise.
func printable(b []byte) (string, error) {
	if len(b) > MaxID {
		return "", fmt.Errorf("%d bytes are more than %d", len(b), MaxID)
	}
	for i, c := range b {
		if c < 0x20 || c > 0x7e {
			return "", fmt.Errorf("byte %d (0x%02x) is not printable ASCII", i, c)
		}
	}
	return string(b), nil
}

func line(b []byte, limit int) (string, error) {
	if len(b) > limit {
		return "", fmt.Errorf("%d bytes are more than %d", len(b), limit)
	}
	if !utf8.Valid(b) {
		return "", errors.New("it is not valid UTF-8")
	}
	for i, c := range b {
		if c < 0x20 || c == 0x7f {
			return "", fmt.Errorf("byte %d (0x%02x) is a control character", i, c)
		}
	}
	return string(b), nil
}

// maxTime is the last millisecond of the year 9999.
const maxTime = 253402300799999

func parseTime(b []byte) (events.Time, error) {
	s := string(b)
	if ms, err := strconv.ParseInt(s, 10, 64); err == nil {
		if ms <= 0 || ms > maxTime {
			return 0, fmt.Errorf("%d ms is outside 1970 to 9999", ms)
		}
		return events.Time(ms), nil
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return 0, errors.New("it is neither RFC 3339 nor a number of milliseconds")
	}
	if ms := t.UnixMilli(); ms <= 0 || ms > maxTime {
		return 0, errors.New("it is outside 1970 to 9999")
	}
	return events.TimeOf(t), nil
}

// FormatTime returns t as header text: RFC 3339 with milliseconds, in UTC.
func FormatTime(t events.Time) []byte {
	return t.Time().AppendFormat(nil, "2006-01-02T15:04:05.000Z07:00")
}

// State returns the hop state of a record on one of the group's own topics. The
// error, which wraps ErrMalformed, says why the record has none.
func State(headers []kgo.RecordHeader) (events.HopState, error) {
	var h events.HopState
	bad := func(err error) (events.HopState, error) {
		return h, fmt.Errorf("%w %s: %w", ErrMalformed, HeaderState, err)
	}
	found := false
	for _, x := range headers {
		if x.Key != HeaderState {
			continue
		}
		if found {
			return bad(errors.New("it is there twice"))
		}
		found = true
		if err := h.Decode(x.Value); err != nil {
			return bad(err)
		}
	}
	switch {
	case !found:
		return bad(errors.New("it is missing"))
	case h.Format == 0 || h.Format > HopFormat:
		return bad(fmt.Errorf("format %d is not known", h.Format))
	case h.Run == 0:
		return bad(errors.New("it names no run"))
	case h.Origin.Topic == "":
		return bad(errors.New("it names no origin"))
	}
	return h, nil
}

// Hop returns the record that carries rec to another topic of the group: the
// same key, value, partition and producer's headers, with our own headers
// replaced by those of the state. It shares key and value with rec.
func Hop(rec *kgo.Record, topic string, state *events.HopState) *kgo.Record {
	state.Format = HopFormat
	headers := make([]kgo.RecordHeader, 0, len(rec.Headers)+4)
	headers = append(appendForeign(headers, rec.Headers),
		kgo.RecordHeader{Key: HeaderState, Value: state.Append(nil)},
		kgo.RecordHeader{Key: HeaderOrigin, Value: []byte(state.Origin.String())})
	if state.NotBefore != 0 {
		headers = append(headers, kgo.RecordHeader{Key: HeaderDueAt, Value: FormatTime(state.NotBefore)})
	}
	if reason := hopReason(state); reason != "" {
		headers = append(headers, kgo.RecordHeader{Key: HeaderReason, Value: []byte(reason)})
	}
	return &kgo.Record{Topic: topic, Partition: rec.Partition, Key: rec.Key, Value: rec.Value, Headers: headers}
}

func hopReason(h *events.HopState) string {
	switch {
	case h.Reason != 0:
		return h.Reason.String()
	case h.ParkReason != 0:
		return h.ParkReason.String()
	}
	return h.ErrorClass.String()
}

// Foreign returns the producer's headers, without those that only jobtrail may
// set. It may return its argument, which is not changed.
func Foreign(headers []kgo.RecordHeader) []kgo.RecordHeader {
	if !slices.ContainsFunc(headers, func(h kgo.RecordHeader) bool { return Ours(h.Key) }) {
		return headers
	}
	return appendForeign(nil, headers)
}

func appendForeign(to, headers []kgo.RecordHeader) []kgo.RecordHeader {
	for _, h := range headers {
		if !Ours(h.Key) {
			to = append(to, h)
		}
	}
	return to
}

// Ours reports whether only jobtrail may set the header.
func Ours(key string) bool { return strings.HasPrefix(key, headerPrefix) }

// Size returns the bytes that a record takes in a batch of its own, rounded up.
func Size(rec *kgo.Record) int {
	n := 128 + len(rec.Key) + len(rec.Value)
	for _, h := range rec.Headers {
		n += len(h.Key) + len(h.Value) + 10
	}
	return n
}
