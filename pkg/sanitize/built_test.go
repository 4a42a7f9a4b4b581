package sanitize

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/jobtrail/jobtrail/internal/planted"
)

// TestBuiltRows holds the rows of the case files that are built at run time.
func TestBuiltRows(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		if got := Clean("push failed: " + "ghp_" + planted.Draw(r, 36, planted.Alnum)).String(); got != "push failed: [REDACTED]" { // E22
			t.Fatalf("got %q", got)
		}
		dashes := planted.Alnum + "-_"
		for _, token := range []string{ // E23
			"glpat-" + planted.Draw(r, 20, dashes), "xoxb-" + planted.Draw(r, 12, planted.Digits) + "-" + planted.Draw(r, 12, planted.Digits) + "-" + planted.Draw(r, 24, planted.Alnum),
			"sk_live_" + planted.Draw(r, 24, planted.Alnum), "AIza" + planted.Draw(r, 35, dashes), "ya29." + planted.Draw(r, 80, dashes), "npm_" + planted.Draw(r, 36, planted.Alnum),
			"SG." + planted.Draw(r, 22, dashes) + "." + planted.Draw(r, 43, dashes), "hvs." + planted.Draw(r, 24, dashes), "pypi-" + planted.Draw(r, 120, dashes),
		} {
			for _, frame := range []string{"a (%s) b", `a "%s" b`, "a %s, b", "a %s"} {
				want := fmt.Sprintf(frame, marker)
				if got := Clean(fmt.Sprintf(frame, token)).String(); got != want {
					t.Fatalf("token %q: got %q, want %q", token, got, want)
				}
			}
		}
	}
}

// longLimit is what row E57 allows for 10 MB.
const longLimit = 2 * time.Millisecond

// TestLongText is row E57: a secret across every cut position of 10 MB. Of
// several runs the fastest counts, because other work disturbs them.
func TestLongText(t *testing.T) {
	secret := "AKIA" + "QWERTYUIOPASDFGH"
	filler := strings.Repeat("a", 10<<20)
	slowest := time.Duration(0)
	for _, at := range []int{MaxBytes, maxLook, maxLook - lookAhead, MaxBytes - suffixRoom} {
		for shift := -25; shift <= 5; shift++ {
			text := filler[:at+shift-1] + " " + secret + " " + filler[at:]
			best := time.Hour
			var out string
			for run := 0; run < 3 || run < 40 && best > longLimit; run++ {
				start := time.Now()
				out = Clean(text).String()
				best = min(best, time.Since(start))
			}
			slowest = max(slowest, best)
			if len(out) > MaxBytes || strings.Contains(out, "AKI") || strings.Contains(out, "QWE") {
				t.Fatalf("at %d: %d bytes, %q", at+shift, len(out), out[len(out)-60:])
			}
			if best > longLimit {
				t.Errorf("at %d: took %v", at+shift, best)
			}
		}
	}
	t.Logf("10 MB take %v at most", slowest)
	// All before the cut is redacted, so that what follows would be shown.
	text := strings.Repeat("password="+strings.Repeat("x1", 100)+" ", 200)
	for cut := maxLook - 40; cut <= maxLook+2; cut++ {
		if out := Clean(text[:cut] + " " + secret + " tail").String(); strings.Contains(out, "AKI") {
			t.Fatalf("cut %d: %q", cut, out)
		}
	}
}

// TestScalar is row E59: a number that an error holds is scanned as text.
func TestScalar(t *testing.T) {
	if got := Clean(strconv.FormatInt(4111111111111111, 10)).String(); got != marker {
		t.Errorf("got %q", got)
	}
}

// TestKnown is row E60 and its neighbours.
func TestKnown(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for n := 6; n < 60; n++ {
		value := planted.Draw(r, n, planted.Alnum+"!$%&/ =?+\"\\\u00a7<>")
		value = strings.ToValidUTF8(value, "x")
		if strings.TrimSpace(value) != value {
			value = "v" + value + "v"
		}
		z := New(Config{Secrets: []string{"", "short", value, value}})
		quoted, _ := json.Marshal(value)
		for name, form := range map[string]string{
			"plain": value, "query": url.QueryEscape(value), "path": url.PathEscape(value), "twice": url.QueryEscape(url.QueryEscape(value)),
			"json": string(quoted[1 : len(quoted)-1]), "go": strconv.Quote(value)[1 : len(strconv.Quote(value))-1],
			"base64": base64.StdEncoding.EncodeToString([]byte(value)), "base64 raw": base64.RawStdEncoding.EncodeToString([]byte(value)),
			"base64 url": base64.URLEncoding.EncodeToString([]byte(value)), "hex": fmt.Sprintf("%x", value),
		} {
			if got := z.Clean("dump " + form + " end").String(); got != "dump [REDACTED] end" {
				t.Errorf("%s of %q: got %q", name, value, got)
			}
		}
		for shift := range 3 {
			inner := strings.Repeat("u", 3+shift) + ":" + value + "!"
			whole := base64.StdEncoding.EncodeToString([]byte(inner))
			if got := z.Clean("dump " + whole + " end").String(); !strings.Contains(got, marker) {
				t.Errorf("base64 of %q: got %q", inner, got)
			}
		}
	}
	if got := New(Config{Secrets: []string{"short"}}).Clean("a short text").String(); got != "a short text" {
		t.Errorf("got %q", got)
	}
}

// TestBrokerErrors is row N15: every message of the broker survives.
func TestBrokerErrors(t *testing.T) {
	n := 0
	for code := int16(-1); code < 200; code++ {
		err := kerr.ErrorForCode(code)
		if err == nil {
			continue
		}
		n++
		for _, text := range []string{err.Error(), fmt.Sprintf("producing to jobs-1: %v", err)} {
			if got := Clean(text).String(); got != text {
				t.Errorf("in  %q\ngot %q", text, got)
			}
		}
	}
	if n < 100 {
		t.Errorf("only %d errors", n)
	}
}
