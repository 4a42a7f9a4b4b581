package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The callbacks of the group run one at a time, in the client's goroutine.

func (w *Worker) assigned(_ context.Context, cl *kgo.Client, parts map[string][]int32) {
	w.mu.Lock()
	if w.member.IsZero() {
		w.member = time.Now()
	}
	if len(parts) == 0 {
		w.mu.Unlock()
		return
	}
	member, _ := cl.GroupMetadata()
	w.l.assign(member, parts)
	level := w.moving(slog.LevelInfo)
	w.mu.Unlock()
	cl.ResumeFetchPartitions(parts) // pauses survive a reassignment
	w.recoveries.Add(1)
	go w.unblock(parts)
	w.deps.Log.Log(w.life, level, "partitions assigned", "partitions", count(parts))
}

// moving is the level at which partitions that come and go are logged: while
// lanes cannot form they do so all the time, which is said once. The caller
// holds mu.
func (w *Worker) moving(level slog.Level) slog.Level {
	if w.misfit != nil {
		return slog.LevelDebug
	}
	return level
}

// offsetsFetched notes the commits of lanes with their metadata, before
// adjustOffsets is called for the same lanes.
func (w *Worker) offsetsFetched(_ context.Context, _ *kgo.Client, resp *kmsg.OffsetFetchResponse) error {
	names := make(map[[16]byte]string)
	for name, id := range w.l.topicIDs {
		names[id] = name
	}
	for _, g := range resp.Groups {
		for _, t := range g.Topics {
			topic := t.Topic
			if topic == "" {
				topic = names[t.TopicID]
			}
			for _, p := range t.Partitions {
				if p.ErrorCode != 0 || p.Offset < 0 {
					continue
				}
				text := ""
				if p.Metadata != nil {
					text = *p.Metadata
				}
				m, err := parseMetadata(text)
				if err != nil {
					err = fmt.Errorf("%s/%d: %w", topic, p.Partition, err)
					w.fail(err)
					return err
				}
				w.commits[laneKey{topic, p.Partition}] = m
			}
		}
	}
	return nil
}

// adjustOffsets says where reading begins: at the commit, and where there is
// none, where the evidence says.
func (w *Worker) adjustOffsets(ctx context.Context, offsets map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	starts := make(map[laneKey]int64)
	restored := make(map[int32]map[string]int64)
	for topic, ps := range offsets {
		for p, o := range ps {
			key := laneKey{topic, p}
			at := o.EpochOffset().Offset
			if _, ok := w.commits[key]; !ok {
				if restored[p] == nil {
					var err error
					if restored[p], err = w.restore(ctx, p); errors.Is(err, errNoPartition) {
						return nil, w.cannotForm(ctx, topic, p, err)
					} else if err != nil {
						return nil, err
					}
				}
				at = restored[p][topic]
				w.deps.Log.Warn("partition without a commit: its position comes from the evidence", "topic", topic, "partition", p, "offset", at)
			}
			starts[key] = at
			ps[p] = kgo.NewOffset().At(at)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.misfit = nil
	for key, at := range starts {
		w.l.fetched(key.topic, key.partition, at, w.commits[key])
		delete(w.commits, key)
	}
	for key := range starts {
		w.form(key.partition)
	}
	return offsets, nil
}

// cannotForm says, once, that a topic has a partition that others of the group
// lack, and holds up the next try: the client makes one at once.
func (w *Worker) cannotForm(ctx context.Context, topic string, p int32, err error) error {
	err = fmt.Errorf("topic %s has partition %d and other topics of group %s lack it, so no partition can be worked on: somebody added partitions; `jobtrail doctor` shows it, and with the workers stopped %s mends it: %w",
		topic, p, w.cfg.Group, w.topo.ApplyCommand(0), err)
	w.mu.Lock()
	first := w.misfit == nil
	w.misfit = err
	w.mu.Unlock()
	if first {
		w.deps.Log.Error("partitions cannot be worked on", "err", w.deps.Sanitizer.Error(err))
	}
	if err := pause(ctx, misfitPause); err != nil {
		return err
	}
	return err
}

// misfitPause is how long the group is left alone when its topics do not fit.
const misfitPause = 5 * time.Second

// form starts the recovery of a partition number whose lanes are all ours. The
// caller holds mu.
func (w *Worker) form(p int32) {
	if lanes, ok := w.l.complete(p); ok {
		s := w.l.form(lanes)
		w.recoveries.Add(1)
		go w.recover(s)
	}
}

// revoked drains the lanes, for as long as a drain may take, and lets them go.
func (w *Worker) revoked(ctx context.Context, _ *kgo.Client, parts map[string][]int32) {
	if len(parts) == 0 {
		return
	}
	begun := time.Now()
	for {
		w.mu.Lock()
		busy := w.l.drain(parts)
		changed := w.progress
		w.mu.Unlock()
		w.wake()
		if !busy || time.Since(begun) > drainTimeout || ctx.Err() != nil || w.life.Err() != nil {
			break // where the worker has given up, nothing will be written any more
		}
		select {
		case <-changed:
		case <-time.After(drainTimeout - time.Since(begun)):
		case <-ctx.Done():
		case <-w.life.Done():
		}
	}
	w.let(parts)
	w.deps.Log.Info("partitions revoked", "partitions", count(parts), "drained_in", time.Since(begun))
}

// lost drops the lanes at once.
func (w *Worker) lost(_ context.Context, _ *kgo.Client, parts map[string][]int32) {
	if len(parts) == 0 {
		return
	}
	w.let(parts)
	w.metrics.lost.Add(float64(count(parts)))
	w.mu.Lock()
	level := w.moving(slog.LevelWarn)
	w.mu.Unlock()
	w.deps.Log.Log(w.life, level, "partitions lost", "partitions", count(parts))
}

func (w *Worker) let(parts map[string][]int32) {
	w.mu.Lock()
	w.l.release(parts)
	w.mu.Unlock()
	w.wake()
}

func count(parts map[string][]int32) int {
	n := 0
	for _, ps := range parts {
		n += len(ps)
	}
	return n
}

// fetch reads what the group gives to us and hands it to the ledger.
func (w *Worker) fetch(ctx context.Context) {
	for ctx.Err() == nil {
		w.reread(ctx)
		fetches := w.consumer.PollRecords(ctx, pollRecords)
		if fetches.IsClientClosed() {
			return
		}
		fetches.EachError(func(topic string, p int32, err error) {
			if ctx.Err() == nil && !errors.Is(err, errNoPartition) { // which is said once
				on := "topic " + topic
				if errors.Is(err, kerr.GroupAuthorizationFailed) {
					on = "group " + w.cfg.Group
				}
				w.deps.Log.Error("fetching", "topic", topic, "partition", p, "err", w.deps.Sanitizer.Error(denied(err, "Read", on)))
			}
		})
		now := w.clock.now()
		w.mu.Lock()
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			w.l.deliver(p.Topic, p.Partition, p.Records, now)
		})
		w.mu.Unlock()
		w.flow()
		w.consumer.AllowRebalance()
		w.wake()
		w.untilWanted(ctx)
	}
}

