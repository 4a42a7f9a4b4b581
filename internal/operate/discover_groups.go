package operate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/jobtrail/jobtrail/pkg/retrytopics"
)

// Group is a worker group as the brokers have it.
type Group struct {
	// Topology has the tiers that exist, and as job topics those that the group
	// has commits on or members subscribed to, except its own.
	Topology retrytopics.Topology
	// Partitions is how many partitions the evidence log has; 0 when there is none.
	Partitions int
	// State is the consumer group's, such as Empty or Stable; empty when it does
	// not exist.
	State string
	// Type is consumer or classic; empty when the consumer group does not exist.
	Type    string
	Members []Member
	// Commits are the committed offsets by topic and partition.
	Commits map[string]map[int32]kadm.Offset
}

// Member is a member of a worker group.
type Member struct {
	ID       string
	ClientID string
	Host     string
	// Lanes is how many topic partitions it holds.
	Lanes int
}

// ErrNoGroup is wrapped when a group has neither topics nor commits.
var ErrNoGroup = errors.New("no such worker group")

// DiscoverGroups returns the group of that name, or every worker group when
// name is empty, by name. A worker group is known by its evidence topic.
func DiscoverGroups(ctx context.Context, cl *kgo.Client, name string) ([]Group, error) {
	topics, err := listTopics(ctx, cl, nil)
	if err != nil {
		return nil, err
	}
	names := []string{name}
	if name == "" {
		names = nil
		for topic := range topics {
			if group, ok := strings.CutSuffix(topic, ".evidence"); ok {
				names = append(names, group)
			}
		}
		slices.Sort(names)
	} else if _, ok := topics[name+".evidence"]; !ok {
		// What the user may not see is left out, unless it is named.
		if _, err := listTopics(ctx, cl, []string{name + ".evidence"}); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("%w: topic %s.evidence does not exist; `jobtrail topics apply` makes it", ErrNoGroup, name)
	}
	groups := make([]Group, len(names))
	for i, name := range names {
		groups[i], err = fetchGroup(ctx, cl, name)
		if err != nil {
			return nil, err
		}
		groups[i].Topology.Tiers = tiersOf(name, topics)
		groups[i].Partitions = len(topics[groups[i].Topology.Evidence()].Partitions)
		groups[i].Topology.Jobs = slices.DeleteFunc(groups[i].Topology.Jobs, func(t string) bool {
			_, ok := topics[t]
			return !ok || groups[i].Topology.Role(t) != retrytopics.RoleJobs || isTier(name, t)
		})
	}
	return groups, nil
}

// fetchGroup returns the members and commits of a consumer group that may not
// exist. The topology's job topics are all topics of commits and subscriptions.
func fetchGroup(ctx context.Context, cl *kgo.Client, name string) (Group, error) {
	g := Group{Topology: retrytopics.Topology{Group: name}, Commits: map[string]map[int32]kadm.Offset{}}
	adm := kadm.NewClient(cl)
	jobs := map[string]bool{}
	if err := fetchMembers(ctx, adm, &g, jobs); err != nil {
		on := "group " + name
		if errors.Is(err, kerr.TopicAuthorizationFailed) {
			on = "a topic that the members of group " + name + " consume"
		}
		return g, fmt.Errorf("describing consumer group %s: %w", name, denied(err, "Describe", on))
	}
	offsets, err := adm.FetchOffsets(ctx, name)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return g, fmt.Errorf("fetching the commits of consumer group %s: %w", name, denied(err, "Describe", "group "+name))
	}
	for topic, partitions := range offsets {
		for p, o := range partitions {
			if o.Err != nil {
				return g, fmt.Errorf("fetching the commit of consumer group %s on %s/%d: %w", name, topic, p, o.Err)
			}
			if o.At < 0 {
				continue
			}
			if g.Commits[topic] == nil {
				g.Commits[topic] = map[int32]kadm.Offset{}
			}
			g.Commits[topic][p] = o.Offset
			jobs[topic] = true
		}
	}
	g.Topology.Jobs = slices.Sorted(maps.Keys(jobs))
	return g, nil
}

func fetchMembers(ctx context.Context, adm *kadm.Client, g *Group, jobs map[string]bool) error {
	name := g.Topology.Group
	consumer, err := adm.DescribeConsumerGroups(ctx, name)
	if err != nil {
		return err
	}
	d := consumer[name]
	if d.Err == nil {
		g.State, g.Type = d.State, "consumer"
		for _, m := range d.Members {
			g.Members = append(g.Members, Member{m.MemberID, m.ClientID, m.ClientHost, countLanes(m.Assignment)})
			for _, t := range m.SubscribedTopics {
				jobs[t] = true
			}
		}
		return nil
	}
	if !errors.Is(d.Err, kerr.GroupIDNotFound) {
		return d.Err
	}
	classic, err := adm.DescribeGroups(ctx, name)
	if err != nil {
		return err
	}
	c := classic[name]
	if errors.Is(c.Err, kerr.GroupIDNotFound) || c.Err == nil && c.State == "Dead" {
		return nil
	}
	if c.Err != nil {
		return c.Err
	}
	g.State, g.Type = c.State, "classic"
	for _, m := range c.Members {
		lanes := 0
		if a, ok := m.Assigned.AsConsumer(); ok {
			for _, t := range a.Topics {
				lanes += len(t.Partitions)
			}
		}
		g.Members = append(g.Members, Member{m.MemberID, m.ClientID, m.ClientHost, lanes})
	}
	return nil
}

func countLanes(assigned kadm.TopicsSet) int {
	n := 0
	for _, partitions := range assigned {
		n += len(partitions)
	}
	return n
}

// tiersOf returns the delays of the group's retry topics that exist.
func tiersOf(group string, topics map[string]kmsg.MetadataResponseTopic) retrytopics.Tiers {
	var tiers retrytopics.Tiers
	for topic := range topics {
		if d, ok := tierOf(group, topic); ok {
			tiers = append(tiers, d)
		}
	}
	slices.Sort(tiers)
	return tiers
}

func isTier(group, topic string) bool {
	_, ok := tierOf(group, topic)
	return ok
}

// tierOf returns the delay in the name of a group's retry topic, whether or not
// the group still has that tier.
func tierOf(group, topic string) (time.Duration, bool) {
	name, ok := strings.CutPrefix(topic, group+".retry.")
	if !ok {
		return 0, false
	}
	d, err := time.ParseDuration(name)
	return d, err == nil && retrytopics.TierName(d) == name
}
