package worker

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// fence takes over the transactional ids of the group, other than our own, that
// hold an open transaction on evidence partition p: their workers are dead, or
// stalled and about to learn that they lost the partition. A transaction that is
// open there and not under way for its coordinator has been lost track of by the
// brokers. To fence its worker again and again would not end it, and would keep a
// worker that lives from its work.
func (w *Worker) fence(ctx context.Context, p int32) error {
	if w.breach.unfenced() {
		return nil
	}
	topic := w.topo.Evidence()
	var set kadm.TopicsSet
	set.Add(topic, p)
	described, err := w.admin.DescribeProducers(ctx, set)
	if err != nil {
		return fmt.Errorf("asking for the producers of %s/%d: %w", topic, p, err)
	}
	open := make(map[int64]int32) // epoch by producer id
	for _, t := range described {
		for _, q := range t.Partitions {
			for _, pr := range q.ActiveProducers {
				if pr.CurrentTxnStartOffset >= 0 {
					open[pr.ProducerID] = int32(pr.ProducerEpoch)
				}
			}
		}
	}
	if len(open) == 0 {
		return nil
	}
	producers := slices.Collect(maps.Keys(open))
	txns, err := w.admin.ListTransactions(ctx, producers, nil)
	if err != nil {
		return fmt.Errorf("asking for the transactions of producers %v: %w", producers, err)
	}
	var ids []string
	for _, t := range txns {
		if strings.HasPrefix(t.TxnID, w.cfg.Group+"/") && t.TxnID != w.producers[0].id && t.TxnID != w.producers[1].id {
			ids = append(ids, t.TxnID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	underWay, err := w.admin.DescribeTransactions(ctx, ids...)
	if err != nil {
		return fmt.Errorf("asking about the transactions of %v: %w", ids, err)
	}
	for _, t := range underWay {
		if t.Err != nil {
			return fmt.Errorf("asking about the transaction of %s: %w", t.TxnID, t.Err)
		}
		if t.State != "Ongoing" || int32(t.ProducerEpoch) != open[t.ProducerID] {
			w.deps.Log.Debug("a transaction is open that its coordinator does not know", "partition", p, "transactional_id", t.TxnID, "producer_id", t.ProducerID,
				"epoch", open[t.ProducerID], "state", t.State)
			continue
		}
		if err := w.takeOver(ctx, t.TxnID); err != nil {
			return err
		}
		w.metrics.fenced.Inc()
		w.deps.Log.Warn("a hung transaction was fenced", "partition", p, "transactional_id", t.TxnID)
	}
	return nil
}

// unblock fences whoever keeps the commits of lanes that were assigned from being
// read: they are not stable while a transaction is open that would move them.
func (w *Worker) unblock(parts map[string][]int32) {
	defer w.recoveries.Done()
	for pause(w.life, fenceAfter) == nil {
		w.mu.Lock()
		lanes := w.l.unfetched(parts)
		w.mu.Unlock()
		if len(lanes) == 0 {
			return
		}
		w.fenceAll(w.life, lanes)
	}
}

// fenceAll fences for every partition number of the lanes.
func (w *Worker) fenceAll(ctx context.Context, lanes []laneKey) {
	done := make(map[int32]bool)
	for _, key := range lanes {
		if done[key.partition] {
			continue
		}
		done[key.partition] = true
		if err := w.fence(ctx, key.partition); err != nil && ctx.Err() == nil {
			w.deps.Log.Warn("fencing", "partition", key.partition, "err", w.deps.Sanitizer.Error(err))
		}
	}
}

func (w *Worker) takeOver(ctx context.Context, id string) error {
	cl, err := kgo.NewClient(append(w.reachOpts(), kgo.ClientID(w.l.worker), kgo.TransactionalID(id))...)
	if err != nil {
		return fmt.Errorf("making a client of transactional id %s: %w", id, err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if _, _, err := cl.ProducerID(ctx); err != nil {
		return fmt.Errorf("taking over transactional id %s: %w", id, denied(err, "Write", "transactional id "+id))
	}
	return nil
}
