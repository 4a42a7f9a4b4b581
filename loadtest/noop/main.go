// Command noop is a worker for bulk tests: its jobs do nothing, so that many of
// them pass in little time. There are three types: noop; flaky, which fails once;
// and held, which asks a gate whether it may end. What it is to do it takes from
// flags; it logs and serves metrics as the worker does.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/jobtrail/jobtrail/internal/admin"
	"github.com/jobtrail/jobtrail/pkg/retrytopics"
	"github.com/jobtrail/jobtrail/pkg/sanitize"
	"github.com/jobtrail/jobtrail/pkg/worker"
)

type settings struct {
	brokers, group, topics, tiers, gate string
	concurrency                         int
	initial                             time.Duration
}

func main() {
	debug.SetGCPercent(30) // as cmd/worker does
	var s settings
	flag.StringVar(&s.brokers, "brokers", "", "seed brokers, comma-separated")
	flag.StringVar(&s.group, "group", "", "worker group")
	flag.StringVar(&s.topics, "topics", "", "job topics, comma-separated")
	flag.StringVar(&s.tiers, "tiers", "", "delays of the retry tiers")
	flag.StringVar(&s.gate, "gate", "", "URL that held jobs ask")
	flag.IntVar(&s.concurrency, "concurrency", 2000, "handlers at once")
	flag.DurationVar(&s.initial, "initial", time.Second, "delay of the first retry")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := run(ctx, s); err != nil {
		fmt.Fprintln(os.Stderr, "noop:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, s settings) error {
	tiers, err := retrytopics.ParseTiers(s.tiers)
	if err != nil {
		return err
	}
	policy := retrytopics.DefaultPolicy()
	policy.Initial = s.initial
	held := policy
	held.Timeout = time.Hour
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	registry := admin.NewRegistry()
	w, err := worker.New(worker.Config{Group: s.group, Topics: strings.Split(s.topics, ","), Tiers: tiers, Concurrency: s.concurrency, Types: []worker.Type{
		{Name: "noop", Policy: policy, Handler: worker.HandlerFunc(func(context.Context, *worker.Job) error { return nil })},
		{Name: "flaky", Policy: policy, Handler: worker.HandlerFunc(flaky)},
		{Name: "held", Policy: held, Handler: worker.HandlerFunc(func(ctx context.Context, j *worker.Job) error { return ask(ctx, s.gate, j) })},
	}}, worker.Deps{Kafka: []kgo.Opt{kgo.SeedBrokers(strings.Split(s.brokers, ",")...)}, Log: log, Registry: registry})
	if err != nil {
		return err
	}
	srv, err := admin.New(admin.Config{Addr: "127.0.0.1:0"}, admin.Deps{Ready: w.Ready, Metrics: registry, Log: log, Sanitizer: sanitize.New(sanitize.Config{})})
	if err != nil {
		return err
	}
	log.Info("noop starting", "admin_addr", srv.Addr())
	serving, end := context.WithCancel(context.WithoutCancel(ctx))
	served := make(chan error, 1)
	go func() { served <- srv.Run(serving) }()
	err = w.Run(ctx)
	end()
	return errors.Join(err, <-served)
}

var errFirst = errors.New("not the first time")

func flaky(_ context.Context, j *worker.Job) error {
	if j.Attempt == 1 {
		return errFirst
	}
	return nil
}

// ask waits for the gate's answer.
func ask(ctx context.Context, gate string, j *worker.Job) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, gate, nil)
	if err != nil {
		return err
	}
	for name, v := range map[string]string{"Job-Type": j.Type, "Job-Id": j.ID, "Attempt-Id": j.AttemptID.String(), "Attempt": strconv.Itoa(j.Attempt)} {
		req.Header.Set("Jobtrail-"+name, v)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	if err := resp.Body.Close(); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	return nil
}
