package sanitize

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

// unescape undoes the escapes that the head of a case file describes.
func unescape(t testing.TB, s string) string {
	t.Helper()
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		digits := 0
		switch s[i] {
		case 'n':
			b.WriteByte('\n')
		case 'r':
			b.WriteByte('\r')
		case 't':
			b.WriteByte('\t')
		case '\\':
			b.WriteByte('\\')
		case 'x':
			digits = 2
		case 'u':
			digits = 4
		default:
			t.Fatalf("unknown escape in %q", s)
		}
		if digits == 0 {
			continue
		}
		v, err := strconv.ParseUint(s[i+1:i+1+digits], 16, 32)
		if err != nil {
			t.Fatalf("escape in %q: %v", s, err)
		}
		if digits == 2 {
			b.WriteByte(byte(v))
		} else {
			b.WriteRune(rune(v))
		}
		i += digits
	}
	return b.String()
}

// readCases returns the rows of a case file that are not comments, split at
// tabs and unescaped.
func readCases(t testing.TB, name string, columns int) [][]string {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	var rows [][]string
	for line := range strings.SplitSeq(string(data), "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		row := strings.Split(line, "\t")
		if len(row) != columns {
			t.Fatalf("%s: %d columns in %q", name, len(row), line)
		}
		for i := range row {
			row[i] = unescape(t, row[i])
		}
		rows = append(rows, row)
	}
	if len(rows) < 40 {
		t.Fatalf("%s: %d rows", name, len(rows))
	}
	return rows
}

func TestRedactCases(t *testing.T) {
	for _, row := range readCases(t, "sanitize-redact.tsv", 3) {
		if got := Clean(row[1]).String(); got != row[2] {
			t.Errorf("%s\n in   %q\n got  %q\n want %q", row[0], row[1], got, row[2])
		}
	}
}

func TestSurviveCases(t *testing.T) {
	for _, row := range readCases(t, "sanitize-survive.tsv", 2) {
		if got := Clean(row[1]).String(); got != row[1] {
			t.Errorf("%s\n in   %q\n got  %q", row[0], row[1], got)
		}
	}
}
