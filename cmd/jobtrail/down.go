package main

import (
	"context"

	"github.com/jobtrail/jobtrail/internal/localstack"
)

type downCmd struct {
	Data string `required:"" placeholder:"DIR" help:"Folder that was given to up."`
}

func (downCmd) Help() string {
	return `Stops the servers that "jobtrail up" started in the folder, in an orderly way, and waits for their end. Data stays.
Only these processes are ended; nothing running is fine.`
}

// Run stops what runs.
func (c downCmd) Run(ctx context.Context, g *Globals) error {
	return localstack.Down(ctx, localstack.Config{Dir: c.Data, Progress: g.Stderr})
}
