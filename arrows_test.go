// Package jobtrail_test holds rules about the repository as a whole.
package jobtrail_test

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/jobtrail/jobtrail"

// arrows is the import graph that the project allows: folder, what it may
// import, and why. A folder stands for the packages below it, except those
// that have a row of their own. docs/architecture.md shows the same table.
var arrows = map[string]map[string]string{
	"pkg/sanitize": {},
	"pkg/events": {
		"pkg/sanitize": "free text in an event is sanitize.Text",
	},
	"pkg/retrytopics": {
		"pkg/events": "a hop carries the job's identity, state and error class",
	},
	"pkg/jobs": {
		"pkg/events":      "ids and limits of a job record",
		"pkg/retrytopics": "names of the headers",
	},
	"pkg/worker": {
		"pkg/events":      "it writes the evidence",
		"pkg/retrytopics": "it asks where a failed attempt goes next",
		"pkg/sanitize":    "it cleans what handlers return before it is written",
	},
	"internal/admin": {
		"pkg/sanitize": "what a page says of an error is cleaned",
	},
	"internal/connect": {},
	"internal/redact": {
		"pkg/sanitize":     "it makes the sanitiser of a command",
		"internal/connect": "it knows which variables are secrets",
	},
	"internal/jobsfile": {
		"pkg/retrytopics": "a job type's policy and the tiers are in the file",
	},
	"internal/projector": {
		"pkg/events":   "it decodes the log",
		"pkg/sanitize": "text read from the log stays sanitize.Text",
		"clickhouse":   "it checks the schema that it inserts into",
	},
	"internal/projector/projectortest": {
		"pkg/*":               "it makes histories, for tests only",
		"clickhouse":          "it makes the tables",
		"internal/projector":  "it runs the projector",
		"internal/localstack": "on the real servers",
	},
	"internal/rebuild": {
		"clickhouse":         "it empties a generation and turns the pointer",
		"internal/projector": "rows are written as the projector writes them",
		"pkg/sanitize":       "errors that are logged are cleaned",
	},
	"internal/evidence": {
		"pkg/events": "it speaks of states and outcomes by their names",
		"clickhouse": "it runs the embedded queries",
	},
	"internal/operate": {
		"pkg/events":      "commands name jobs and states",
		"pkg/jobs":        "an operator publishes jobs as any producer does",
		"pkg/retrytopics": "commands travel in the group's topics",
		"pkg/sanitize":    "what a finding says is cleaned",
	},
	"internal/localstack": {},
	"internal/planted":    {},
	"clickhouse": {
		"pkg/events": "columns name the states and types of events",
	},
	"cmd/worker":    {"pkg/*": mainReason, "internal/*": mainReason},
	"cmd/projector": {"pkg/*": mainReason, "internal/*": mainReason, "clickhouse": "it checks the store's layout and migrates it"},
	"cmd/jobtrail":  {"pkg/*": mainReason, "internal/*": mainReason, "clickhouse": "migrate applies the embedded migrations"},
	"deploy":        {},
	"loadtest": {
		"pkg/*":      "it drives and checks the product",
		"internal/*": "it drives and checks the product",
		"clickhouse": "it prepares the store",
	},
	".": {},
}

const mainReason = "a main puts the parts together"

// testArrows are further imports that tests of any folder may have.
var testArrows = map[string]string{
	"internal/localstack":              "tests on the real servers",
	"internal/projector":               "rows for tests of the store come through the real projector",
	"internal/projector/projectortest": "histories and tables for tests of the store",
	"internal/connect":                 "the reference of variables is held against the docs",
	"pkg/sanitize":                     "tests make clean text",
	"internal/planted":                 "tests plant what must not be written down",
	"pkg/events":                       "histories are made of events",
	"clickhouse":                       "tests prepare the store",
	"loadtest":                         "its oracle judges simulated histories, too",
}

// pure folders decide and do nothing else: no clock, file, network, log or
// goroutine. A count for its owner to read (sync/atomic) is no effect.
var pure = []string{"pkg/events", "pkg/retrytopics", "pkg/sanitize"}

var impure = []string{"os", "os/exec", "net", "net/http", "syscall", "log", "context", "sync", "math/rand", "math/rand/v2", "database/sql"}

type goPackage struct {
	ImportPath   string
	Imports      []string
	TestImports  []string
	XTestImports []string
	Deps         []string
}

func listPackages(t *testing.T, pattern string) []goPackage {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports,TestImports,XTestImports,Deps", pattern)
	output, err := cmd.Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			t.Fatalf("go list: %v\n%s", err, exit.Stderr)
		}
		t.Fatalf("go list: %v", err)
	}
	var packages []goPackage
	for dec := json.NewDecoder(strings.NewReader(string(output))); ; {
		var p goPackage
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			return packages
		}
		if err != nil {
			t.Fatalf("reading go list: %v", err)
		}
		packages = append(packages, p)
	}
}

// folder is the row of the table that a package of this module belongs to;
// "" if there is none.
func folder(importPath string) (row string, ours bool) {
	path, ok := strings.CutPrefix(importPath, module)
	if !ok || (path != "" && path[0] != '/') {
		return "", false
	}
	path = strings.TrimPrefix(path, "/")
	if path == "" {
		return ".", true
	}
	for p := path; p != ""; {
		if _, ok := arrows[p]; ok {
			return p, true
		}
		cut := strings.LastIndexByte(p, '/')
		if cut < 0 {
			break
		}
		p = p[:cut]
	}
	return "", true
}

func allowed(from, to string) bool {
	row := arrows[from]
	if _, ok := row[to]; ok {
		return true
	}
	top, _, below := strings.Cut(to, "/")
	_, ok := row[top+"/*"]
	return below && ok
}

