package projector

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/jobtrail/jobtrail/pkg/events"
)

// Fill projects into database, a generation that need not be live, until ctx
// ends. Its consumer group goes on from its positions; where it has none, from
// the log's start. It waits for servers that are away.
func (p *Projector) Fill(ctx context.Context, database string) error {
	end, err := p.s.open()
	if err != nil {
		return err
	}
	defer end()
	for ctx.Err() == nil {
		if err := p.s.checkSchema(ctx, database); err != nil {
			p.s.notReady(ctx, err)
			continue
		}
		p.s.fill(ctx, database)
	}
	return nil
}

// SetPositions makes the generation database begin at the given offsets, by
// partition, of the log of a worker group. The broker refuses it while anybody
// fills that generation from that log. A partition that had a position before
// is named in moved: what was declared there is not what follows.
func SetPositions(ctx context.Context, admin *kadm.Client, group, database string, log uuid.UUID, at map[int32]int64, moved map[int32]bool) error {
	var offsets kadm.Offsets
	for p, o := range at {
		r := rev{mapping: mappingRevision}
		if moved[p] {
			r.rewinds = 1
		}
		n := note{Log: log, Rev: r.String()}
		offsets.Add(kadm.Offset{Topic: EvidenceTopic(group), Partition: p, At: o, LeaderEpoch: -1, Metadata: n.encode()})
	}
	answers, err := admin.CommitOffsets(ctx, ConsumerGroup(group, database), offsets)
	if err == nil {
		err = answers.Error()
	}
	if err != nil {
		return fmt.Errorf("setting positions of %s: %w", ConsumerGroup(group, database), err)
	}
	return nil
}

// Fresh reports whether the metadata of a committed position says that nothing
// was inserted from it on yet: the position was set, not reached.
func Fresh(metadata string) bool {
	n, err := decodeNote(metadata)
	return err == nil && n.Done == nil && n.Rewound == 0
}

// Stretch is a range of offsets of one partition of a log: those from First on
// and before End.
type Stretch struct {
	LogID      uuid.UUID
	Topic      string // name of the log
	Partition  uint16
	First, End int64
}

// copyWindow is how many offsets are read in one query.
const copyWindow = 1_000_000

// copiedRev is the revision under which copied rows stand in batches.
var copiedRev = strconv.Itoa(mappingRevision) + "c.0"

// Copy writes the events of a stretch from the rows of one generation into
// another, as Fill would from the log: each event is restored and becomes the
// row that this program makes of it. A copy that was cut off goes on where it
// was; done is told how many rows each block had. It returns how many rows of
// evidence and of quarantine were copied by this call.
func (p *Projector) Copy(ctx context.Context, from, to string, st Stretch, done func(rows int)) (rows, poison int, err error) {
	s := p.s
	r := &reader{shared: s, topic: st.Topic, database: to, logID: st.LogID, log: s.log.With("log", st.Topic)}
	part := newPartition(r, int32(st.Partition))
	defer s.inserter.close()
	var copied uint64
	if err := s.deps.Store.QueryRow(ctx, "SELECT if(count() = 0, 0, max(last_offset) + 1) FROM "+to+".batches WHERE log_id = ? AND partition = ? AND rev = ? AND first_offset >= ? AND last_offset < ?",
		st.LogID, st.Partition, copiedRev, uint64(st.First), uint64(st.End)).Scan(&copied); err != nil {
		return 0, 0, fmt.Errorf("looking for copied rows of %s/%d: %w", st.Topic, st.Partition, err)
	}
	c := &copier{part: part, from: from, first: max(st.First, int64(copied))}
	defer func() {
		if c.b != nil {
			s.put(c.b.cols)
		}
	}()
	for first := c.first; first < st.End; first += copyWindow {
		end := min(first+copyWindow, st.End)
		if err := c.window(ctx, st, first, end, done); err != nil {
			return c.rows, c.poison, fmt.Errorf("copying %s/%d from %d: %w", st.Topic, st.Partition, first, err)
		}
	}
	return c.rows, c.poison, nil
}

// copier makes blocks of rows that are read from a generation.
type copier struct {
	part         *partition
	from         string
	first        int64 // where the next block begins
	b            *batch
	mapper       mapper
	rows, poison int
}

