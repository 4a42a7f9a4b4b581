package sanitize

import (
	"math/rand/v2"
	"strings"
	"testing"
)

func TestNormalise(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"plain", "job 7: refused (3/5)", "job 7: refused (3/5)"},
		{"line feed", "a\nb", `a\nb`},
		{"carriage return", "a\rb", `a\nb`},
		{"both", "a\r\nb", `a\nb`},
		{"other breaks", "a\u0085b\u2028c\u2029d\ve\ff", `a\nb\nc\nd\ne\nf`},
		{"tab", "a\tb", "a b"},
		{"wide blanks", "a\u00a0b\u3000c", "a b c"},
		{"controls", "a\x00b\x07c\x7fd\u0081e", "abcde"},
		{"colour", "\x1b[31mred\x1b[0m", "red"},
		{"cursor", "a\x1b[2J\x1b[1;1Hb", "ab"},
		{"cursor style", "a\x1b[2 q b", "a b"},
		{"8 bit", "a\u009b31mb", "ab"},
		{"title", "a\x1b]0;owned\x07b", "ab"},
		{"title with ST", "a\x1b]0;owned\x1b\\b", "ab"},
		{"device control", "a\x1bP1$q\x1b\\b", "ab"},
		{"never ended", "a\x1b]0;rest", "a0;rest"},
		{"character set", "\x1b(Btext", "text"},
		{"reset", "\x1bc x", " x"},
		{"hides no word", "\x1bpassword \x1b[secret", "password secret"},
		{"escape at the end", "a\x1b", "a"},
		{"zero width", "pass\u200bw\u2060o\ufeffrd", "password"},
		{"direction", "a\u202eb\u2066c\u061cd", "abcd"},
		{"tags", "a\U000e0041b\u00adc", "abc"},
		{"full width", "\uff50\uff57\uff1d\uff11", "pw=1"},
		{"invalid", "a\xffb\xc3", "a\ufffdb\ufffd"},
		{"kept", "\u00fcber \u2026 \u65e5\u672c e\u0301", "\u00fcber \u2026 \u65e5\u672c e\u0301"},
		{"blanks", "a" + strings.Repeat(" ", 9) + "b", "a   b"},
		{"rules", strings.Repeat("=", 40) + "x" + strings.Repeat("-", 9), "========x--------"},
		{"letters", strings.Repeat("a", 40), strings.Repeat("a", 40)},
		{"hidden rule", strings.Repeat("=\u200b", 40), "========"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := normalise(tt.in); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if again := normalise(tt.want); again != tt.want {
				t.Errorf("again %q, want %q", again, tt.want)
			}
		})
	}
}

