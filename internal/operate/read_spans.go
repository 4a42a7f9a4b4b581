package operate

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// place is a partition of a topic.
type place struct {
	topic     string
	partition int32
}

// span is the offsets [from, to) of a partition. to must not lie beyond the last
// stable offset.
type span struct{ from, to int64 }

// idleCheck is how long a read waits for records before it asks whether they
// still exist.
const idleCheck = 2 * time.Second

// readSpans calls each with every committed record of the spans, in the order of
// each partition, until each returns false for a partition or its span ends.
// Control records and aborted ones are left out. The records' memory is the
// caller's.
func readSpans(ctx context.Context, cl *kgo.Client, spans map[place]span, each func(*kgo.Record) (more bool)) error {
	open := map[place]span{}
	at := map[string]map[int32]kgo.Offset{}
	for p, s := range spans {
		if s.from >= s.to {
			continue
		}
		open[p] = s
		if at[p.topic] == nil {
			at[p.topic] = map[int32]kgo.Offset{}
		}
		at[p.topic][p.partition] = kgo.NewOffset().At(s.from)
	}
	if len(open) == 0 {
		return nil
	}
	// Control records say that an end is reached which only markers lead to.
	reader, err := kgo.NewClient(append(cl.Opts(), kgo.ConsumePartitions(at), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.FetchMaxPartitionBytes(256<<10), kgo.FetchMaxBytes(8<<20), kgo.FetchMaxWait(200*time.Millisecond), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
	if err != nil {
		return fmt.Errorf("opening a Kafka client: %w", err)
	}
	defer reader.Close()
	done := func(p place) {
		delete(open, p)
		reader.PauseFetchPartitions(map[string][]int32{p.topic: {p.partition}})
	}
	for len(open) > 0 {
		idle, cancel := context.WithTimeout(ctx, idleCheck)
		fetches := reader.PollFetches(idle)
		silent := idle.Err() != nil
		cancel()
		if ctx.Err() != nil {
			return fmt.Errorf("reading records: %w", context.Cause(ctx))
		}
		for _, e := range fetches.Errors() {
			if !silent {
				return fmt.Errorf("reading %s/%d: %w", e.Topic, e.Partition, denied(e.Err, "Read", "topic "+e.Topic))
			}
		}
		if silent {
			if err := dropDeleted(ctx, cl, open, done); err != nil {
				return err
			}
		}
		fetches.EachRecord(func(r *kgo.Record) {
			p := place{r.Topic, r.Partition}
			s, ok := open[p]
			switch {
			case !ok:
			case r.Offset >= s.to:
				done(p)
			case !r.Attrs.IsControl() && !each(r), r.Offset == s.to-1:
				done(p)
			}
		})
	}
	return nil
}

// dropDeleted ends the spans whose records retention has deleted meanwhile.
func dropDeleted(ctx context.Context, cl *kgo.Client, open map[place]span, done func(place)) error {
	topics := map[string]bool{}
	names := []string{}
	for p := range open {
		if !topics[p.topic] {
			topics[p.topic] = true
			names = append(names, p.topic)
		}
	}
	first, err := listOffsets(kadm.NewClient(cl).ListStartOffsets(ctx, names...))
	if err != nil {
		return err
	}
	for p, s := range open {
		if first[p.topic][p.partition] >= s.to {
			done(p)
		}
	}
	return nil
}
