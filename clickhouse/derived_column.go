//go:build derivedcolumn

package clickhouse

import (
	"io/fs"
	"testing/fstest"
)

// derivedMigrations adds a column to evidence, as the next version of the
// projector may: the tests' example of a change that asks for a rebuild.
func derivedMigrations(dir string) fs.FS {
	if dir != "migrations/generation" {
		return nil
	}
	return fstest.MapFS{"90001_derived.sql": &fstest.MapFile{Data: []byte(`-- +goose NO TRANSACTION
-- +goose Up
ALTER TABLE evidence {{.OnCluster}} ADD COLUMN IF NOT EXISTS log_hour UInt32 COMMENT 'Hours from 1970 to log_at';

-- +goose Down
SELECT throwIf(1, 'evidence is never dropped by a migration');
`)}}
}
