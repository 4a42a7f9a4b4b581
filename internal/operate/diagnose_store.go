package operate

import (
	"context"
	"fmt"
	"strings"
)

// Least version of ClickHouse.
const storeMajor, storeMinor = 26, 2

// store checks ClickHouse: that it answers, its version and its database.
func (d Diagnosis) store(ctx context.Context, r *report) {
	if d.Store == nil {
		r.add(Warn, "clickhouse", "", "set CLICKHOUSE_ADDR", "not checked: CLICKHOUSE_ADDR is not set")
		return
	}
	var version string
	if err := d.Store.QueryRow(ctx, "SELECT version()").Scan(&version); err != nil {
		r.add(Fail, "clickhouse", "", "start the server, or correct CLICKHOUSE_ADDR and its user, password and TLS variables", "does not answer: %s", r.clean.Error(err))
		return
	}
	// Four numbers look like an IP address, which is no text to show.
	if parts := strings.SplitN(version, ".", 4); len(parts) == 4 {
		version = strings.Join(parts[:3], ".")
	}
	var major, minor int
	if _, err := fmt.Sscanf(version, "%d.%d", &major, &minor); err != nil {
		r.add(Warn, "clickhouse", "", "see that it is ClickHouse 26.2 or later", "answers, but its version %q is not known", version)
	} else if major < storeMajor || major == storeMajor && minor < storeMinor {
		r.add(Fail, "clickhouse", "", "upgrade to ClickHouse 26.2 or later", "its version is %s, and 26.2 is needed for inserts that are repeated safely", version)
	} else {
		r.add(OK, "clickhouse", "", "", "answers; its version is %s", version)
	}
	var tables uint64
	err := d.Store.QueryRow(ctx, "SELECT count() FROM system.tables WHERE database = ? AND name = 'generation'", d.Database).Scan(&tables)
	switch {
	case err != nil:
		r.unknown("database", d.Database, err)
	case tables == 0:
		r.add(Warn, "database", d.Database, "`jobtrail migrate`, or start a projector, which does it", "has no tables yet, or the user may not see them")
	default:
		r.add(OK, "database", d.Database, "", "is migrated")
		d.unknownTypes(ctx, r)
	}
}

// unknownTypes finds job types that workers dead-lettered lately since none of
// them has a handler: a mistyped name, or members of a group that differ.
func (d Diagnosis) unknownTypes(ctx context.Context, r *report) {
	rows, err := d.Store.Query(ctx, fmt.Sprintf(`SELECT worker_group, job_type, uniqExact(log_id, partition, offset) AS n FROM %s.timeline
WHERE type = 'job_terminal' AND reason = 'unknown_type' AND log_at > now64(3) - INTERVAL 1 HOUR AND (? = '' OR worker_group = ?)
GROUP BY worker_group, job_type ORDER BY n DESC, worker_group, job_type LIMIT 20`, d.Database), d.Group, d.Group)
	if err != nil {
		r.unknown("types", d.Database, err)
		return
	}
	defer rows.Close()
	found := false
	for rows.Next() {
		var group, typ string
		var n uint64
		if err := rows.Scan(&group, &typ, &n); err != nil {
			r.unknown("types", d.Database, err)
			return
		}
		found = true
		r.add(Warn, "types", group, "give every worker of the group a handler for it, or let them say unknown_types: skip; if the name is mistyped, correct the producer",
			"%d jobs of type %q went to the dead-letter topic within the last hour, since a worker had no handler for it", n, typ)
	}
	if err := rows.Err(); err != nil {
		r.unknown("types", d.Database, err)
	} else if !found {
		r.add(OK, "types", d.Database, "", "no job of an unknown type within the last hour")
	}
}
