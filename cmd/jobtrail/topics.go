package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/jobtrail/jobtrail/internal/connect"
	"github.com/jobtrail/jobtrail/internal/operate"
	"github.com/jobtrail/jobtrail/pkg/retrytopics"
)

type topicsCmd struct {
	Plan  topicsPlanCmd  `cmd:"" help:"Show what apply would do: create, grow, alter, start."`
	Apply topicsApplyCmd `cmd:"" help:"Make the topics of a worker group and set where it begins. Running it again does nothing."`
}

// Embedded in the verbs under topics.
type topicsFlags struct {
	Group             string   `required:"" placeholder:"G" help:"Worker group: its consumer group and the prefix of its own topics."`
	Jobs              []string `required:"" placeholder:"TOPIC" help:"Job topics that the group consumes, comma-separated."`
	Partitions        int      `required:"" placeholder:"N" help:"Partitions of every topic of the group."`
	Tiers             string   `placeholder:"LIST" help:"Delays of the retry topics, such as '0s 1s 30s 10m'; those of the workers (${tiers})."`
	ReplicationFactor int      `placeholder:"R" help:"Replicas of topics that are created; the brokers' default when not given."`
	Start             string   `default:"earliest" placeholder:"WHERE" help:"Where a new group begins in its job topics: earliest, latest or a time (RFC 3339 or unix ms) (${default})."`
	GrowShared        bool     `help:"Add partitions to a job topic that other worker groups consume, too; they cannot work until their own topics have grown."`
	timeoutFlag
	outputFlag
}

// Environment lists the variables that the verb reads.
func (f *topicsFlags) Environment() any { return connect.Kafka{} }

func (f *topicsFlags) request() (operate.TopicsRequest, error) {
	req := operate.TopicsRequest{Partitions: f.Partitions, Replication: f.ReplicationFactor, GrowShared: f.GrowShared,
		Topology: retrytopics.Topology{Group: f.Group, Jobs: f.Jobs, Tiers: retrytopics.DefaultTiers()}}
	var err error
	if f.Tiers != "" {
		if req.Topology.Tiers, err = retrytopics.ParseTiers(f.Tiers); err != nil {
			return req, usageError(fmt.Errorf("--tiers: %w", err))
		}
	}
	if req.Start, err = operate.ParseStart(f.Start); err != nil {
		return req, usageError(fmt.Errorf("--start: %w", err))
	}
	if err := req.Validate(); err != nil {
		return req, usageError(err)
	}
	return req, nil
}

type topicsPlanCmd struct{ topicsFlags }

// Run shows the plan.
func (c *topicsPlanCmd) Run(ctx context.Context, g *Globals) error {
	return c.run(ctx, g, false)
}

type topicsApplyCmd struct{ topicsFlags }

// Run makes the plan true.
func (c *topicsApplyCmd) Run(ctx context.Context, g *Globals) error {
	return c.run(ctx, g, true)
}

func (f *topicsFlags) run(ctx context.Context, g *Globals, apply bool) error {
	req, err := f.request()
	if err != nil {
		return err
	}
	ctx, cancel := f.bound(ctx)
	defer cancel()
	cl, err := g.reachKafka(ctx)
	if err != nil {
		return err
	}
	defer cl.Close()
	plan, err := operate.PlanTopics(ctx, cl, req)
	if err != nil {
		return cause(ctx, err)
	}
	if apply && len(plan.Refused) == 0 {
		total, n := len(plan.Steps), 0
		err = operate.ApplyTopics(ctx, cl, plan, func(step operate.Step) {
			n++
			fmt.Fprintf(g.Stderr, "%d/%d %s %s: %s %s\n", n, total, step.Action, printable(step.Topic), step.Setting, printable(step.Wanted))
		})
		if err != nil && n > 0 {
			return fmt.Errorf("%w; what was made stays, and running it again goes on from there", cause(ctx, err))
		}
		if err != nil {
			return cause(ctx, err)
		}
	}
	if f.Output == "json" {
		err = printPlanJSON(g, plan, apply)
	} else {
		err = printPlan(g, plan, apply)
	}
	if err == nil && len(plan.Refused) > 0 {
		err = &operate.RefusedError{Problems: plan.Refused}
	}
	return err
}

func printPlan(g *Globals, p operate.Plan, applied bool) error {
	t := p.Request.Topology
	fmt.Fprint(g.Stdout, wrap("", "  ", fmt.Sprintf("group %s: job topics %s, %d partitions, tiers %s", t.Group, strings.Join(t.Jobs, ", "), p.Request.Partitions, t.Tiers)))
	if len(p.Steps) > 0 {
		tab := newTable("ACTION", "TOPIC", "SETTING", "FOUND", "WANTED")
		for _, s := range p.Steps {
			setting := s.Setting
			if s.Action == operate.SetStart {
				setting = fmt.Sprintf("offset of %d partitions", len(s.Offsets))
			}
			tab.add(string(s.Action), s.Topic, setting, s.Found, s.Wanted)
		}
		if err := tab.print(g.Stdout); err != nil {
			return err
		}
	}
	for _, note := range p.Notes {
		fmt.Fprint(g.Stdout, wrap("note: ", "      ", note))
	}
	switch {
	case len(p.Refused) > 0:
	case len(p.Steps) == 0:
		fmt.Fprintln(g.Stdout, "Nothing to do: topics, settings and start offsets are as wanted.")
	case applied:
		fmt.Fprintf(g.Stdout, "Done: %s.\n", count(len(p.Steps), "change"))
	default:
		fmt.Fprintf(g.Stdout, "%s. `jobtrail topics apply` makes them.\n", count(len(p.Steps), "difference"))
	}
	return nil
}

func printPlanJSON(g *Globals, p operate.Plan, apply bool) error {
	type problem struct {
		Topic   string `json:"topic"`
		Setting string `json:"setting"`
		Found   string `json:"found"`
		Wanted  string `json:"wanted"`
		Why     string `json:"why"`
	}
	refused := make([]problem, len(p.Refused))
	for i, r := range p.Refused {
		refused[i] = problem(r)
	}
	return printJSON(g.Stdout, struct {
		Group      string         `json:"group"`
		Jobs       []string       `json:"jobs"`
		Partitions int            `json:"partitions"`
		Tiers      string         `json:"tiers"`
		Applied    bool           `json:"applied"`
		Steps      []operate.Step `json:"steps"`
		Refused    []problem      `json:"refused"`
		Notes      []string       `json:"notes"`
	}{p.Request.Topology.Group, p.Request.Topology.Jobs, p.Request.Partitions, p.Request.Topology.Tiers.String(),
		apply && len(p.Refused) == 0, notNil(p.Steps), refused, notNil(p.Notes)})
}

// notNil makes an empty list appear as [] in JSON.
func notNil[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

// count returns a number with its noun, "1 change" or "2 changes".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
