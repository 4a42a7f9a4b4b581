package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/jobtrail/jobtrail/internal/connect"
	"github.com/jobtrail/jobtrail/internal/operate"
	"github.com/jobtrail/jobtrail/pkg/events"
)

type doctorCmd struct {
	Group string `placeholder:"G" help:"Worker group to look at; all when not given."`
	timeoutFlag
	outputFlag
}

// Environment lists the variables that the verb reads.
func (c *doctorCmd) Environment() any {
	return struct {
		connect.Kafka
		connect.ClickHouse `optional:"The store is not checked when not set."`
	}{}
}

// Run checks everything that can be checked, and fails when something fails.
func (c *doctorCmd) Run(ctx context.Context, g *Globals) error {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	cl, err := g.Kafka()
	if err != nil {
		return err
	}
	defer cl.Close()
	d := operate.Diagnosis{Kafka: cl, Group: c.Group, Now: func() events.Time { return events.TimeOf(time.Now()) }, Sanitizer: g.clean()}
	// The store is not needed to run jobs: doctor works without it.
	if g.has("CLICKHOUSE_ADDR") {
		conn, conf, err := g.ClickHouse(func(o *clickhouse.Options) { o.Auth.Database = "" })
		if err != nil {
			return err
		}
		defer conn.Close()
		d.Store, d.Database = conn, conf.Database
	}
	findings := operate.Diagnose(ctx, d)
	if c.Output == "json" {
		err = printJSON(g.Stdout, struct {
			OK       bool              `json:"ok"`
			Findings []operate.Finding `json:"findings"`
		}{!operate.Failed(findings), findings})
	} else {
		err = printFindings(g, findings)
	}
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return fmt.Errorf("the checks are not complete: %w", context.Cause(ctx))
	}
	if operate.Failed(findings) {
		return exitError{code: exitFailed}
	}
	return nil
}

// has reports whether an environment variable is set and not empty.
func (g *Globals) has(name string) bool {
	for _, line := range g.Environ {
		if value, ok := strings.CutPrefix(line, name+"="); ok && value != "" {
			return true
		}
	}
	return false
}

func printFindings(g *Globals, findings []operate.Finding) error {
	var b strings.Builder
	counts := map[operate.Status]int{}
	for _, f := range findings {
		counts[f.Status]++
		about := f.Check
		if f.About != "" {
			about += " " + f.About
		}
		b.WriteString(wrap(fmt.Sprintf("%-5s ", f.Status), "      ", about+": "+f.Found.String()))
		if f.Do != "" {
			b.WriteString(wrap("      → ", "        ", f.Do))
		}
	}
	fmt.Fprintf(&b, "%d ok, %d warn, %d fail\n", counts[operate.OK], counts[operate.Warn], counts[operate.Fail])
	_, err := g.Stdout.Write([]byte(b.String()))
	return err
}
