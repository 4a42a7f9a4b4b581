package rebuild

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/google/uuid"

	"github.com/jobtrail/jobtrail/internal/projector"
)

// PartitionSum is what both generations hold of a partition of a log before
// the offset Before.
type PartitionSum struct {
	Log       string    `json:"log"`
	LogID     uuid.UUID `json:"log_id"`
	Partition uint16    `json:"partition"`
	// Before is the end of what was compared; 0 for a log that is gone, of which
	// everything is compared.
	Before uint64 `json:"before"`
	// Ahead is how many offsets one of them is ahead of the other, which were not
	// compared.
	Ahead    uint64 `json:"ahead"`
	Events   uint64 `json:"events"`
	Checksum string `json:"checksum"`
	Equal    bool   `json:"equal"`
}

// TableSum is what both generations hold in a table or view that is made from
// evidence.
type TableSum struct {
	Table    string `json:"table"`
	Rows     uint64 `json:"rows"`
	Checksum string `json:"checksum"`
	Equal    bool   `json:"equal"`
}

// maxFound is how many differences are listed.
const maxFound = 100

// bucketOffsets is how many offsets of a partition have a checksum of their own.
const bucketOffsets = 8192

// cut is what is compared of a log: of each partition the events before an
// offset, or everything.
type cut struct {
	topic  string
	id     uuid.UUID
	before []uint64 // by partition; nil: everything
	ahead  []uint64
}

// within is the condition for rows of the log to be compared.
func (c cut) within() string {
	if c.before == nil {
		return "log_id = " + literal(c.id)
	}
	return fmt.Sprintf("log_id = %s AND offset < %s", literal(c.id), c.limit())
}

func (c cut) limit() string {
	return "arrayElement(CAST([" + join(c.before) + "], 'Array(UInt64)'), toUInt32(partition) + 1)"
}

func join(ns []uint64) string {
	words := make([]string, len(ns))
	for i, n := range ns {
		words[i] = fmt.Sprint(n)
	}
	return strings.Join(words, ", ")
}

// comparison compares two generations that both go on being filled.
type comparison struct {
	r         *Rebuild
	live, new string
	cuts      []cut
	rep       *Report
	compared  uint64
	// strict says that all rows of the live generation are of this program's
	// mapping: then not only the events must be equal but every column.
	strict bool
}

// compare compares the generation with the one that was live, up to where both
// are, and lists the differences in rep.
func (r *Rebuild) compare(ctx context.Context, rep *Report) error {
	// A whole table is sorted or grouped: on disk where the memory is short, and
	// each month for itself, since no key is in two.
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{
		"do_not_merge_across_partitions_select_final": 1, "max_bytes_before_external_group_by": 1 << 30, "max_bytes_before_external_sort": 1 << 30,
		"max_execution_time": 0, "optimize_use_projections": 0,
	}))
	c := &comparison{r: r, live: r.state.Previous, new: r.state.Database, rep: rep}
	if err := c.findCuts(ctx); err != nil {
		return err
	}
	if err := r.deps.Store.QueryRow(ctx, "SELECT count() = 0 FROM "+c.live+".batches WHERE toUInt32OrZero(extract(rev, '^[0-9]+')) != ?", r.state.Mapping).Scan(&c.strict); err != nil {
		return fmt.Errorf("looking for rows of an older mapping: %w", err)
	}
	r.tell(Progress{Text: "evidence"})
	if err := c.evidence(ctx); err != nil {
		return err
	}
	for _, t := range placed {
		r.tell(Progress{Text: t.name})
		if err := c.placed(ctx, t); err != nil {
			return err
		}
	}
	for _, t := range keyed {
		r.tell(Progress{Text: t.name})
		if err := c.keyed(ctx, t); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state.Compared, r.state.Differences = c.compared, uint64(len(rep.Found))
	return nil
}

