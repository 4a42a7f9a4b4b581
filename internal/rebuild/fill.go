package rebuild

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/jobtrail/jobtrail/internal/projector"
)

// admin asks the brokers.
type admin struct {
	*kadm.Client
	client *kgo.Client
}

// logOf is the log of a worker group that exists.
type logOf struct {
	group, topic string
	id           uuid.UUID
	partitions   int
}

// dropAnySize lets a table be dropped that the server would protect for its
// size.
func dropAnySize(ctx context.Context) context.Context {
	return clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{"max_table_size_to_drop": 0, "max_partition_size_to_drop": 0}))
}

// open opens the client for questions and finds the logs.
func (r *Rebuild) open(ctx context.Context, live string) (end func(), err error) {
	client, err := r.deps.Kafka(kgo.ClientID("jobtrail-rebuild"), kgo.MetadataMinAge(100*time.Millisecond))
	if err != nil {
		return nil, fmt.Errorf("opening a Kafka client: %w", err)
	}
	r.admin = &admin{kadm.NewClient(client), client}
	if err := r.findLogs(ctx, live); err != nil {
		client.Close()
		return nil, err
	}
	return client.Close, nil
}

// findLogs finds the logs to read: of the groups that were named, and of those
// that the live generation knows, if they still exist.
func (r *Rebuild) findLogs(ctx context.Context, live string) error {
	var known []string
	if err := r.deps.Store.QueryRow(ctx, "SELECT groupUniqArray(log_topic) FROM (SELECT log_topic FROM "+live+".batches UNION ALL SELECT log_topic FROM "+live+".positions) WHERE log_topic != ''").Scan(&known); err != nil {
		return fmt.Errorf("looking for the logs of %s: %w", live, err)
	}
	groups := map[string]bool{}
	for _, topic := range known {
		if g, ok := strings.CutSuffix(topic, ".evidence"); ok {
			groups[g] = false
		}
	}
	for _, g := range r.cfg.Groups {
		groups[g] = true
	}
	r.logs = nil
	for _, g := range slices.Sorted(maps.Keys(groups)) {
		topic := projector.EvidenceTopic(g)
		topics, err := r.admin.ListTopics(ctx, topic)
		if err != nil {
			return fmt.Errorf("looking up the log %s: %w", topic, projector.Denied(err, "Read", "topic "+topic))
		}
		t := topics[topic]
		if errors.Is(t.Err, kerr.UnknownTopicOrPartition) && !groups[g] {
			r.log.Warn("a log is gone; its rows come from the live generation", "log", topic)
			continue
		}
		if t.Err != nil {
			return fmt.Errorf("looking up the log %s: %w", topic, projector.Denied(t.Err, "Read", "topic "+topic))
		}
		r.logs = append(r.logs, logOf{group: g, topic: topic, id: uuid.UUID(t.ID), partitions: len(t.Partitions)})
	}
	return nil
}

// projector returns a projector of all logs.
func (r *Rebuild) projector() (*projector.Projector, error) {
	cfg := r.cfg.Batch
	cfg.Layout, cfg.Instance, cfg.Groups = r.cfg.Layout, r.cfg.Holder, nil
	for _, l := range r.logs {
		cfg.Groups = append(cfg.Groups, l.group)
	}
	return projector.New(cfg, projector.Deps{Kafka: r.deps.Kafka, Store: r.deps.Store, Server: r.deps.Server, Logger: r.deps.Logger, Sanitizer: r.deps.Sanitizer, Registry: prometheus.NewRegistry()})
}

// empty drops the generation and makes it anew, without positions.
func (r *Rebuild) empty(ctx context.Context, database string) error {
	for _, l := range r.logs {
		group := projector.ConsumerGroup(l.group, database)
		err := r.alone(ctx, group, func() error {
			_, err := r.admin.DeleteGroup(ctx, group)
			return err
		})
		if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
			return fmt.Errorf("deleting the positions of %s: %w", group, projector.Denied(err, "Read, Delete", "group "+group))
		}
	}
	if err := r.claim.verify(ctx); err != nil {
		return err
	}
	status, err := Read(ctx, r.deps.Store, r.cfg.Layout)
	if err != nil {
		return err
	}
	if status.Live == database {
		return fmt.Errorf("%s is live by now; it is not emptied", database)
	}
	on := r.cfg.Layout.OnCluster()
	if err := r.deps.Store.Exec(dropAnySize(ctx), "DROP DATABASE IF EXISTS "+database+" "+on+" SYNC"); err != nil {
		return fmt.Errorf("emptying %s: %w", database, err)
	}
	if err := r.deps.Migrate(ctx); err != nil {
		return fmt.Errorf("making %s anew: %w", database, err)
	}
	return nil
}

