package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// race is some sides that do the same work in turn, each run in a process of its
// own.
type race struct {
	part  string
	sides []string
	jobs  int // for each side
	args  []string
	// oneLog is that all sides read one log, which none of them changes.
	oneLog   bool
	contests []contest
}

// contest is one side of a race measured against another.
type contest struct {
	Name   string
	ours   string
	theirs string
	// Gate is the least ratio of speeds, ours to theirs, that is accepted; Reach
	// is what is aimed at. 0: only shown.
	Gate  float64
	Reach float64
}

var races = []race{
	{part: "worker", sides: []string{"worker", "loop", "reader"}, jobs: 300_000, args: []string{"-in-flight", "2000"}, contests: []contest{
		{Name: "worker / tight loop, 2,000 in flight", ours: "worker", theirs: "loop", Gate: 0.15, Reach: 0.20},
		{Name: "worker / bare consumer, 2,000 in flight", ours: "worker", theirs: "reader"},
	}},
	{part: "worker", sides: []string{"worker", "loop"}, jobs: 60_000, args: []string{"-in-flight", "256"}, contests: []contest{
		{Name: "worker / tight loop, 256 in flight", ours: "worker", theirs: "loop", Gate: 0.06, Reach: 0.08},
	}},
	{part: "worker", sides: []string{"worker", "loop"}, jobs: 100_000, args: []string{"-in-flight", "2000", "-retry"}, contests: []contest{
		{Name: "worker / tight loop, 10 % retried after 1 s", ours: "worker", theirs: "loop", Gate: 0.15, Reach: 0.15},
	}},
	{part: "projector", sides: []string{"projector", "engine", "insert", "projector-evidence", "engine-evidence"}, jobs: 500_000, oneLog: true, contests: []contest{
		{Name: "projector / Kafka engine, evidence alone", ours: "projector-evidence", theirs: "engine-evidence", Gate: 2, Reach: 2},
		{Name: "projector / Kafka engine, all tables", ours: "projector", theirs: "engine", Gate: 1.5, Reach: 1.5},
		{Name: "projector, all tables / bare insert, evidence", ours: "projector", theirs: "insert", Gate: 0.7, Reach: 0.7},
	}},
}

// result of a contest; a run of each side a round.
type result struct {
	contest
	Ours, Theirs []outcome
	Ratio        float64 // median of the rounds' ratios
}

// bound is something that must not be larger than a limit.
type bound struct {
	Name  string
	Value float64
	Limit float64
	Unit  string
}

type report struct {
	Results []result
	Bounds  []bound
	Latency *latencies
	Took    float64 `json:"took_seconds"`
}

// Jobs of the run that fills the duplicate windows of all partitions.
const windowJobs = partitions*200_000 + 100_000

func compare(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("bench", flag.ExitOnError)
	rounds := flags.Int("rounds", 5, "runs of each side")
	only := flags.String("only", "worker,projector,memory,latency", "parts to run")
	file := flags.String("json", "", "write the figures there")
	if err := flags.Parse(args); err != nil {
		return err
	}
	b := &bench{brokers: cmp.Or(os.Getenv("KAFKA_BROKERS"), os.Getenv("JOBTRAIL_TEST_KAFKA"), "127.0.0.1:9092"),
		store: cmp.Or(os.Getenv("CLICKHOUSE_ADDR"), os.Getenv("JOBTRAIL_TEST_CLICKHOUSE"), "127.0.0.1:9000")}
	begun := time.Now()
	var rep report
	parts := strings.Split(*only, ",")
	for _, r := range races {
		if !slices.Contains(parts, r.part) {
			continue
		}
		runs, err := b.race(ctx, &r, *rounds)
		if err != nil {
			return err
		}
		for _, c := range r.contests {
			won := result{contest: c, Ours: runs[c.ours], Theirs: runs[c.theirs]}
			won.Ratio = won.ratio()
			rep.Results = append(rep.Results, won)
			fmt.Fprintf(os.Stderr, "%s: %.3f\n", c.Name, won.Ratio)
		}
		if p := slices.Concat(runs["projector"], runs["projector-evidence"]); len(p) > 0 {
			rep.Bounds = append(rep.Bounds, bound{"memory of the projector at full speed", float64(peak(p)) / 1e6, 250, "MB"})
		}
	}
	if slices.Contains(parts, "memory") {
		runs, err := b.race(ctx, &race{sides: []string{"worker"}, jobs: windowJobs, args: []string{"-in-flight", "2000"}}, 1)
		if err != nil {
			return fmt.Errorf("worker with full windows: %w", err)
		}
		rep.Bounds = append(rep.Bounds, bound{"memory of the worker, duplicate windows full", float64(peak(runs["worker"])) / 1e6, 120, "MB"})
	}
	if slices.Contains(parts, "latency") {
		var err error
		if rep.Latency, err = measureLatency(ctx, settings{Name: b.name(), Brokers: b.brokers, ClickHouse: b.store}); err != nil {
			return fmt.Errorf("latency: %w", err)
		}
		rep.Bounds = append(rep.Bounds, bound{"from publishing to the handler, p99 at 25 jobs/s", rep.Latency.Handler.P99, 100, "ms"},
			bound{"from publishing to ClickHouse, p99 at 25 jobs/s", rep.Latency.Visible.P99, 3000, "ms"})
	}
	rep.Took = time.Since(begun).Seconds()
	rep.print()
	if *file != "" {
		out, err := json.MarshalIndent(rep, "", "  ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(*file, append(out, '\n'), 0o644); err != nil {
			return err
		}
	}
	return rep.judge()
}

