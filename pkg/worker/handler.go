package worker

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/jobtrail/jobtrail/pkg/events"
	"github.com/jobtrail/jobtrail/pkg/retrytopics"
)

// Job is what a handler is told about the job it runs. The handler must not
// change Key, Value or Headers.
type Job struct {
	ID          string
	Type        string
	OperationID string
	TenantID    string
	// Step is the step to run; empty for jobs of a single step.
	Step string
	// AttemptID is this execution, different for every attempt.
	AttemptID uuid.UUID
	// Attempt counts the attempts of the run, this one included.
	Attempt int
	// IdempotencyKey is the same for every attempt of the job's step, also when
	// the job is published twice or redriven.
	IdempotencyKey uuid.UUID
	// Deadline is the time after which no further attempt starts; zero for none.
	Deadline    time.Time
	ContentType string
	// TraceParent and TraceState are the W3C trace context of the attempt's span.
	TraceParent string
	TraceState  string
	Publication events.Publication

	Key   []byte
	Value []byte
	// Headers are the producer's, the same for every attempt.
	Headers []kgo.RecordHeader
}

// Handler runs jobs of a type. It is called from many goroutines at once. The
// context ends with the attempt's timeout, with the end of a shutdown's grace
// period, and carries the attempt's span. A nil error means that the job is
// done; see [Permanent] and [RetryAfter] for steering what follows an error. A
// panic counts as an error of class panic.
//
// Side effects are at-least-once: use Job.IdempotencyKey.
type Handler interface {
	Handle(ctx context.Context, job *Job) error
}

// HandlerFunc is a function as a Handler.
type HandlerFunc func(ctx context.Context, job *Job) error

// Handle calls f.
func (f HandlerFunc) Handle(ctx context.Context, job *Job) error { return f(ctx, job) }

// Type is a job type that a worker runs.
type Type struct {
	// Name is the value of the job-type header.
	Name    string
	Handler Handler
	// Policy is the retry policy; the zero Policy means retrytopics.DefaultPolicy.
	// One that differs starts from it: a Policy that is filled in part is refused.
	Policy retrytopics.Policy
	// Concurrency is how many jobs of the type run at once in this process; 0
	// means no limit but the worker's.
	Concurrency int
}
