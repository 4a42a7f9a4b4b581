package operate

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/jobtrail/jobtrail/pkg/events"
	"github.com/jobtrail/jobtrail/pkg/retrytopics"
)

// BeyondQuery asks what the topics hold of an operation, or of a job.
type BeyondQuery struct {
	OperationID string
	JobID       string  // instead of OperationID
	Tenant      *string // nil: any
	Group       *string // nil: every worker group
	// Limit is the most records that are looked at in job topics, and again in
	// evidence logs; default 200,000.
	Limit int
}

// Sighting is a publication of what was asked for, as a worker group sees it.
type Sighting struct {
	Group       string
	TenantID    string
	JobID       string
	Publication string // topic/partition/offset
}

// View is what the brokers held at a moment. Together with a store that is read
// after it, and the tail of the logs that the store lacks, it is whole: each
// publication of before that moment lies behind a group's commit, or has events
// on the group's log.
type View struct {
	At time.Time
	// Groups are the worker groups that were looked at.
	Groups []string
	// Manned says of which groups a worker is running.
	Manned map[string]bool
	// Waiting lies behind a group's commits; some of it may be on the log.
	Waiting []Sighting
	// Whole is false when there were more records than the limit.
	Whole bool

	query BeyondQuery
	logs  []logView
}

// logView is a group's evidence log at the moment of the view: the offsets
// [first, end) of each partition.
type logView struct {
	group, topic string
	id           uuid.UUID
	first, end   map[int32]int64
}

// LookBeyond reads what lies in the job topics behind the groups' commits, and
// where the groups' logs end. Only topics that a group has commits on are looked
// at.
func LookBeyond(ctx context.Context, cl *kgo.Client, q BeyondQuery) (*View, error) {
	if q.Limit == 0 {
		q.Limit = 200_000
	}
	v := &View{At: time.Now(), Whole: true, Manned: map[string]bool{}, query: q}
	name := ""
	if q.Group != nil {
		name = *q.Group
	}
	groups, err := DiscoverGroups(ctx, cl, name)
	if err != nil {
		return nil, err
	}
	var jobs, logs []string
	for _, g := range groups {
		v.Groups = append(v.Groups, g.Topology.Group)
		v.Manned[g.Topology.Group] = len(g.Members) > 0
		logs = append(logs, g.Topology.Evidence())
		for _, topic := range g.Topology.Jobs {
			if !slices.Contains(jobs, topic) {
				jobs = append(jobs, topic)
			}
		}
	}
	if len(groups) == 0 {
		return v, nil
	}
	both := slices.Concat(jobs, logs)
	topics, err := listTopics(ctx, cl, both)
	if err != nil {
		return nil, err
	}
	first, stable, err := bounds(ctx, cl, both)
	if err != nil {
		return nil, err
	}
	// The ends of the logs are taken after the commits: what lies before a commit
	// has its events before these ends, be the markers of its transaction written
	// or not.
	ends, err := listOffsets(kadm.NewClient(cl).ListEndOffsets(ctx, logs...))
	if err != nil {
		return nil, err
	}
	for i, g := range groups {
		v.logs = append(v.logs, logView{g.Topology.Group, logs[i], topics[logs[i]].TopicID, first[logs[i]], ends[logs[i]]})
	}
	spans := map[place]span{}
	for _, g := range groups {
		for _, topic := range g.Topology.Jobs {
			for partition, c := range g.Commits[topic] {
				p := place{topic, partition}
				if known, ok := spans[p]; !ok || c.At < known.from {
					spans[p] = span{c.At, stable[topic][partition]}
				}
			}
		}
	}
	looked := 0
	err = readSpans(ctx, cl, spans, func(rec *kgo.Record) bool {
		if looked++; looked > q.Limit {
			v.Whole = false
			return false
		}
		origin := events.Publication{TopicID: topics[rec.Topic].TopicID, Topic: rec.Topic, Partition: rec.Partition, Offset: rec.Offset}
		meta, _ := retrytopics.Parse(rec.Headers, origin) // a malformed one has evidence too, under what could be read
		if !q.asksFor(meta.OperationID, meta.JobID, meta.TenantID) {
			return true
		}
		for _, g := range groups {
			if c, ok := g.Commits[rec.Topic][rec.Partition]; ok && c.At <= rec.Offset {
				v.Waiting = append(v.Waiting, Sighting{g.Topology.Group, meta.TenantID, meta.JobID, origin.String()})
			}
		}
		return true
	})
	if err != nil {
		return nil, fmt.Errorf("reading the job topics: %w", err)
	}
	return v, nil
}

