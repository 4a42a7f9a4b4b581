package operate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/jobtrail/jobtrail/pkg/events"
	"github.com/jobtrail/jobtrail/pkg/retrytopics"
)

// Held is a record of a dead-letter or parked topic: a job that left the flow,
// with its exact bytes.
type Held struct {
	// Record is as it is in the topic; ListHeld leaves its value out.
	Record *kgo.Record
	// Size is the length of the value; -1 for a null value.
	Size int
	// At is the log time of the record.
	At events.Time
	// Meta is what the producer's headers say. JobID and JobType are empty where
	// neither they nor the state say it.
	Meta retrytopics.Meta
	// Malformed says which of the producer's headers cannot be used.
	Malformed error
	// State is what the worker knew of the job; StateErr says why there is none.
	State    events.HopState
	StateErr error
}

// Reason is why the job is held: the terminal reason, the park reason or the
// error class; empty without a state.
func (h *Held) Reason() string {
	switch {
	case h.StateErr != nil:
		return ""
	case h.State.Reason != 0:
		return h.State.Reason.String()
	case h.State.ParkReason != 0:
		return h.State.ParkReason.String()
	}
	return h.State.ErrorClass.String()
}

func newHeld(r *kgo.Record) *Held {
	h := &Held{Record: r, Size: len(r.Value), At: events.TimeOf(r.Timestamp)}
	if r.Value == nil {
		h.Size = -1
	}
	h.State, h.StateErr = retrytopics.State(r.Headers)
	h.Meta, h.Malformed = retrytopics.Parse(r.Headers, h.State.Origin)
	if h.StateErr != nil && h.Meta.JobID == h.State.Origin.DefaultJobID() {
		h.Meta.JobID = "" // it stands for a place that is not known
	}
	return h
}

// HeldFilter chooses records. Empty fields choose all.
type HeldFilter struct {
	JobID       string
	Type        string
	TenantID    string
	OperationID string
	Reason      string
	// Since leaves out what was written before.
	Since events.Time
	// Limit is how many records are returned, the newest ones. Default 50.
	Limit int
	// Scan is how many records are looked at, from the newest on. Default 100000.
	Scan int64
}

func (f HeldFilter) matches(h *Held) bool {
	is := func(want, got string) bool { return want == "" || want == got }
	return is(f.JobID, h.Meta.JobID) && is(f.Type, h.Meta.JobType) && is(f.TenantID, h.Meta.TenantID) &&
		is(f.OperationID, h.Meta.OperationID) && is(f.Reason, h.Reason()) && h.At >= f.Since
}

// HeldPage is what ListHeld found.
type HeldPage struct {
	// Records are the newest first.
	Records []*Held
	// Scanned is how many records were looked at.
	Scanned int64
	// More says that there may be older ones that match: Limit or Scan ended the
	// search.
	More bool
}

// ErrNoTopic is wrapped when the topic to read does not exist.
var ErrNoTopic = errors.New("no such topic")

// ListHeld returns the newest records of a topic that the filter chooses. It
// reads backwards in growing steps.
func ListHeld(ctx context.Context, cl *kgo.Client, topic string, f HeldFilter) (HeldPage, error) {
	if f.Limit <= 0 {
		f.Limit = 50
	}
	if f.Scan <= 0 {
		f.Scan = 100_000
	}
	page, err := listHeld(ctx, cl, topic, f)
	if err != nil {
		return HeldPage{}, fmt.Errorf("listing topic %s: %w", topic, err)
	}
	return page, nil
}

// backwards is how far the reading of a partition has come.
type backwards struct {
	first, next int64
	// oldest is the time of the oldest record read; the partition has none that
	// is newer and not read.
	oldest events.Time
}

