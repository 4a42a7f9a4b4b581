package clickhouse

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"
)

//go:embed queries/*.sql
var queries embed.FS

// Queries returns the names of the questions that the store answers, sorted.
// Those that begin with audit- are expected to have no rows.
func Queries() []string {
	files, err := fs.Glob(queries, "queries/*.sql")
	if err != nil {
		panic(err) // the pattern is sound
	}
	for i, f := range files {
		files[i] = strings.TrimSuffix(strings.TrimPrefix(f, "queries/"), ".sql")
	}
	return files
}

// Query returns the SQL of a question. It names tables without their database
// and has ClickHouse's own parameters, such as {tenant:String}.
func Query(name string) (string, error) {
	raw, err := queries.ReadFile("queries/" + name + ".sql")
	if err != nil {
		return "", fmt.Errorf("no query %s: %w", name, err)
	}
	return string(raw), nil
}
