package main

import (
	"compress/gzip"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/jobtrail/jobtrail/pkg/sanitize"
)

func TestSpansReachTheReceiver(t *testing.T) {
	var spans atomic.Int32
	var service, header atomic.Value
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var body io.Reader = r.Body
		if r.Header.Get("Content-Encoding") == "gzip" {
			gz, err := gzip.NewReader(r.Body)
			if err != nil {
				t.Error(err)
				return
			}
			body = gz
		}
		b, _ := io.ReadAll(body)
		var req collector.ExportTraceServiceRequest
		if err := proto.Unmarshal(b, &req); err != nil {
			t.Error(err)
		}
		header.Store(r.Header.Get("X-Key"))
		for _, rs := range req.ResourceSpans {
			for _, a := range rs.Resource.Attributes {
				if a.Key == "service.name" {
					service.Store(a.Value.GetStringValue())
				}
			}
			for _, ss := range rs.ScopeSpans {
				spans.Add(int32(len(ss.Spans)))
			}
		}
	}))
	defer srv.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", srv.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-key=a%20b")
	tp, err := newTracer(context.Background(), "shop-worker", sanitize.New(sanitize.Config{}))
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		_, span := tp.Tracer("test").Start(context.Background(), "attempt")
		span.End()
	}
	if err := flush(context.Background(), tp); err != nil {
		t.Fatal(err)
	}
	if spans.Load() != 3 || service.Load() != "shop-worker" || header.Load() != "a b" {
		t.Errorf("got %d spans of %v with header %q", spans.Load(), service.Load(), header.Load())
	}
}

func TestAReceiverThatIsAwayHoldsUpNothing(t *testing.T) {
	hanging, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer hanging.Close()
	for name, addr := range map[string]string{"dead": "127.0.0.1:1", "hanging": hanging.Addr().String()} {
		t.Run(name, func(t *testing.T) {
			var logged syncBuffer
			otel.SetErrorHandler(&exportErrors{log: slog.New(slog.NewTextHandler(&logged, nil)), clean: sanitize.New(sanitize.Config{})})
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+addr)
			tp, err := newTracer(context.Background(), "x", sanitize.New(sanitize.Config{}))
			if err != nil {
				t.Fatal(err)
			}
			_ = within(t, 10*time.Second, func() error {
				for range 2 * spanQueue {
					_, span := tp.Tracer("test").Start(context.Background(), "attempt")
					span.End()
				}
				return nil
			})
			ctx, cancel := context.WithCancel(context.Background())
			cancel() // as after a signal
			err = within(t, spanFlush+time.Second, func() error { return flush(ctx, tp) })
			lines := strings.Count(logged.String(), "traces are not sent")
			if name == "dead" && lines != 1 {
				t.Errorf("%d lines about failed exports, want 1:\n%.500s", lines, logged.String())
			}
			if name == "hanging" && err == nil {
				t.Error("lost spans are not reported")
			}
		})
	}
}
