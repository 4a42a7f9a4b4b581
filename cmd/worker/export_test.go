package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/jobtrail/jobtrail/pkg/sanitize"
)

// TestSpansOfLibrariesAreCleaned makes a span as a library may, with a secret
// wherever a text fits.
func TestSpansOfLibrariesAreCleaned(t *testing.T) {
	hidden := "wo" + "rd" + strings.Repeat("ly", 4)
	kept := tracetest.NewInMemoryExporter()
	tp := sdktrace.NewTracerProvider(sdktrace.WithSyncer(cleanExporter{kept, sanitize.New(sanitize.Config{Secrets: []string{hidden}})}))
	context0 := func(state string) trace.SpanContext {
		ts, err := trace.ParseTraceState(state)
		if err != nil {
			t.Fatal(err)
		}
		return trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled, TraceState: ts, Remote: true})
	}
	ctx := trace.ContextWithSpanContext(context.Background(), context0("shop="+hidden))
	_, span := tp.Tracer("library").Start(ctx, "GET "+hidden, trace.WithAttributes(
		attribute.String("text", hidden), attribute.StringSlice("list", []string{"first", hidden}), attribute.Int("number", 7), attribute.String("jobtrail.job_id", "job "+hidden)),
		trace.WithLinks(trace.Link{SpanContext: context0("a=" + hidden), Attributes: []attribute.KeyValue{attribute.String("link", hidden)}}))
	span.RecordError(errors.New("failed with " + hidden))
	span.AddEvent("event " + hidden)
	span.SetStatus(codes.Error, "status "+hidden)
	span.End()
	spans := kept.GetSpans()
	if len(spans) != 1 {
		t.Fatalf("%d spans", len(spans))
	}
	s := spans[0]
	all := fmt.Sprintf("%+v %s %s %s", s, s.SpanContext.TraceState(), s.Parent.TraceState(), s.Links[0].SpanContext.TraceState())
	// An id names the job as the evidence does.
	if n := strings.Count(all, hidden); n != 1 {
		t.Errorf("the secret is there %d times, wanted once:\n%s", n, all)
	}
	for _, want := range []string{"GET [REDACTED]", "first", "failed with [REDACTED]", "event [REDACTED]", "status [REDACTED]", "job " + hidden} {
		if !strings.Contains(all, want) {
			t.Errorf("no %q in\n%s", want, all)
		}
	}
	if got := s.Parent.SpanID(); got != (trace.SpanID{2}) {
		t.Errorf("the parent is %v", got)
	}
	// A harmless state stays.
	_, span = tp.Tracer("library").Start(trace.ContextWithSpanContext(context.Background(), context0("vendor=p:1")), "x")
	span.End()
	if got := kept.GetSpans()[1].SpanContext.TraceState().String(); got != "vendor=p:1" {
		t.Errorf("the trace state is %q", got)
	}
}
