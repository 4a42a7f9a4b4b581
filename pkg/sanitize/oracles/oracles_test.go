// Package oracles compares the sanitiser with detectors and generators that
// know nothing of it. It is a module of its own, so that nothing of them gets
// into the module of the project.
package oracles

import (
	"fmt"
	"regexp/syntax"
	"strings"
	"testing"
	"time"

	"github.com/brianvoe/gofakeit/v7"
	"github.com/rs/zerolog"
	"github.com/zricethezav/gitleaks/v8/cmd/generate/config/utils"
	"github.com/zricethezav/gitleaks/v8/cmd/generate/secrets"
	"github.com/zricethezav/gitleaks/v8/detect"
	"github.com/zricethezav/gitleaks/v8/logging"

	"github.com/jobtrail/jobtrail/pkg/sanitize"
)

func newDetector(t testing.TB) *detect.Detector {
	t.Helper()
	logging.Logger = logging.Logger.Level(zerolog.Disabled) // it prints what it finds
	d, err := detect.NewDetectorDefaultConfig()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestGitleaks makes samples of every rule of gitleaks that has a pattern. What
// gitleaks finds in a sample must not be in the sanitised sample, and it must
// find nothing there.
func TestGitleaks(t *testing.T) {
	const perRule = 10
	d := newDetector(t)
	samples, found, missed := 0, 0, 0
	missedRules := map[string]int{}
	for id, rule := range d.Config.Rules {
		if rule.Regex == nil {
			continue
		}
		for range perRule {
			secret := newSecret(secretPattern(rule.Regex.String()))
			if len(secret) < 8 {
				break
			}
			name, _, _ := strings.Cut(id, "-")
			for _, text := range append(utils.GenerateSampleSecrets(name, secret), secret) {
				samples++
				hits := d.DetectString(text)
				if len(hits) == 0 {
					continue
				}
				found++
				out := sanitize.Clean(text).String()
				for _, hit := range hits {
					if leaked(out, text, hit.Secret) {
						missed++
						if missedRules[hit.RuleID]++; missedRules[hit.RuleID] <= 2 {
							t.Logf("%s: in %.200q out %.200q", hit.RuleID, text, out)
						}
						break
					}
				}
			}
		}
	}
	t.Logf("gitleaks: %d rules, %d samples, finds %d, of which %d (%.2f %%) remain", len(d.Config.Rules), samples, found, missed, 100*float64(missed)/float64(found))
	t.Logf("remaining by rule: %v", missedRules)
	if found < 2000 || missed*100 > found {
		t.Errorf("%d of %d remain", missed, found)
	}
}

// secretPattern returns the part of a rule's pattern that matches the secret
// alone: its first group, if it has one.
func secretPattern(pattern string) string {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return ""
	}
	var group func(re *syntax.Regexp) *syntax.Regexp
	group = func(re *syntax.Regexp) *syntax.Regexp {
		if re.Op == syntax.OpCapture && re.Cap == 1 {
			return re.Sub[0]
		}
		for _, sub := range re.Sub {
			if found := group(sub); found != nil {
				return found
			}
		}
		return nil
	}
	if found := group(re); found != nil {
		return found.String()
	}
	return pattern
}

// newSecret returns a text that matches pattern, or "" where the generator
// cannot make one.
func newSecret(pattern string) (text string) {
	defer func() {
		if recover() != nil {
			text = ""
		}
	}()
	return folded.Replace(secrets.NewSecret(pattern))
}

// folded undoes the characters that a case-insensitive pattern of Go matches
// besides ASCII.
var folded = strings.NewReplacer("\u017f", "s", "\u212a", "k", "\n", "", "\r", "", "\f", "", "\v", "", "\t", "")

// leaked reports whether 8 bytes in a row of the secret are in out that the
// text does not hold elsewhere too.
func leaked(out, text, secret string) bool {
	rest := strings.ReplaceAll(text, secret, " ")
	for k := 0; k+8 <= len(secret); k++ {
		if part := secret[k : k+8]; strings.Contains(out, part) && !strings.Contains(rest, part) {
			return true
		}
	}
	return len(secret) < 8 && strings.Contains(out, secret)
}

// TestFaker cleans personal data of an independent generator.
func TestFaker(t *testing.T) {
	const samples = 3000
	f := gofakeit.New(7)
	for _, class := range []struct {
		name   string
		recall float64
		make   func() (text, secret string)
	}{
		{"email", 1, func() (string, string) { v := f.Email(); return "user " + v + " not found", v }},
		{"card", 1, func() (string, string) {
			v := f.CreditCardNumber(&gofakeit.CreditCardOptions{Types: []string{"visa", "mastercard", "american-express", "diners-club", "discover"}})
			return "charging " + v + ": declined", v
		}},
		{"card with gaps", 1, func() (string, string) {
			v := f.CreditCardNumber(&gofakeit.CreditCardOptions{Types: []string{"visa", "mastercard", "american-express", "discover"}, Gaps: true})
			return "charging " + v + ": declined", v
		}},
		{"phone", 0.97, func() (string, string) { v := f.PhoneFormatted(); return "call to phone " + v + " failed", v }},
		{"bare phone", 0.97, func() (string, string) { v := f.Phone(); return "SMS to " + v + " bounced", v }},
		{"ssn", 0.99, func() (string, string) {
			v := f.SSN()
			return "ssn " + v[:3] + "-" + v[3:5] + "-" + v[5:] + " mismatch", v[:3] + "-" + v[3:5] + "-" + v[5:]
		}},
		{"password", 1, func() (string, string) {
			v := f.Password(true, true, true, false, false, 14)
			return "login failed: password=" + v + " user=bob", v
		}},
		{"uuid token", 1, func() (string, string) { v := f.UUID(); return "refused token: " + v, v }},
	} {
		missed := 0
		for range samples {
			text, secret := class.make()
			if out := sanitize.Clean(text).String(); leaked(out, text, secret) {
				if missed++; missed <= 3 {
					t.Logf("%s: in %q out %q", class.name, text, out)
				}
			}
		}
		recall := 1 - float64(missed)/samples
		t.Logf("%-16s %5d samples %5d missed %7.2f %%", class.name, samples, missed, 100*recall)
		if recall < class.recall {
			t.Errorf("%s: recall %.4f, want %.4f", class.name, recall, class.recall)
		}
	}
}

// TestFasterThanGitleaks compares both on the same text in the same run.
func TestFasterThanGitleaks(t *testing.T) {
	d := newDetector(t)
	text := strings.Repeat("api key rejected, token expired, secret missing: password policy; auth key auth token access key ", 4)[:300]
	best := func(work func()) time.Duration {
		least := time.Hour
		for range 40 {
			start := time.Now()
			for range 20 {
				work()
			}
			least = min(least, time.Since(start)/20)
		}
		return least
	}
	theirs := best(func() { d.DetectString(text) })
	ours := best(func() { sanitize.Clean(text) })
	t.Logf("%s", fmt.Sprintf("300 bytes rich in key words: gitleaks %v, sanitize %v, %.0f times", theirs, ours, float64(theirs)/float64(ours)))
	if theirs < 10*ours {
		t.Errorf("only %.1f times faster", float64(theirs)/float64(ours))
	}
}
