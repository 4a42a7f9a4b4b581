package main

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/jobtrail/jobtrail/internal/operate"
	"github.com/jobtrail/jobtrail/pkg/jobs"
	"github.com/jobtrail/jobtrail/pkg/retrytopics"
	"github.com/jobtrail/jobtrail/pkg/worker"
)

// partitions of every topic.
const partitions = 6

// payload is 250 random base64 characters, 6 bits of entropy a byte.
func payload(i int) []byte {
	b := make([]byte, 192)
	r := rand.NewPCG(uint64(i), 42)
	for k := 0; k < len(b); k += 8 {
		binary.LittleEndian.PutUint64(b[k:], r.Uint64())
	}
	return []byte(base64.StdEncoding.EncodeToString(b)[:250])
}

func jobID(i int) string { return fmt.Sprintf("job-%08d", i) }

// fails says whether the job's first attempt fails.
func fails(id string) bool { return strings.HasSuffix(id, "0") }

func (s settings) topology() retrytopics.Topology {
	return retrytopics.Topology{Group: s.Name, Jobs: []string{s.Name + "-jobs"}, Tiers: retrytopics.Tiers{0, time.Second}}
}

// fillWorker makes a group's topics and publishes the jobs.
func fillWorker(ctx context.Context, s settings) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.Brokers))
	if err != nil {
		return err
	}
	defer cl.Close()
	topo := s.topology()
	plan, err := operate.PlanTopics(ctx, cl, operate.TopicsRequest{Topology: topo, Partitions: partitions})
	if err != nil {
		return err
	}
	if err := operate.ApplyTopics(ctx, cl, plan, func(operate.Step) {}); err != nil {
		return err
	}
	pub, err := jobs.New(jobs.Config{Topic: topo.Jobs[0]}, cl)
	if err != nil {
		return err
	}
	const chunk = 10_000
	for from := 0; from < s.Jobs; from += chunk {
		list := make([]jobs.Job, 0, chunk)
		for i := from; i < min(s.Jobs, from+chunk); i++ {
			list = append(list, jobs.Job{ID: jobID(i), Type: "noop", Value: payload(i)})
		}
		if _, err := pub.PublishAll(ctx, list); err != nil {
			return err
		}
	}
	return nil
}

// runWorker drains a topic with the worker: from its first poll to the commit of
// the last job's end.
func runWorker(ctx context.Context, s settings) (time.Duration, error) {
	debug.SetGCPercent(30) // as cmd/worker does
	topo := s.topology()
	kafka := []kgo.Opt{kgo.SeedBrokers(s.Brokers)}
	policy := retrytopics.DefaultPolicy()
	policy.Initial, policy.MaxInterval = time.Second, time.Second
	policy.Jitter = 0
	handler := func(_ context.Context, j *worker.Job) error {
		if s.Retry && j.Attempt == 1 && fails(j.ID) {
			return errFails
		}
		return nil
	}
	started := &startWatch{Handler: slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}), at: make(chan time.Time, 1)}
	registry := prometheus.NewRegistry()
	w, err := worker.New(worker.Config{Group: topo.Group, Topics: topo.Jobs, Tiers: topo.Tiers, Concurrency: s.InFlight,
		Types: []worker.Type{{Name: "noop", Policy: policy, Handler: worker.HandlerFunc(handler)}}},
		worker.Deps{Kafka: kafka, Log: slog.New(started), Registry: registry})
	if err != nil {
		return 0, err
	}
	life, end := context.WithCancel(ctx)
	defer end()
	stopped := make(chan error, 1)
	go func() { stopped <- w.Run(life) }()
	var begun time.Time
	for {
		select {
		case begun = <-started.at:
		case err := <-stopped:
			return 0, fmt.Errorf("the worker stopped: %w", err)
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(2 * time.Millisecond):
		}
		n, err := count(registry, "jobtrail_worker_terminals_total")
		if err != nil {
			return 0, err
		}
		if n == s.Jobs {
			break
		}
	}
	took := time.Since(begun)
	end()
	return took, <-stopped
}

var errFails = fmt.Errorf("not the first time")

// startWatch notes when the worker says that it has started, which is right
// before its first poll.
type startWatch struct {
	slog.Handler
	at chan time.Time
}

func (w *startWatch) Enabled(context.Context, slog.Level) bool { return true }

func (w *startWatch) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == "worker started" {
		w.at <- time.Now()
	}
	if !w.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return w.Handler.Handle(ctx, r)
}

