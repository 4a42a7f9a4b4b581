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
)

type opCmd struct {
	Show opShowCmd `cmd:"" help:"What happened to an operation, and how it ended. Exit code: 0 succeeded, 3 failed, 4 in progress, 5 needs a decision, 6 unknown; 1 error, 2 usage."`
}

// Exit codes of op show and job show beside 0, 1 and 2.
var verdictCodes = map[evidence.Verdict]int{
	evidence.Succeeded: 0, evidence.SucceededAfterRetries: 0, evidence.Failed: 3, evidence.InProgress: 4, evidence.NeedsDecision: 5, evidence.Unknown: 6,
}

type opShowCmd struct {
	ID      string  `arg:"" name:"op" help:"Operation id."`
	Tenant  *string `placeholder:"TEN" help:"Whose operation it is; needed when several tenants have one of that id."`
	NoKafka bool    `help:"Ask the evidence store only; what is newer than the evidence, or not started, is then not known."`
	timeoutFlag
	outputFlag
}

// Environment lists the variables that the verb reads.
func (c *opShowCmd) Environment() any {
	return struct {
		connect.ClickHouse
		connect.Kafka `optional:"Only the store is asked when not set."`
	}{}
}

// Run prints the answer and ends with the verdict's exit code.
func (c *opShowCmd) Run(ctx context.Context, g *Globals) error {
	if c.ID == "" {
		return usageError(errors.New("the operation id is empty"))
	}
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
		b, unseen = g.lookBeyond(ctx, store, operate.BeyondQuery{OperationID: c.ID, Tenant: c.Tenant})
		defer b.close()
	}
	o, err := store.Operation(ctx, c.ID, c.Tenant)
	if several, ok := errors.AsType[*evidence.TenantsError](err); ok {
		return c.ask(g, several)
	}
	if b != nil && evidence.NotMade(err) {
		o, err = evidence.NoOperation(c.ID, c.Tenant), nil
	}
	if err != nil {
		return cause(ctx, explain(err))
	}
	if b != nil {
		unseen = b.readTail(ctx)
	}
	switch {
	case unseen != nil && len(o.Jobs) == 0:
		return fmt.Errorf("the store has no evidence of it, and the topics, which may know more, could not be read: %w", unseen)
	case unseen != nil:
		fmt.Fprintf(g.Stderr, "jobtrail op show: the topics could not be read, so what is newer than the evidence is not counted: %s\n", g.oneLine(unseen))
		o.AddUnread()
	case b == nil:
		o.AddNothing()
	default:
		if several := c.add(o, b); several != nil {
			return c.ask(g, several)
		}
	}
	if c.Output == "json" {
		err = printJSON(g.Stdout, o)
	} else {
		err = printOperation(g, o)
	}
	if err != nil {
		return err
	}
	if code := verdictCodes[o.Verdict]; code != 0 {
		return exitError{code: code}
	}
	return nil
}

// add adds to the answer what is beyond the store.
func (c *opShowCmd) add(o *evidence.Operation, b *beyond) *evidence.TenantsError {
	tenants := b.tenants()
	if len(o.Jobs) > 0 && !slices.Contains(tenants, o.TenantID) {
		tenants = append(tenants, o.TenantID)
	}
	slices.Sort(tenants)
	switch {
	case len(tenants) > 1:
		return &evidence.TenantsError{What: "operation", ID: o.OperationID, Tenants: tenants}
	case len(tenants) == 1:
		o.TenantID = tenants[0]
	}
	known := map[sighted]bool{}
	for i := range o.Jobs {
		known[sighted{o.Jobs[i].WorkerGroup, o.Jobs[i].Publication}] = true
	}
	o.Add(b.beside(nil, known, func(e operate.TailEvent) bool { return o.Holds(e.LogID, e.Partition, e.Offset) }))
	return nil
}

// ask says which tenants have the id.
func (c *opShowCmd) ask(g *Globals, several *evidence.TenantsError) error {
	if c.Output == "json" {
		if err := printJSON(g.Stdout, struct {
			OperationID string   `json:"operation_id"`
			Tenants     []string `json:"tenants"`
		}{several.ID, several.Tenants}); err != nil {
			return err
		}
	} else {
		for _, t := range several.Tenants {
			fmt.Fprintln(g.Stdout, printable(t))
		}
	}
	return usageError(fmt.Errorf("%w; use --tenant", several))
}