// pollRecords is how many records one poll takes.
const pollRecords = 1000

// untilWanted waits while there is more to run than there is room for: what is
// fetched can as well wait in the client. To pause all lanes instead would throw
// away what it holds, and fetch it again.
func (w *Worker) untilWanted(ctx context.Context) {
	for {
		w.mu.Lock()
		enough := w.l.plenty()
		changed := w.progress
		w.mu.Unlock()
		if !enough {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-time.After(time.Second):
		}
	}
}

// flow stops and resumes fetching where the ledger says.
func (w *Worker) flow() {
	w.flowing.Lock()
	defer w.flowing.Unlock()
	w.mu.Lock()
	pause, resume := w.l.flow()
	w.mu.Unlock()
	w.breach.flowing(&pause)
	if pause != nil {
		w.consumer.PauseFetchPartitions(pause)
	}
	if resume != nil {
		w.consumer.ResumeFetchPartitions(resume)
	}
}

// reread sets lanes that stayed while others of their partition number went
// back to their commits. It runs between two polls, so that nothing that was
// fetched before can follow.
func (w *Worker) reread(ctx context.Context) {
	w.mu.Lock()
	var stale []laneKey
	for key, n := range w.l.lanes {
		if n.stale {
			stale = append(stale, key)
		}
	}
	w.mu.Unlock()
	if len(stale) == 0 {
		return
	}
	commits, err := w.committedOffsets(ctx, stale)
	if err != nil {
		w.deps.Log.Warn("reading commits", "err", w.deps.Sanitizer.Error(err))
		return
	}
	set := make(map[string]map[int32]kgo.EpochOffset)
	for key, c := range commits {
		if set[key.topic] == nil {
			set[key.topic] = make(map[int32]kgo.EpochOffset)
		}
		set[key.topic][key.partition] = kgo.EpochOffset{Epoch: -1, Offset: c.offset}
	}
	w.consumer.SetOffsets(set)
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, c := range commits {
		if n := w.l.lanes[key]; n != nil && n.stale {
			w.l.fetched(key.topic, key.partition, c.offset, c.metadata)
			w.form(key.partition)
		}
	}
}

type commit struct {
	offset   int64
	metadata commitMetadata
}

// committedOffsets returns the commits of lanes, once no transaction is pending
// on any of them.
func (w *Worker) committedOffsets(ctx context.Context, lanes []laneKey) (map[laneKey]commit, error) {
	byTopic := make(map[string][]int32)
	for _, key := range lanes {
		byTopic[key.topic] = append(byTopic[key.topic], key.partition)
	}
	req := kmsg.NewPtrOffsetFetchRequest()
	req.RequireStable = true
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = w.cfg.Group
	for topic, ps := range byTopic {
		t := kmsg.NewOffsetFetchRequestGroupTopic()
		t.Topic, t.TopicID, t.Partitions = topic, w.l.topicIDs[topic], ps
		g.Topics = append(g.Topics, t)
	}
	req.Groups = append(req.Groups, g)
	begun := time.Now()
	for {
		resp, err := req.RequestWith(ctx, w.control)
		if err != nil {
			return nil, fmt.Errorf("fetching the group's commits: %w", err)
		}
		out, again, err := w.readCommits(resp)
		if err != nil {
			return nil, err
		}
		if !again {
			return out, nil
		}
		if time.Since(begun) > fenceAfter {
			w.fenceAll(ctx, lanes)
			begun = time.Now()
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return nil, err
		}
	}
}
