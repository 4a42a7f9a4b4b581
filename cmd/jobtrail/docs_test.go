package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// TestCLIDocs holds docs/cli.md against the command line: every verb has its
// section with its flags, and the examples are what the verbs print.
func TestCLIDocs(t *testing.T) {
	page, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(page)
	parser, err := newParser(&Globals{Stdout: os.Stdout, Stderr: os.Stderr}, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	for _, leaf := range parser.Model.Leaves(true) {
		begin := "<!-- verb: " + leaf.Path() + " -->\n"
		want := reference(leaf)
		_, rest, ok := strings.Cut(text, begin)
		got, _, closed := strings.Cut(rest, "<!-- end -->")
		if !ok || !closed {
			t.Errorf("docs/cli.md has no section of the verb; it should hold\n%s%s<!-- end -->", begin, want)
		} else if got != want {
			t.Errorf("docs/cli.md differs from the code.\ngot:\n%s\nwant:\n%s%s<!-- end -->", got, begin, want)
		}
	}
	for name, example := range map[string]string{"topics plan": wantPlan, "queue list": wantQueues, "dlq show": wantShow, "doctor": wantNoServers} {
		if !strings.Contains(text, "```text\n"+example+"```\n") {
			t.Errorf("docs/cli.md lacks the example of %s:\n```text\n%s```", name, example)
		}
	}
}

// reference returns the generated part of a verb's section.
func reference(leaf *kong.Node) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", strings.TrimSuffix(leaf.Help, "."))
	fmt.Fprintf(&b, "\n    jobtrail %s\n\n", leaf.Summary())
	b.WriteString("| argument or flag | default | meaning |\n|---|---|---|\n")
	cell := func(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
	for _, arg := range leaf.Positional {
		fmt.Fprintf(&b, "| `%s` |  | %s |\n", cell(arg.Summary()), cell(arg.Help))
	}
	for _, group := range leaf.AllFlags(true) {
		for _, flag := range group {
			if flag.Name == "help" {
				continue
			}
			name := "`--" + flag.Name + "`"
			if flag.Short != 0 {
				name = "`-" + string(flag.Short) + "`, " + name
			}
			value := ""
			if flag.HasDefault {
				value = "`" + flag.Default + "`"
			}
			if flag.Required {
				value = "required"
			}
			fmt.Fprintf(&b, "| %s | %s | %s |\n", name, cell(value), cell(flag.Help))
		}
	}
	return b.String()
}
