package jobtrail_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestFailuresAreTried: what docs/guarantees.md promises of a failure names tests
// that exist, where it says they are.
func TestFailuresAreTried(t *testing.T) {
	const page = "docs/guarantees.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "<!-- failures -->\n")
	table, _, ok := strings.Cut(table, "<!-- end -->")
	if !ok {
		t.Fatalf("%s has no table of failures", page)
	}
	test := regexp.MustCompile(`\[(Test\w+)\]\(([^)]+)\)`)
	rows := 0
	for _, line := range strings.Split(strings.TrimSpace(table), "\n")[2:] {
		rows++
		cells := strings.Split(strings.Trim(line, "|"), "|")
		if len(cells) != 4 || strings.TrimSpace(cells[1]) == "" {
			t.Errorf("%s: a row does not have four cells with a promise: %s", page, line)
			continue
		}
		named := test.FindAllStringSubmatch(cells[3], -1)
		if len(named) == 0 {
			t.Errorf("%s: no test tries %s", page, cells[0])
		}
		for _, m := range named {
			file := filepath.Join("docs", filepath.FromSlash(m[2]))
			code, err := os.ReadFile(file)
			if err != nil {
				t.Errorf("%s: %v", page, err)
			} else if !strings.HasSuffix(file, "_test.go") || !strings.Contains(string(code), "\nfunc "+m[1]+"(t *testing.T) {") {
				t.Errorf("%s: there is no %s in %s", page, m[1], file)
			}
		}
		if rest := strings.TrimSpace(test.ReplaceAllString(cells[3], "")); rest != "" {
			t.Errorf("%s: %q is no link to a test", page, rest)
		}
	}
	if rows < 15 {
		t.Errorf("%s: only %d failures", page, rows)
	}
}