func TestImportsFollowTheArrows(t *testing.T) {
	packages := listPackages(t, "./...")
	if len(packages) < 5 {
		t.Fatalf("go list found %d packages", len(packages))
	}
	seen := 0
	for _, p := range packages {
		from, _ := folder(p.ImportPath)
		if from == "" {
			t.Errorf("%s is in no folder of the table: give it a row, here and in docs/architecture.md", p.ImportPath)
			continue
		}
		for _, imported := range p.Imports {
			to, ours := folder(imported)
			if !ours || to == from {
				continue
			}
			seen++
			if !allowed(from, to) {
				t.Errorf("%s imports %s: there is no arrow from %s to %q", p.ImportPath, imported, from, to)
			}
		}
		for _, imported := range slices.Concat(p.TestImports, p.XTestImports) {
			to, ours := folder(imported)
			if !ours || to == from || allowed(from, to) {
				continue
			}
			if _, ok := testArrows[to]; !ok {
				t.Errorf("a test of %s imports %s: there is no arrow from %s to %q", p.ImportPath, imported, from, to)
			}
		}
	}
	if seen == 0 {
		t.Error("no import between folders was seen")
	}
	t.Logf("%d imports between folders in %d packages", seen, len(packages))
}

// The page shows the table to people: each folder a row, what it may import in
// the last column.
func TestArrowsAreDocumented(t *testing.T) {
	const page = "docs/architecture.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]string{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if name := strings.Trim(cells[0], " `"); len(cells) == 3 && strings.HasPrefix(line, "| `") {
			shown[name] = strings.TrimSpace(cells[2])
		}
	}
	for name, row := range arrows {
		if _, err := os.Stat(filepath.FromSlash(name)); err != nil {
			t.Errorf("the table has a row for %s, which does not exist", name)
		}
		want := "—"
		if len(row) > 0 {
			want = "`" + strings.Join(slices.Sorted(maps.Keys(row)), "`, `") + "`"
		}
		if name != "." && shown[name] != want {
			t.Errorf("%s: %s may import %q, want %s", page, name, shown[name], want)
		}
		delete(shown, name)
	}
	for name := range shown {
		t.Errorf("%s has a row for %s, which is no folder of the table", page, name)
	}
}

func TestArrowsHaveNoCycle(t *testing.T) {
	// A wildcard stands for every folder below, none of which may point back.
	var visit func(at string, path []string)
	visit = func(at string, path []string) {
		if slices.Contains(path, at) {
			t.Fatalf("a cycle: %s", strings.Join(append(path, at), " → "))
		}
		for to, reason := range arrows[at] {
			if reason == "" {
				t.Errorf("the arrow from %s to %s has no reason", at, to)
			}
			targets := []string{to}
			if top, ok := strings.CutSuffix(to, "*"); ok {
				targets = slices.DeleteFunc(slices.Collect(maps.Keys(arrows)), func(f string) bool { return !strings.HasPrefix(f, top) })
			} else if _, ok := arrows[to]; !ok {
				t.Errorf("the arrow from %s to %s ends nowhere", at, to)
			}
			for _, target := range targets {
				visit(target, append(slices.Clone(path), at))
			}
		}
	}
	for from := range arrows {
		visit(from, nil)
	}
}

func TestPureFoldersStayPure(t *testing.T) {
	for _, row := range pure {
		names, err := filepath.Glob(filepath.Join(filepath.FromSlash(row), "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			found++
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, used := range impureUses(file) {
				t.Errorf("%s uses %s, which a pure package has no use for", name, used)
			}
		}
		if found == 0 {
			t.Errorf("%s holds no file", row)
		}
	}
}

// impureUses lists what a file uses of impure packages, other than the types
// and values of errors, by which an error is told from another.
func impureUses(file *ast.File) []string {
	local := map[string]string{} // name in the file → import path
	for _, spec := range file.Imports {
		imported := strings.Trim(spec.Path.Value, `"`)
		if slices.Contains(impure, imported) {
			name := path.Base(imported)
			if spec.Name != nil {
				name = spec.Name.Name
			}
			local[name] = imported
		}
	}
	var uses []string
	ast.Inspect(file, func(n ast.Node) bool {
		if _, ok := n.(*ast.GoStmt); ok {
			uses = append(uses, "a goroutine")
		}
		selector, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		pkg, ok := selector.X.(*ast.Ident)
		if !ok || local[pkg.Name] == "" && pkg.Name != "time" {
			return true
		}
		name := selector.Sel.Name
		isError := strings.HasPrefix(name, "Err") || strings.HasSuffix(name, "Error") || name == "Canceled" || name == "DeadlineExceeded"
		isClock := pkg.Name == "time" && slices.Contains([]string{"Now", "Since", "Until", "Sleep", "After", "NewTimer", "NewTicker", "Tick", "AfterFunc"}, name)
		if isClock || pkg.Name != "time" && !isError {
			uses = append(uses, pkg.Name+"."+name)
		}
		return true
	})
	return uses
}

// What only tests need must not be in the programs.
func TestProgramsHoldNoTestCode(t *testing.T) {
	programs := listPackages(t, "./cmd/...")
	if len(programs) == 0 {
		t.Fatal("no programs")
	}
	for _, p := range programs {
		for _, dep := range p.Deps {
			if dep == "testing" || strings.HasPrefix(dep, module+"/internal/localstack/stacktest") || strings.HasPrefix(dep, module+"/internal/connect/documented") || dep == module+"/internal/planted" {
				t.Errorf("%s depends on %s", p.ImportPath, dep)
			}
		}
	}
}
