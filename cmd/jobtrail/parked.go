package main

import (
	"context"

	"github.com/jobtrail/jobtrail/pkg/retrytopics"
)

type parkedCmd struct {
	List parkedListCmd `cmd:"" help:"List parked jobs, the newest first."`
	Show parkedShowCmd `cmd:"" help:"Show one parked job."`
}

type parkedListCmd struct{ heldListFlags }

// Run lists the topic of parked jobs.
func (c *parkedListCmd) Run(ctx context.Context, g *Globals) error {
	return c.run(ctx, g, retrytopics.Topology.Parked)
}

type parkedShowCmd struct{ heldShowFlags }

// Run shows a record of the topic of parked jobs.
func (c *parkedShowCmd) Run(ctx context.Context, g *Globals) error {
	return c.run(ctx, g, retrytopics.Topology.Parked)
}
