package sanitize

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"
)

// seed gives a fuzz target all inputs of the case files.
func seed(f *testing.F) {
	for _, row := range readCases(f, "sanitize-redact.tsv", 3) {
		f.Add(row[1])
	}
	for _, row := range readCases(f, "sanitize-survive.tsv", 2) {
		f.Add(row[1])
	}
	for _, text := range hostile(2000) {
		f.Add(text)
	}
}

// checkShape fails when out is not one line of valid UTF-8 within the cap, or
// holds a character that normalise removes.
func checkShape(t *testing.T, in, out string) {
	t.Helper()
	if !utf8.ValidString(out) {
		t.Fatalf("%q: invalid UTF-8 in %q", in, out)
	}
	if len(out) > MaxBytes {
		t.Fatalf("%q: %d bytes", in, len(out))
	}
	for _, r := range out {
		if r < ' ' || r == 0x7F || r > 0x7F && r != utf8.RuneError && kindOf(r, utf8.RuneLen(r)) != keepRune {
			t.Fatalf("%q: %U in %q", in, r, out)
		}
	}
}

func FuzzClean(f *testing.F) {
	seed(f)
	z := New(Config{})
	f.Fuzz(func(t *testing.T, s string) {
		out := z.Clean(s).String()
		checkShape(t, s, out)
		if again := z.Clean(out).String(); again != out {
			t.Fatalf("not idempotent\n in  %q\n 1st %q\n 2nd %q", s, out, again)
		}
		if z.FailedClosed() != 0 {
			t.Fatalf("%q: failed closed", s)
		}
	})
}

// FuzzNoFabrication checks that what remains occurs in the input, in order.
func FuzzNoFabrication(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, s string) {
		if len(s) > MaxBytes/4 {
			return // no suffix about what was left out
		}
		rest := normalise(s)
		for part := range strings.SplitSeq(Clean(s).String(), marker) {
			k := strings.Index(rest, part)
			if k < 0 {
				t.Fatalf("%q is not in what is left of %q", part, normalise(s))
			}
			rest = rest[k+len(part):]
		}
	})
}

// An embedding puts a secret into a text.
type embedding struct {
	name  string
	embed func(secret string) string
}

var embeddings = []embedding{
	{"plain", func(v string) string { return "password=" + v }},
	{"quoted", func(v string) string { return fmt.Sprintf("password=%q", v) }},
	{"spaced", func(v string) string { return "the password = " + v + " was refused" }},
	{"colon", func(v string) string { return "PASSWORD: " + v }},
	{"camel", func(v string) string { return "dbPassword=" + v + ", next=1" }},
	{"json", func(v string) string { return `{"password":"` + v + `","a":1}` }},
	{"escaped json", func(v string) string { return `msg="{\"password\":\"` + v + `\"}"` }},
	{"marshalled", func(v string) string {
		inner, _ := json.Marshal(map[string]string{"client_secret": v})
		outer, _ := json.Marshal(string(inner))
		return string(outer)
	}},
	{"query", func(v string) string { return "GET /x?a=1&access_token=" + url.QueryEscape(v) + "&b=2" }},
	{"encoded", func(v string) string { return "next=" + url.QueryEscape("/x?api_key="+v+"&b=2") }},
	{"encoded twice", func(v string) string { return url.QueryEscape(url.QueryEscape("api_key=" + v)) }},
	{"basic", func(v string) string { return "basic " + base64.StdEncoding.EncodeToString([]byte("svc:"+v)) }},
	{"wrapped", func(v string) string { return fmt.Errorf("a: %w", fmt.Errorf("pwd=%s", v)).Error() }},
	{"next line", func(v string) string { return "first\nsecret: " + v + "\nlast" }},
	{"hidden", func(v string) string { return "pass\u200bword\u2060=" + v }},
	{"wide", func(v string) string { return "\uff50\uff41\uff53\uff53\uff57\uff4f\uff52\uff44\uff1d" + v }},
	{"coloured", func(v string) string { return "\x1b[1mpassword\x1b[0m=\x1b[31m" + v + "\x1b[0m" }},
	{"url", func(v string) string { return "dial amqp://svc:" + v + "@mq:5672/ failed" }},
	{"driver", func(v string) string { return "svc:" + v + "@tcp(db:3306)/app" }},
	{"header", func(v string) string { return "Authorization: Bearer " + v }},
	{"map", func(v string) string { return fmt.Sprint(map[string][]string{"Authorization": {"Bearer " + v}}) }},
	{"option", func(v string) string { return "run --password " + v + " --verbose" }},
	{"struct", func(v string) string {
		return fmt.Sprintf("%+v", struct{ User, Password string }{"svc", v})
	}},
}

// FuzzPlanted checks that a secret does not survive in any embedding.
func FuzzPlanted(f *testing.F) {
	for _, v := range []string{"hunter2hunter", "Tr0ub4dor-x9", "abcd1234", "zQ8/x+Yw7=", "p%40ss!word", "a-b_c.d~e"} {
		f.Add(v, "", "")
		f.Add(v, "dial: ", ": refused")
	}
	f.Fuzz(func(t *testing.T, v, before, after string) {
		if len(v) < 6 || len(v) > 100 || len(before) > 200 || len(after) > 200 || !plantable(v) {
			return
		}
		for _, e := range embeddings {
			in := before + " " + e.embed(v) + " " + after
			out := Clean(in).String()
			if elsewhere := normalise(before + " " + e.embed("") + " " + after); strings.Contains(out, v) && !strings.Contains(elsewhere, v) {
				t.Fatalf("%s: %q survived\n in  %q\n out %q", e.name, v, in, out)
			}
		}
	})
}

// plantable reports whether v can stand in every embedding without changing
// what is around it, and does not read as prose.
func plantable(v string) bool {
	if placeholder(v) || prose(v) {
		return false
	}
	digits, letters := 0, 0
	for i := range len(v) {
		switch c := v[i]; {
		case isDigit(c):
			digits++
		case isLetter(c):
			letters++
		case strings.IndexByte("-_.~!$*+/=", c) < 0 || i == 0 || i == len(v)-1:
			return false
		}
	}
	return digits > 0 && letters > 3
}
