package sanitize

import (
	goscanner "go/scanner"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestBenign cleans every error and log text in the sources of Go's standard
// library and of the packages that jobtrail is built from. At most one in a
// thousand may change. Templates with verbs are left out: they are no messages.
func TestBenign(t *testing.T) {
	texts := map[string]bool{}
	for _, dir := range packageDirs(t) {
		collectTexts(t, dir, texts)
	}
	changed := 0
	for text := range texts {
		if got := Clean(text).String(); got != text {
			if changed++; changed <= 40 {
				t.Logf("changed: %.160q to %.160q", text, got)
			}
		}
	}
	t.Logf("%d texts, %d changed (%.3f %%)", len(texts), changed, 100*float64(changed)/float64(len(texts)))
	if len(texts) < 5000 || changed*1000 > len(texts) {
		t.Errorf("%d of %d texts changed", changed, len(texts))
	}
}

// packageDirs returns the folders of the standard library's packages and of
// those of the build.
func packageDirs(t *testing.T) []string {
	t.Helper()
	out, err := exec.Command("go", "list", "-deps", "-f", "{{.Dir}}", "std", "cmd", "../../...").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(out))
}

// collectTexts adds the constant texts that are given to functions with names
// like Errorf, Fatal, Warn, Panic, Wrap or New in the files of dir.
func collectTexts(t *testing.T, dir string, texts map[string]bool) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		source, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !generated.Match(source) { // many megabytes, and no messages of their own
			addTexts(source, texts)
		}
	}
}

// generated is the line that go.dev/s/generatedcode asks for.
var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

// addTexts adds the texts of one source file: the literals between the brackets
// of a call whose function is named like one that takes a message.
func addTexts(source []byte, texts map[string]bool) {
	file := token.NewFileSet().AddFile("", -1, len(source))
	var sc goscanner.Scanner
	sc.Init(file, source, func(token.Position, string) {}, 0)
	name, depth := "", 0 // depth of brackets in such a call
	for {
		switch _, tok, lit := sc.Scan(); {
		case tok == token.EOF:
			return
		case tok == token.LPAREN && (depth > 0 || takesMessage(name)):
			depth++
		case tok == token.RPAREN && depth > 0:
			depth--
		case tok == token.STRING && depth > 0:
			addText(lit, texts)
		case tok == token.IDENT:
			name = lit
			continue
		}
		name = ""
	}
}

// takesMessage reports whether a function is named like one that takes a
// message.
func takesMessage(name string) bool {
	name = strings.ToLower(name)
	for _, part := range []string{"err", "fatal", "panic", "warn", "wrap", "info", "log"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return name == "new"
}

func addText(lit string, texts map[string]bool) {
	text, err := strconv.Unquote(lit)
	if err != nil || len(text) < 9 || len(text) > 900 || strings.ContainsAny(text, "%\n\r\t") || normalise(text) != text {
		return
	}
	texts[text] = true
}
