package events

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/jobtrail/jobtrail/pkg/sanitize"
)

// freeText are the free-text fields of the events.
var freeText = []string{"Error.Message", "JobResolved.Reason", "JobTerminal.Detail", "TransitionRejected.Detail", "GroupField.Value"}

// TestRawTextDoesNotCompile builds a program in which every line but the
// framing puts raw text into a free-text field, and wants an error on each of
// those lines and nowhere else. The same program with sanitised text builds.
func TestRawTextDoesNotCompile(t *testing.T) {
	var raw, clean []string
	for _, name := range freeText {
		typ, field, _ := strings.Cut(name, ".")
		for _, value := range []string{"s", `"text"`, "sanitize.Text(s)", "sanitize.Text{s}", "b", "err", "fmt.Sprint(s)"} {
			raw = append(raw, fmt.Sprintf("_ = events.%s{%s: %s}", typ, field, value))
		}
		clean = append(clean, fmt.Sprintf("_ = events.%s{%s: sanitize.Clean(s)}", typ, field))
	}
	if out, err := build(t, clean); err != nil {
		t.Fatalf("sanitised text does not build: %v\n%s", err, out)
	}
	out, err := build(t, raw)
	if err == nil {
		t.Fatal("raw text builds")
	}
	for n, line := range raw {
		if !strings.Contains(out, fmt.Sprintf("main.go:%d:", n+firstLine)) {
			t.Errorf("compiles: %s", line)
		}
	}
	if got := strings.Count(out, "main.go:"); got < len(raw) {
		t.Errorf("%d errors for %d lines:\n%s", got, len(raw), out)
	}
}

// firstLine is the number of the first line in the body of build's program.
const firstLine = 9

// build compiles a program with the given lines inside this module and returns
// the output of the compiler.
func build(t *testing.T, lines []string) (string, error) {
	t.Helper()
	dir := t.TempDir()
	source := "package main\nimport \"fmt\"\nimport \"github.com/jobtrail/jobtrail/pkg/events\"\n" +
		"import \"github.com/jobtrail/jobtrail/pkg/sanitize\"\nvar _ = fmt.Sprint\nvar _ sanitize.Text\nfunc main() {}\n" +
		"func body(s string, b []byte, err error) {\n" + strings.Join(lines, "\n") + "\n}\n"
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	here, err := filepath.Abs("rawtext")
	if err != nil {
		t.Fatal(err)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(here, "main.go"): filepath.Join(dir, "main.go")}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "build", "-overlay", filepath.Join(dir, "overlay.json"), "-gcflags=-e", "-o", filepath.Join(dir, "out"), "./rawtext")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestFreeTextIsListed finds the fields of type sanitize.Text in all events, so
// that a new one is tested too.
func TestFreeTextIsListed(t *testing.T) {
	found := map[string]bool{}
	seen := map[reflect.Type]bool{}
	var visit func(reflect.Type)
	visit = func(typ reflect.Type) {
		for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice {
			typ = typ.Elem()
		}
		if typ.Kind() != reflect.Struct || seen[typ] {
			return
		}
		seen[typ] = true
		for f := range typ.Fields() {
			if f.Type == reflect.TypeFor[sanitize.Text]() {
				found[typ.Name()+"."+f.Name] = true
			} else {
				visit(f.Type)
			}
		}
	}
	for _, body := range []any{
		AttemptStarted{}, AttemptFinished{}, AttemptAbandoned{}, StepCompleted{}, JobDeferred{}, JobParked{}, JobResolved{}, JobTerminal{},
		JobRedriven{}, DuplicateSeen{}, TransitionRejected{}, Checkpoint{}, GroupEvent{}, DedupPage{}, Event{},
	} {
		visit(reflect.TypeOf(body))
	}
	for _, name := range freeText {
		if !found[name] {
			t.Errorf("%s is no free text", name)
		}
		delete(found, name)
	}
	for name := range found {
		t.Errorf("%s is free text and not in the list", name)
	}
}
