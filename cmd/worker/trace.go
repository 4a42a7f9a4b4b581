package main

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/jobtrail/jobtrail/pkg/sanitize"
)

const (
	// spanQueue bounds the spans that wait for the receiver; what is more is
	// dropped. A job never waits for it.
	spanQueue = 8192
	// spanFlush is how long a shutdown waits for the receiver.
	spanFlush = 2 * time.Second
)

// newTracer returns a provider that sends spans to the OTLP receiver of the
// environment. The SDK reads the OTEL_ variables of the process by itself.
func newTracer(ctx context.Context, serviceName string, clean *sanitize.Sanitizer) (*sdktrace.TracerProvider, error) {
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithRetry(otlptracehttp.RetryConfig{
		Enabled: true, InitialInterval: time.Second, MaxInterval: 5 * time.Second, MaxElapsedTime: 20 * time.Second,
	}))
	if err != nil {
		return nil, fmt.Errorf("opening the OTLP exporter: %w", err)
	}
	res, err := resource.New(ctx,
		resource.WithTelemetrySDK(), resource.WithHost(), resource.WithProcessPID(),
		resource.WithFromEnv(), resource.WithAttributes(attribute.String("service.name", serviceName)))
	if err != nil && res == nil {
		return nil, fmt.Errorf("describing this process for traces: %w", err)
	}
	return sdktrace.NewTracerProvider(
		sdktrace.WithResource(resource.NewWithAttributes(res.SchemaURL(), cleanAttributes(clean, res.Attributes())...)),
		sdktrace.WithBatcher(cleanExporter{exporter, clean}, sdktrace.WithMaxQueueSize(spanQueue), sdktrace.WithExportTimeout(30*time.Second)),
	), nil
}

// flush sends what is left within a bound.
func flush(ctx context.Context, tp *sdktrace.TracerProvider) error {
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), spanFlush)
	defer cancel()
	if err := tp.Shutdown(last); err != nil {
		return fmt.Errorf("sending the last traces: %w", err)
	}
	return nil
}

// errorPause is the least time between two log lines about traces that are not
// sent: a receiver that is away fails every batch.
const errorPause = 30 * time.Second

// exportErrors logs what goes wrong beside the jobs. It is an otel.ErrorHandler.
type exportErrors struct {
	log   *slog.Logger
	clean *sanitize.Sanitizer

	mu     sync.Mutex
	last   time.Time
	silent int
}

// Handle implements otel.ErrorHandler.
func (e *exportErrors) Handle(err error) {
	e.mu.Lock()
	if now := time.Now(); now.Sub(e.last) >= errorPause {
		e.last = now
	} else {
		e.silent++
		e.mu.Unlock()
		return
	}
	silent := e.silent
	e.silent = 0
	e.mu.Unlock()
	e.log.Warn("traces are not sent", "err", e.clean.Error(err), "not_logged", silent)
}