func TestCap(t *testing.T) {
	for n := MaxBytes - 40; n < MaxBytes+60; n++ {
		for _, unit := range []string{"a", "\u00e9", "\u65e5", "a b", "\n"} {
			in := strings.Repeat("x", n) + strings.Repeat(unit, 60)
			out := Clean(in).String()
			checkShape(t, in, out)
			if !strings.Contains(out, "…(+") {
				t.Fatalf("%d %q: nothing says that it was cut: %q", n, unit, out[len(out)-30:])
			}
			if strings.Count(out, `\`) != strings.Count(out, `\n`) {
				t.Fatalf("%d: half a line break in %q", n, out[len(out)-30:])
			}
		}
	}
	for n := MaxBytes - 120; n < MaxBytes+20; n++ {
		in := strings.Repeat("x", n) + " password=" + strings.Repeat("y1", 300) + " z"
		out := Clean(in).String()
		if strings.Contains(out, "y1") || strings.Count(out, "[") != strings.Count(out, "]") || len(out) > MaxBytes {
			t.Fatalf("%d: %q", n, out[len(out)-60:])
		}
	}
	if got := Clean(strings.Repeat("x", MaxBytes)).String(); len(got) != MaxBytes {
		t.Errorf("%d bytes of what fits", len(got))
	}
}

func TestStrictAddress(t *testing.T) {
	z := New(Config{Strict: true})
	for in, want := range map[string]string{
		"write to bob at example dot com":    "write to [REDACTED]",
		"bob.x at mail dot example dot org,": "[REDACTED],",
		"at noon":                            "at noon",
		"look at example":                    "look at example",
	} {
		if got := z.Clean(in).String(); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func TestExtraClasses(t *testing.T) {
	find := func(word string) func(string, int) (int, int) {
		return func(text string, from int) (int, int) {
			k := strings.Index(text[from:], word)
			if k < 0 {
				return 0, 0
			}
			return from + k, from + k + len(word)
		}
	}
	z := New(Config{Classes: []Class{{Name: "badge", Find: find("B-17")}, {Find: find("zebra")}}})
	text, found := z.Explain("zebra B-17 and B-17 of jane@" + "example.org")
	if want := "[REDACTED] [REDACTED] and [REDACTED] of [REDACTED]"; text.String() != want {
		t.Errorf("got %q, want %q", text, want)
	}
	want := []Finding{{"extra", 0, 5}, {"badge", 6, 10}, {"badge", 15, 19}, {"email", 23, 39}}
	if len(found) != len(want) {
		t.Fatalf("found %v", found)
	}
	for k := range want {
		if found[k] != want[k] {
			t.Errorf("found %v, want %v", found[k], want[k])
		}
	}
}

func TestFingerprint(t *testing.T) {
	same := [][]string{
		{"job 17 failed after 2.5s", "job 4 failed after 10s"},
		{"run 018f6e2a-7c1d-7b3e-9f00-2f6f0c9f1a77 lost", "run 118f6e2a-7c1d-7b3e-9f00-2f6f0c9f1a78 lost"},
		{"dial tcp 10.0.0.5:5432: refused", "dial tcp 10.0.0.17:5433: refused"},
		{"user jane@" + "example.org", "user bob@" + "example.com"},
	}
	seen := map[uint64]string{}
	for _, texts := range same {
		first := Fingerprint(Clean(texts[0]))
		for _, text := range texts {
			if got := Fingerprint(Clean(text)); got != first || got == 0 {
				t.Errorf("%q: %x, want %x", text, got, first)
			}
		}
		if other := seen[first]; other != "" {
			t.Errorf("%q and %q have one fingerprint", texts[0], other)
		}
		seen[first] = texts[0]
	}
	if Fingerprint(Text{}) != 0 {
		t.Error("the empty text has a fingerprint")
	}
	if Fingerprint(Clean("file not found")) == Fingerprint(Clean("host not found")) {
		t.Error("different templates have one fingerprint")
	}
}

// plain looks at eight bytes at a time.
func TestPlainIsWhatNormaliseLeaves(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	pieces := []string{" ", "  ", "   ", "    ", "a", "ll", "aaaa", strings.Repeat("z", 20), "--------", "---------", "....", "==", "~", "!", "\x1f", "\x7f", "\x80", "é", "\n", "word", "two words", "12345678"}
	changed := 0
	for range 20000 {
		var b strings.Builder
		for range r.IntN(12) {
			if r.IntN(3) == 0 {
				b.WriteString(pieces[r.IntN(len(pieces))])
			} else {
				b.WriteString("x y") // left alone: the others would decide every text
			}
		}
		s := b.String()
		var n normaliser
		for i := range len(s) {
			n.put(s[i])
		}
		want := n.out.String() == s && strings.IndexFunc(s, func(c rune) bool { return c < ' ' || c > '~' }) < 0
		if !want {
			changed++
		}
		if plain(s) != want {
			t.Fatalf("plain(%q) is %v", s, !want)
		}
	}
	if changed < 2000 || changed > 18000 {
		t.Errorf("%d of 20000 are changed: too few or too many to say anything", changed)
	}
}
