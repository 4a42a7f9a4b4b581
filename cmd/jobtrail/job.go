package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	ID      string  `arg:"" name:"job" help:"Job id."`
	Tenant  *string `placeholder:"TEN" help:"Whose job it is; needed when several tenants have one of that id."`
	Group   *string `placeholder:"G" help:"Worker group; all groups that know the id when not given."`
	NoKafka bool    `help:"Ask the evidence store only; what is newer than the evidence, or not started, is then not known."`
	timeoutFlag
	outputFlag
}

// Environment lists the variables that the verb reads.
func (c *jobShowCmd) Environment() any {
	return struct {
		connect.ClickHouse
		connect.Kafka `optional:"Only the store is asked when not set."`
	}{}
}

// Run prints the job's history.
func (c *jobShowCmd) Run(ctx context.Context, g *Globals) error {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	store, conn, err := g.store(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	var b *beyond
	var unseen error // why the topics could not be read
	if !c.NoKafka {
		b, unseen = g.lookBeyond(ctx, store, operate.BeyondQuery{JobID: c.ID, Tenant: c.Tenant, Group: c.Group})
		defer b.close()
	}
	jobs, err := store.Job(ctx, c.ID, c.Tenant, c.Group)
	if several, ok := errors.AsType[*evidence.TenantsError](err); ok {
		return usageError(fmt.Errorf("%w; use --tenant", several))
	}
	if b != nil && evidence.NotMade(err) {
		err = nil
	}
	if err != nil {
		return cause(ctx, explain(err))
	}
	if b != nil {
		unseen = b.readTail(ctx)
	}
	switch {
	case unseen != nil && len(jobs) == 0:
		return fmt.Errorf("the store has no evidence of it, and the topics, which may know more, could not be read: %w", unseen)
	case unseen != nil:
		fmt.Fprintf(g.Stderr, "jobtrail job show: the topics could not be read, so what is newer than the evidence is not counted: %s\n", g.oneLine(unseen))
		for i := range jobs {
			jobs[i].AddUnread()
		}
	case b != nil:
		var several *evidence.TenantsError
		if jobs, several = c.add(jobs, b); several != nil {
			return usageError(fmt.Errorf("%w; use --tenant", several))
		}
	}
	if c.Output == "json" {
		err = printJSON(g.Stdout, notNil(jobs))
	} else {
		err = printJobs(g, c.ID, jobs, b != nil && unseen == nil)
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

// add adds to the answers what is beyond the store, and answers of the groups
// that the store knows nothing of.
func (c *jobShowCmd) add(jobs []evidence.Job, b *beyond) ([]evidence.Job, *evidence.TenantsError) {
	tenants := b.tenants()
	if len(jobs) > 0 && !slices.Contains(tenants, jobs[0].TenantID) {
		tenants = append(tenants, jobs[0].TenantID)
	}
	if len(tenants) > 1 {
		slices.Sort(tenants)
		return nil, &evidence.TenantsError{What: "job", ID: c.ID, Tenants: tenants}
	}
	tenant := ""
	switch {
	case c.Tenant != nil:
		tenant = *c.Tenant
	case len(tenants) > 0:
		tenant = tenants[0]
	}
	known := map[sighted]bool{}
	for i := range jobs {
		for _, r := range jobs[i].Runs {
			known[sighted{jobs[i].WorkerGroup, r.Publication}] = true
		}
	}
	answered := map[string]bool{}
	for i := range jobs {
		j := &jobs[i]
		answered[j.WorkerGroup] = true
		j.Add(b.beside([]string{j.WorkerGroup}, known, func(e operate.TailEvent) bool { return j.Holds(e.LogID, e.Partition, e.Offset) }))
	}
	for _, group := range b.groups() {
		if answered[group] {
			continue
		}
		fresh := evidence.Fresh(c.ID, tenant, group, b.beside([]string{group}, known, func(operate.TailEvent) bool { return false }))
		if fresh.Verdict != evidence.Unknown {
			jobs = append(jobs, fresh)
		}
	}
	return jobs, nil
}

func printJobs(g *Globals, id string, jobs []evidence.Job, looked bool) error {
	if len(jobs) == 0 {
		said := "Unknown: there is no evidence of job " + id + ", and no record of it in the topics of any worker group."
		if !looked {
			said = "Unknown: there is no evidence of job " + id + ". The topics were not looked at, so what is newer than the evidence is not counted."
		}
		fmt.Fprint(g.Stdout, wrap("", "  ", said))
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
		if len(j.Runs) == 0 {
			continue
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
	Since  string  `placeholder:"T" help:"Only runs with an event since then: RFC 3339, unix ms, or 24h for a day ago."`
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
		since, err := operate.ParseSince(c.Since, time.Now())
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
