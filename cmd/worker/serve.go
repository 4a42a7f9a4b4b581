package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel"

	"github.com/jobtrail/jobtrail/internal/admin"
	"github.com/jobtrail/jobtrail/internal/redact"
	"github.com/jobtrail/jobtrail/pkg/sanitize"
	"github.com/jobtrail/jobtrail/pkg/worker"
)

// longTimeout is the longest timeout of types that share their topics well: a
// running job keeps the evidence since its start from being checkpointed away.
const longTimeout = 5 * time.Minute

var logLevels = map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}

// serve runs the worker with its admin server and its traces until ctx ends or
// the worker fails, and returns the exit code.
func serve(ctx context.Context, p *plan, clean *sanitize.Sanitizer, stderr io.Writer) int {
	log := redact.NewLog(stderr, p.Worker.Log == "text", logLevels[p.Worker.LogLevel], clean)
	registry := admin.NewRegistry()
	deps := worker.Deps{
		Kafka: p.kafka,
		Log:   log, Registry: registry, Sanitizer: clean,
	}
	if p.Tracing.on() {
		otel.SetErrorHandler(&exportErrors{log: log, clean: clean})
		tp, err := newTracer(ctx, p.Tracing.ServiceName, clean)
		if err != nil {
			log.Error("tracing cannot start", "err", clean.Error(err))
			return exitFailed
		}
		defer func() {
			if err := flush(ctx, tp); err != nil {
				log.Warn("traces are lost", "err", clean.Error(err))
			}
		}()
		deps.Tracer = tp
	}
	w, err := worker.New(p.worker, deps)
	if err != nil {
		redact.Failed(log, p.Worker.Log == "text", "worker cannot start", clean, err)
		return exitUsage
	}
	srv, err := admin.New(admin.Config{Addr: p.Worker.AdminAddr}, admin.Deps{
		Ready: func() error {
			if ctx.Err() != nil {
				return errors.New("shutting down")
			}
			return w.Ready()
		},
		Metrics: registry, Log: log, Sanitizer: clean,
	})
	if err != nil {
		log.Error("admin server cannot start", "err", clean.Error(err))
		return exitFailed
	}
	log.Info("worker starting", "version", buildVersion(), "group", p.worker.Group, "topics", p.worker.Topics, "types", len(p.worker.Types), "admin_addr", srv.Addr())
	warnOfLongTimeouts(log, p.worker.Types)

	// The admin server answers until the worker is done with its shutdown.
	adminCtx, stopAdmin := context.WithCancel(context.WithoutCancel(ctx))
	adminDone := make(chan error, 1)
	go func() { adminDone <- srv.Run(adminCtx) }()
	err = w.Run(ctx)
	stopAdmin()
	err = errors.Join(err, <-adminDone)
	if err != nil {
		redact.Failed(log, p.Worker.Log == "text", "worker failed", clean, err)
		return exitFailed
	}
	return exitDone
}

func warnOfLongTimeouts(log *slog.Logger, types []worker.Type) {
	if len(types) < 2 {
		return
	}
	for _, t := range types {
		if t.Policy.Timeout > longTimeout {
			log.Warn("a job type with a long timeout shares its topics with others", "job_type", t.Name, "timeout", t.Policy.Timeout)
		}
	}
}