// aloneFor is how long the members of a consumer group may take to leave: a
// process that was killed stays a member until its session ends.
const aloneFor = 90 * time.Second

// alone calls f until the broker does not refuse it for the group's members.
func (r *Rebuild) alone(ctx context.Context, group string, f func() error) error {
	said := false
	for deadline := time.Now().Add(aloneFor); ; {
		err := f()
		if !errors.Is(err, kerr.NonEmptyGroup) && !errors.Is(err, kerr.UnknownMemberID) && !errors.Is(err, kerr.RebalanceInProgress) {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("after %s the consumer group %s still has members; stop what fills that generation: %w", aloneFor, group, err)
		}
		if !said {
			said = true
			r.log.Info("waiting for the members of a consumer group to leave", "consumer_group", group)
			r.tell(Progress{Text: "waiting for the members of consumer group " + group + " to leave"})
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(300 * time.Millisecond):
		}
	}
}

// spot is a partition of one of the logs.
type spot struct {
	log       int // in Rebuild.logs
	partition int32
}

// offsets returns what f lists of every log, by partition.
func (r *Rebuild) offsets(ctx context.Context, f func(context.Context, ...string) (kadm.ListedOffsets, error)) (map[spot]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	out := map[spot]int64{}
	for i, l := range r.logs {
		listed, err := f(ctx, l.topic)
		if err == nil {
			err = listed.Error()
		}
		if err != nil {
			return nil, fmt.Errorf("listing offsets of %s: %w", l.topic, err)
		}
		listed.Each(func(o kadm.ListedOffset) { out[spot{i, o.Partition}] = o.Offset })
	}
	return out, nil
}

// committed returns the positions at which the consumer groups of database are,
// and which of them nothing was inserted from yet; a partition without a
// position is missing.
func (r *Rebuild) committed(ctx context.Context, database string) (out map[spot]int64, fresh map[spot]bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	out, fresh = map[spot]int64{}, map[spot]bool{}
	for i, l := range r.logs {
		all, err := r.admin.FetchOffsetsForTopics(ctx, projector.ConsumerGroup(l.group, database), l.topic)
		if err != nil {
			return nil, nil, fmt.Errorf("reading the positions of %s: %w", projector.ConsumerGroup(l.group, database), err)
		}
		all.Each(func(o kadm.OffsetResponse) {
			// A position in an older log of that name is none.
			if o.Topic == l.topic && o.Err == nil && o.At >= 0 && (o.Metadata == "" || strings.Contains(o.Metadata, l.id.String())) {
				s := spot{i, o.Partition}
				out[s], fresh[s] = o.At, projector.Fresh(o.Metadata)
			}
		})
	}
	return out, fresh, nil
}

// positions returns before which offsets database holds everything: what its
// consumer groups committed, and before the first commit of an insert what
// their members wrote into the store, which moves on over the markers of
// aborted transactions, too.
func (r *Rebuild) positions(ctx context.Context, database string) (map[spot]int64, error) {
	out, fresh, err := r.committed(ctx, database)
	if err != nil {
		return nil, err
	}
	for i, l := range r.logs {
		rows, err := r.deps.Store.Query(ctx, "SELECT partition, position FROM "+database+".v_positions WHERE log_id = ?", l.id)
		if err != nil {
			return nil, fmt.Errorf("reading the positions of %s: %w", database, err)
		}
		for rows.Next() {
			var p uint16
			var at uint64
			if err := rows.Scan(&p, &at); err != nil {
				_ = rows.Close()
				return nil, fmt.Errorf("reading the positions of %s: %w", database, err)
			}
			if s := (spot{i, int32(p)}); fresh[s] && out[s] < int64(at) {
				out[s] = int64(at)
			}
		}
		_ = rows.Close()
		if err := rows.Err(); err != nil {
			return nil, fmt.Errorf("reading the positions of %s: %w", database, err)
		}
	}
	return out, nil
}