func listHeld(ctx context.Context, cl *kgo.Client, topic string, f HeldFilter) (HeldPage, error) {
	var page HeldPage
	if found, err := listTopics(ctx, cl, []string{topic}); err != nil {
		return page, err
	} else if len(found) == 0 {
		return page, ErrNoTopic
	}
	first, stable, err := bounds(ctx, cl, []string{topic})
	if err != nil {
		return page, err
	}
	since := first
	if f.Since != 0 {
		if since, err = listOffsets(kadm.NewClient(cl).ListOffsetsAfterMilli(ctx, int64(f.Since), topic)); err != nil {
			return page, err
		}
	}
	left := map[int32]*backwards{}
	for p, end := range stable[topic] {
		if from := max(first[topic][p], since[topic][p]); from < end {
			left[p] = &backwards{first: from, next: end, oldest: events.Time(1<<63 - 1)}
		}
	}
	step := int64(max(100, 2*f.Limit/max(1, len(left))))
	for len(left) > 0 {
		spans := map[place]span{}
		for p, b := range left {
			from := max(b.first, b.next-step)
			spans[place{topic, p}] = span{from, b.next}
			b.next = from
		}
		err := readSpans(ctx, cl, spans, func(r *kgo.Record) bool {
			page.Scanned++
			b := left[r.Partition]
			b.oldest = min(b.oldest, events.TimeOf(r.Timestamp))
			if h := newHeld(r); f.matches(h) {
				h.Record = withoutValue(r)
				page.Records = append(page.Records, h)
				if len(page.Records) >= 4*f.Limit+1000 {
					page.Records = newest(page.Records, f.Limit+1)
				}
			}
			return true
		})
		if err != nil {
			return page, err
		}
		horizon := events.Time(0) // nothing that is newer is left unread
		for p, b := range left {
			if b.next <= b.first {
				delete(left, p)
				continue
			}
			horizon = max(horizon, b.oldest)
		}
		page.Records = newest(page.Records, f.Limit+1)
		enough := len(page.Records) > f.Limit && page.Records[f.Limit-1].At >= horizon
		if enough || page.Scanned >= f.Scan {
			page.More = len(left) > 0
			break
		}
		step = min(4*step, 20_000)
	}
	if len(page.Records) > f.Limit {
		page.Records, page.More = page.Records[:f.Limit], true
	}
	return page, nil
}

// withoutValue returns a copy of r that does not keep the batch in memory which
// r was read from.
func withoutValue(r *kgo.Record) *kgo.Record {
	headers := make([]kgo.RecordHeader, len(r.Headers))
	for i, h := range r.Headers {
		headers[i] = kgo.RecordHeader{Key: strings.Clone(h.Key), Value: bytes.Clone(h.Value)}
	}
	return &kgo.Record{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Timestamp: r.Timestamp, Key: bytes.Clone(r.Key), Headers: headers}
}

// newest returns the n newest records, the newest first.
func newest(records []*Held, n int) []*Held {
	slices.SortFunc(records, func(a, b *Held) int {
		switch {
		case a.At != b.At:
			return int(min(1, max(-1, b.At-a.At)))
		case a.Record.Partition != b.Record.Partition:
			return int(a.Record.Partition - b.Record.Partition)
		}
		return int(min(1, max(-1, b.Record.Offset-a.Record.Offset)))
	})
	return records[:min(n, len(records))]
}

// ErrNoRecord is wrapped when a place holds no record.
var ErrNoRecord = errors.New("no such record")

// ReadHeld returns the record at a place of a topic.
func ReadHeld(ctx context.Context, cl *kgo.Client, topic string, partition int32, offset int64) (*Held, error) {
	h, err := readHeld(ctx, cl, topic, partition, offset)
	if err != nil {
		return nil, fmt.Errorf("reading %s/%d/%d: %w", topic, partition, offset, err)
	}
	return h, nil
}

func readHeld(ctx context.Context, cl *kgo.Client, topic string, partition int32, offset int64) (*Held, error) {
	if found, err := listTopics(ctx, cl, []string{topic}); err != nil {
		return nil, err
	} else if len(found) == 0 {
		return nil, ErrNoTopic
	}
	first, stable, err := bounds(ctx, cl, []string{topic})
	if err != nil {
		return nil, err
	}
	end, ok := stable[topic][partition]
	switch {
	case !ok:
		return nil, fmt.Errorf("%w: the topic has %d partitions", ErrNoRecord, len(stable[topic]))
	case offset < first[topic][partition] || offset >= end:
		return nil, fmt.Errorf("%w: the partition holds offsets %d to %d; what was before them, retention has deleted", ErrNoRecord, first[topic][partition], end-1)
	}
	var held *Held
	err = readSpans(ctx, cl, map[place]span{{topic, partition}: {offset, offset + 1}}, func(r *kgo.Record) bool {
		held = newHeld(r)
		return false
	})
	if err == nil && held == nil {
		err = fmt.Errorf("%w: a transaction's marker has that offset", ErrNoRecord)
	}
	return held, err
}

// ErrSeveralGroups is wrapped when a group must be named and is not.
var ErrSeveralGroups = errors.New("which group?")

// GroupOf returns the group of that name, or the only one when name is empty.
func GroupOf(ctx context.Context, cl *kgo.Client, name string) (Group, error) {
	groups, err := DiscoverGroups(ctx, cl, name)
	if err != nil {
		return Group{}, err
	}
	switch len(groups) {
	case 1:
		return groups[0], nil
	case 0:
		return Group{}, fmt.Errorf("%w: there is none; `jobtrail topics apply` makes one", ErrNoGroup)
	}
	names := make([]string, len(groups))
	for i, g := range groups {
		names[i] = g.Topology.Group
	}
	return Group{}, fmt.Errorf("%w there are %q; say one with --group", ErrSeveralGroups, names)
}
