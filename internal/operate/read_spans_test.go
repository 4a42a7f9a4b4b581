package operate

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func fake(t *testing.T, topic string) (*kfake.Cluster, *kgo.Client) {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, topic))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MetadataMinAge(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	for range 10 {
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: topic}, &kgo.Record{Topic: topic, Partition: 1}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	return c, cl
}

func bounded(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), d, errors.New("it took too long"))
	t.Cleanup(cancel)
	return ctx
}

func TestReadSpansStopsWhereItIsTold(t *testing.T) {
	_, cl := fake(t, "a")
	seen := map[int32][]int64{}
	err := readSpans(bounded(t, 10*time.Second), cl, map[place]span{{"a", 0}: {2, 5}, {"a", 1}: {0, 10}}, func(r *kgo.Record) bool {
		seen[r.Partition] = append(seen[r.Partition], r.Offset)
		return r.Partition == 0 || r.Offset < 3
	})
	if err != nil || len(seen[0]) != 3 || seen[0][0] != 2 || seen[0][2] != 4 || len(seen[1]) != 4 {
		t.Errorf("got %v, %v", seen, err)
	}
}

// What retention deletes between the look at the ends and the reading is not
// waited for.
func TestReadSpansEndsWhenRecordsAreGone(t *testing.T) {
	_, cl := fake(t, "a")
	var gone kadm.Offsets
	gone.AddOffset("a", 0, 10, -1)
	gone.AddOffset("a", 1, 7, -1)
	if _, err := kadm.NewClient(cl).DeleteRecords(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	n := 0
	err := readSpans(bounded(t, 20*time.Second), cl, map[place]span{{"a", 0}: {0, 10}, {"a", 1}: {0, 10}}, func(*kgo.Record) bool { n++; return true })
	if err != nil || n != 3 {
		t.Errorf("%d records, %v; want 3", n, err)
	}
}

func TestReadSpansSaysWhatFailed(t *testing.T) {
	c, cl := fake(t, "a")
	c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: "a", Partitions: []int32{1}, Err: kerr.TopicAuthorizationFailed, Count: -1})
	err := readSpans(bounded(t, 10*time.Second), cl, map[place]span{{"a", 1}: {0, 10}}, func(*kgo.Record) bool { return true })
	if !errors.Is(err, kerr.TopicAuthorizationFailed) {
		t.Errorf("got %v", err)
	}
	err = readSpans(bounded(t, 0), cl, map[place]span{{"a", 0}: {0, 10}}, func(*kgo.Record) bool { return true })
	if err == nil || err.Error() != "reading records: it took too long" {
		t.Errorf("got %v", err)
	}
}
