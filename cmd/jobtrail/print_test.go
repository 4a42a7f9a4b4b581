package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"
)

// hostile is text that would act on a terminal: a title, a colour, a line that
// looks like the program's own, a right-to-left override, C1 controls, bytes
// that are no UTF-8.
const hostile = "a\x1b]0;t\x07\x1b[31m\r\nok\u202eb\u0085\u009b2J\x7f\xff\xfe\u200b\u2028ü漢"

func TestPrintable(t *testing.T) {
	want := `a\x1b]0;t\a\x1b[31m\r\nok\u202eb\u0085\u009b2J\x7f\xff\xfe\u200b\u2028ü漢`
	if got := printable(hostile); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	if got := printable("plain, ü � \\n"); got != "plain, ü � \\n" {
		t.Errorf("got %s", got)
	}
}

func TestTable(t *testing.T) {
	tab := newTable("NAME", "N", "WHAT")
	tab.add("a", "1", "x"+hostile[:3])
	tab.add("long", "", "")
	tab.add("ü", "1000", "z")
	var b bytes.Buffer
	if err := tab.print(&b); err != nil {
		t.Fatal(err)
	}
	want := "NAME     N  WHAT\n" +
		"a        1  xa\\x1b]\n" +
		"long     -  -\n" +
		"ü     1000  z\n"
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &b, want)
	}
}

func TestJSONIsSafeAndWhole(t *testing.T) {
	in := strings.ToValidUTF8(hostile, "") + "\U000e0001<&>"
	var b bytes.Buffer
	if err := printJSON(&b, map[string]string{"k": in}); err != nil {
		t.Fatal(err)
	}
	for _, r := range b.String() {
		if r != '\n' && !unicode.IsPrint(r) {
			t.Errorf("%U in the output %s", r, &b)
		}
	}
	var out map[string]string
	if err := json.Unmarshal(b.Bytes(), &out); err != nil || out["k"] != in {
		t.Errorf("got %q, %v; want %q", out["k"], err, in)
	}
}

func TestWrap(t *testing.T) {
	got := wrap("note: ", "      ", strings.Repeat("word ", 30)+strings.Repeat("x", 120)+" end")
	for i, line := range strings.Split(strings.TrimSuffix(got, "\n"), "\n") {
		if len(line) > 100 && !strings.Contains(line, "xxx") {
			t.Errorf("line %d has %d columns", i, len(line))
		}
	}
	if strings.Join(strings.Fields(got), " ") != "note: "+strings.Repeat("word ", 30)+strings.Repeat("x", 120)+" end" {
		t.Errorf("words were lost: %s", got)
	}
}
