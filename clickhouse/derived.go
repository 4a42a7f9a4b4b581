//go:build !derivedcolumn

package clickhouse

import "io/fs"

// derivedMigrations are migrations of the tests; nil in every program that is
// not built with the tag derivedcolumn.
func derivedMigrations(string) fs.FS { return nil }
