package rebuild

import (
	"context"
	"fmt"

	"github.com/ClickHouse/clickhouse-go/v2"
)

// erase deletes from the generation what finished erasures name: the log may
// still hold it.
func (r *Rebuild) erase(ctx context.Context) error {
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{"mutations_sync": 2}))
	rows, err := r.deps.Store.Query(ctx, "SELECT tenant_id, operation_id, job_id FROM "+r.cfg.Layout.Database+".erasures FINAL WHERE status IN ('erased', 'verified') ORDER BY requested_at")
	if err != nil {
		return fmt.Errorf("reading the erasures: %w", err)
	}
	defer rows.Close()
	type erasure struct{ tenant, operation, job string }
	var all []erasure
	for rows.Next() {
		var e erasure
		if err := rows.Scan(&e.tenant, &e.operation, &e.job); err != nil {
			return fmt.Errorf("reading the erasures: %w", err)
		}
		all = append(all, e)
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("reading the erasures: %w", err)
	}
	db := r.state.Database
	for _, e := range all {
		where, args := "tenant_id = ?", []any{e.tenant}
		if e.operation != "" {
			where, args = where+" AND operation_id = ?", append(args, e.operation)
		}
		if e.job != "" {
			where, args = where+" AND job_id = ?", append(args, e.job)
		}
		for _, statement := range []string{
			"ALTER TABLE " + db + ".timeline DELETE WHERE (log_id, partition, offset) IN (SELECT log_id, partition, offset FROM " + db + ".evidence WHERE " + where + ")",
			"ALTER TABLE " + db + ".failures DELETE WHERE " + where,
			"ALTER TABLE " + db + ".attempt_ids DELETE WHERE " + where,
			"ALTER TABLE " + db + ".jobs DELETE WHERE " + where,
			// Last: it says what the timeline is to lose.
			"ALTER TABLE " + db + ".evidence DELETE WHERE " + where,
		} {
			if err := r.deps.Store.Exec(ctx, statement, args...); err != nil {
				return fmt.Errorf("erasing in %s: %w", db, err)
			}
		}
	}
	return nil
}
