package jobtrail_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// block returns the first fenced block of a page after a text.
func block(t *testing.T, page, after, language string) string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(text), after)
	_, rest, fenced := strings.Cut(rest, "```"+language+"\n")
	code, _, closed := strings.Cut(rest, "```\n")
	if !ok || !fenced || !closed {
		t.Fatalf("%s has no block of %s after %q", page, language, after)
	}
	return code
}

// TestExamplesInGoBuild builds what the pages show.
func TestExamplesInGoBuild(t *testing.T) {
	readme := block(t, "README.md", "## In Go", "go")
	for name, code := range map[string]string{
		"README.md": readme,
		"docs/handlers.md, policy": fmt.Sprintf(`package main
import ("context"; "time"; "github.com/jobtrail/jobtrail/pkg/retrytopics"; "github.com/jobtrail/jobtrail/pkg/worker")
func main() {
charge := worker.HandlerFunc(func(context.Context, *worker.Job) error { return nil })
%s
_, _ = worker.New(worker.Config{Types: types}, worker.Deps{})
}`, block(t, "docs/handlers.md", "<!-- example: policy -->", "go")),
	} {
		file := filepath.Join(t.TempDir(), "main.go")
		if err := os.WriteFile(file, []byte(code), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", os.DevNull, file).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
	// Two workers of one group must run the same types: the program has a group and
	// a topic of its own.
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	story, _, _ := strings.Cut(string(text), "## In Go")
	for _, m := range regexp.MustCompile(`Group: "(\w+)", Topics: \[\]string\{"([\w.]+)"`).FindAllStringSubmatch(readme, -1) {
		if strings.Contains(story, "--group "+m[1]+" ") || strings.Contains(story, "--topic "+m[2]+" ") {
			t.Errorf("the program shares group %s or topic %s with the story's worker", m[1], m[2])
		}
	}
	if !strings.Contains(readme, "Group: ") {
		t.Error("the program names no group")
	}
}
