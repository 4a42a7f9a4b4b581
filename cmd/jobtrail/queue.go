package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/jobtrail/jobtrail/internal/connect"
	"github.com/jobtrail/jobtrail/internal/operate"
	"github.com/jobtrail/jobtrail/pkg/events"
	"github.com/jobtrail/jobtrail/pkg/retrytopics"
)

type queueCmd struct {
	List queueListCmd `cmd:"" help:"Show how much waits in each topic and tier, since when, and what is overdue."`
}

type queueListCmd struct {
	Group string `placeholder:"G" help:"Worker group; all groups when not given."`
	timeoutFlag
	outputFlag
}

// Environment lists the variables that the verb reads.
func (c *queueListCmd) Environment() any { return connect.Kafka{} }

// Run lists the queues of a group or of all.
func (c *queueListCmd) Run(ctx context.Context, g *Globals) error {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	cl, err := g.reachKafka(ctx)
	if err != nil {
		return err
	}
	defer cl.Close()
	groups, err := operate.DiscoverGroups(ctx, cl, c.Group)
	if err != nil {
		return cause(ctx, err)
	}
	queues := make([][]operate.Queue, len(groups))
	for i, group := range groups {
		if queues[i], err = operate.ListQueues(ctx, cl, group); err != nil {
			return cause(ctx, err)
		}
	}
	now := events.TimeOf(time.Now())
	if c.Output == "json" {
		return printQueuesJSON(g, groups, queues, now)
	}
	for i, group := range groups {
		if i > 0 {
			fmt.Fprintln(g.Stdout)
		}
		if err := printQueues(g, group, queues[i], now); err != nil {
			return err
		}
	}
	if len(groups) == 0 {
		fmt.Fprintln(g.Stdout, "There is no worker group; `jobtrail topics apply` makes one.")
	}
	return nil
}

func printQueues(g *Globals, group operate.Group, queues []operate.Queue, now events.Time) error {
	fmt.Fprintf(g.Stdout, "group %s: %s, %s, %d partitions\n", printable(group.Topology.Group), stateOf(group), count(len(group.Members), "member"), group.Partitions)
	tab := newTable("QUEUE", "ROLE", "DEPTH", "OLDEST", "NEXT DUE", "OVERDUE")
	unset := 0
	for _, q := range queues {
		depth, oldest, due, overdue := strconv.FormatInt(q.Depth, 10), "", "", ""
		if !q.Exact {
			depth = "≤" + depth
		}
		if q.Oldest != 0 {
			oldest = age(now.Sub(q.Oldest))
		}
		if q.NextDue > now {
			due = "in " + age(q.NextDue.Sub(now))
		} else if q.NextDue != 0 {
			due, overdue = "now", age(q.Overdue(now))
		}
		tab.add(q.Topic, string(q.Role), depth, oldest, due, overdue)
		unset += q.NoCommit
	}
	if err := tab.print(g.Stdout); err != nil {
		return err
	}
	if unset > 0 {
		fmt.Fprintf(g.Stdout, "%s without a commit: no worker has run there yet.\n", count(unset, "partition"))
	}
	return nil
}

func stateOf(group operate.Group) string {
	if group.State == "" {
		return "no consumer group yet"
	}
	return printable(group.State)
}

// age returns a duration as people say it, in two units: "3m12s", "2d4h".
func age(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + "ms"
	case d < time.Hour:
		return retrytopics.TierName(d.Truncate(time.Second))
	case d < 24*time.Hour:
		return retrytopics.TierName(d.Truncate(time.Minute))
	}
	return fmt.Sprintf("%dd%dh", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
}

func printQueuesJSON(g *Globals, groups []operate.Group, queues [][]operate.Queue, now events.Time) error {
	type queue struct {
		Topic     string  `json:"topic"`
		Role      string  `json:"role"`
		Tier      *string `json:"tier"`
		Depth     int64   `json:"depth"`
		Exact     bool    `json:"exact"`
		OldestAt  *string `json:"oldest_at"`
		NextDueAt *string `json:"next_due_at"`
		OverdueMS int64   `json:"overdue_ms"`
		NoCommit  int     `json:"partitions_without_commit"`
	}
	type groupOut struct {
		Group      string  `json:"group"`
		State      string  `json:"state"`
		Members    int     `json:"members"`
		Partitions int     `json:"partitions"`
		Queues     []queue `json:"queues"`
	}
	out := struct {
		At     string     `json:"at"`
		Groups []groupOut `json:"groups"`
	}{At: *timeOf(now), Groups: []groupOut{}}
	for i, group := range groups {
		o := groupOut{group.Topology.Group, group.State, len(group.Members), group.Partitions, []queue{}}
		for _, q := range queues[i] {
			line := queue{q.Topic, string(q.Role), nil, q.Depth, q.Exact, timeOf(q.Oldest), timeOf(q.NextDue), q.Overdue(now).Milliseconds(), q.NoCommit}
			if q.Role == retrytopics.RoleRetry {
				name := retrytopics.TierName(q.Tier)
				line.Tier = &name
			}
			o.Queues = append(o.Queues, line)
		}
		out.Groups = append(out.Groups, o)
	}
	return printJSON(g.Stdout, out)
}

// timeOf returns a time as JSON has it: RFC 3339 in UTC, null when not set.
func timeOf(t events.Time) *string {
	if t == 0 {
		return nil
	}
	s := string(retrytopics.FormatTime(t))
	return &s
}
