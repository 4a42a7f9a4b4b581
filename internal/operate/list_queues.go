package operate

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/jobtrail/jobtrail/pkg/events"
	"github.com/jobtrail/jobtrail/pkg/retrytopics"
)

// countUpTo is how many records of a partition are counted one by one. Beyond
// it a depth is the distance of offsets, which counts transaction markers too.
const countUpTo = 2000

// Queue is one topic of a group and what waits in it.
type Queue struct {
	Topic string
	Role  retrytopics.Role
	// Tier is the delay of a retry topic.
	Tier time.Duration
	// Depth counts, in the topics that workers consume, the records after the
	// commits: not finished, waiting or running. In the dead-letter and parked
	// topics it counts all records.
	Depth int64
	// Exact says that Depth was counted; otherwise there are at most so many.
	Exact bool
	// Oldest is the log time of the first of these records; 0 when there is none.
	Oldest events.Time
	// NextDue is when the first of them leaves its tier; 0 outside of tiers.
	NextDue events.Time
	// NoCommit counts the partitions of a consumed topic without a commit; there
	// Depth counts from the first record.
	NoCommit int
}

// Overdue returns for how long the first record should have left its tier.
func (q Queue) Overdue(now events.Time) time.Duration {
	if q.NextDue == 0 || now <= q.NextDue {
		return 0
	}
	return now.Sub(q.NextDue)
}

// ListQueues returns what waits in each topic of a group: job topics, tiers,
// commands, parked and dead-letter topic. It reads a bounded number of records.
func ListQueues(ctx context.Context, cl *kgo.Client, g Group) ([]Queue, error) {
	t := g.Topology
	lanes := t.Lanes()
	names := append(slices.Clone(lanes), t.Parked(), t.DLQ())
	found, err := listTopics(ctx, cl, names)
	if err != nil {
		return nil, err
	}
	names = slices.DeleteFunc(names, func(name string) bool { _, ok := found[name]; return !ok })
	first, stable, err := bounds(ctx, cl, names)
	if err != nil {
		return nil, fmt.Errorf("listing the queues of group %s: %w", t.Group, err)
	}
	queues := make([]Queue, len(names))
	index := map[string]int{}
	spans := map[place]span{}
	for i, name := range names {
		index[name] = i
		q := Queue{Topic: name, Role: t.Role(name), Exact: true}
		q.Tier, _ = t.TierOf(name)
		for p, end := range stable[name] {
			from := first[name][p]
			if slices.Contains(lanes, name) {
				commit, ok := g.Commits[name][p]
				if !ok {
					q.NoCommit++
				}
				from = max(from, commit.At)
			}
			spans[place{name, p}] = span{from, end}
		}
		queues[i] = q
	}
	counted := map[place]int64{}
	err = readSpans(ctx, cl, spans, func(r *kgo.Record) bool {
		p := place{r.Topic, r.Partition}
		counted[p]++
		q := &queues[index[r.Topic]]
		if at := events.TimeOf(r.Timestamp); q.Oldest == 0 || at < q.Oldest {
			q.Oldest = at
		}
		return counted[p] < countUpTo
	})
	if err != nil {
		return nil, fmt.Errorf("listing the queues of group %s: %w", t.Group, err)
	}
	for p, s := range spans {
		q := &queues[index[p.topic]]
		if counted[p] < countUpTo {
			q.Depth += counted[p]
			continue
		}
		q.Depth += s.to - s.from
		q.Exact = false
	}
	for i := range queues {
		if q := &queues[i]; q.Role == retrytopics.RoleRetry && q.Oldest != 0 {
			q.NextDue = retrytopics.Due(q.Oldest, q.Tier)
		}
	}
	return queues, nil
}

// bounds returns the first and the last stable offset of each partition.
func bounds(ctx context.Context, cl *kgo.Client, topics []string) (first, stable map[string]map[int32]int64, err error) {
	if len(topics) == 0 {
		return nil, nil, nil
	}
	adm := kadm.NewClient(cl)
	err = until(ctx, func() (bool, error) {
		var err error
		if first, err = listOffsets(adm.ListStartOffsets(ctx, topics...)); err == nil {
			stable, err = listOffsets(adm.ListCommittedOffsets(ctx, topics...))
		}
		return !kerr.IsRetriable(err), err
	})
	return first, stable, err
}
