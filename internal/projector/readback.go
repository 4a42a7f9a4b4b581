package projector

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// inserted is a row of the table batches.
type inserted struct {
	first, last          int64
	rows, poison         int
	minOrigin, maxOrigin time.Time
}

// compare holds what the store has against what was acknowledged before end,
// for the last batches of the partition. Where the store lost rows it rewinds
// the partition and returns errRewound.
func (p *partition) compare(ctx context.Context, end int64) error {
	var missing int64
	var lost bool
	err := p.insist(ctx, "comparing the store with what it acknowledged", func() (err error) {
		missing, lost, err = p.missing(ctx, end)
		return err
	})
	if err != nil || !lost {
		return err
	}
	if p.rewound == missing+1 {
		// The rows did not come back then: they were erased, or the log does not
		// hold them any more.
		p.log.Error("the store lacks acknowledged rows that a rewind did not bring back", "from", missing)
		p.r.metrics.lost.WithLabelValues(p.labels()...).Set(1)
		return nil
	}
	p.log.Error("the store lost acknowledged rows; the partition is read again", "from", missing)
	p.bumpRev()
	return p.rewind(ctx, missing, note{Log: p.r.logID, Rev: p.rev, Rewound: missing + 1})
}

// rewind commits an earlier position; the session that begins then reads from
// there.
func (p *partition) rewind(ctx context.Context, to int64, n note) error {
	if err := p.store(ctx, to, n); err != nil {
		return err
	}
	p.r.metrics.rewinds.WithLabelValues(p.labels()...).Inc()
	return fmt.Errorf("to %d: %w", to, errRewound)
}

// missing returns the first position before end from which the store may lack
// rows that it had acknowledged, as far as the last batches tell.
func (p *partition) missing(ctx context.Context, end int64) (from int64, lost bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	known, err := p.recentBatches(ctx, end)
	if err != nil {
		return 0, false, err
	}
	if len(known) == 0 {
		// Not one batch is on record before a position that a projector committed.
		start, err := p.logStart(ctx)
		return start, start < end, err
	}
	// Newest first. The batches are a chain: each begins after the one before.
	if newest := known[0]; newest.last+1 != end && p.done != nil {
		return newest.last + 1, true, nil
	}
	for i := 1; i < len(known); i++ {
		if known[i].last+1 < known[i-1].first {
			return known[i].last + 1, true, nil
		}
	}
	for _, b := range slices.Backward(known) { // oldest first: the rewind goes to the first gap
		n, err := p.held(ctx, b)
		if err != nil {
			return 0, false, err
		}
		if n < uint64(b.rows) {
			return b.first, true, nil
		}
	}
	return 0, false, nil
}

// logStart returns the first offset that the log still holds.
func (p *partition) logStart(ctx context.Context) (int64, error) {
	starts, err := p.r.admin.ListStartOffsets(ctx, p.r.topic)
	if err != nil {
		return 0, fmt.Errorf("listing start offsets: %w", err)
	}
	o, ok := starts.Lookup(p.r.topic, p.number)
	if !ok {
		return 0, fmt.Errorf("listing start offsets: the brokers do not know partition %d of %s yet", p.number, p.r.topic)
	}
	if o.Err != nil {
		return 0, fmt.Errorf("listing the start offset of partition %d: %w", p.number, o.Err)
	}
	return o.Offset, nil
}

func (p *partition) recentBatches(ctx context.Context, end int64) ([]inserted, error) {
	rows, err := p.r.deps.Store.Query(ctx, fmt.Sprintf(`SELECT first_offset, last_offset, row_count, poison_count, min_origin_at, max_origin_at
FROM %s.batches FINAL WHERE log_id = ? AND partition = ? AND last_offset < ? ORDER BY last_offset DESC, inserted_at DESC LIMIT ?`, p.r.database), p.r.logID, uint16(p.number), uint64(end), p.r.cfg.ReadBack)
	if err != nil {
		return nil, fmt.Errorf("reading the last batches: %w", err)
	}
	defer rows.Close()
	var known []inserted
	for rows.Next() {
		var first, last uint64
		var n, poison uint32
		var b inserted
		if err := rows.Scan(&first, &last, &n, &poison, &b.minOrigin, &b.maxOrigin); err != nil {
			return nil, fmt.Errorf("reading the last batches: %w", err)
		}
		b.first, b.last, b.rows, b.poison = int64(first), int64(last), int(n), int(poison)
		if len(known) > 0 && b.last >= known[len(known)-1].first {
			continue // a range that was rewound over and cut differently
		}
		known = append(known, b)
	}
	return known, rows.Err()
}

// held counts the rows that the store holds of a range.
func (p *partition) held(ctx context.Context, b inserted) (n uint64, err error) {
	err = p.r.deps.Store.QueryRow(ctx, fmt.Sprintf(`SELECT uniqExact(offset) FROM %s.evidence WHERE log_id = ? AND partition = ? AND offset BETWEEN ? AND ?
AND origin_at >= fromUnixTimestamp64Milli(?) AND origin_at <= fromUnixTimestamp64Milli(?)`, p.r.database),
		p.r.logID, uint16(p.number), uint64(b.first), uint64(b.last), b.minOrigin.UnixMilli(), b.maxOrigin.UnixMilli()).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("counting the rows of a range: %w", err)
	}
	return n, nil
}