func (q *BeyondQuery) asksFor(operation, job, tenant string) bool {
	if q.Tenant != nil && tenant != *q.Tenant {
		return false
	}
	if q.JobID != "" {
		return job == q.JobID
	}
	return operation == q.OperationID
}

// LogPlace is a partition of an evidence log.
type LogPlace struct {
	LogID     uuid.UUID
	Partition int32
}

// Tail is what the logs held at the moment of a view beyond the store.
type Tail struct {
	Events []TailEvent
	// Stored says of which groups the store had everything.
	Stored map[string]bool
	// Unread names the groups of whose logs only a part could be read.
	Unread []string
}

// TailEvent is an event about what was asked for.
type TailEvent struct {
	Sighting
	LogPlace
	Offset int64
}

// settleWithin is how long the tail waits for transactions to end that were
// open at the moment of the view.
const settleWithin = 3 * time.Second

// ReadTail reads what lies on the groups' logs at or after the stored positions
// and before the view's moment. A partition without a position counts as not
// stored at all.
func (v *View) ReadTail(ctx context.Context, cl *kgo.Client, stored map[LogPlace]int64) (*Tail, error) {
	t := &Tail{Stored: map[string]bool{}}
	spans := map[place]span{}
	logs := map[string]*logView{}
	var total int64
	for i := range v.logs {
		l := &v.logs[i]
		logs[l.topic] = l
		t.Stored[l.group] = true
		for p, end := range l.end {
			from := max(l.first[p], stored[LogPlace{l.id, p}])
			if from < end {
				spans[place{l.topic, p}] = span{from, end}
				t.Stored[l.group] = false
				total += end - from
			}
		}
	}
	if len(spans) == 0 {
		return t, nil
	}
	unread := map[string]bool{}
	if total > int64(v.query.Limit) {
		// The newest are the likeliest to be asked for.
		each := int64(v.query.Limit / len(spans))
		for p, s := range spans {
			if s.to-s.from > each {
				spans[p] = span{s.to - each, s.to}
				unread[logs[p.topic].group] = true
			}
		}
	}
	if err := settle(ctx, cl, spans, func(p place) { unread[logs[p.topic].group] = true }); err != nil {
		return nil, fmt.Errorf("reading the evidence logs: %w", err)
	}
	var d events.Decoder
	err := readSpans(ctx, cl, spans, func(rec *kgo.Record) bool {
		var e events.Event
		if d.Decode(rec.Value, &e) != nil {
			return true // the projector puts it into quarantine, and it is nobody's
		}
		if e.JobID == "" || !v.query.asksFor(e.OperationID, e.JobID, e.TenantID) {
			return true
		}
		l := logs[rec.Topic]
		t.Events = append(t.Events, TailEvent{Sighting{l.group, e.TenantID, e.JobID, e.Publication.String()}, LogPlace{l.id, rec.Partition}, rec.Offset})
		return true
	})
	if err != nil {
		return nil, fmt.Errorf("reading the evidence logs: %w", err)
	}
	for _, l := range v.logs {
		if unread[l.group] {
			t.Unread = append(t.Unread, l.group)
		}
	}
	return t, nil
}

// settle waits until no transaction is open in the spans, and cuts those short
// where one stays open.
func settle(ctx context.Context, cl *kgo.Client, spans map[place]span, cut func(place)) error {
	topics := map[string]bool{}
	var names []string
	for p := range spans {
		if !topics[p.topic] {
			topics[p.topic] = true
			names = append(names, p.topic)
		}
	}
	deadline := time.Now().Add(settleWithin)
	return until(ctx, func() (bool, error) {
		stable, err := listOffsets(kadm.NewClient(cl).ListCommittedOffsets(ctx, names...))
		if err != nil {
			return !kerr.IsRetriable(err), err
		}
		late := time.Now().After(deadline)
		for p, s := range spans {
			if at := stable[p.topic][p.partition]; at < s.to {
				if !late {
					return false, nil
				}
				spans[p] = span{s.from, at}
				cut(p)
			}
		}
		return true, nil
	})
}
