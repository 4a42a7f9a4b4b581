package sanitize

import (
	"strings"
	"testing"
)

// A row is a text and what is left of it.
type row struct{ in, want string }

// checkClass holds one class against texts that it changes and texts that must
// stay. Every text is also tried on a line between others, inside brackets,
// with an invisible character before it, and a second time.
func checkClass(t *testing.T, k class, changed []row, kept []string) {
	t.Helper()
	for _, r := range changed {
		check(t, r.in, r.want)
		_, found := zero.Explain(r.in)
		named := false
		for _, f := range found {
			named = named || f.Class == k.String()
		}
		if !named {
			t.Errorf("%q: found %v, want %s", r.in, found, k)
		}
		for _, tail := range []string{"", "\nlast line"} {
			if tail != "" && toEnd(k, r) {
				continue
			}
			check(t, "first line\r\n"+r.in+tail, `first line\n`+r.want+strings.ReplaceAll(tail, "\n", `\n`))
			check(t, "\u200b"+r.in+tail, r.want+strings.ReplaceAll(tail, "\n", `\n`))
		}
	}
	for _, text := range kept {
		check(t, text, text)
		check(t, "first line\n"+text+"\nlast line", `first line\n`+text+`\nlast line`)
		check(t, "("+text+")", "("+text+")")
	}
}

// toEnd reports whether the redaction of a row reaches to the end of the text,
// so that nothing can follow it.
func toEnd(k class, r row) bool {
	return k == classBody && strings.HasSuffix(r.want, marker) || k == classPEM && !strings.Contains(r.in, "-----END") && r.want == marker
}

func check(t *testing.T, in, want string) {
	t.Helper()
	got := Clean(in).String()
	if got != want {
		t.Errorf("\n in   %q\n got  %q\n want %q", in, got, want)
	}
	if again := Clean(got).String(); again != got {
		t.Errorf("%q: again %q, then %q", in, got, again)
	}
}
