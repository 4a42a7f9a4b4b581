package sanitize

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/jobtrail/jobtrail/internal/planted"
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

// FuzzClean checks that the result is one line of valid UTF-8 within the cap,
// and stays as it is when it is cleaned again, in the default and in the strict
// mode, with secrets of the process and a class of its own.
func FuzzClean(f *testing.F) {
	seed(f)
	sanitizers := []*Sanitizer{New(Config{}), New(Config{
		Strict:  true,
		Secrets: []string{"kept-by-the-process", "a=b/c+d?e&f g"},
		Classes: []Class{{Name: "ticket", Find: findTicket}},
	})}
	f.Fuzz(func(t *testing.T, s string) {
		for _, z := range sanitizers {
			out := z.Clean(s).String()
			checkShape(t, s, out)
			if again := z.Clean(out).String(); again != out {
				t.Fatalf("not idempotent\n in  %q\n 1st %q\n 2nd %q", s, out, again)
			}
			if z.FailedClosed() != 0 {
				t.Fatalf("%q: failed closed", s)
			}
		}
	})
}

// findTicket finds "ticket" with what adjoins it.
func findTicket(text string, from int) (start, end int) {
	k := strings.Index(text[from:], "ticket")
	if k < 0 {
		return 0, 0
	}
	start = from + k
	for end = start; end < len(text) && text[end] > ' ' && text[end] != '['; end++ {
	}
	return start, end
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
	{"joined", func(v string) string { return errors.Join(errors.New("first"), errors.New("token="+v+"1aB")).Error() }},
	{"upper case", func(v string) string { return "CLIENT_SECRET=" + v + " sent" }},
	{"mixed case", func(v string) string { return "cLiEnT-SeCrEt: " + v + ", sent" }},
	{"quoted twice", func(v string) string { return fmt.Sprintf("%q", fmt.Sprintf("pwd=%q", v)) }},
	{"basic in json", func(v string) string {
		return `{"authorization":["Basic ` + base64.StdEncoding.EncodeToString([]byte("svc:"+v)) + `"]}`
	}},
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
			if strings.Contains(out, v) && !heldBy(v, before, after, before+" "+e.embed("")+" "+after) {
				t.Fatalf("%s: %q survived\n in  %q\n out %q", e.name, v, in, out)
			}
		}
	})
}

// FuzzErrors checks that a secret does not survive in an error of the standard
// library, alone, wrapped or joined, and that no error makes it panic.
func FuzzErrors(f *testing.F) {
	for _, v := range []string{"hunter2hunter", "Tr0ub4dor-x9", "p%40ss!word1"} {
		f.Add(v, "calling hook", "ok")
	}
	f.Fuzz(func(t *testing.T, v, before, other string) {
		if len(v) < 6 || len(v) > 100 || len(before) > 200 || len(other) > 200 || !plantable(v) || heldBy(v, before, other) {
			return
		}
		z := New(Config{})
		_, number := strconv.ParseInt(v, 10, 64)
		_, query := url.Parse("redis://svc:" + v + "@cache:6379/%zz")
		for _, err := range []error{
			number,
			query,
			errors.New("password=" + v),
			&url.Error{Op: "Get", URL: "https://svc:" + v + "@api.example.com/x?token=" + v, Err: errors.New(other)},
			&fs.PathError{Op: "open", Path: "/srv/" + v + "/data.csv", Err: fs.ErrNotExist},
			&net.DNSError{Err: "no such host", Name: "db1", Server: "10.0.0.2:53"},
			&net.OpError{Op: "dial", Net: "tcp", Err: errors.New("secret: " + v)},
			json.Unmarshal([]byte(`{"password":"`+v+`"`), new(any)),
		} {
			for _, whole := range []error{
				err, fmt.Errorf("%s: %w", before, err), errors.Join(errors.New(other), err), fmt.Errorf("%w, then %w", err, errors.New(other)),
			} {
				out := z.Error(whole).String()
				checkShape(t, before+other, out)
				if strings.Contains(out, v) {
					t.Fatalf("%q survived\n in  %q\n out %q", v, whole, out)
				}
			}
		}
		if z.FailedClosed() != 0 {
			t.Fatalf("%q: failed closed", v)
		}
	})
}

// FuzzKnown checks that a secret of the process survives in no form, whatever
// is around it.
func FuzzKnown(f *testing.F) {
	f.Add("correct horse battery", "dump ", " end")
	f.Add("a/b+c=d?e&f", "x", "y")
	f.Fuzz(func(t *testing.T, v, before, after string) {
		if len(v) < 6 || len(v) > 100 || len(before) > 200 || len(after) > 200 || normalise(v) != v || strings.TrimSpace(v) != v {
			return
		}
		z := New(Config{Secrets: []string{v}})
		quoted, _ := json.Marshal(v)
		for _, form := range []string{
			v, url.QueryEscape(v), url.PathEscape(v), url.QueryEscape(url.QueryEscape(v)), string(quoted[1 : len(quoted)-1]),
			base64.StdEncoding.EncodeToString([]byte(v)), base64.RawURLEncoding.EncodeToString([]byte(v)), hex.EncodeToString([]byte(v)),
		} {
			out := z.Clean(before + " " + form + " " + after).String()
			checkShape(t, before+form+after, out)
			if strings.Contains(out, form) && !heldBy(form, before, after, before+" "+after, marker) {
				t.Fatalf("%q survived as %q\n in  %q\n out %q", v, form, before+" "+form+" "+after, out)
			}
		}
	})
}

// FuzzOrder checks that a secret member of an object does not survive in any
// place among the others.
func FuzzOrder(f *testing.F) {
	f.Add("hunter2hunter", "user", "svc")
	f.Add("abcDEF123456", "n", "12")
	f.Add("abcd1234", "cvc", "00000000")
	f.Fuzz(func(t *testing.T, v, key, value string) {
		if len(v) < 6 || len(v) > 60 || !plantable(v) || len(key) > 60 || len(value) > 60 || strings.Trim(key+value, planted.Alnum+"-_. ") != "" ||
			strings.Contains(key, v) || strings.Contains(value, v) {
			return
		}
		secret, other := `"password":"`+v+`"`, `"`+key+`":"`+value+`"`
		for _, members := range [][]string{{secret, other}, {other, secret}, {other, secret, other}, {other, other, secret}} {
			in := "got {" + strings.Join(members, ",") + "}"
			if out := Clean(in).String(); strings.Contains(out, v) {
				t.Fatalf("%q survived\n in  %q\n out %q", v, in, out)
			}
		}
	})
}

// heldBy reports whether one of the texts holds v by itself. What a text may
// show depends on what comes before it: an escape sequence takes its beginning.
func heldBy(v string, texts ...string) bool {
	for _, text := range texts {
		if strings.Contains(normalise(text), v) {
			return true
		}
	}
	return false
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
