package jobtrail_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// guarded are the packages that write things down: an error becomes text there
// only through the sanitiser.
var guarded = []string{"./pkg/worker", "./pkg/jobs", "./internal/admin", "./internal/connect", "./internal/evidence", "./internal/jobsfile", "./internal/operate", "./internal/projector",
	"./internal/redact", "./clickhouse", "./cmd/worker", "./cmd/projector", "./cmd/jobtrail"}

// rawTextAllowed are the functions in which an error becomes text, and why that
// text goes through the sanitiser all the same.
var rawTextAllowed = map[string]string{
	"internal/redact.Lines":            "it cleans the text",
	"pkg/worker.Error.Error":           "the text of an error",
	"pkg/jobs.JobError.Error":          "the text of an error",
	"cmd/jobtrail.exitError.Error":     "the text of an error",
	"internal/jobsfile.parse":          "it makes an error of the text",
	"internal/jobsfile.checker.topics": "it makes an error of the text",
	"internal/jobsfile.checker.policy": "it makes an error of the text",
	"internal/jobsfile.checker.exec":   "it makes an error of the text",
	"internal/connect.fill":            "it compares it",
	"internal/connect.apart":           "it compares it",
	"pkg/worker.Config.withDefaults":   "it makes an error of the text",
	"cmd/worker.variables.Validate":    "it makes an error of the text",
	"pkg/worker.typeName":              "it takes the type only",
	"pkg/worker.entry.malformed":       "its caller cleans it",
	"internal/operate.parseJob":        "it sorts by it",
	"internal/projector.restoreBody":   "it reads what was clean when it was stored, to compare it",
}

// TestErrorsBecomeTextByTheSanitiser looks at every place of the guarded packages
// where an error may turn into text: as an argument that is printed or logged,
// and by its method Error. It also finds sanitisers without the secrets of the
// process.
func TestErrorsBecomeTextByTheSanitiser(t *testing.T) {
	found := map[string]bool{}
	for _, p := range typed(t, guarded) {
		for _, leak := range rawTexts(p) {
			if rawTextAllowed[leak.function] == "" {
				t.Errorf("%s: %s: %s", leak.at, leak.function, leak.what)
			}
			found[leak.function] = true
		}
	}
	for name := range rawTextAllowed {
		if !found[name] {
			t.Errorf("%s is allowed raw text and has none", name)
		}
	}
}

// TestRawTextIsFound holds rawTexts against code that is wrong in every way.
func TestRawTextIsFound(t *testing.T) {
	const head = "package p\nimport (\"context\"; \"errors\"; \"fmt\"; \"io\"; \"log/slog\"; \"github.com/jobtrail/jobtrail/pkg/sanitize\"; \"go.opentelemetry.io/otel/trace\")\n" +
		"var _ = context.Background; var _ = errors.New; var _ = fmt.Sprint; var _ io.Writer; var _ = sanitize.New; var _ trace.Span\n" +
		"func f(log *slog.Logger, err error, w io.Writer, span trace.Span, z *sanitize.Sanitizer) {\n"
	for _, tt := range []struct {
		code  string
		leaks int
	}{
		{`log.Warn("m", "err", err)`, 1},
		{`log.Warn("m", slog.Any("err", err))`, 1},
		{`log.With("err", err).Info("m")`, 1},
		{`log.LogAttrs(context.Background(), 0, "m", slog.Any("err", err))`, 1},
		{`slog.Error("m", "err", fmt.Errorf("x: %w", err))`, 1},
		{`args := []any{"err", err}; log.Warn("m", args...)`, 1},
		{`args := append([]any{}, err); log.Warn("m", args...)`, 1},
		{`log.Warn("m", "err", err.Error())`, 1},
		{`fmt.Fprintln(w, err)`, 1},
		{`fmt.Fprintf(w, "%v", errors.Join(err))`, 1},
		{`_ = fmt.Sprintf("%v", err)`, 1},
		{`span.RecordError(err)`, 1},
		{`var e *typedError; log.Warn("m", "err", e)`, 1},
		{`var v any = err; log.Warn("m", "v", v)`, 1},
		{`log.Warn("m", "err", sanitize.Error(err))`, 1},
		{`log.Warn("m", "v", map[string]any{"k": err})`, 1},
		{`log.Warn("m", "err", z.Error(err))`, 0},
		{`err = fmt.Errorf("x: %w", err); panic(err)`, 0},
		{`var e *typedError; if errors.As(err, &e) { err = e }`, 0},
		{`fmt.Fprintln(w, z.Error(err), "x", 1)`, 0},
	} {
		p := check(t, tt.code, head+tt.code+"\n}\ntype typedError struct{}\nfunc (*typedError) Error() string { return \"x\" }\n")
		if leaks := rawTexts(p); len(leaks) != tt.leaks {
			t.Errorf("%s: found %v, wanted %d", tt.code, leaks, tt.leaks)
		}
	}
}