func (c *copier) window(ctx context.Context, st Stretch, first, end int64, done func(int)) error {
	bad, err := c.quarantined(ctx, st, first, end)
	if err != nil {
		return err
	}
	before := func(offset int64) {
		for len(bad) > 0 && bad[0].offset < offset {
			c.open()
			b := c.b
			b.poison, b.Poison, b.Last, b.maxLog = append(b.poison, bad[0]), b.Poison+1, bad[0].offset, max(b.maxLog, bad[0].at)
			if b.Rows+b.Poison == 1 {
				b.minLog = bad[0].at
			}
			bad = bad[1:]
		}
	}
	err = EachRow(ctx, c.part.r.deps.Store, c.from, "FINAL WHERE log_id = ? AND partition = ? AND offset >= ? AND offset < ? ORDER BY offset", func(row *Row) error {
		before(int64(row.Offset))
		if err := c.add(row); err != nil {
			return err
		}
		if c.b.Rows+c.b.Poison >= c.part.r.cfg.BatchRows || c.b.cols.bytes >= c.part.r.cfg.BatchBytes {
			return c.flush(ctx, done)
		}
		return nil
	}, st.LogID, st.Partition, uint64(first), uint64(end))
	if err != nil {
		return err
	}
	before(end)
	c.open()
	c.b.Last = end - 1 // the blocks are a chain up to the window's end
	return c.flush(ctx, done)
}

func (c *copier) open() {
	if c.b == nil {
		c.b = &batch{span: span{First: c.first}, cols: c.part.r.get(), rev: copiedRev}
	}
}

func (c *copier) add(row *Row) error {
	e, err := Restore(row)
	if err != nil {
		return err
	}
	var again Row
	c.mapper.fill(&again, e, Place{LogID: row.LogID, Partition: row.Partition, Offset: int64(row.Offset), At: row.LogAt}, nil)
	if t := e.Type(); t == events.TypeCheckpoint || t == events.TypeDedupPage {
		again.Rest = row.Rest // the digest of what only the log held
	}
	c.open()
	b := c.b
	if b.Rows+b.Poison == 0 {
		b.minLog = again.LogAt
	}
	if b.Rows == 0 || again.OriginAt < b.minOrigin {
		b.minOrigin = again.OriginAt
	}
	b.maxLog, b.maxOrigin = max(b.maxLog, again.LogAt), max(b.maxOrigin, again.OriginAt)
	b.Rows, b.Last = b.Rows+1, int64(row.Offset)
	b.cols.add(&again)
	return nil
}

func (c *copier) flush(ctx context.Context, done func(int)) error {
	b := c.b
	if _, err := c.part.insert(ctx, b); err != nil {
		return err
	}
	c.rows, c.poison, c.first, c.b = c.rows+b.Rows, c.poison+b.Poison, b.Last+1, nil
	c.part.r.put(b.cols)
	if done != nil {
		done(b.Rows)
	}
	return nil
}

func (c *copier) quarantined(ctx context.Context, st Stretch, first, end int64) ([]poison, error) {
	rows, err := c.part.r.deps.Store.Query(ctx, "SELECT offset, log_at, reason, record_key, record_value FROM "+c.from+".quarantine FINAL WHERE log_id = ? AND partition = ? AND offset >= ? AND offset < ?",
		st.LogID, st.Partition, uint64(first), uint64(end))
	if err != nil {
		return nil, fmt.Errorf("reading the quarantine: %w", err)
	}
	defer rows.Close()
	var bad []poison
	for rows.Next() {
		var offset uint64
		var at time.Time
		var p poison
		var reason, key, value string
		if err := rows.Scan(&offset, &at, &reason, &key, &value); err != nil {
			return nil, fmt.Errorf("reading the quarantine: %w", err)
		}
		p.offset, p.at, p.reason, p.key, p.value = int64(offset), at.UnixMilli(), c.part.r.deps.Sanitizer.Clean(reason), []byte(key), []byte(value)
		bad = append(bad, p)
	}
	slices.SortFunc(bad, func(a, b poison) int { return int(a.offset - b.offset) })
	return bad, rows.Err()
}
