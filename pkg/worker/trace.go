package worker

import (
	"context"
	"encoding/hex"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/jobtrail/jobtrail/pkg/events"
	"github.com/jobtrail/jobtrail/pkg/retrytopics"
)

// traceSpace is the name space of the trace ids of jobs whose producer sent none.
var traceSpace = uuid.NewSHA1(uuid.NameSpaceURL, []byte("https://jobtrail.dev/trace"))

// traceID returns the trace id of a traceparent header, or one that depends on
// the publication alone, so that all attempts of a job share it.
func traceID(traceparent string, p events.Publication) [16]byte {
	var id [16]byte
	if len(traceparent) >= 55 && traceparent[2] == '-' && traceparent[35] == '-' {
		if _, err := hex.Decode(id[:], []byte(traceparent[3:35])); err == nil && id != [16]byte{} {
			return id
		}
	}
	return uuid.NewSHA1(traceSpace, []byte(p.TopicID.String()+p.String()))
}

// spans starts a span an attempt, below the producer's.
type spans struct {
	tracer trace.Tracer // nil: no spans, the producer's trace context goes on
	w3c    propagation.TraceContext
}

// start returns the context for the handler and the attempt's span, and fills
// the job's own trace context.
func (s spans) start(ctx context.Context, e *entry, job *Job) (context.Context, trace.Span) {
	job.TraceParent, job.TraceState = e.meta.TraceParent, e.meta.TraceState
	parent, ok := s.extract(ctx, job)
	if !ok {
		job.TraceParent, job.TraceState = derivedParent(e.traceID), ""
	}
	if s.tracer == nil {
		return ctx, nil
	}
	if !ok {
		parent, _ = s.extract(ctx, job)
	}
	ctx, span := s.tracer.Start(parent, "job "+job.Type, trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(
		attribute.String("messaging.system", "kafka"),
		attribute.String("messaging.operation.type", "process"),
		attribute.String("messaging.destination.name", e.rec.Topic),
		attribute.Int64("messaging.kafka.offset", e.rec.Offset),
		attribute.String("jobtrail.job_id", job.ID),
		attribute.String("jobtrail.operation_id", job.OperationID),
		attribute.String("jobtrail.attempt_id", job.AttemptID.String()),
		attribute.Int("jobtrail.attempt", job.Attempt)))
	out := propagation.MapCarrier{}
	s.w3c.Inject(ctx, out)
	job.TraceParent, job.TraceState = out[retrytopics.HeaderTraceParent], out[retrytopics.HeaderTraceState]
	return ctx, span
}

// extract returns ctx with the job's trace context as the remote parent, where it
// has one that can be read.
func (s spans) extract(ctx context.Context, job *Job) (parent context.Context, ok bool) {
	if job.TraceParent == "" {
		return ctx, false
	}
	parent = s.w3c.Extract(ctx, propagation.MapCarrier{retrytopics.HeaderTraceParent: job.TraceParent, retrytopics.HeaderTraceState: job.TraceState})
	return parent, trace.SpanContextFromContext(parent).IsValid()
}

// derivedParent is the parent of attempts whose producer sent none that can be
// read.
func derivedParent(id [16]byte) string {
	b := hex.AppendEncode(append(make([]byte, 0, 55), "00-"...), id[:])
	b = hex.AppendEncode(append(b, '-'), id[8:])
	return string(append(b, "-01"...))
}

// end closes the attempt's span. Only sanitised text reaches it.
func (s spans) end(span trace.Span, r *result) {
	if span == nil {
		return
	}
	span.SetAttributes(attribute.String("jobtrail.outcome", r.outcome.String()))
	if r.outcome != events.OutcomeSucceeded {
		span.SetAttributes(attribute.String("error.type", r.err.Class.String()))
		span.SetStatus(codes.Error, r.err.Message.String())
	}
	span.End()
}
