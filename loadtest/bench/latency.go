package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/jobtrail/jobtrail/pkg/events"
	"github.com/jobtrail/jobtrail/pkg/jobs"
	"github.com/jobtrail/jobtrail/pkg/retrytopics"
	"github.com/jobtrail/jobtrail/pkg/worker"
)

// Load of the measurement of latency.
const (
	latencyEvery = 40 * time.Millisecond // 25 jobs/s
	latencyJobs  = 1500
	// latencyWarm is how many jobs come before those that count.
	latencyWarm = 50
	// storePoll is how often the store is asked; it is part of what is measured.
	storePoll = 100 * time.Millisecond
)

// latencies are what a job waits for, from right before it is published.
type latencies struct {
	Jobs    int
	Handler summary // until its handler is called
	Visible summary // until its JobTerminal is in the store
}

// summary is in milliseconds.
type summary struct {
	P50 float64 `json:"p50_ms"`
	P99 float64 `json:"p99_ms"`
	Max float64 `json:"max_ms"`
}

func summarise(list []time.Duration) summary {
	if len(list) == 0 {
		return summary{}
	}
	slices.Sort(list)
	at := func(share float64) float64 {
		return float64(list[min(int(share*float64(len(list))), len(list)-1)].Microseconds()) / 1000
	}
	return summary{at(0.5), at(0.99), at(1)}
}

// measureLatency publishes jobs at a steady rate while a worker runs them and a
// projector stores their evidence.
func measureLatency(ctx context.Context, s settings) (*latencies, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	s.Jobs = 0
	if err := fillWorker(ctx, s); err != nil { // topics only
		return nil, err
	}
	topo := s.topology()
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))

	var mu sync.Mutex
	published := make(map[string]time.Time)
	called := make(map[string]time.Duration)
	visible := make(map[string]time.Duration)
	handler := func(_ context.Context, j *worker.Job) error {
		mu.Lock()
		called[j.ID] = time.Since(published[j.ID])
		mu.Unlock()
		return nil
	}
	w, err := worker.New(worker.Config{Group: topo.Group, Topics: topo.Jobs, Tiers: topo.Tiers,
		Types: []worker.Type{{Name: "noop", Policy: retrytopics.DefaultPolicy(), Handler: worker.HandlerFunc(handler)}}},
		worker.Deps{Kafka: []kgo.Opt{kgo.SeedBrokers(s.Brokers)}, Log: log})
	if err != nil {
		return nil, err
	}
	st, err := openStore(ctx, s, true)
	if err != nil {
		return nil, err
	}
	defer func() { _ = st.close() }()
	p, err := st.projector(s)
	if err != nil {
		return nil, err
	}
	life, end := context.WithCancel(ctx)
	ended := make(chan error, 2)
	go func() { ended <- w.Run(life) }()
	go func() { ended <- p.Run(life) }()

	err = func() error {
		cl, err := kgo.NewClient(kgo.SeedBrokers(s.Brokers))
		if err != nil {
			return err
		}
		defer cl.Close()
		pub, err := jobs.New(jobs.Config{Topic: topo.Jobs[0]}, cl)
		if err != nil {
			return err
		}
		publishing := make(chan error, 1)
		go func() {
			every := time.NewTicker(latencyEvery)
			defer every.Stop()
			for i := range latencyWarm + latencyJobs {
				select {
				case <-life.Done():
					publishing <- life.Err()
					return
				case <-every.C:
				}
				mu.Lock()
				published[jobID(i)] = time.Now()
				mu.Unlock()
				if _, err := pub.Publish(life, jobs.Job{ID: jobID(i), Type: "noop", Value: payload(i)}); err != nil {
					publishing <- err
					return
				}
			}
			publishing <- nil
		}()
		for {
			select {
			case err := <-publishing:
				if err != nil {
					return fmt.Errorf("publishing: %w", err)
				}
				publishing = nil
			case err := <-ended:
				return errors.Join(errors.New("worker or projector ended"), err)
			case <-life.Done():
				mu.Lock()
				defer mu.Unlock()
				return fmt.Errorf("%d jobs were published, %d called, %d in the store: %w", len(published), len(called), len(visible), life.Err())
			case <-time.After(storePoll):
			}
			var ids []string
			if err := st.conn.QueryRow(life, "SELECT groupArray(job_id) FROM "+st.layout.Database+".evidence WHERE type = ?", events.TypeJobTerminal.String()).Scan(&ids); err != nil {
				return fmt.Errorf("asking the store: %w", err)
			}
			now := time.Now()
			mu.Lock()
			for _, id := range ids {
				if _, ok := visible[id]; !ok {
					visible[id] = now.Sub(published[id])
				}
			}
			n := len(visible)
			mu.Unlock()
			if n == latencyWarm+latencyJobs {
				return nil
			}
		}
	}()
	end()
	if err == nil {
		err = errors.Join(<-ended, <-ended)
	}
	if err != nil {
		return nil, err
	}
	var handlers, rows []time.Duration
	for i := latencyWarm; i < latencyWarm+latencyJobs; i++ {
		handlers, rows = append(handlers, called[jobID(i)]), append(rows, visible[jobID(i)])
	}
	return &latencies{latencyJobs, summarise(handlers), summarise(rows)}, nil
}
