package jobs

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Job is what to run. The zero value of every field but Value is fine, as long
// as the Publisher or the Job names a topic.
type Job struct {
	// Topic is the job topic. Default: Config.Topic.
	Topic string
	// ID is the job's logical identity within its tenant: at most 200 bytes of
	// printable ASCII. Default: a new UUIDv7.
	ID string
	// Type says which handler runs the job. Default: the topic's name.
	Type string
	// OperationID is the customer action that caused the job, TenantID whose it
	// is; at most 200 bytes of printable ASCII each.
	OperationID string
	TenantID    string
	// NotBefore is the earliest start, Deadline the time after which no attempt
	// starts; zero for now and never. Both are rounded up to milliseconds.
	NotBefore time.Time
	Deadline  time.Time
	// ContentType is handed to HTTP handlers. Default: application/octet-stream.
	ContentType string
	// Key decides the partition. Default: the id. Give another only where all
	// publications of one id have the same.
	Key []byte
	// Value is the payload, never parsed or changed by jobtrail.
	Value []byte
	// Headers travel with the job and are handed to its handler. They must not
	// have the names of the fields above, nor begin with "jobtrail-".
	Headers []kgo.RecordHeader
}

// Publication is a published job and its place in the job topic.
type Publication struct {
	JobID     string
	Topic     string
	Partition int32
	Offset    int64
}

// JobError says which job of a batch was not published, and why.
type JobError struct {
	// Index is the job's place in the batch, from 0.
	Index int
	JobID string
	Err   error
}

// Error implements error.
func (e *JobError) Error() string {
	return fmt.Sprintf("publishing job %d (id %q): %v", e.Index, e.JobID, e.Err)
}

// Unwrap returns the cause.
func (e *JobError) Unwrap() error { return e.Err }

// Config configures a Publisher.
type Config struct {
	// Topic is where jobs go that name no topic. May be empty.
	Topic string
}

// A Publisher publishes jobs through a Kafka client. It is safe for concurrent
// use and holds nothing that needs closing.
type Publisher struct {
	cfg    Config
	client *kgo.Client
}

// New returns a Publisher that produces through client, which stays the
// caller's. The client must wait for all in-sync replicas, which is its
// default, and should keep its default partitioner, which places keys as
// Kafka's own producers do.
func New(cfg Config, client *kgo.Client) (*Publisher, error) {
	if client == nil {
		return nil, errors.New("a publisher needs a Kafka client")
	}
	if acks := client.OptValue(kgo.RequiredAcks); acks != kgo.AllISRAcks() {
		return nil, errors.New("the Kafka client does not wait for all in-sync replicas: an acknowledged job could be lost")
	}
	return &Publisher{cfg: cfg, client: client}, nil
}

// Publish publishes a job and waits until the brokers have it. The trace
// context of ctx travels with the job: its attempts become children of the
// current span. The error wraps retrytopics.ErrMalformed when a field cannot be
// used; nothing was sent then. After any other error the job may or may not
// have been published.
func (p *Publisher) Publish(ctx context.Context, job Job) (Publication, error) {
	rec, pub, err := p.record(ctx, job)
	if err == nil {
		err = p.client.ProduceSync(ctx, rec).FirstErr()
	}
	if err != nil {
		return Publication{JobID: pub.JobID, Topic: pub.Topic, Partition: -1, Offset: -1}, fmt.Errorf("publishing job %q: %w", pub.JobID, err)
	}
	pub.Partition, pub.Offset = rec.Partition, rec.Offset
	return pub, nil
}

// PublishAll publishes jobs together and waits until the brokers have all of
// them. The publications are in the order of the jobs; those of jobs that
// failed have offset -1. The error joins a *JobError for each of them. When a
// field of any job cannot be used, nothing is sent. There is no transaction
// around the batch.
func (p *Publisher) PublishAll(ctx context.Context, jobs []Job) ([]Publication, error) {
	recs := make([]*kgo.Record, len(jobs))
	pubs := make([]Publication, len(jobs))
	errs := make([]error, len(jobs))
	valid := true
	for i, job := range jobs {
		rec, pub, err := p.record(ctx, job)
		recs[i], pubs[i] = rec, pub
		if err != nil {
			valid = false
			errs[i] = &JobError{i, pub.JobID, err}
		}
	}
	if !valid {
		return pubs, errors.Join(errs...)
	}
	var wg sync.WaitGroup
	wg.Add(len(recs))
	for i, rec := range recs {
		p.client.Produce(ctx, rec, func(rec *kgo.Record, err error) {
			defer wg.Done()
			if err != nil {
				errs[i] = &JobError{i, pubs[i].JobID, err}
				return
			}
			pubs[i].Partition, pubs[i].Offset = rec.Partition, rec.Offset
		})
	}
	wg.Wait()
	return pubs, errors.Join(errs...)
}

// newID returns the id of a job whose producer gave none.
func newID() (string, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return "", fmt.Errorf("making a job id: %w", err)
	}
	return id.String(), nil
}
