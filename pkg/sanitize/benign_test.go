package sanitize

import (
	"bytes"
	"encoding/json"
	goscanner "go/scanner"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestBenign cleans every error and log text in the sources of Go, of this
// module and of the modules it is built from. At most one in a thousand may
// change. Templates with verbs are left out: they are no messages.
func TestBenign(t *testing.T) {
	texts := map[string]bool{}
	for _, root := range sourceRoots(t) {
		collectTexts(t, root, texts)
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

// sourceRoots returns the folders of the standard library and of all modules
// of the build.
func sourceRoots(t *testing.T) []string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-json", "all").Output()
	if err != nil {
		t.Fatal(err)
	}
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	roots := []string{filepath.Join(strings.TrimSpace(string(goroot)), "src")}
	for dec := json.NewDecoder(bytes.NewReader(out)); dec.More(); {
		var m struct{ Dir string }
		if err := dec.Decode(&m); err != nil {
			t.Fatal(err)
		}
		if m.Dir != "" {
			roots = append(roots, m.Dir)
		}
	}
	return roots
}

// collectTexts adds the constant texts that are given to functions with names
// like Errorf, Fatal, Warn, Panic, Wrap or New below root.
func collectTexts(t *testing.T, root string, texts map[string]bool) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() == "testdata" && d.IsDir() {
			if err == nil {
				err = fs.SkipDir
			}
			return err
		}
		if filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		addTexts(source, texts)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

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