type typedPackage struct {
	path  string
	fset  *token.FileSet
	files []*ast.File
	info  *types.Info
}

// exports says where the compiler's export data of a package is.
type exports map[string]string

func (e exports) open(path string) (io.ReadCloser, error) {
	if e[path] == "" {
		return nil, fmt.Errorf("no export data of %s", path)
	}
	return os.Open(e[path])
}

type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
	DepOnly                 bool
}

func list(t *testing.T, patterns []string) (exports, []listed) {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-deps", "-export", "-json=ImportPath,Dir,Export,GoFiles,DepOnly"}, patterns...)...)
	output, err := cmd.Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			t.Fatalf("go list: %v\n%s", err, exit.Stderr)
		}
		t.Fatalf("go list: %v", err)
	}
	e := exports{}
	var asked []listed
	for dec := json.NewDecoder(strings.NewReader(string(output))); ; {
		var p listed
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			return e, asked
		}
		if err != nil {
			t.Fatalf("reading go list: %v", err)
		}
		e[p.ImportPath] = p.Export
		if !p.DepOnly {
			asked = append(asked, p)
		}
	}
}

// typed type-checks packages against the export data of what they import.
func typed(t *testing.T, patterns []string) []typedPackage {
	t.Helper()
	e, asked := list(t, patterns)
	if len(asked) != len(patterns) {
		t.Fatalf("%d packages, wanted %d", len(asked), len(patterns))
	}
	var out []typedPackage
	for _, l := range asked {
		p := typedPackage{path: strings.TrimPrefix(l.ImportPath, module+"/"), fset: token.NewFileSet()}
		for _, name := range l.GoFiles {
			f, err := parser.ParseFile(p.fset, filepath.Join(l.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			p.files = append(p.files, f)
		}
		out = append(out, p.check(t, e))
	}
	return out
}

// check type-checks a file that may import what the guarded packages do.
func check(t *testing.T, name, code string) typedPackage {
	t.Helper()
	e, _ := list(t, []string{"./cmd/worker"})
	p := typedPackage{path: "p", fset: token.NewFileSet()}
	f, err := parser.ParseFile(p.fset, "p.go", code, parser.SkipObjectResolution)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	p.files = []*ast.File{f}
	return p.check(t, e)
}

func (p typedPackage) check(t *testing.T, e exports) typedPackage {
	t.Helper()
	p.info = &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}, Selections: map[*ast.SelectorExpr]*types.Selection{}}
	conf := types.Config{Importer: importer.ForCompiler(p.fset, "gc", e.open)}
	if _, err := conf.Check(p.path, p.fset, p.files, p.info); err != nil {
		t.Fatalf("checking %s: %v", p.path, err)
	}
	return p
}

type rawText struct {
	at       token.Position
	function string
	what     string
}

var errorType = types.Universe.Lookup("error").Type().Underlying().(*types.Interface)

