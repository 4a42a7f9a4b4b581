package retrytopics

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/google/uuid"

	"github.com/jobtrail/jobtrail/pkg/events"
)

// OnDuplicate says what happens to a second copy of a job that is open,
// parked or succeeded.
type OnDuplicate string

// The duplicate policies.
const (
	RejectDuplicates OnDuplicate = "reject"
	RunDuplicates    OnDuplicate = "run"
)

// Policy is the retry policy of a job type. DefaultPolicy has the defaults;
// the zero Policy is not valid.
type Policy struct {
	// MaxAttempts is how many failed or timed-out attempts a step may have; the
	// one that reaches it is the last. At least 1, default 5.
	MaxAttempts int
	// Initial is the delay before the first retry. Default 1s.
	Initial time.Duration
	// Multiplier is the factor from one delay to the next. At least 1, default 2.
	Multiplier float64
	// MaxInterval caps the delay, also one asked for by RetryAfter. Default 1h.
	MaxInterval time.Duration
	// Jitter lengthens each delay by a share between 0 and Jitter, taken from a
	// hash of the attempt id. 0 to 1, default 0.2.
	Jitter float64
	// MaxElapsed is the longest time from the origin record to the start of a
	// retry; 0 means no limit. Default 0.
	MaxElapsed time.Duration
	// MaxCrashes is how many times an attempt may take its worker down while it
	// runs alone. At least 1, default 2.
	MaxCrashes int
	// Timeout is how long an attempt may run. Default 30s.
	Timeout time.Duration
	// Deadline is how long after its origin record a job may still start an
	// attempt, where the record itself names no deadline; 0 means no limit.
	// Default 0.
	Deadline time.Duration
	// Idempotent says that an attempt of unknown outcome may simply be run
	// again; otherwise such a job is parked for a decision. Default true.
	Idempotent bool
	// OnDuplicate is RejectDuplicates by default.
	OnDuplicate OnDuplicate
	// PayloadClass is a free name for the sensitivity of the payload; it is
	// shown to people and has no effect on processing.
	PayloadClass string
}

// DefaultPolicy returns the policy of a type that configures nothing.
func DefaultPolicy() Policy {
	return Policy{MaxAttempts: 5, Initial: time.Second, Multiplier: 2, MaxInterval: time.Hour, Jitter: 0.2, MaxCrashes: 2,
		Timeout: 30 * time.Second, Idempotent: true, OnDuplicate: RejectDuplicates}
}

// Validate returns every problem of the policy, joined; nil when it is sound.
func (p Policy) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(p.MaxAttempts >= 1, "max_attempts is %d, at least 1 is needed", p.MaxAttempts)
	check(p.Initial > 0, "initial is %v, it must be positive", p.Initial)
	check(p.Multiplier >= 1, "multiplier is %v, at least 1 is needed", p.Multiplier)
	check(p.MaxInterval >= p.Initial, "max_interval %v is below initial %v", p.MaxInterval, p.Initial)
	check(p.Jitter >= 0 && p.Jitter <= 1, "jitter is %v, it must be between 0 and 1", p.Jitter)
	check(p.MaxElapsed >= 0, "max_elapsed is %v, it must not be negative", p.MaxElapsed)
	check(p.MaxCrashes >= 1, "max_crashes is %d, at least 1 is needed", p.MaxCrashes)
	check(p.Timeout > 0, "timeout is %v, it must be positive", p.Timeout)
	check(p.Deadline >= 0, "deadline is %v, it must not be negative", p.Deadline)
	check(p.OnDuplicate == RejectDuplicates || p.OnDuplicate == RunDuplicates, "on_duplicate is %q, it must be reject or run", string(p.OnDuplicate))
	return errors.Join(errs...)
}

// History is what a decision rests on: the run up to and with the attempt that
// just ended.
type History struct {
	AttemptID uuid.UUID
	// BudgetUsed counts the failed and timed-out attempts of the step, this one
	// included.
	BudgetUsed uint32
	// OriginAt is the time of the origin record.
	OriginAt events.Time
	// Deadline is the job's own deadline; 0 means none.
	Deadline events.Time
}

