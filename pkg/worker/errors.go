package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/jobtrail/jobtrail/pkg/events"
	"github.com/jobtrail/jobtrail/pkg/retrytopics"
)

// Error is an error with what decides what follows it. Handlers may return one,
// wrapped or not; Permanent and RetryAfter make the common ones.
type Error struct {
	Class events.ErrorClass
	// Type is a short, bounded name that is recorded beside the class, such as
	// "http_503" or "exit_75"; empty means the Go type of Err. It is cleaned and
	// cut to 128 bytes.
	Type string
	// RetryAfter is the least delay before the next attempt.
	RetryAfter time.Duration
	Err        error
}

// Error implements error.
func (e *Error) Error() string {
	switch {
	case e.Err != nil:
		return e.Err.Error()
	case e.Type != "":
		return e.Type
	}
	return e.Class.String()
}

// Unwrap returns the error within.
func (e *Error) Unwrap() error { return e.Err }

// Permanent marks err as not worth a retry: the job fails for good.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &Error{Class: events.ClassPermanent, Err: err}
}

// RetryAfter marks err as to be retried after d at the earliest; the policy's
// MaxInterval caps it.
func RetryAfter(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	return &Error{Class: events.ClassThrottled, RetryAfter: d, Err: err}
}

// panicError is what a handler panicked with.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// classify says what an error of a handler means. The outcome is timed_out when
// the attempt's own timeout ended it.
func classify(ctx context.Context, err error) (events.Outcome, retrytopics.Failure, string) {
	var typed *Error
	var perm *backoff.PermanentError
	var pan *panicError
	switch {
	case errors.As(err, &pan):
		return events.OutcomeFailed, retrytopics.Failure{Class: events.ClassPanic}, fmt.Sprintf("%T", pan.value)
	case errors.As(err, &typed):
		name := typed.Type
		switch {
		case name != "":
		case typed.Err != nil:
			name = typeName(typed.Err)
		default:
			name = typeName(typed)
		}
		class := typed.Class
		if class == 0 {
			class = events.ClassTransient
		}
		return events.OutcomeFailed, retrytopics.Failure{Class: class, RetryAfter: typed.RetryAfter}, name
	case errors.As(err, &perm):
		return events.OutcomeFailed, retrytopics.Failure{Class: events.ClassPermanent}, typeName(perm.Err)
	case errors.Is(err, context.DeadlineExceeded) && errors.Is(context.Cause(ctx), errTimeout):
		return events.OutcomeTimedOut, retrytopics.Failure{Class: events.ClassTimeout}, "timeout"
	}
	return events.OutcomeFailed, retrytopics.Failure{Class: events.ClassTransient}, typeName(err)
}

// errTimeout is the cause of a context that ended by the attempt's timeout.
var errTimeout = fmt.Errorf("the attempt's timeout passed: %w", context.DeadlineExceeded)

// typeName returns the Go type of the innermost error that is not a mere
// wrapper of the standard library.
func typeName(err error) string {
	for {
		name := fmt.Sprintf("%T", err)
		if name != "*fmt.wrapError" && name != "*fmt.wrapErrors" && name != "*errors.joinError" {
			return name
		}
		switch x := err.(type) {
		case interface{ Unwrap() error }:
			err = x.Unwrap()
		case interface{ Unwrap() []error }:
			errs := x.Unwrap()
			if len(errs) == 0 {
				return name
			}
			err = errs[0]
		default:
			return name
		}
	}
}
