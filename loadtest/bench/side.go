package main

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"runtime/pprof"
	"time"

	"github.com/jobtrail/jobtrail/loadtest"
)

// settings of one side's run; each side runs in a process of its own, so that
// neither memory nor a warm heap of another counts.
type settings struct {
	Name       string // of topics and tables
	Fill       bool
	Brokers    string
	ClickHouse string
	Jobs       int
	InFlight   int
	Retry      bool
	Proto      string
	CPUProfile string
	MemProfile string
}

func (s *settings) flags(f *flag.FlagSet) {
	f.StringVar(&s.Name, "name", "bench", "prefix of topics and tables")
	f.BoolVar(&s.Fill, "fill", false, "only make what is to be worked on")
	f.StringVar(&s.Brokers, "brokers", "127.0.0.1:9092", "Kafka")
	f.StringVar(&s.ClickHouse, "clickhouse", "127.0.0.1:9000", "ClickHouse, native protocol")
	f.IntVar(&s.Jobs, "jobs", 300_000, "jobs or events")
	f.IntVar(&s.InFlight, "in-flight", 2000, "handlers at once")
	f.BoolVar(&s.Retry, "retry", false, "every tenth job fails once and runs again after 1 s")
	f.StringVar(&s.Proto, "proto", "pkg/events/events.proto", "the schema that ClickHouse's Kafka engine reads")
	f.StringVar(&s.CPUProfile, "cpuprofile", "", "write a CPU profile there")
	f.StringVar(&s.MemProfile, "memprofile", "", "write a profile of allocations there")
}

// side is one of the things compared.
type side struct {
	fill func(context.Context, settings) error
	// run returns how long the work took.
	run func(context.Context, settings) (time.Duration, error)
}

var sides = map[string]side{
	"worker": {fillWorker, runWorker},
	"loop":   {fillPlain, runLoop},
	"reader": {fillPlain, runReader},

	// All of these work on one log: fill it once a name.
	"projector":          {fillMix, runProjector(true)},
	"projector-evidence": {fillMix, runProjector(false)},
	"engine":             {fillMix, runEngine(true)},
	"engine-evidence":    {fillMix, runEngine(false)},
	"insert":             {fillMix, runInsert},
}

// outcome is what a side prints.
type outcome struct {
	Seconds   float64 `json:"seconds"`
	PerSecond float64 `json:"per_second"`
	// PeakBytes is VmHWM, the most memory that the process ever held.
	PeakBytes int64 `json:"peak_bytes"`
}

func measure(ctx context.Context, side side, s settings) error {
	if s.Fill {
		return side.fill(ctx, s)
	}
	if s.CPUProfile != "" {
		f, err := os.Create(s.CPUProfile)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	took, err := side.run(ctx, s)
	if err != nil {
		return err
	}
	if s.MemProfile != "" {
		f, err := os.Create(s.MemProfile)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.Lookup("allocs").WriteTo(f, 0); err != nil {
			return err
		}
	}
	peak, err := loadtest.PeakBytes(os.Getpid())
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(outcome{took.Seconds(), float64(s.Jobs) / took.Seconds(), peak})
}
