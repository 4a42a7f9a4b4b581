package rebuild

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
)

// placedTable is a table whose rows say where in the log they come from.
type placedTable struct {
	name string
	// omit are columns that say how a row came into the store.
	omit []string
}

var placed = []placedTable{{name: "timeline"}, {name: "failures"}, {name: "quarantine", omit: []string{"`reason`", "`log_topic`"}}}

// keyedTable is a table or view whose rows are made of all events of a key.
type keyedTable struct {
	name string
	// key are the columns of the key, which evidence has under the same names.
	key string
	// of is the condition for an event to have a part in a row.
	of string
	// final is the clause that folds repeated rows.
	final string
}

// The verdicts: the state of every run, the end of every operation, and which
// attempt belongs to which job.
var keyed = []keyedTable{
	{name: "v_jobs", key: "job_id, tenant_id, worker_group, origin_topic_id, partition, origin_offset, run, origin_at", of: "job_id != ''"},
	{name: "v_operations", key: "operation_id, tenant_id", of: "job_id != '' AND run > 0"},
	{name: "attempt_ids", key: "attempt_id", of: "type = 'attempt_started'", final: "FINAL"},
}

// placed compares a table by count and checksum of its rows, a bucket of
// offsets at a time.
func (c *comparison) placed(ctx context.Context, t placedTable) error {
	columns, err := c.common(ctx, t.name)
	if err != nil {
		return err
	}
	columns = slices.DeleteFunc(columns, func(name string) bool { return slices.Contains(t.omit, name) })
	var total sum
	equal := true
	for _, cu := range c.cuts {
		from := func(database, more string) string {
			return fmt.Sprintf("(SELECT partition, offset, cityHash64(%s) AS h FROM %s.%s FINAL WHERE %s%s)", strings.Join(columns, ", "), database, t.name, cu.within(), more)
		}
		query := func(database string) string {
			return fmt.Sprintf("SELECT partition, intDiv(offset, %d) AS bucket, count(), sum(h), groupBitXor(h) FROM %s GROUP BY partition, bucket", bucketOffsets, from(database, ""))
		}
		theirs, mine, err := c.sums(ctx, t.name, query)
		if err != nil {
			return err
		}
		for _, s := range mine {
			total.add(s)
		}
		for _, b := range differing(theirs, mine) {
			equal = false
			if c.enough() {
				c.rep.More = true
				break
			}
			one, other, err := both(c, func(database string) (map[uint64]uint64, error) {
				return c.hashes(ctx, "SELECT offset, sum(h) FROM "+from(database, fmt.Sprintf(" AND partition = %d AND intDiv(offset, %d) = %d", b.partition, bucketOffsets, b.number))+" GROUP BY offset")
			})
			if err != nil {
				return fmt.Errorf("comparing %s: %w", t.name, err)
			}
			for _, offset := range slices.Sorted(unequal(one, other)) {
				id, p := cu.id, b.partition
				c.found(Difference{Table: t.name, LogID: &id, Partition: &p, Offset: &offset, What: c.what(one, other, offset)})
			}
		}
	}
	c.rep.Verdicts = append(c.rep.Verdicts, TableSum{Table: t.name, Rows: total.n, Checksum: total.String(), Equal: equal})
	return nil
}

