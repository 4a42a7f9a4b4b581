package jobs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.opentelemetry.io/otel/propagation"

	"github.com/jobtrail/jobtrail/pkg/events"
	"github.com/jobtrail/jobtrail/pkg/retrytopics"
)

// record returns the record of a job and its publication, not placed yet; or
// every problem of the job, joined.
func (p *Publisher) record(ctx context.Context, job Job) (*kgo.Record, Publication, error) {
	pub := Publication{JobID: job.ID, Topic: job.Topic, Partition: -1, Offset: -1}
	if pub.Topic == "" {
		pub.Topic = p.cfg.Topic
	}
	var errs []error
	if pub.Topic == "" {
		errs = append(errs, errors.New("no topic is named"))
	}
	if pub.JobID == "" {
		id, err := newID()
		if err != nil {
			return nil, pub, err
		}
		pub.JobID = id
	}
	rec := &kgo.Record{Topic: pub.Topic, Key: job.Key, Value: job.Value, Headers: headers(ctx, job, pub.JobID)}
	if rec.Key == nil {
		rec.Key = []byte(pub.JobID)
	}
	// The worker reads the headers with the same function.
	if _, err := retrytopics.Parse(rec.Headers, events.Publication{}); err != nil {
		errs = append(errs, err)
	}
	if !job.Deadline.IsZero() && job.NotBefore.After(job.Deadline) {
		errs = append(errs, fmt.Errorf("%w %s: it is before %s, no attempt could start", retrytopics.ErrMalformed, retrytopics.HeaderDeadline, retrytopics.HeaderNotBefore))
	}
	for _, h := range job.Headers {
		if reserved(h.Key) {
			errs = append(errs, fmt.Errorf("%w %q: the name is reserved", retrytopics.ErrMalformed, h.Key))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, pub, err
	}
	return rec, pub, nil
}

func headers(ctx context.Context, job Job, id string) []kgo.RecordHeader {
	hs := make([]kgo.RecordHeader, 0, 10+len(job.Headers))
	add := func(key string, value []byte) {
		if len(value) > 0 {
			hs = append(hs, kgo.RecordHeader{Key: key, Value: value})
		}
	}
	add(retrytopics.HeaderJobID, []byte(id))
	add(retrytopics.HeaderJobType, []byte(job.Type))
	add(retrytopics.HeaderOperationID, []byte(job.OperationID))
	add(retrytopics.HeaderTenantID, []byte(job.TenantID))
	add(retrytopics.HeaderNotBefore, headerTime(job.NotBefore))
	add(retrytopics.HeaderDeadline, headerTime(job.Deadline))
	add(retrytopics.HeaderContentType, []byte(job.ContentType))
	trace := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, trace)
	add(retrytopics.HeaderTraceParent, []byte(trace.Get("traceparent")))
	add(retrytopics.HeaderTraceState, []byte(trace.Get("tracestate")))
	for _, h := range job.Headers {
		if !reserved(h.Key) {
			hs = append(hs, h)
		}
	}
	return hs
}

// headerTime rounds up, so that nothing starts before the time given.
func headerTime(t time.Time) []byte {
	if t.IsZero() {
		return nil
	}
	ms := events.TimeOf(t)
	if t.After(time.UnixMilli(int64(ms))) {
		ms++
	}
	return retrytopics.FormatTime(ms)
}

func reserved(key string) bool {
	switch key {
	case "", retrytopics.HeaderJobID, retrytopics.HeaderJobType, retrytopics.HeaderOperationID, retrytopics.HeaderTenantID,
		retrytopics.HeaderNotBefore, retrytopics.HeaderDeadline, retrytopics.HeaderContentType,
		retrytopics.HeaderTraceParent, retrytopics.HeaderTraceState:
		return true
	}
	return retrytopics.Ours(strings.ToLower(key))
}