func printOperation(g *Globals, o *evidence.Operation) error {
	title := "Operation " + o.OperationID
	if o.TenantID != "" {
		title += " of tenant " + o.TenantID
	}
	fmt.Fprint(g.Stdout, wrap("", "  ", title))
	fmt.Fprint(g.Stdout, wrap("", "  ", o.Sentence))
	fmt.Fprintln(g.Stdout, completeness(o.CompleteUpTo))
	if len(o.Jobs) == 0 {
		return nil
	}
	fmt.Fprintln(g.Stdout)
	tab := newTable("JOB", "TYPE", "PUBLICATION", "RUN", "STATE", "ATTEMPTS", "ENDED", "FLAGS")
	for i := range o.Jobs {
		tab.add(runCells(&o.Jobs[i])...)
	}
	if err := tab.print(g.Stdout); err != nil {
		return err
	}
	if err := printAttempts(g, o.Jobs); err != nil {
		return err
	}
	if len(o.Retries) > 0 {
		fmt.Fprintln(g.Stdout)
		tab := newTable("RETRIES", "CAUSE", "AFTER")
		for _, r := range o.Retries {
			tab.add(fmt.Sprint(r.Count), r.Cause, r.After)
		}
		return tab.print(g.Stdout)
	}
	return nil
}

func runCells(r *evidence.Run) []string {
	ended := ""
	if r.Terminal != nil {
		ended = r.Terminal.Outcome
		if r.Terminal.Reason != "" {
			ended += " (" + r.Terminal.Reason + ")"
		}
	}
	return []string{r.JobID, r.JobType, r.Publication, fmt.Sprint(r.Run), r.State, fmt.Sprint(len(r.Attempts)), ended, strings.Join(r.Flags, " ")}
}

func completeness(upTo *time.Time) string {
	if upTo == nil {
		return "How complete the evidence is is not known: no projector has reported on every worker group that may have run it."
	}
	return "Complete up to " + clock(*upTo) + "."
}

func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000 UTC") }

// axisWidth is how many columns the time axis has.
const axisWidth = 40

// printAttempts draws every attempt as a bar on one time axis.
func printAttempts(g *Globals, runs []evidence.Run) error {
	var from, to time.Time
	for i := range runs {
		if from.IsZero() || runs[i].FirstAt.Before(from) {
			from = runs[i].FirstAt
		}
		if runs[i].LastAt.After(to) {
			to = runs[i].LastAt
		}
	}
	if !slices.ContainsFunc(runs, func(r evidence.Run) bool { return len(r.Attempts) > 0 }) {
		return nil
	}
	fmt.Fprintf(g.Stdout, "\nAttempts from %s over %s; a bar is an attempt, ? an unknown end\n", clock(from), to.Sub(from).Round(time.Millisecond))
	tab := newTable("JOB", "NO", "TIME", "STARTED", "RAN", "CAUSE", "OUTCOME", "ERROR", "WORKER")
	for i := range runs {
		for j := range runs[i].Attempts {
			a := &runs[i].Attempts[j]
			started, ran := "", ""
			if a.StartedAt != nil {
				started = "+" + a.StartedAt.Sub(from).Round(time.Millisecond).String()
				if a.EndedAt != nil {
					ran = a.EndedAt.Sub(*a.StartedAt).Round(time.Millisecond).String()
				}
			}
			tab.add(runs[i].JobID, fmt.Sprint(a.Number), bar(a, from, to), started, ran, a.Cause, outcome(a), trouble(a), a.Worker)
		}
	}
	return tab.print(g.Stdout)
}

func bar(a *evidence.Attempt, from, to time.Time) string {
	cells := []rune(strings.Repeat("·", axisWidth))
	column := func(t time.Time) int {
		if !to.After(from) {
			return 0
		}
		return min(max(int(int64(axisWidth)*int64(t.Sub(from))/int64(to.Sub(from)+1)), 0), axisWidth-1)
	}
	if a.StartedAt == nil {
		return string(cells)
	}
	begin := column(*a.StartedAt)
	cells[begin] = '█'
	if a.EndedAt == nil {
		if begin+1 < axisWidth {
			cells[begin+1] = '?'
		}
		return string(cells)
	}
	for i := begin; i <= column(*a.EndedAt); i++ {
		cells[i] = '█'
	}
	return string(cells)
}

func outcome(a *evidence.Attempt) string {
	var said []string
	if a.Outcome != nil {
		said = append(said, *a.Outcome)
	}
	if a.Abandoned != nil {
		said = append(said, "abandoned ("+*a.Abandoned+")")
	}
	if a.LateOutcome != nil {
		said = append(said, *a.LateOutcome+" (late)")
	}
	if len(said) == 0 {
		return "running"
	}
	return strings.Join(said, ", ")
}

func trouble(a *evidence.Attempt) string {
	switch {
	case a.ErrorClass == nil:
		return ""
	case a.ErrorMessage == nil:
		return *a.ErrorClass
	}
	message := []rune(*a.ErrorMessage)
	if len(message) > 60 {
		message = append(message[:59], '…')
	}
	return evidence.Classed(*a.ErrorClass, string(message))
}