// hashes runs a query of (key, hash).
func (c *comparison) hashes(ctx context.Context, query string) (map[uint64]uint64, error) {
	rows, err := c.r.deps.Store.Query(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := map[uint64]uint64{}
	for rows.Next() {
		var k, h uint64
		if err := rows.Scan(&k, &h); err != nil {
			return nil, err
		}
		out[k] += h
	}
	return out, rows.Err()
}

// what says how a row differs.
func (c *comparison) what(theirs, mine map[uint64]uint64, key uint64) string {
	if _, ok := theirs[key]; !ok {
		return "missing in " + c.live
	}
	if _, ok := mine[key]; !ok {
		return "missing in " + c.new
	}
	return "differs"
}

// shares is into how many buckets the keys of a table are divided, and
// sharesAtOnce how many of them are compared row by row at once.
const (
	shares       = 4096
	sharesAtOnce = 64
)

// beyond is the query for the hashes of those keys that have events after the
// cut. Both generations go on, each at its own pace, so their rows may differ.
func (c *comparison) beyond(database string, t keyedTable) string {
	ids := []string{literal(uuid.Nil)} // a list may not be empty
	var conditions []string
	for _, cu := range c.cuts {
		ids = append(ids, literal(cu.id))
		if cu.before != nil {
			conditions = append(conditions, fmt.Sprintf("(log_id = %s AND offset >= %s)", literal(cu.id), cu.limit()))
		}
	}
	conditions = append(conditions, "log_id NOT IN ("+strings.Join(ids, ", ")+")")
	return fmt.Sprintf("SELECT cityHash64(%s) AS k FROM %s.evidence WHERE %s AND (%s)", t.key, database, t.of, strings.Join(conditions, " OR "))
}

// keyed compares a table by count and checksum of its rows, a share of the keys
// at a time. Rows of keys with events after the cut are left out.
func (c *comparison) keyed(ctx context.Context, t keyedTable) error {
	columns, err := c.common(ctx, t.name)
	if err != nil {
		return err
	}
	beyond := c.beyond(c.live, t) + " UNION ALL " + c.beyond(c.new, t)
	from := func(database string) string {
		return fmt.Sprintf("(SELECT cityHash64(%s) AS k, cityHash64(toString(tuple(%s))) AS h FROM %s.%s %s)", t.key, strings.Join(columns, ", "), database, t.name, t.final)
	}
	query := func(database string) string {
		return fmt.Sprintf("SELECT toUInt16(0), toUInt64(k %% %d) AS share, count(), sum(h), groupBitXor(h) FROM %s WHERE k NOT IN (%s) GROUP BY share", shares, from(database), beyond)
	}
	theirs, mine, err := c.sums(ctx, t.name, query)
	if err != nil {
		return err
	}
	var total sum
	for _, s := range mine {
		total.add(s)
	}
	equal := true
	for some := range slices.Chunk(differing(theirs, mine), sharesAtOnce) {
		if c.enough() {
			c.rep.More = true
			break
		}
		numbers := make([]uint64, len(some))
		for i, b := range some {
			numbers[i] = b.number
		}
		one, other, err := both(c, func(database string) (map[uint64]uint64, error) {
			return c.hashes(ctx, fmt.Sprintf("SELECT k, h FROM %s WHERE k %% %d IN (%s) AND k NOT IN (%s)", from(database), shares, join(numbers), beyond))
		})
		if err != nil {
			return fmt.Errorf("comparing %s: %w", t.name, err)
		}
		keys := slices.Sorted(unequal(one, other))
		// Events that came in while the tables were read: evidence shows them before
		// the tables that are made from it.
		late, err := c.late(ctx, t, keys)
		if err != nil {
			return err
		}
		for _, k := range keys {
			if late[k] {
				continue
			}
			equal = false
			name, err := c.name(ctx, t, k)
			if err != nil {
				return err
			}
			c.found(Difference{Table: t.name, Key: name, What: c.what(one, other, k)})
			if c.enough() {
				break
			}
		}
	}
	c.rep.Verdicts = append(c.rep.Verdicts, TableSum{Table: t.name, Rows: total.n, Checksum: total.String(), Equal: equal})
	return nil
}

// late returns those of keys that have events after the cut by now.
func (c *comparison) late(ctx context.Context, t keyedTable, keys []uint64) (map[uint64]bool, error) {
	out := map[uint64]bool{}
	for some := range slices.Chunk(keys, 10_000) {
		found, err := c.hashes(ctx, fmt.Sprintf("SELECT DISTINCT k, toUInt64(1) FROM (%s UNION ALL %s) WHERE k IN (%s)", c.beyond(c.live, t), c.beyond(c.new, t), join(some)))
		if err != nil {
			return nil, fmt.Errorf("looking for late events of %s: %w", t.name, err)
		}
		for k := range found {
			out[k] = true
		}
	}
	return out, nil
}

// name returns the key of a row in words.
func (c *comparison) name(ctx context.Context, t keyedTable, k uint64) (string, error) {
	var name string
	for _, database := range []string{c.live, c.new} {
		err := c.r.deps.Store.QueryRow(ctx, fmt.Sprintf("SELECT max(toString(tuple(%s))) FROM %s.%s WHERE cityHash64(%s) = %d", t.key, database, t.name, t.key, k)).Scan(&name)
		if err != nil {
			return "", fmt.Errorf("naming a row of %s: %w", t.name, err)
		}
		if name != "" {
			break
		}
	}
	return name, nil
}
