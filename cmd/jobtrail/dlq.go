package main

import (
	"context"

	"github.com/jobtrail/jobtrail/pkg/retrytopics"
)

type dlqCmd struct {
	List dlqListCmd `cmd:"" help:"List dead-lettered jobs, the newest first."`
	Show dlqShowCmd `cmd:"" help:"Show one dead-lettered job."`
}

type dlqListCmd struct{ heldListFlags }

// Run lists the dead-letter topic.
func (c *dlqListCmd) Run(ctx context.Context, g *Globals) error {
	return c.run(ctx, g, retrytopics.Topology.DLQ)
}

type dlqShowCmd struct{ heldShowFlags }

// Run shows a record of the dead-letter topic.
func (c *dlqShowCmd) Run(ctx context.Context, g *Globals) error {
	return c.run(ctx, g, retrytopics.Topology.DLQ)
}
