package main

import (
	"context"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/jobtrail/jobtrail/pkg/sanitize"
)

// ids are the attributes that are sent as they are: they name a job as the
// evidence names it.
var ids = []attribute.Key{"jobtrail.job_id", "jobtrail.operation_id", "jobtrail.attempt_id"}

// cleanExporter cleans every text of a span before it leaves the process, also
// of spans that a library makes.
type cleanExporter struct {
	sdktrace.SpanExporter
	clean *sanitize.Sanitizer
}

// ExportSpans implements sdktrace.SpanExporter.
func (e cleanExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	out := make([]sdktrace.ReadOnlySpan, len(spans))
	for i, s := range spans {
		out[i] = cleanSpan{s, e.clean}
	}
	return e.SpanExporter.ExportSpans(ctx, out)
}

type cleanSpan struct {
	sdktrace.ReadOnlySpan
	clean *sanitize.Sanitizer
}

// Name implements sdktrace.ReadOnlySpan.
func (s cleanSpan) Name() string { return s.clean.Clean(s.ReadOnlySpan.Name()).String() }

// SpanContext implements sdktrace.ReadOnlySpan.
func (s cleanSpan) SpanContext() trace.SpanContext {
	return cleanState(s.clean, s.ReadOnlySpan.SpanContext())
}

// Parent implements sdktrace.ReadOnlySpan.
func (s cleanSpan) Parent() trace.SpanContext { return cleanState(s.clean, s.ReadOnlySpan.Parent()) }

// Attributes implements sdktrace.ReadOnlySpan.
func (s cleanSpan) Attributes() []attribute.KeyValue {
	return cleanAttributes(s.clean, s.ReadOnlySpan.Attributes())
}

// Events implements sdktrace.ReadOnlySpan.
func (s cleanSpan) Events() []sdktrace.Event {
	out := slices.Clone(s.ReadOnlySpan.Events())
	for i := range out {
		out[i].Name = s.clean.Clean(out[i].Name).String()
		out[i].Attributes = cleanAttributes(s.clean, out[i].Attributes)
	}
	return out
}

// Links implements sdktrace.ReadOnlySpan.
func (s cleanSpan) Links() []sdktrace.Link {
	out := slices.Clone(s.ReadOnlySpan.Links())
	for i := range out {
		out[i].SpanContext = cleanState(s.clean, out[i].SpanContext)
		out[i].Attributes = cleanAttributes(s.clean, out[i].Attributes)
	}
	return out
}

// Status implements sdktrace.ReadOnlySpan.
func (s cleanSpan) Status() sdktrace.Status {
	st := s.ReadOnlySpan.Status()
	st.Description = s.clean.Clean(st.Description).String()
	return st
}

// cleanState leaves out a trace state, which a producer wrote, that does not
// pass as it is.
func cleanState(clean *sanitize.Sanitizer, sc trace.SpanContext) trace.SpanContext {
	if state := sc.TraceState().String(); clean.Clean(state).String() != state {
		return sc.WithTraceState(trace.TraceState{})
	}
	return sc
}

func cleanAttributes(clean *sanitize.Sanitizer, attrs []attribute.KeyValue) []attribute.KeyValue {
	out := slices.Clone(attrs)
	for i, a := range out {
		if slices.Contains(ids, a.Key) {
			continue
		}
		switch a.Value.Type() {
		case attribute.BOOL, attribute.INT64, attribute.FLOAT64, attribute.BOOLSLICE, attribute.INT64SLICE, attribute.FLOAT64SLICE:
		case attribute.STRINGSLICE:
			list := a.Value.AsStringSlice()
			for j := range list {
				list[j] = clean.Clean(list[j]).String()
			}
			out[i].Value = attribute.StringSliceValue(list)
		default:
			out[i].Value = attribute.StringValue(clean.Clean(a.Value.String()).String())
		}
	}
	return out
}
