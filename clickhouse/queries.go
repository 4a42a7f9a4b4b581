package clickhouse

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"
	"text/template"

	"github.com/jobtrail/jobtrail/pkg/events"
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
	t, err := template.New(name).Parse(string(raw))
	if err != nil {
		return "", fmt.Errorf("reading query %s: %w", name, err)
	}
	var b strings.Builder
	if err := t.Execute(&b, machine{}); err != nil {
		return "", fmt.Errorf("rendering query %s: %w", name, err)
	}
	return b.String(), nil
}

// machine is the state machine as the queries' templates see it.
type machine struct{}

// Transitions returns the legal steps as an array of (from, event, to).
func (machine) Transitions() string {
	var steps []string
	for _, from := range events.States() {
		for t := events.TypeAttemptStarted; t <= events.TypeDedupPage; t++ {
			for _, to := range events.LeadsTo(from, t) {
				steps = append(steps, fmt.Sprintf("('%s', '%s', '%s')", from, t, to))
			}
		}
	}
	return "[" + strings.Join(steps, ", ") + "]"
}