// bridge copies from the live generation what lies between the positions of
// the generation and the starts of the logs, and moves the positions there. A
// generation without a position begins at the log's start.
func (r *Rebuild) bridge(ctx context.Context, p *projector.Projector) error {
	at, _, err := r.committed(ctx, r.state.Database)
	if err != nil {
		return err
	}
	starts, err := r.offsets(ctx, r.admin.ListStartOffsets)
	if err != nil {
		return err
	}
	for i, l := range r.logs {
		set, moved := map[int32]int64{}, map[int32]bool{}
		for s, start := range starts {
			if s.log != i {
				continue
			}
			position, known := at[s]
			if known && position >= start {
				continue
			}
			if start > position {
				if err := r.copy(ctx, p, projector.Stretch{LogID: l.id, Topic: l.topic, Partition: uint16(s.partition), First: position, End: start}); err != nil {
					return err
				}
			}
			set[s.partition], moved[s.partition] = start, known
		}
		if len(set) == 0 {
			continue
		}
		group := projector.ConsumerGroup(l.group, r.state.Database)
		err := r.alone(ctx, group, func() error {
			return projector.SetPositions(ctx, r.admin.Client, l.group, r.state.Database, l.id, set, moved)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// copyGone copies from the live generation what it holds of logs that do not
// exist any more.
func (r *Rebuild) copyGone(ctx context.Context, p *projector.Projector) error {
	live := r.state.Previous
	rows, err := r.deps.Store.Query(ctx, fmt.Sprintf(`SELECT log_id, partition, min(first) AS first, max(last) AS last, max(topic) AS topic FROM (
SELECT log_id, partition, min(offset) AS first, max(offset) AS last, '' AS topic FROM %[1]s.evidence GROUP BY log_id, partition
UNION ALL SELECT log_id, partition, min(offset), max(offset), max(toString(log_topic)) FROM %[1]s.quarantine GROUP BY log_id, partition
UNION ALL SELECT log_id, partition, max(first_offset), max(first_offset), max(toString(log_topic)) FROM %[1]s.batches GROUP BY log_id, partition)
WHERE log_id NOT IN (%[2]s) GROUP BY log_id, partition ORDER BY log_id, partition`, live, r.logIDs()))
	if err != nil {
		return fmt.Errorf("looking for logs that are gone: %w", err)
	}
	var gone []projector.Stretch
	for rows.Next() {
		var st projector.Stretch
		var first, last uint64
		if err := rows.Scan(&st.LogID, &st.Partition, &first, &last, &st.Topic); err != nil {
			_ = rows.Close()
			return fmt.Errorf("looking for logs that are gone: %w", err)
		}
		st.First, st.End = int64(first), int64(last)+1
		gone = append(gone, st)
	}
	_ = rows.Close()
	if err := rows.Err(); err != nil {
		return fmt.Errorf("looking for logs that are gone: %w", err)
	}
	for _, st := range gone {
		if err := r.copy(ctx, p, st); err != nil {
			return err
		}
	}
	return nil
}

// logIDs is the list of the logs' ids for an IN.
func (r *Rebuild) logIDs() string {
	ids := []string{literal(uuid.Nil)} // no log has it, and a list may not be empty
	for _, l := range r.logs {
		ids = append(ids, literal(l.id))
	}
	return strings.Join(ids, ", ")
}

func literal(id uuid.UUID) string { return "toUUID('" + id.String() + "')" }

func (r *Rebuild) copy(ctx context.Context, p *projector.Projector, st projector.Stretch) error {
	begun, total := time.Now(), 0
	_, poison, err := p.Copy(ctx, r.state.Previous, r.state.Database, st, func(n int) {
		total += n
		r.tell(Progress{Done: int64(total), PerSecond: float64(total) / time.Since(begun).Seconds(), Text: fmt.Sprintf("copying from %s what the log %s/%d no longer holds", r.state.Previous, st.Topic, st.Partition)})
	})
	r.mu.Lock()
	r.state.Copied += uint64(total + poison)
	r.mu.Unlock()
	if err != nil {
		return err
	}
	if total+poison > 0 {
		r.log.Info("events older than the log came from the live generation", "log", st.Topic, "partition", st.Partition, "events", total, "quarantined", poison)
	}
	return nil
}

// filler fills the generation in the background.
type filler struct {
	r    *Rebuild
	stop context.CancelFunc
	done chan struct{}

	mu     sync.Mutex
	err    error
	caught bool // it was at the end of the logs a moment ago
	waited bool // somebody waits for that
	news   chan struct{}
}

// fill begins to fill the generation from the logs until stop is called. Where
// a log loses records before they were read, it goes on with what the live
// generation has of them.
func (r *Rebuild) fill(ctx context.Context) *filler {
	ctx, stop := context.WithCancel(ctx)
	f := &filler{r: r, stop: stop, done: make(chan struct{}), news: make(chan struct{})}
	go func() {
		defer close(f.done)
		for ctx.Err() == nil {
			if err := f.once(ctx); err != nil && ctx.Err() == nil {
				f.set(func() { f.err = err })
				return
			}
		}
	}()
	return f
}

func (f *filler) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
	close(f.news)
	f.news = make(chan struct{})
}

// end stops filling and waits until it has stopped.
func (f *filler) end() {
	f.stop()
	<-f.done
}

// catchUp waits until the generation is at the end of the logs.
func (f *filler) catchUp(ctx context.Context) error {
	f.set(func() { f.caught, f.waited = false, true })
	defer f.set(func() { f.waited = false })
	for {
		f.mu.Lock()
		err, caught, news := f.err, f.caught, f.news
		f.mu.Unlock()
		if err != nil || caught {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-news:
		}
	}
}

// once fills until ctx ends or a log has lost records that were not read yet.
func (f *filler) once(ctx context.Context) error {
	r := f.r
	p, err := r.projector()
	if err != nil {
		return err
	}
	if err := r.bridge(ctx, p); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	filled := make(chan error, 1)
	go func() { filled <- p.Fill(ctx, r.state.Database) }()
	f.watch(ctx, p)
	cancel()
	return <-filled
}

// caughtUpWithin is how fresh the end of a log must be that was reached.
const caughtUpWithin = 5 * time.Second

// lookEvery is how often the positions are looked up, and stallAfter how long a
// position may stand before the start of its log, while an insert is under way,
// before the filling begins anew.
const (
	lookEvery  = 300 * time.Millisecond
	stallAfter = 3 * time.Second
)

// stall is since when a position has not moved.
type stall struct {
	at    int64
	since time.Time
}

// watch reports how far the filling is, and returns when ctx ends or records
// were lost.
func (f *filler) watch(ctx context.Context, p *projector.Projector) {
	r := f.r
	var ends map[spot]int64
	var sampled time.Time
	behind := map[spot]stall{}
	begun, first := time.Now(), int64(-1)
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		at, starts, now, err := f.look(ctx)
		if err != nil {
			if ctx.Err() == nil {
				r.log.Warn("looking how far the filling is failed", "error", r.deps.Sanitizer.Error(err))
				r.tell(Progress{Text: r.deps.Sanitizer.Error(err).String()})
			}
			continue
		}
		for s, start := range starts {
			switch was, ok := behind[s]; {
			case at[s] >= start:
				delete(behind, s)
			case !ok || was.at != at[s]:
				behind[s] = stall{at[s], time.Now()}
			default:
				if time.Since(was.since) > stallAfter {
					r.log.Warn("a log lost records before they were read; they come from the live generation", "log", r.logs[s.log].topic, "partition", s.partition, "position", at[s], "start", start)
					return
				}
			}
		}
		if ends == nil {
			ends, sampled = now, time.Now()
		}
		var sum, total int64
		reached := true
		for s, end := range ends {
			reached = reached && at[s] >= end
			sum, total = sum+at[s]-starts[s], total+now[s]-starts[s]
		}
		if first < 0 {
			first = sum
		}
		text := ""
		if problem := p.Ready(); problem != nil && time.Since(begun) > 20*time.Second {
			text = r.deps.Sanitizer.Error(problem).String()
		}
		f.mu.Lock()
		waited := f.waited
		f.mu.Unlock()
		if waited {
			r.tell(Progress{Done: sum, Total: total, PerSecond: float64(sum-first) / time.Since(begun).Seconds(), Text: text})
		}
		if reached {
			if time.Since(sampled) <= caughtUpWithin {
				f.set(func() { f.caught = true })
			}
			ends, sampled = now, time.Now()
		}
	}
}

func (f *filler) look(ctx context.Context) (at, starts, ends map[spot]int64, err error) {
	if at, err = f.r.positions(ctx, f.r.state.Database); err != nil {
		return nil, nil, nil, err
	}
	if starts, err = f.r.offsets(ctx, f.r.admin.ListStartOffsets); err != nil {
		return nil, nil, nil, err
	}
	ends, err = f.r.offsets(ctx, f.r.admin.ListCommittedOffsets)
	return at, starts, ends, err
}
