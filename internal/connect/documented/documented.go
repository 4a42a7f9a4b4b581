// Package documented holds a command's environment variables against
// docs/configuration.md. It is for tests only.
package documented

import (
	"os"
	"strings"
	"testing"

	"github.com/jobtrail/jobtrail/internal/connect"
)

// Check fails t unless the page has, between the lines
// "<!-- variables: section -->" and "<!-- end -->", exactly the table of
// config's variables. page is a path relative to the test's folder.
func Check(t *testing.T, page, section string, config any) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatalf("reading the page: %v", err)
	}
	want := connect.Markdown(connect.Reference(config))
	_, rest, ok := strings.Cut(string(text), "<!-- variables: "+section+" -->\n")
	got, _, closed := strings.Cut(rest, "<!-- end -->")
	if !ok || !closed {
		t.Fatalf("%s has no section of variables %q; it should be:\n<!-- variables: %s -->\n%s<!-- end -->", page, section, section, want)
	}
	if got != want {
		t.Errorf("%s, section %q, differs from the code.\ngot:\n%s\nwant:\n%s", page, section, got, want)
	}
}