// Failure is what a decision needs to know of an error.
type Failure struct {
	Class events.ErrorClass
	// RetryAfter is the least delay that the handler asked for; 0 means none.
	RetryAfter time.Duration
}

// Verdict is the kind of a Route.
type Verdict uint8

// The verdicts.
const (
	// Retry runs the job again at Route.At.
	Retry Verdict = iota + 1
	// Dead ends the run as failed and sends the record to the dead-letter topic.
	Dead
	// Expired ends the run since no attempt may start any more.
	Expired
	// Park holds the job for a decision.
	Park
)

// Route is where a job goes after an attempt.
type Route struct {
	Verdict Verdict
	// At is the earliest start of the next attempt, for Retry.
	At events.Time
	// Reason is for Dead and Expired.
	Reason events.TerminalReason
	// ParkReason is for Park.
	ParkReason events.ParkReason
}

// Next decides what follows a failed or timed-out attempt.
func (p Policy) Next(h History, f Failure, now events.Time) Route {
	switch {
	case f.Class == events.ClassPermanent, f.Class == events.ClassMalformed:
		return Route{Verdict: Dead, Reason: events.ReasonPermanent}
	case int64(h.BudgetUsed) >= int64(p.MaxAttempts):
		return Route{Verdict: Dead, Reason: events.ReasonExhausted}
	}
	delay := p.Delay(int(h.BudgetUsed), h.AttemptID)
	at := now.Add(max(delay, min(f.RetryAfter, p.MaxInterval)))
	if p.MaxElapsed > 0 && at > h.OriginAt.Add(p.MaxElapsed) {
		return Route{Verdict: Dead, Reason: events.ReasonExhausted}
	}
	if deadline := p.DeadlineOf(h); deadline != 0 && at > deadline {
		return Route{Verdict: Expired, Reason: events.ReasonDeadline}
	}
	return Route{Verdict: Retry, At: at}
}

// AfterInterruption decides what follows an attempt that was cut off by a
// shutdown: its side effect may have happened.
func (p Policy) AfterInterruption(now events.Time) Route {
	return p.repeat(events.ParkInterrupted, now)
}

// AfterAbandonment decides what follows an attempt that started and has no
// outcome. soloLosses counts the abandonments of the run, this one included,
// in which the worker was lost while the job ran alone.
func (p Policy) AfterAbandonment(soloLosses uint32, now events.Time) Route {
	if int64(soloLosses) >= int64(p.MaxCrashes) {
		return Route{Verdict: Dead, Reason: events.ReasonCrashLoop}
	}
	return p.repeat(events.ParkAbandoned, now)
}

func (p Policy) repeat(why events.ParkReason, now events.Time) Route {
	if p.Idempotent {
		return Route{Verdict: Retry, At: now}
	}
	return Route{Verdict: Park, ParkReason: why}
}

// DeadlineOf returns the time after which no attempt starts; 0 means none.
func (p Policy) DeadlineOf(h History) events.Time {
	if h.Deadline == 0 && p.Deadline > 0 {
		return h.OriginAt.Add(p.Deadline)
	}
	return h.Deadline
}

// Delay returns the back-off after the n-th failed attempt, from 1: exponential
// up to MaxInterval, lengthened by a share of up to Jitter that depends on the
// attempt id alone, so that it is the same whoever computes it.
func (p Policy) Delay(n int, attemptID uuid.UUID) time.Duration {
	b := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(p.Initial), backoff.WithMultiplier(p.Multiplier), backoff.WithMaxInterval(p.MaxInterval),
		backoff.WithRandomizationFactor(0), backoff.WithMaxElapsedTime(0))
	d := b.NextBackOff()
	for i := 1; i < n && d < p.MaxInterval; i++ {
		d = b.NextBackOff()
	}
	share := float64(binary.BigEndian.Uint32(attemptID[12:])) / (1 << 32)
	return d + time.Duration(float64(d)*p.Jitter*share)
}
