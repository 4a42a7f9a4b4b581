package operate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/jobtrail/jobtrail/pkg/retrytopics"
)

// PublishedQuery asks for records that lie in job topics between a group's
// committed offsets and the topics' ends.
type PublishedQuery struct {
	OperationID string
	Tenant      *string // nil: any
	// Known holds "topic/partition/offset" of publications that are in the
	// evidence already.
	Known map[string]bool
	// Limit is the most records that are looked at; default 100,000.
	Limit int
}

// Published is what was found.
type Published struct {
	// Records is how many records of the operation have no evidence yet, and
	// Tenants whose they are.
	Records int
	Tenants []string
	// Whole is false when there were more records than Limit, so that there may
	// be more.
	Whole bool
}

// FindPublished looks for records of an operation that are published and not
// started. open makes a client, and is called once more with the options of a
// reader; both clients are closed. Only topics on which a group has commits are
// looked at.
func FindPublished(ctx context.Context, open func(...kgo.Opt) (*kgo.Client, error), q PublishedQuery) (Published, error) {
	found := Published{Whole: true}
	if q.Limit == 0 {
		q.Limit = 100_000
	}
	cl, err := open()
	if err != nil {
		return found, err
	}
	defer cl.Close()
	groups, err := DiscoverGroups(ctx, cl, "")
	if err != nil {
		return found, err
	}
	from, ends := map[string]map[int32]kgo.Offset{}, map[string]map[int32]int64{}
	for _, g := range groups {
		if len(g.Topology.Jobs) == 0 {
			continue
		}
		listed, err := kadm.NewClient(cl).ListCommittedOffsets(ctx, g.Topology.Jobs...)
		if err != nil {
			return found, fmt.Errorf("listing the ends of the job topics: %w", err)
		}
		for _, topic := range g.Topology.Jobs {
			for partition, c := range g.Commits[topic] {
				end, ok := listed.Lookup(topic, partition)
				if !ok || end.Err != nil || end.Offset <= c.At {
					continue
				}
				if from[topic] == nil {
					from[topic], ends[topic] = map[int32]kgo.Offset{}, map[int32]int64{}
				}
				if before, ok := from[topic][partition]; ok && before.EpochOffset().Offset <= c.At {
					continue
				}
				from[topic][partition], ends[topic][partition] = kgo.NewOffset().At(c.At), end.Offset
			}
		}
	}
	if len(from) == 0 {
		return found, nil
	}
	reader, err := open(kgo.ConsumePartitions(from), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(), kgo.FetchMaxWait(100*time.Millisecond))
	if err != nil {
		return found, err
	}
	defer reader.Close()
	seen := map[string]bool{}
	for looked := 0; len(ends) > 0; {
		fetches := reader.PollFetches(ctx)
		if err := fetches.Err(); err != nil && !errors.Is(err, context.Canceled) {
			return found, fmt.Errorf("reading the job topics: %w", err)
		}
		fetches.EachRecord(func(rec *kgo.Record) {
			looked++
			if rec.Offset+1 >= ends[rec.Topic][rec.Partition] {
				delete(ends[rec.Topic], rec.Partition)
				if len(ends[rec.Topic]) == 0 {
					delete(ends, rec.Topic)
				}
			}
			if rec.Attrs.IsControl() || q.Known[fmt.Sprintf("%s/%d/%d", rec.Topic, rec.Partition, rec.Offset)] {
				return
			}
			operation, tenant := "", ""
			for _, h := range rec.Headers {
				switch h.Key {
				case retrytopics.HeaderOperationID:
					operation = string(h.Value)
				case retrytopics.HeaderTenantID:
					tenant = string(h.Value)
				}
			}
			if operation != q.OperationID || (q.Tenant != nil && tenant != *q.Tenant) {
				return
			}
			found.Records++
			if !seen[tenant] {
				seen[tenant] = true
				found.Tenants = append(found.Tenants, tenant)
			}
		})
		if looked >= q.Limit && len(ends) > 0 {
			found.Whole = false
			break
		}
	}
	return found, nil
}