// count returns the sum of a counter over its labels.
func count(registry *prometheus.Registry, name string) (int, error) {
	families, err := registry.Gather()
	if err != nil {
		return 0, err
	}
	var sum float64
	for _, f := range families {
		if f.GetName() == name && f.GetType() == dto.MetricType_COUNTER {
			for _, m := range f.GetMetric() {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return int(sum), nil
}

// runLoop is the tight loop: at least once, no concurrency, nothing but two
// records of evidence for a job. Poll up to 1,000 jobs; write a Started for each
// and flush; call the handlers; write a Finished for each, and the retries, and
// flush; commit.
func runLoop(ctx context.Context, s settings) (time.Duration, error) {
	topics := s.plainTopics()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var done atomic.Int64
	all := make(chan struct{})
	failed := make(chan error, 2)
	var loops sync.WaitGroup
	start := func(topic, retryTo string, delay time.Duration) {
		loops.Go(func() {
			if err := loop(ctx, s, topic, topics[1], retryTo, delay, func(n int) {
				if done.Add(int64(n)) == int64(s.Jobs) {
					close(all)
				}
			}); err != nil && ctx.Err() == nil {
				failed <- err
			}
		})
	}
	begun := time.Now()
	start(topics[0], topics[2], 0)
	if s.Retry {
		start(topics[2], "", time.Second)
	}
	select {
	case <-all:
	case err := <-failed:
		return 0, err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	took := time.Since(begun)
	cancel()
	loops.Wait()
	return took, nil
}

func loop(ctx context.Context, s settings, topic, evidence, retryTo string, delay time.Duration, ended func(int)) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.Brokers), kgo.ConsumerGroup(topic+"-group"), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.MaxBufferedRecords(100_000))
	if err != nil {
		return err
	}
	defer cl.Close()
	filler := string(payload(-1))
	event := func(rec *kgo.Record, state string) *kgo.Record {
		e := fmt.Appendf(nil, `{"job":"%s","attempt":%d,"state":"%s","at":"%s","pad":"`, rec.Key, 1, state, time.Now().UTC().Format(time.RFC3339Nano))
		e = append(append(e, filler[:max(0, 248-len(e))]...), `"}`...)
		return &kgo.Record{Topic: evidence, Key: rec.Key, Value: e}
	}
	for {
		records := cl.PollRecords(ctx, 1000).Records()
		if ctx.Err() != nil {
			return nil
		}
		if len(records) == 0 {
			continue
		}
		if delay > 0 {
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(time.Until(records[len(records)-1].Timestamp.Add(delay))):
			}
		}
		out := make([]*kgo.Record, 0, 2*len(records))
		for _, rec := range records {
			out = append(out, event(rec, "started"))
		}
		if err := cl.ProduceSync(ctx, out...).FirstErr(); err != nil {
			return err
		}
		out = out[:0]
		n := 0
		for _, rec := range records {
			if s.Retry && retryTo != "" && fails(string(rec.Key)) {
				out = append(out, &kgo.Record{Topic: retryTo, Key: rec.Key, Value: rec.Value}, event(rec, "failed"))
				continue
			}
			n++
			out = append(out, event(rec, "succeeded"))
		}
		if err := cl.ProduceSync(ctx, out...).FirstErr(); err != nil {
			return err
		}
		if err := cl.CommitUncommittedOffsets(ctx); err != nil {
			return err
		}
		ended(n)
	}
}

// runReader is a bare consumer: it reads the jobs, and commits.
func runReader(ctx context.Context, s settings) (time.Duration, error) {
	topic := s.plainTopics()[0]
	begun := time.Now()
	reader, err := kgo.NewClient(kgo.SeedBrokers(s.Brokers), kgo.ConsumerGroup(topic+"-group"), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return 0, err
	}
	defer reader.Close()
	for n := 0; n < s.Jobs; {
		n += len(reader.PollRecords(ctx, 1000).Records())
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		if err := reader.CommitUncommittedOffsets(ctx); err != nil {
			return 0, err
		}
	}
	return time.Since(begun), nil
}

func (s settings) plainTopics() []string {
	return []string{s.Name, s.Name + "-events", s.Name + "-retry"}
}

// fillPlain makes topics and writes the jobs to the first of them.
func fillPlain(ctx context.Context, s settings) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.Brokers), kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.UnknownTopicRetries(-1))
	if err != nil {
		return err
	}
	defer cl.Close()
	topics := s.plainTopics()
	made, err := kadm.NewClient(cl).CreateTopics(ctx, partitions, 1, nil, topics...)
	if err == nil {
		err = made.Error()
	}
	if err != nil {
		return fmt.Errorf("making topics: %w", err)
	}
	var first atomic.Pointer[error]
	for i := range s.Jobs {
		cl.Produce(ctx, &kgo.Record{Topic: topics[0], Key: []byte(jobID(i)), Value: payload(i)}, func(_ *kgo.Record, err error) {
			if err != nil {
				first.CompareAndSwap(nil, &err)
			}
		})
	}
	if err := cl.Flush(ctx); err != nil {
		return err
	}
	if err := first.Load(); err != nil {
		return *err
	}
	return nil
}
