package sanitize

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// samplesPerClass is how many texts are generated for every class.
const samplesPerClass = 3000

// A sample is a text with a secret in it.
type sample struct{ text, secret string }

// A generator makes samples of one class, of which at least the share recall
// must be redacted.
type generator struct {
	class  string
	recall float64
	make   func(r *rand.Rand) sample
}

// frames are what stands around a secret. Each holds one %s.
var frames = []string{
	"%s", "%s failed", "dial: %s: i/o timeout", "error (%s)", "got [%s], retrying", `parsing "%s": invalid syntax`,
	"line one\nline two %s\nline three", "a=1 %s b=2", "<%s>", "see %s.", "attempt 3 of 5: %s, next in 2s", "{%s}",
	`msg="%s" level=error`, "%s; %s", "\u00fcber %s \u2026", "\t%s\r\n",
}

func framed(r *rand.Rand, s string) string {
	frame := frames[r.IntN(len(frames))]
	if strings.Count(frame, "%s") == 2 {
		return fmt.Sprintf(frame, s, s)
	}
	return fmt.Sprintf(frame, s)
}

func pick[T any](r *rand.Rand, of []T) T { return of[r.IntN(len(of))] }

// draw returns n characters of an alphabet.
func draw(r *rand.Rand, n int, alphabet string) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = alphabet[r.IntN(len(alphabet))]
	}
	return string(b)
}

const (
	lowerLetters = "abcdefghijklmnopqrstuvwxyz"
	upperLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	digitChars   = "0123456789"
	alnumChars   = lowerLetters + upperLetters + digitChars
)

// leaks reports whether a part of the secret of least bytes is in out. Parts
// that the text also holds elsewhere do not count.
func leaks(out string, s sample, least int) bool {
	rest := strings.ReplaceAll(s.text, s.secret, "\x00")
	if len(s.secret) < least {
		return strings.Contains(out, s.secret) && !strings.Contains(rest, s.secret)
	}
	for k := 0; k+least <= len(s.secret); k++ {
		if part := s.secret[k : k+least]; strings.Contains(out, part) && !strings.Contains(rest, part) {
			return true
		}
	}
	return false
}

// TestGenerated prints how many of the generated samples of every class are
// redacted, and fails below the share that the class must reach.
func TestGenerated(t *testing.T) {
	var report strings.Builder
	fmt.Fprintf(&report, "\n%-14s %8s %8s %9s %9s\n", "class", "samples", "missed", "recall", "required")
	for _, g := range generators() {
		r := rand.New(rand.NewPCG(5, uint64(len(g.class))))
		missed := 0
		for range samplesPerClass {
			s := g.make(r)
			least := 4
			if g.class == "card" || g.class == "phone" || g.class == "iban" {
				least = 6
			}
			out := Clean(s.text).String()
			if !leaks(out, s, least) {
				continue
			}
			if missed++; missed <= 8 && g.recall == 1 {
				t.Errorf("%s\n secret %q\n in  %q\n out %q", g.class, s.secret, s.text, out)
			}
		}
		recall := 1 - float64(missed)/samplesPerClass
		fmt.Fprintf(&report, "%-14s %8d %8d %8.2f%% %8.2f%%\n", g.class, samplesPerClass, missed, 100*recall, 100*g.recall)
		if recall < g.recall {
			t.Errorf("%s: %d of %d missed", g.class, missed, samplesPerClass)
		}
	}
	t.Log(report.String())
}
