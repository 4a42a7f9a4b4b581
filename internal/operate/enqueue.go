package operate

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/jobtrail/jobtrail/pkg/jobs"
	"github.com/jobtrail/jobtrail/pkg/retrytopics"
)

// An Enqueuer publishes jobs to topics that exist, as large as each topic takes
// them. It is not safe for concurrent use. Close it.
type Enqueuer struct {
	open   func(opts ...kgo.Opt) (*kgo.Client, error)
	topics map[string]*target
}

// target is a topic with a client whose batches fit it.
type target struct {
	publisher *jobs.Publisher
	client    *kgo.Client
	err       error
}

// NewEnqueuer returns an Enqueuer that opens its clients with open.
func NewEnqueuer(open func(opts ...kgo.Opt) (*kgo.Client, error)) *Enqueuer {
	return &Enqueuer{open: open, topics: map[string]*target{}}
}

// Close closes the clients.
func (e *Enqueuer) Close() {
	for _, t := range e.topics {
		if t.client != nil {
			t.client.Close()
		}
	}
}

// Check returns why a job cannot be published: its topic does not exist, a field
// cannot be used, it is too large. It sends nothing. It asks the brokers once a
// topic.
func (e *Enqueuer) Check(ctx context.Context, job jobs.Job) error {
	t := e.target(ctx, job.Topic)
	if t.err != nil {
		return t.err
	}
	return t.publisher.Check(job)
}

// Publish publishes jobs together and waits until all in-sync replicas have
// them. Results are as of jobs.Publisher.PublishAll, except that nothing is sent
// of those jobs only whose topic has a bad job among them.
func (e *Enqueuer) Publish(ctx context.Context, batch []jobs.Job) ([]jobs.Publication, error) {
	pubs := make([]jobs.Publication, len(batch))
	var errs []error
	places := map[string][]int{}
	var order []string
	for i, job := range batch {
		if places[job.Topic] == nil {
			order = append(order, job.Topic)
		}
		places[job.Topic] = append(places[job.Topic], i)
	}
	for _, topic := range order {
		part := make([]jobs.Job, len(places[topic]))
		for i, place := range places[topic] {
			part[i] = batch[place]
			pubs[place] = jobs.Publication{JobID: part[i].ID, Topic: topic, Partition: -1, Offset: -1}
		}
		t := e.target(ctx, topic)
		if t.err != nil {
			for i, place := range places[topic] {
				errs = append(errs, &jobs.JobError{Index: place, JobID: part[i].ID, Err: t.err})
			}
			continue
		}
		published, err := t.publisher.PublishAll(ctx, part)
		for i, place := range places[topic] {
			pubs[place] = published[i]
		}
		for _, bad := range jobErrors(err) {
			bad.Index, bad.Err = places[topic][bad.Index], denied(bad.Err, "Write", "topic "+topic)
			errs = append(errs, bad)
		}
	}
	return pubs, errors.Join(errs...)
}

func (e *Enqueuer) target(ctx context.Context, topic string) *target {
	t, ok := e.topics[topic]
	if !ok {
		t = &target{}
		e.topics[topic] = t
		t.err = t.prepare(ctx, e.open, topic)
	}
	return t
}

func (t *target) prepare(ctx context.Context, open func(opts ...kgo.Opt) (*kgo.Client, error), topic string) error {
	if topic == "" {
		return errors.New("no topic is named")
	}
	limit, err := jobBytes(ctx, open, topic)
	if err != nil {
		return err
	}
	if t.client, err = open(kgo.ProducerBatchMaxBytes(limit), kgo.RequiredAcks(kgo.AllISRAcks())); err != nil {
		return err
	}
	t.publisher, err = jobs.New(jobs.Config{Topic: topic}, t.client)
	return err
}

// jobBytes returns the largest batch that a topic takes; Kafka's default when
// the user may not see it.
func jobBytes(ctx context.Context, open func(opts ...kgo.Opt) (*kgo.Client, error), topic string) (int32, error) {
	cl, err := open()
	if err != nil {
		return 0, err
	}
	defer cl.Close()
	// A broker learns of a new topic a moment after the controller made it.
	patience, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	var found map[string]retrytopics.Found
	err = until(patience, func() (bool, error) {
		var err error
		found, err = fetchTopics(ctx, cl, []string{topic})
		if err != nil {
			return !errors.Is(err, kerr.UnknownTopicOrPartition), err
		}
		if _, ok := found[topic]; !ok {
			return false, fmt.Errorf("topic %s: %w", topic, kerr.UnknownTopicOrPartition)
		}
		return true, nil
	})
	if errors.Is(err, kerr.UnknownTopicOrPartition) && ctx.Err() == nil {
		return 0, fmt.Errorf("topic %s does not exist; `jobtrail topics apply` makes it", topic)
	}
	if errors.Is(err, kerr.TopicAuthorizationFailed) {
		return 1048588, nil
	}
	if err != nil {
		return 0, err
	}
	setting := found[topic].Configs["max.message.bytes"]
	n, err := strconv.ParseInt(setting, 10, 32)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("reading max.message.bytes of topic %s: got %q", topic, setting)
	}
	return int32(n), nil
}

// jobErrors returns the *jobs.JobError values that err joins.
func jobErrors(err error) []*jobs.JobError {
	var all []*jobs.JobError
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			all = append(all, jobErrors(e)...)
		}
	} else if one, ok := errors.AsType[*jobs.JobError](err); ok {
		all = append(all, one)
	}
	return all
}

// FailedJobs returns, by place in the batch, why jobs of Publish failed.
func FailedJobs(err error) map[int]error {
	failed := map[int]error{}
	for _, e := range jobErrors(err) {
		failed[e.Index] = e.Err
	}
	return failed
}
