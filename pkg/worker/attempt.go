package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/jobtrail/jobtrail/pkg/events"
	"github.com/jobtrail/jobtrail/pkg/retrytopics"
)

// errShutdown is the cause of a context that ended with the grace period.
var errShutdown = errors.New("the worker shuts down")

// launch calls the handlers of attempts that are on record as started.
func (w *Worker) launch(start []*attempt) {
	w.handlers.Add(len(start))
	for _, a := range start {
		go w.attempt(a, a.entry)
	}
}

// attempt calls the handler and reports its outcome. It reads only what of the
// entry does not change while the attempt runs.
func (w *Worker) attempt(a *attempt, e *entry) {
	defer w.handlers.Done()
	ctx, stop := context.WithTimeoutCause(w.handling, e.typ.Policy.Timeout, errTimeout)
	defer stop()
	job := &Job{
		ID: e.meta.JobID, Type: e.meta.JobType, OperationID: e.meta.OperationID, TenantID: e.meta.TenantID, Step: e.step,
		AttemptID: a.id, Attempt: int(e.job.Number), IdempotencyKey: e.key,
		Deadline: e.deadline.Time(), ContentType: e.meta.ContentType, Publication: e.publication, Key: e.rec.Key, Value: e.rec.Value, Headers: retrytopics.Foreign(e.rec.Headers),
	}
	ctx, span := w.spans.start(ctx, e, job)
	begun := time.Now()
	err := errNoReturn
	// Also where the handler ends its goroutine: no result, and the slot would be
	// taken for ever.
	defer func() { w.returned(ctx, a, e, job, span, begun, err) }()
	err = call(ctx, e.typ.Handler, job)
}

// errNoReturn is the outcome of a handler that ended its goroutine.
var errNoReturn = errors.New("the handler ended its goroutine (runtime.Goexit) instead of returning")

// returned hands the ledger how a handler's call ended.
func (w *Worker) returned(ctx context.Context, a *attempt, e *entry, job *Job, span trace.Span, begun time.Time, err error) {
	ended := time.Now()
	r := w.outcome(ctx, err)
	r.startedAt, r.finishedAt = w.clock.at(begun), w.clock.at(ended)
	w.spans.end(span, r)
	w.metrics.attempt(e.typ.Name, r, ended.Sub(begun))
	if w.deps.Log.Enabled(ctx, slog.LevelDebug) {
		w.deps.Log.Debug("attempt ended", "job_type", job.Type, "attempt_id", job.AttemptID, "attempt", job.Attempt, "publication", job.Publication.String(),
			"outcome", r.outcome.String(), "error_class", r.err.Class.String(), "err", r.err.Message.String(), "ran", ended.Sub(begun))
	}
	w.mu.Lock()
	w.l.ended(a, r)
	w.mu.Unlock()
	w.wake()
}

// watch reports handlers that ignore their timeout.
func (w *Worker) watch(ctx context.Context) {
	every := time.NewTicker(time.Second)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-every.C:
			w.mu.Lock()
			fresh, stuck := w.l.overstay(now)
			w.mu.Unlock()
			w.metrics.stuck.Set(float64(stuck))
			for _, a := range fresh {
				w.deps.Log.Warn("a handler ignores its timeout and keeps its slot", "job_type", a.slot.Name, "attempt_id", a.id, "started", a.began)
			}
		}
	}
}

// call calls the handler and turns a panic into an error.
func call(ctx context.Context, h Handler, job *Job) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &panicError{value: v, stack: debug.Stack()}
		}
	}()
	return h.Handle(ctx, job)
}

// outcome says what a handler's return means.
func (w *Worker) outcome(ctx context.Context, err error) *result {
	if err == nil {
		return &result{outcome: events.OutcomeSucceeded}
	}
	if errors.Is(context.Cause(ctx), errShutdown) {
		return interrupted(w, err)
	}
	outcome, failure, name := classify(ctx, err)
	text := w.deps.Sanitizer.Error(err)
	if p, ok := errors.AsType[*panicError](err); ok {
		w.deps.Log.Error("handler panicked", "err", text, "stack", w.cleanLines(p.stack))
	}
	return &result{outcome: outcome, failure: failure,
		err: events.Error{Class: failure.Class, Type: w.errorType(name), Message: text, Fingerprint: w.deps.Sanitizer.Fingerprint(text)}}
}

// maxErrorType is the longest name of a kind of error that is recorded, in
// bytes.
const maxErrorType = 128

// errorType returns the name of a kind of error for the record. A handler may
// have put anything there.
func (w *Worker) errorType(name string) string {
	name = w.deps.Sanitizer.Clean(name).String()
	if len(name) > maxErrorType {
		return strings.ToValidUTF8(name[:maxErrorType], "")
	}
	return name
}

func interrupted(w *Worker, err error) *result {
	text := w.deps.Sanitizer.Error(err)
	return &result{outcome: events.OutcomeInterrupted, failure: retrytopics.Failure{Class: events.ClassTransient},
		err: events.Error{Class: events.ClassTransient, Type: w.errorType(typeName(err)), Message: text, Fingerprint: w.deps.Sanitizer.Fingerprint(text)}}
}

// interrupt cuts the running handlers off: they get a moment to return, then
// they count as interrupted whether they return or not.
func (w *Worker) interrupt(moment time.Duration) {
	w.cut(errShutdown)
	done := make(chan struct{})
	go func() { w.handlers.Wait(); close(done) }()
	select {
	case <-done:
		return
	case <-time.After(moment):
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	stuck := 0
	for _, a := range w.l.attempts {
		if !a.ended {
			stuck++
			r := interrupted(w, fmt.Errorf("the handler ignores its cancelled context: %w", errShutdown))
			r.startedAt, r.finishedAt = a.entry.startedAt, w.clock.at(time.Now())
			w.l.ended(a, r)
		}
	}
	if stuck > 0 {
		w.deps.Log.Warn("handlers ignore their cancelled context", "handlers", stuck)
	}
}

// maxStackLines bounds what is logged of a stack.
const maxStackLines = 100

// cleanLines returns the lines of a stack, each cleaned.
func (w *Worker) cleanLines(stack []byte) []string {
	var lines []string
	for line := range strings.Lines(string(stack)) {
		if len(lines) == maxStackLines {
			break
		}
		lines = append(lines, w.deps.Sanitizer.Clean(strings.TrimRight(line, "\n")).String())
	}
	return lines
}
