package sanitize

import (
	"hash/fnv"
	"strings"
	"unicode/utf8"
)

// Config configures a Sanitizer. The zero Config is ready to use.
type Config struct {
	// Secrets are values of this process that must never be written down.
	Secrets []string
}

// A Sanitizer turns free text into Text. It is safe for concurrent use.
type Sanitizer struct{ secrets []string }

// New returns a Sanitizer.
func New(cfg Config) *Sanitizer { return &Sanitizer{secrets: cfg.Secrets} }

// Clean returns s with everything removed that must not be written down.
func (z *Sanitizer) Clean(s string) Text {
	for _, secret := range z.secrets {
		if secret != "" {
			s = strings.ReplaceAll(s, secret, "[REDACTED]")
		}
	}
	s = strings.NewReplacer("\r\n", `\n`, "\n", `\n`, "\r", `\n`).Replace(strings.ToValidUTF8(s, "\uFFFD"))
	if len(s) > MaxBytes {
		cut := MaxBytes
		for !utf8.RuneStart(s[cut]) {
			cut--
		}
		s = s[:cut]
	}
	return Text{s}
}

// Error returns the sanitised message of err, the empty Text for nil.
func (z *Sanitizer) Error(err error) Text {
	if err == nil {
		return Text{}
	}
	return z.Clean(err.Error())
}

// Fingerprint returns a number that is equal for texts of one template.
func (z *Sanitizer) Fingerprint(t Text) uint64 {
	if t.s == "" {
		return 0
	}
	h := fnv.New64a()
	h.Write([]byte(t.s))
	return h.Sum64()
}

var zero = New(Config{})

// Clean is Sanitizer.Clean of the zero configuration.
func Clean(s string) Text { return zero.Clean(s) }

// Error is Sanitizer.Error of the zero configuration.
func Error(err error) Text { return zero.Error(err) }

// Fingerprint is Sanitizer.Fingerprint of the zero configuration.
func Fingerprint(t Text) uint64 { return zero.Fingerprint(t) }
