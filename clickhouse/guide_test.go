package clickhouse_test

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/jobtrail/jobtrail/clickhouse"
	"github.com/jobtrail/jobtrail/pkg/events"
)

var writeDocs = flag.Bool("docs.write", false, "write the generated parts of docs/evidence-guide.md")

const guide = "../docs/evidence-guide.md"

var (
	tableOf  = regexp.MustCompile(`(?s)CREATE TABLE IF NOT EXISTS (\w+)[^(]*\n\((.*?)\n\)\nENGINE = (\w+).*?ORDER BY ([^\n]*?)\n.*?COMMENT '(.*?)';`)
	columnOf = regexp.MustCompile(`(?m)^  (\w+) +(.+?) COMMENT '(.*?)'`)
)

// tables is the generated part about tables.
func tables(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	for _, dir := range []string{"migrations/generation", "migrations/control"} {
		rendered, err := clickhouse.Render(clickhouse.Layout{Database: "jobtrail"}, dir)
		if err != nil {
			t.Fatal(err)
		}
		files, err := fs.Glob(rendered, "*.sql")
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			raw, err := fs.ReadFile(rendered, f)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range tableOf.FindAllStringSubmatch(string(raw), -1) {
				fmt.Fprintf(&b, "### `%s`\n%s. %s, by %s.\n\n| column | type | meaning |\n|---|---|---|\n", m[1], m[5], m[3], strings.TrimSpace(m[4]))
				for _, c := range columnOf.FindAllStringSubmatch(m[2], -1) {
					typ := c[2]
					if strings.HasPrefix(typ, "Enum8(") {
						typ = "Enum8"
					}
					fmt.Fprintf(&b, "| `%s` | %s | %s |\n", c[1], typ, strings.ReplaceAll(c[3], "|", `\|`))
				}
				b.WriteString("\n")
			}
		}
	}
	return b.String()
}

// viewMeanings says what each view is for.
var viewMeanings = map[string]string{
	"v_jobs":       "One row per run of a publication: where it stands. The run 0 of a duplicate is left out.",
	"v_attempts":   "One row per attempt, straight from `evidence`: ask by operation. Nulls: not ended, not late, not abandoned.",
	"v_operations": "One row per operation and tenant, straight from `evidence`: ask by operation. Jobs count by the last run of each publication.",
	"v_rates_1m":   "What happened minute by minute, by log time.",
	"v_failures":   "Runs that ended without success.",
	"v_duplicates": "Publications that were seen as duplicates.",
	"v_rejected":   "What was asked and refused.",
	"v_positions":  "How far the store is, per partition of each log.",
}

func views(t *testing.T) string {
	t.Helper()
	opts, conn, layout := store(t, "guide")
	if _, err := clickhouse.Migrate(t.Context(), opts, layout); err != nil {
		t.Fatal(err)
	}
	rows, err := conn.Query(t.Context(), "SELECT table, arrayStringConcat(groupArray('`' || name || '`'), ', ') FROM (SELECT * FROM system.columns WHERE database = ? AND startsWith(table, 'v_') ORDER BY table, position) GROUP BY table ORDER BY table", layout.Generation("a"))
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var b strings.Builder
	b.WriteString("| view | what it shows | columns |\n|---|---|---|\n")
	seen := 0
	for rows.Next() {
		var name, columns string
		if err := rows.Scan(&name, &columns); err != nil {
			t.Fatal(err)
		}
		if viewMeanings[name] == "" {
			t.Errorf("nobody says what %s is for", name)
		}
		seen++
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", name, viewMeanings[name], columns)
	}
	if seen != len(viewMeanings) {
		t.Errorf("%d views, %d meanings", seen, len(viewMeanings))
	}
	return b.String()
}

// TestGuideIsCurrent holds docs/evidence-guide.md against the schema, the
// events, the flags and the queries. Run it with -docs.write to write the
// generated parts.
func TestGuideIsCurrent(t *testing.T) {
	raw, err := os.ReadFile(guide)
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	for _, part := range []struct{ name, want string }{{"tables", tables(t)}, {"views", views(t)}} {
		begin, end := "<!-- "+part.name+" -->\n", "<!-- end -->"
		before, rest, ok := strings.Cut(text, begin)
		got, after, closed := strings.Cut(rest, end)
		switch {
		case !ok || !closed:
			t.Fatalf("%s has no part %s", guide, part.name)
		case got == part.want:
		case *writeDocs:
			text = before + begin + part.want + end + after
		default:
			t.Errorf("%s, part %s, is not what the schema says; run the test with -docs.write", guide, part.name)
		}
	}
	if *writeDocs {
		if err := os.WriteFile(guide, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for typ := events.TypeUnknown; typ <= events.TypeDedupPage; typ++ {
		if !strings.Contains(text, "`"+typ.String()+"`") {
			t.Errorf("%s does not explain the event %s", guide, typ)
		}
	}
	answer, err := os.ReadFile("../internal/evidence/answer.go")
	if err != nil {
		t.Fatal(err)
	}
	flags := regexp.MustCompile(`(?m)^\tFlag\w+ += "(\w+)"|Verdict += "(\w+)"`).FindAllStringSubmatch(string(answer), -1)
	if len(flags) < 15 {
		t.Fatalf("found only %d flags and verdicts", len(flags))
	}
	for _, f := range flags {
		if name := f[1] + f[2]; !strings.Contains(text, "| `"+name+"` |") {
			t.Errorf("%s does not explain %s", guide, name)
		}
	}
	for _, m := range regexp.MustCompile("`(?:queries/)?([\\w-]+)\\.sql`").FindAllStringSubmatch(text, -1) {
		if _, err := clickhouse.Query(m[1]); err != nil {
			t.Errorf("%s names a query that is not there: %v", guide, err)
		}
	}
	if n := strings.Count(text, "### `"); n != 12 {
		t.Errorf("%d tables are described, want 12", n)
	}
}
