package loadtest

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/jobtrail/jobtrail/pkg/events"
	"github.com/jobtrail/jobtrail/pkg/retrytopics"
)

// Record is an event with its place in the log.
type Record struct {
	Partition int32
	Offset    int64
	At        events.Time // append time
	Event     *events.Event
}

// Dump is what a group has on its topics, as a reader of committed records
// sees it.
type Dump struct {
	Topology retrytopics.Topology
	TopicIDs map[string]uuid.UUID
	// Evidence is in log order within each partition.
	Evidence []Record
	// Undecodable counts records of the evidence log that are no event.
	Undecodable int
	// Records are those of all other topics of the group, by topic.
	Records map[string][]*kgo.Record
	// Commits are the group's positions.
	Commits map[string]map[int32]int64
}

// ReadDump reads all topics of the group up to their ends.
func ReadDump(ctx context.Context, kafka []kgo.Opt, topo retrytopics.Topology) (*Dump, error) {
	ctl, err := kgo.NewClient(kafka...)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	defer ctl.Close()
	adm := kadm.NewClient(ctl)
	topics := append(topo.Lanes(), topo.Evidence(), topo.DLQ(), topo.Parked())
	d := &Dump{Topology: topo, TopicIDs: make(map[string]uuid.UUID), Records: make(map[string][]*kgo.Record), Commits: make(map[string]map[int32]int64)}
	details, err := adm.ListTopics(ctx, topics...)
	if err != nil {
		return nil, fmt.Errorf("listing topics: %w", err)
	}
	for _, t := range details {
		d.TopicIDs[t.Topic] = uuid.UUID(t.ID)
	}
	commits, err := adm.FetchOffsets(ctx, topo.Group)
	if err != nil {
		return nil, fmt.Errorf("fetching commits: %w", err)
	}
	commits.Each(func(o kadm.OffsetResponse) {
		if d.Commits[o.Topic] == nil {
			d.Commits[o.Topic] = make(map[int32]int64)
		}
		d.Commits[o.Topic][o.Partition] = o.At
	})
	ends, err := adm.ListEndOffsets(ctx, topics...)
	if err != nil {
		return nil, fmt.Errorf("listing ends: %w", err)
	}
	want := make(map[string]map[int32]kgo.Offset)
	left := make(map[string]map[int32]int64)
	n := 0
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset == 0 {
			return
		}
		if want[o.Topic] == nil {
			want[o.Topic], left[o.Topic] = make(map[int32]kgo.Offset), make(map[int32]int64)
		}
		want[o.Topic][o.Partition] = kgo.NewOffset().AtStart()
		left[o.Topic][o.Partition] = o.Offset
		n++
	})
	if n == 0 {
		return d, nil
	}
	cl, err := kgo.NewClient(append(append([]kgo.Opt{}, kafka...), kgo.ConsumePartitions(want), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(), kgo.FetchMaxWait(200*time.Millisecond))...)
	if err != nil {
		return nil, fmt.Errorf("making a reader: %w", err)
	}
	defer cl.Close()
	var dec events.Decoder
	for n > 0 {
		fetches := cl.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("reading the topics, %d partitions are left: %w", n, err)
		}
		if err := fetches.Err(); err != nil {
			return nil, fmt.Errorf("reading the topics: %w", err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			end, open := left[r.Topic][r.Partition]
			if !open {
				return
			}
			if r.Offset >= end-1 {
				delete(left[r.Topic], r.Partition)
				n--
			}
			switch {
			case r.Attrs.IsControl():
			case r.Topic == topo.Evidence():
				e := new(events.Event)
				if err := dec.Decode(r.Value, e); err != nil {
					d.Undecodable++
					return
				}
				d.Evidence = append(d.Evidence, Record{r.Partition, r.Offset, events.TimeOf(r.Timestamp), e})
			default:
				d.Records[r.Topic] = append(d.Records[r.Topic], r)
			}
		})
	}
	return d, nil
}
