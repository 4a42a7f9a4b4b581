package sanitize

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/jobtrail/jobtrail/internal/planted"
)

// samplesPerClass is how many texts are generated for every class.
const samplesPerClass = 3000

// leaks reports whether a part of the secret of least bytes is in out. Parts
// that the text also holds elsewhere do not count.
func leaks(out string, s planted.Sample, least int) bool {
	out = strings.ReplaceAll(out, marker, "\x00") // by chance a secret holds "REDA"
	rest := strings.ReplaceAll(s.Text, s.Secret, "\x00")
	if len(s.Secret) < least {
		return strings.Contains(out, s.Secret) && !strings.Contains(rest, s.Secret)
	}
	for k := 0; k+least <= len(s.Secret); k++ {
		if part := s.Secret[k : k+least]; strings.Contains(out, part) && !strings.Contains(rest, part) {
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
	for _, g := range planted.Classes() {
		r := rand.New(rand.NewPCG(5, uint64(len(g.Name))))
		missed := 0
		for range samplesPerClass {
			s := g.Make(r)
			least := 4
			if g.Name == "card" || g.Name == "phone" || g.Name == "iban" {
				least = 6
			}
			out := Clean(s.Text).String()
			if !leaks(out, s, least) {
				continue
			}
			if missed++; missed <= 8 && g.Recall == 1 {
				t.Errorf("%s\n secret %q\n in  %q\n out %q", g.Name, s.Secret, s.Text, out)
			}
		}
		recall := 1 - float64(missed)/samplesPerClass
		fmt.Fprintf(&report, "%-14s %8d %8d %8.2f%% %8.2f%%\n", g.Name, samplesPerClass, missed, 100*recall, 100*g.Recall)
		if recall < g.Recall {
			t.Errorf("%s: %d of %d missed", g.Name, missed, samplesPerClass)
		}
	}
	t.Log(report.String())
}
