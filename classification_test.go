package jobtrail_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

const classification = "docs/data-classification.md"

// TestClassified holds docs/data-classification.md against the schema of the
// events, the headers, the topics and the tables: each has one row, and no row
// is about something else.
func TestClassified(t *testing.T) {
	page, err := os.ReadFile(classification)
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]int{}
	for n, line := range strings.Split(string(page), "\n") {
		name, rest, ok := strings.Cut(strings.TrimPrefix(line, "| `"), "` | ")
		if !ok || !strings.HasPrefix(line, "| `") {
			continue
		}
		if rows[name]++; rows[name] > 1 {
			t.Errorf("%s:%d: second row of %s", classification, n+1, name)
		}
		cells := strings.Split(strings.TrimSuffix(rest, " |"), " | ")
		if len(cells) != 4 {
			t.Errorf("%s:%d: %d columns", classification, n+1, len(cells)+1)
		}
		for _, cell := range cells {
			if strings.TrimSpace(cell) == "" {
				t.Errorf("%s:%d: empty cell", classification, n+1)
			}
		}
	}
	known := map[string]string{}
	for _, source := range []struct {
		what  string
		names []string
		least int
	}{
		{"a field of events.proto", protoFields(t), 100},
		{"a header", headerNames(t), 10},
		{"a topic", []string{"<job topic>", "<group>.evidence", "<group>.retry.<tier>", "<group>.dlq", "<group>.parked", "<group>.commands"}, 6},
		{"a table", tableNames(t), 8},
	} {
		if len(source.names) < source.least {
			t.Errorf("%d times %s: is it read rightly?", len(source.names), source.what)
		}
		for _, name := range source.names {
			known[name] = source.what
			if rows[name] == 0 {
				t.Errorf("%s has no row of %s, %s", classification, name, source.what)
			}
		}
	}
	for name := range rows {
		if known[name] == "" {
			t.Errorf("%s has a row of %s, which does not exist", classification, name)
		}
	}
}

var (
	protoMessage = regexp.MustCompile(`(?m)^message (\w+) \{`)
	protoField   = regexp.MustCompile(`^\s+(?:repeated |optional )?[\w.]+ (\w+) = \d+;`)
	createTable  = regexp.MustCompile(`(?m)^CREATE TABLE IF NOT EXISTS (\w+)`)
)

// protoFields returns "Message.field" of every field, without those of the
// oneof, which are the messages themselves.
func protoFields(t *testing.T) []string {
	t.Helper()
	data, err := os.ReadFile("pkg/events/events.proto")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	message, oneof := "", false
	for line := range strings.SplitSeq(string(data), "\n") {
		switch m := protoMessage.FindStringSubmatch(line); {
		case m != nil:
			message = m[1]
		case line == "}":
			message = ""
		case strings.Contains(line, "oneof "):
			oneof = true
		case oneof && strings.TrimSpace(line) == "}":
			oneof = false
		case message != "" && !oneof:
			if f := protoField.FindStringSubmatch(line); f != nil {
				names = append(names, message+"."+f[1])
			}
		}
	}
	return names
}

// headerNames returns the values of the Header constants of pkg/retrytopics.
func headerNames(t *testing.T) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "pkg/retrytopics/headers.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, "Header") || len(spec.Values) == 0 {
			return true
		}
		if lit, ok := spec.Values[0].(*ast.BasicLit); ok && lit.Kind == token.STRING {
			name, err := strconv.Unquote(lit.Value)
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, name)
		}
		return true
	})
	return names
}

// tableNames returns the tables that the migrations make.
func tableNames(t *testing.T) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir("clickhouse/migrations", func(path string, d os.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".sql" {
			return err
		}
		data, err := os.ReadFile(path)
		for _, m := range createTable.FindAllStringSubmatch(string(data), -1) {
			names = append(names, m[1])
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