// findCuts finds up to where both generations are.
func (c *comparison) findCuts(ctx context.Context) error {
	r := c.r
	mine, err := r.positions(ctx, c.new)
	if err != nil {
		return err
	}
	theirs, err := r.positions(ctx, c.live)
	if err != nil {
		return err
	}
	for i, l := range r.logs {
		cu := cut{topic: l.topic, id: l.id, before: make([]uint64, l.partitions), ahead: make([]uint64, l.partitions)}
		for p := range l.partitions {
			a, b := mine[spot{i, int32(p)}], theirs[spot{i, int32(p)}]
			cu.before[p], cu.ahead[p] = uint64(min(a, b)), uint64(max(a, b)-min(a, b))
		}
		c.cuts = append(c.cuts, cu)
	}
	rows, err := r.deps.Store.Query(ctx, fmt.Sprintf("SELECT log_id, max(topic) FROM (SELECT DISTINCT log_id, '' AS topic FROM %[1]s.evidence UNION ALL SELECT DISTINCT log_id, '' FROM %[2]s.evidence UNION ALL SELECT DISTINCT log_id, toString(log_topic) FROM %[1]s.batches) WHERE log_id NOT IN (%[3]s) GROUP BY log_id ORDER BY log_id", c.live, c.new, r.logIDs()))
	if err != nil {
		return fmt.Errorf("looking for logs that are gone: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var cu cut
		if err := rows.Scan(&cu.id, &cu.topic); err != nil {
			return fmt.Errorf("looking for logs that are gone: %w", err)
		}
		c.cuts = append(c.cuts, cu)
	}
	return rows.Err()
}

// found lists a difference.
func (c *comparison) found(d Difference) {
	if len(c.rep.Found) >= maxFound {
		c.rep.More = true
		return
	}
	c.rep.Found = append(c.rep.Found, d)
}

func (c *comparison) enough() bool { return len(c.rep.Found) >= maxFound }

// common returns the columns that a table has in both generations, in the
// order of the live one.
func (c *comparison) common(ctx context.Context, table string) ([]string, error) {
	var names []string
	if err := c.r.deps.Store.QueryRow(ctx, "SELECT groupArray(name) FROM (SELECT name FROM system.columns WHERE table = ? AND database IN (?, ?) GROUP BY name HAVING uniqExact(database) = 2 ORDER BY min(position), name)", table, c.live, c.new).Scan(&names); err != nil {
		return nil, fmt.Errorf("reading the columns of %s: %w", table, err)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("reading the columns of %s: %s and %s have none in common", table, c.live, c.new)
	}
	for i, name := range names {
		names[i] = "`" + name + "`"
	}
	return names, nil
}

// bucket is a stretch of a partition, or a share of the keys of a table.
type bucket struct {
	partition uint16
	number    uint64
}

// sum is a count and a checksum that does not depend on the order.
type sum struct{ n, sum, xor uint64 }

func (s sum) String() string { return fmt.Sprintf("%016x%016x", s.sum, s.xor) }

func (s *sum) add(o sum) { s.n, s.sum, s.xor = s.n+o.n, s.sum+o.sum, s.xor^o.xor }

// both asks the same of the live generation and of the new one.
func both[T any](c *comparison, ask func(database string) (T, error)) (theirs, mine T, err error) {
	if theirs, err = ask(c.live); err == nil {
		mine, err = ask(c.new)
	}
	return theirs, mine, err
}

// sums sums a table up in both generations by a query of (partition, bucket,
// count, sum, xor).
func (c *comparison) sums(ctx context.Context, table string, query func(database string) string) (theirs, mine map[bucket]sum, err error) {
	return both(c, func(database string) (map[bucket]sum, error) {
		out, err := c.sum(ctx, query(database))
		if err != nil {
			return nil, fmt.Errorf("summing up %s of %s: %w", table, database, err)
		}
		return out, nil
	})
}

func (c *comparison) sum(ctx context.Context, query string) (map[bucket]sum, error) {
	rows, err := c.r.deps.Store.Query(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := map[bucket]sum{}
	for rows.Next() {
		var b bucket
		var s sum
		if err := rows.Scan(&b.partition, &b.number, &s.n, &s.sum, &s.xor); err != nil {
			return nil, err
		}
		out[b] = s
	}
	return out, rows.Err()
}

// unequal returns the keys that not both maps have with the same value.
func unequal[K, V comparable](a, b map[K]V) iter.Seq[K] {
	return func(yield func(K) bool) {
		for k, v := range a {
			if other, ok := b[k]; (!ok || other != v) && !yield(k) {
				return
			}
		}
		for k := range b {
			if _, ok := a[k]; !ok && !yield(k) {
				return
			}
		}
	}
}

// differing returns the buckets that are not equal, sorted.
func differing(a, b map[bucket]sum) []bucket {
	return slices.SortedFunc(unequal(a, b), func(x, y bucket) int {
		if x.partition != y.partition {
			return int(x.partition) - int(y.partition)
		}
		return int(int64(x.number) - int64(y.number))
	})
}

// evidence compares the events: count and checksum of the columns that hold
// all of an event, a bucket of offsets at a time. Where these differ and the live
// generation has rows of another mapping, the events that the rows hold are
// compared, because a changed projector may write the same event into other
// columns; and where those differ, row by row.
func (c *comparison) evidence(ctx context.Context) error {
	common, err := c.common(ctx, "evidence")
	if err != nil {
		return err
	}
	lossless := map[string]bool{}
	for _, name := range projector.LosslessColumns() {
		lossless["`"+name+"`"] = true
	}
	columns := slices.DeleteFunc(common, func(name string) bool { return !lossless[name] })
	for _, cu := range c.cuts {
		query := func(database string) string {
			return fmt.Sprintf("SELECT partition, intDiv(offset, %d) AS bucket, count(), sum(h), groupBitXor(h) FROM (SELECT partition, offset, cityHash64(%s) AS h FROM %s.evidence FINAL WHERE %s) GROUP BY partition, bucket",
				bucketOffsets, strings.Join(columns, ", "), database, cu.within())
		}
		theirs, mine, err := c.sums(ctx, "evidence", query)
		if err != nil {
			return err
		}
		differ := differing(theirs, mine)
		if len(differ) > 0 && !c.strict {
			if differ, err = c.events(ctx, cu, differ); err != nil {
				return err
			}
		}
		bad := map[uint16]bool{}
		for _, b := range differ {
			bad[b.partition] = true
			if c.enough() {
				c.rep.More = true
				continue
			}
			if err := c.rows(ctx, cu, b); err != nil {
				return err
			}
		}
		c.report(cu, mine, bad)
	}
	return nil
}

// report adds what was compared of a log to the report.
func (c *comparison) report(cu cut, mine map[bucket]sum, bad map[uint16]bool) {
	totals := map[uint16]sum{}
	for p := range cu.before {
		totals[uint16(p)] = sum{}
	}
	for p := range bad {
		totals[p] = sum{}
	}
	for b, s := range mine {
		t := totals[b.partition]
		t.add(s)
		totals[b.partition] = t
	}
	for _, p := range slices.Sorted(maps.Keys(totals)) {
		ps := PartitionSum{Log: cu.topic, LogID: cu.id, Partition: p, Events: totals[p].n, Checksum: totals[p].String(), Equal: !bad[p]}
		if cu.before != nil && int(p) < len(cu.before) {
			ps.Before, ps.Ahead = cu.before[p], cu.ahead[p]
		}
		c.rep.Partitions = append(c.rep.Partitions, ps)
		c.compared += ps.Events
	}
}

// events compares the events of buckets, and returns the buckets in which they
// are not equal.
func (c *comparison) events(ctx context.Context, cu cut, buckets []bucket) ([]bucket, error) {
	wanted := map[bucket]bool{}
	byPartition := map[uint16][]uint64{}
	for _, b := range buckets {
		wanted[b] = true
		byPartition[b.partition] = append(byPartition[b.partition], b.number)
	}
	theirs, mine, err := both(c, func(database string) (map[bucket]sum, error) {
		out := map[bucket]sum{}
		for _, p := range slices.Sorted(maps.Keys(byPartition)) {
			where := fmt.Sprintf("FINAL WHERE partition = %d AND %s", p, cu.within())
			if numbers := byPartition[p]; len(numbers) <= 1000 {
				where += fmt.Sprintf(" AND intDiv(offset, %d) IN (%s)", bucketOffsets, join(numbers))
			}
			err := projector.EachRow(ctx, c.r.deps.Store, database, where, func(row *projector.Row) error {
				b := bucket{row.Partition, row.Offset / bucketOffsets}
				if !wanted[b] {
					return nil
				}
				var one projector.Sum
				if err := one.AddRow(row); err != nil {
					// It is no event any more: unequal to everything.
					one.Checksum = row.Offset
				}
				s := out[b]
				s.add(sum{1, one.Checksum, one.Checksum})
				out[b] = s
				return nil
			})
			if err != nil {
				return nil, fmt.Errorf("comparing events: %w", err)
			}
		}
		return out, nil
	})
	if err != nil {
		return nil, err
	}
	return differing(theirs, mine), nil
}

// rows lists the events of a bucket that are not equal.
func (c *comparison) rows(ctx context.Context, cu cut, b bucket) error {
	theirs, mine, err := both(c, func(database string) (map[uint64][]*projector.Row, error) {
		out := map[uint64][]*projector.Row{}
		where := fmt.Sprintf("FINAL WHERE partition = %d AND %s AND offset >= %d AND offset < %d", b.partition, cu.within(), b.number*bucketOffsets, (b.number+1)*bucketOffsets)
		err := projector.EachRow(ctx, c.r.deps.Store, database, where, func(row *projector.Row) error {
			out[row.Offset] = append(out[row.Offset], row)
			return nil
		})
		return out, err
	})
	if err != nil {
		return fmt.Errorf("comparing rows: %w", err)
	}
	all := map[uint64]bool{}
	for o := range theirs {
		all[o] = true
	}
	for o := range mine {
		all[o] = true
	}
	for _, o := range slices.Sorted(maps.Keys(all)) {
		if what := c.differ(theirs[o], mine[o]); what != "" {
			id, p := cu.id, b.partition
			c.found(Difference{Table: "evidence", LogID: &id, Partition: &p, Offset: &o, What: what})
		}
	}
	return nil
}

// differ says how the rows of one offset differ; empty when they hold the same
// event.
func (c *comparison) differ(theirs, mine []*projector.Row) string {
	switch {
	case len(theirs) == 0:
		return "missing in " + c.live
	case len(mine) == 0:
		return "missing in " + c.new
	case len(theirs) > 1:
		return fmt.Sprintf("stands %d times in %s", len(theirs), c.live)
	case len(mine) > 1:
		return fmt.Sprintf("stands %d times in %s", len(mine), c.new)
	}
	var a, b projector.Sum
	if err := a.AddRow(theirs[0]); err != nil {
		return fmt.Sprintf("not an event in %s: %s", c.live, c.r.deps.Sanitizer.Error(err))
	}
	if err := b.AddRow(mine[0]); err != nil {
		return fmt.Sprintf("not an event in %s: %s", c.new, c.r.deps.Sanitizer.Error(err))
	}
	fields := theirs[0].Differs(mine[0])
	if a.Checksum == b.Checksum && (!c.strict || len(fields) == 0) {
		return ""
	}
	return "differs in " + strings.Join(fields, ", ")
}