// rawTexts finds where an error may become text past the sanitiser: by its
// method Error, by becoming a mere value (any), as what is printed or logged is,
// and by a sanitiser of the zero configuration.
func rawTexts(p typedPackage) (found []rawText) {
	isError := func(e ast.Expr) bool {
		tv, ok := p.info.Types[e]
		return ok && !tv.IsNil() && tv.IsValue() && types.Implements(tv.Type, errorType)
	}
	isAny := func(t types.Type) bool {
		i, ok := t.Underlying().(*types.Interface)
		return ok && i.Empty() && !isTypeParam(t)
	}
	for _, file := range p.files {
		for _, decl := range file.Decls {
			name := p.path
			if f, ok := decl.(*ast.FuncDecl); ok {
				name += "." + functionName(f)
			}
			add := func(n ast.Node, what string) {
				found = append(found, rawText{p.fset.Position(n.Pos()), name, what})
			}
			ast.Inspect(decl, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.CallExpr:
					sig, isCall := p.info.TypeOf(n.Fun).(*types.Signature)
					callee := p.callee(n)
					switch {
					case !isCall:
						// A conversion or a builtin.
						if b, ok := n.Fun.(*ast.Ident); ok && b.Name == "append" && len(n.Args) > 1 {
							if s, ok := p.info.TypeOf(n.Args[0]).Underlying().(*types.Slice); ok && isAny(s.Elem()) && slices.ContainsFunc(n.Args[1:], isError) {
								add(n, "an error becomes a value of a list")
							}
						}
						return true
					case callee == "fmt.Errorf", strings.HasPrefix(callee, "errors."), callee == "panic":
						return true // still an error, or the end
					case strings.HasSuffix(callee, "RecordError"):
						add(n, "an error goes into a span")
						return true
					case callee == module+"/pkg/sanitize.Error" || callee == module+"/pkg/sanitize.Clean":
						add(n, "a sanitiser that knows no secret of the process")
						return true
					}
					if sel, ok := n.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "Error" && len(n.Args) == 0 && isError(sel.X) && sig.Results().Len() == 1 && types.Identical(sig.Results().At(0).Type(), types.Typ[types.String]) {
						add(n, "an error becomes text")
					}
					for i, arg := range n.Args {
						if isError(arg) && isAny(parameter(sig, i, n.Ellipsis.IsValid())) {
							add(arg, "an error is handed to "+callee+" as a value")
						}
					}
				case *ast.CompositeLit:
					t := p.info.TypeOf(n).Underlying()
					var elem types.Type
					switch t := t.(type) {
					case *types.Slice:
						elem = t.Elem()
					case *types.Map:
						elem = t.Elem()
					default:
						return true
					}
					for _, e := range n.Elts {
						if kv, ok := e.(*ast.KeyValueExpr); ok {
							e = kv.Value
						}
						if isAny(elem) && isError(e) {
							add(e, "an error becomes a value of a list")
						}
					}
				case *ast.ValueSpec:
					if n.Type != nil && isAny(p.info.TypeOf(n.Type)) && slices.ContainsFunc(n.Values, isError) {
						add(n, "an error becomes a value")
					}
				}
				return true
			})
		}
	}
	return found
}

func isTypeParam(t types.Type) bool { _, ok := t.(*types.TypeParam); return ok }

// parameter returns the type of the i-th argument's parameter.
func parameter(sig *types.Signature, i int, spread bool) types.Type {
	n := sig.Params().Len()
	if sig.Variadic() && i >= n-1 {
		last := sig.Params().At(n - 1).Type()
		if s, ok := last.(*types.Slice); ok && !spread {
			return s.Elem()
		}
		return last
	}
	return sig.Params().At(i).Type()
}

// callee returns the full name of a function or method that is called.
func (p typedPackage) callee(call *ast.CallExpr) string {
	fun := ast.Unparen(call.Fun)
	if index, ok := fun.(*ast.IndexExpr); ok {
		fun = index.X
	}
	var id *ast.Ident
	switch f := fun.(type) {
	case *ast.Ident:
		id = f
	case *ast.SelectorExpr:
		id = f.Sel
	default:
		return "a function"
	}
	if f, ok := p.info.Uses[id].(*types.Func); ok {
		return f.FullName()
	}
	return id.Name
}

// functionName returns Type.Method or Function.
func functionName(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	t := f.Recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	if index, ok := t.(*ast.IndexExpr); ok {
		t = index.X
	}
	if id, ok := t.(*ast.Ident); ok {
		return id.Name + "." + f.Name.Name
	}
	return f.Name.Name
}