type bench struct {
	brokers, store string
	made           int
}

func (b *bench) name() string {
	b.made++
	return "bench" + strconv.FormatInt(time.Now().UnixMilli(), 36) + "x" + strconv.Itoa(b.made)
}

// race runs every side of a race in each round, the one that begins in turn, and
// returns the runs of each.
func (b *bench) race(ctx context.Context, r *race, rounds int) (map[string][]outcome, error) {
	runs := make(map[string][]outcome)
	log := b.name()
	if r.oneLog {
		defer b.drop(log)
		if err := b.fill(ctx, r, r.sides[0], log); err != nil {
			return nil, err
		}
	}
	for round := range rounds {
		for i := range r.sides {
			side := r.sides[(round+i)%len(r.sides)]
			o, err := b.run(ctx, r, side, log)
			if err != nil {
				return nil, fmt.Errorf("%s, round %d: %w", side, round+1, err)
			}
			runs[side] = append(runs[side], o)
		}
	}
	return runs, nil
}

func (b *bench) run(ctx context.Context, r *race, side, log string) (o outcome, err error) {
	if !r.oneLog {
		log = b.name()
		defer b.drop(log)
		if err := b.fill(ctx, r, side, log); err != nil {
			return o, err
		}
	}
	out, err := b.child(ctx, b.args(r, side, log))
	if err != nil {
		return o, err
	}
	return o, json.Unmarshal(out, &o)
}

func (b *bench) fill(ctx context.Context, r *race, side, log string) error {
	if _, err := b.child(ctx, append(b.args(r, side, log), "-fill")); err != nil {
		return fmt.Errorf("filling for %s: %w", side, err)
	}
	return nil
}

func (b *bench) args(r *race, side, log string) []string {
	return append([]string{side, "-name", log, "-brokers", b.brokers, "-clickhouse", b.store, "-jobs", strconv.Itoa(r.jobs)}, r.args...)
}

func (b *bench) child(ctx context.Context, args []string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	err = cmd.Run()
	return out.Bytes(), err
}

// drop deletes the topics of a run: the servers' caches and disks are shared.
func (b *bench) drop(name string) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.brokers))
	if err != nil {
		return
	}
	defer cl.Close()
	admin := kadm.NewClient(cl)
	topics, err := admin.ListTopics(ctx)
	if err != nil {
		return
	}
	var own []string
	for _, topic := range topics.Names() {
		if strings.HasPrefix(topic, name) {
			own = append(own, topic)
		}
	}
	_, _ = admin.DeleteTopics(ctx, own...)
}

func (r *result) ratio() float64 {
	ratios := make([]float64, len(r.Ours))
	for i := range ratios {
		ratios[i] = r.Ours[i].PerSecond / r.Theirs[i].PerSecond
	}
	return median(ratios)
}

func median(list []float64) float64 {
	if len(list) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(list))
	if n := len(s); n%2 == 0 {
		return (s[n/2-1] + s[n/2]) / 2
	}
	return s[len(s)/2]
}

func speeds(list []outcome) float64 {
	var s []float64
	for _, o := range list {
		s = append(s, o.PerSecond)
	}
	return median(s)
}

func peak(list []outcome) (most int64) {
	for _, o := range list {
		most = max(most, o.PeakBytes)
	}
	return most
}

func (rep *report) print() {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "COMPARISON\tOURS/S\tTHEIRS/S\tRATIO\tGATE\tREACH\tOUR MEMORY\t")
	for i := range rep.Results {
		r := &rep.Results[i]
		gate, reach := "-", "-"
		if r.Gate > 0 {
			gate, reach = fmt.Sprintf("%.2f", r.Gate), fmt.Sprintf("%.2f", r.Reach)
		}
		fmt.Fprintf(w, "%s\t%.0f\t%.0f\t%.3f\t%s\t%s\t%d MB\t%s\n", r.Name, speeds(r.Ours), speeds(r.Theirs), r.Ratio, gate, reach, peak(r.Ours)/1e6, mark(r.Ratio >= r.Gate))
	}
	fmt.Fprintln(w, "BOUND\tVALUE\tLIMIT\t\t\t\t\t")
	for _, b := range rep.Bounds {
		fmt.Fprintf(w, "%s\t%.1f %s\t%.0f %s\t\t\t\t\t%s\n", b.Name, b.Value, b.Unit, b.Limit, b.Unit, mark(b.Value <= b.Limit))
	}
	_ = w.Flush()
	fmt.Printf("in %.0f s\n", rep.Took)
}

func mark(ok bool) string {
	if ok {
		return ""
	}
	return "BELOW ITS GATE"
}

func (rep *report) judge() error {
	var errs []error
	for _, r := range rep.Results {
		if r.Ratio < r.Gate {
			errs = append(errs, fmt.Errorf("%s: %.3f is below the gate %.2f", r.Name, r.Ratio, r.Gate))
		}
	}
	for _, b := range rep.Bounds {
		if b.Value > b.Limit {
			errs = append(errs, fmt.Errorf("%s: %.1f %s is above the limit %.0f %s", b.Name, b.Value, b.Unit, b.Limit, b.Unit))
		}
	}
	return errors.Join(errs...)
}
