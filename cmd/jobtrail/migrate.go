package main

import (
	"context"
	"fmt"

	"github.com/jobtrail/jobtrail/clickhouse"
	"github.com/jobtrail/jobtrail/internal/connect"
)

type migrateCmd struct {
	timeoutFlag
	outputFlag
}

// Environment lists the variables that the verb reads.
func (c *migrateCmd) Environment() any { return connect.ClickHouse{} }

// Run applies the store's migrations.
func (c *migrateCmd) Run(ctx context.Context, g *Globals) error {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	conn, conf, err := g.reachClickHouse(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	opts, err := conf.Options()
	if err != nil {
		return usageError(err)
	}
	layout := layoutOf(conf)
	if err := layout.Validate(); err != nil {
		return usageError(err)
	}
	applied, err := clickhouse.Migrate(ctx, opts, layout)
	if err != nil {
		return cause(ctx, err)
	}
	live, err := clickhouse.Live(ctx, conn, layout)
	if err != nil {
		return cause(ctx, err)
	}
	if c.Output == "json" {
		return printJSON(g.Stdout, struct {
			Applied []clickhouse.Applied `json:"applied"`
			Live    string               `json:"live"`
		}{notNil(applied), live})
	}
	for _, a := range applied {
		fmt.Fprintf(g.Stdout, "applied %s to %s\n", a.File, a.Database)
	}
	if len(applied) == 0 {
		fmt.Fprintln(g.Stdout, "Nothing to do: the schema is up to date.")
	}
	fmt.Fprintf(g.Stdout, "The live database is %s; readers use %s.\n", live, layout.Database)
	return nil
}

// layoutOf is how the store of the environment is laid out.
func layoutOf(conf connect.ClickHouse) clickhouse.Layout {
	return clickhouse.Layout{Database: conf.Database, Cluster: conf.Cluster}
}
