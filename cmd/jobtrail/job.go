package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jobtrail/jobtrail/internal/connect"
	"github.com/jobtrail/jobtrail/internal/evidence"
	"github.com/jobtrail/jobtrail/internal/operate"
	"github.com/jobtrail/jobtrail/pkg/events"
)

type jobCmd struct {
	Show jobShowCmd `cmd:"" help:"What happened to a job, over all its publications and runs. Exit codes as of op show."`
	List jobListCmd `cmd:"" help:"List jobs, the one with the latest event first."`
}

type jobShowCmd struct {
	ID     string  `arg:"" name:"job" help:"Job id."`
	Tenant *string `placeholder:"TEN" help:"Whose job it is; needed when several tenants have one of that id."`
	Group  *string `placeholder:"G" help:"Worker group; all groups that know the id when not given."`
	timeoutFlag
	outputFlag
}

// Environment lists the variables that the verb reads.
func (c *jobShowCmd) Environment() any { return connect.ClickHouse{} }

// Run prints the job's history.
func (c *jobShowCmd) Run(ctx context.Context, g *Globals) error {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	store, conn, err := g.store(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	jobs, err := store.Job(ctx, c.ID, c.Tenant, c.Group)
	if several, ok := errors.AsType[*evidence.TenantsError](err); ok {
		return usageError(fmt.Errorf("%w; use --tenant", several))
	}
	if err != nil {
		return cause(ctx, explain(err))
	}
	if c.Output == "json" {
		err = printJSON(g.Stdout, notNil(jobs))
	} else {
		err = printJobs(g, c.ID, jobs)
	}
	if err != nil {
		return err
	}
	code := verdictCodes[evidence.Unknown]
	if len(jobs) > 0 {
		code = 0
		for i := range jobs {
			code = max(code, verdictCodes[jobs[i].Verdict])
		}
	}
	if code != 0 {
		return exitError{code: code}
	}
	return nil
}

func printJobs(g *Globals, id string, jobs []evidence.Job) error {
	if len(jobs) == 0 {
		fmt.Fprint(g.Stdout, wrap("", "  ", "Unknown: there is no evidence of job "+id+"."))
		return nil
	}
	for i := range jobs {
		j := &jobs[i]
		if i > 0 {
			fmt.Fprintln(g.Stdout)
		}
		title := fmt.Sprintf("Job %s of group %s", j.JobID, j.WorkerGroup)
		if j.TenantID != "" {
			title += ", tenant " + j.TenantID
		}
		fmt.Fprint(g.Stdout, wrap("", "  ", title))
		fmt.Fprint(g.Stdout, wrap("", "  ", j.Sentence))
		fmt.Fprintln(g.Stdout, completeness(j.CompleteUpTo))
		if ops := strings.Join(j.Operations, ", "); ops != "" {
			fmt.Fprint(g.Stdout, wrap("operations: ", "  ", ops))
		}
		runs := make([]evidence.Run, len(j.Runs))
		for k := range j.Runs {
			runs[k] = j.Runs[k].Run
		}
		fmt.Fprintln(g.Stdout)
		tab := newTable("JOB", "TYPE", "PUBLICATION", "RUN", "STATE", "ATTEMPTS", "ENDED", "FLAGS")
		for k := range runs {
			tab.add(runCells(&runs[k])...)
		}
		if err := tab.print(g.Stdout); err != nil {
			return err
		}
		if err := printAttempts(g, runs); err != nil {
			return err
		}
		fmt.Fprintln(g.Stdout)
		tab = newTable("RUN", "VERSION", "AT", "EVENT", "STATE", "DETAIL")
		for k := range runs {
			for _, h := range runs[k].History {
				tab.add(fmt.Sprint(runs[k].Run), fmt.Sprint(h.Version), clock(h.At), h.Type, h.State, h.Detail)
			}
		}
		if err := tab.print(g.Stdout); err != nil {
			return err
		}
	}
	return nil
}

type jobListCmd struct {
	Group  string  `placeholder:"G" help:"Only jobs of this worker group."`
	Type   string  `placeholder:"TYPE" help:"Only jobs of this type."`
	State  string  `placeholder:"STATE" help:"Only runs in this state, such as retry_waiting or failed."`
	Tenant *string `placeholder:"TEN" help:"Only jobs of this tenant."`
	Since  string  `placeholder:"T" help:"Only runs with an event since then: RFC 3339, unix ms or -1h."`
	Limit  int     `default:"100" help:"The most lines (${default})."`
	timeoutFlag
	outputFlag
}

// Environment lists the variables that the verb reads.
func (c *jobListCmd) Environment() any { return connect.ClickHouse{} }

// Run prints the list.
func (c *jobListCmd) Run(ctx context.Context, g *Globals) error {
	f := evidence.Filter{Group: c.Group, Type: c.Type, State: c.State, Tenant: c.Tenant, Limit: c.Limit}
	if c.Limit < 1 {
		return usageError(fmt.Errorf("--limit: %d is not positive", c.Limit))
	}
	if c.State != "" {
		var names []string
		for _, s := range events.States() {
			names = append(names, s.String())
		}
		if !strings.Contains(" "+strings.Join(names, " ")+" ", " "+c.State+" ") {
			return usageError(fmt.Errorf("--state: %q is none of %s", c.State, strings.Join(names, ", ")))
		}
	}
	if c.Since != "" {
		since, err := operate.ParseWhen(c.Since, time.Now())
		if err != nil {
			return usageError(fmt.Errorf("--since: %w", err))
		}
		f.Since = since
	}
	ctx, cancel := c.bound(ctx)
	defer cancel()
	store, conn, err := g.store(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	jobs, err := store.Jobs(ctx, f)
	if err != nil {
		return cause(ctx, explain(err))
	}
	if c.Output == "json" {
		return printJSON(g.Stdout, jobs)
	}
	tab := newTable("JOB", "TYPE", "TENANT", "OPERATION", "RUN", "STATE", "ATTEMPTS", "LAST EVENT", "LAST ERROR")
	for i := range jobs {
		j := &jobs[i]
		tab.add(j.JobID, j.JobType, j.TenantID, j.OperationID, fmt.Sprint(j.Run), j.State, fmt.Sprint(j.Attempts), clock(j.LastAt), j.LastErrorClass)
	}
	return tab.print(g.Stdout)
}
