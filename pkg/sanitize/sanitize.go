package sanitize

import (
	"strings"
	"sync/atomic"
)

// Config configures a Sanitizer. The zero Config is ready to use.
type Config struct {
	// Secrets are values of this process that must never be written down, such
	// as its passwords and tokens. They are found as they are and in their
	// percent-encoded, JSON-escaped and base64 forms. Values shorter than 6
	// bytes are ignored, because they would be found everywhere.
	Secrets []string

	// Strict keeps of an error of unknown type only the type name, and also
	// finds addresses that are written out ("bob at example dot com").
	// Default false.
	Strict bool

	// Classes are further kinds of text to remove, in addition to the built-in
	// ones. They must be safe for concurrent use.
	Classes []Class

	// Extractors say what may be kept of the error types of other modules.
	// They are asked in order, before the built-in ones.
	Extractors []Extractor
}

// A Class finds one kind of text that must not be written down.
type Class struct {
	// Name is what Explain reports. Default "extra".
	Name string

	// Find returns the first span of text at or after from, or an empty span
	// when there is none. Offsets are bytes.
	Find func(text string, from int) (start, end int)
}

// An Extractor returns what may be kept of err, of which only the outermost
// error is to be examined, and whether it knows its type. The returned text is
// scanned like any other.
type Extractor func(err error) (text string, known bool)

// A Sanitizer turns free text into Text. It is safe for concurrent use.
type Sanitizer struct {
	cfg    Config
	known  known
	closed atomic.Uint64
}

// New returns a Sanitizer.
func New(cfg Config) *Sanitizer {
	return &Sanitizer{cfg: cfg, known: newKnown(cfg.Secrets)}
}

// maxRounds bounds how often a result is cleaned again until it stays as it is.
const maxRounds = 6

// Clean returns s with everything removed that must not be written down. It
// looks at the first 16 KiB of s. Clean of its own result is that result.
func (z *Sanitizer) Clean(s string) Text {
	if s == "" {
		return Text{}
	}
	out, ok := z.settle(s)
	if !ok {
		z.closed.Add(1)
		return Text{marker}
	}
	return Text{out}
}

// FailedClosed returns how many texts were replaced as a whole because they
// could not be cleaned.
func (z *Sanitizer) FailedClosed() uint64 { return z.closed.Load() }

// settle cleans s until cleaning changes nothing more, which makes Clean
// idempotent. It reports false when that does not happen, or on a panic.
func (z *Sanitizer) settle(s string) (out string, ok bool) {
	defer func() {
		if recover() != nil {
			out, ok = "", false
		}
	}()
	var spans []span
	for range maxRounds {
		var next string
		next, spans = z.pass(s, spans[:0])
		if next == s {
			return s, true
		}
		s = next
	}
	return "", false
}

// pass cleans s once, and returns the spans for reuse.
func (z *Sanitizer) pass(s string, spans []span) (string, []span) {
	t, read := normaliseTo(bound(s), maxLook)
	sc := scanner{t: t, strict: z.cfg.Strict, marked: strings.Contains(t, marker), spans: spans}
	z.find(&sc)
	shown := len(t)
	if read < len(s) {
		shown = max(0, shown-lookAhead)
	}
	return assemble(t, sc.spans, shown, len(s)-read), sc.spans
}

// find collects the spans of all classes, in order and without overlap.
func (z *Sanitizer) find(sc *scanner) {
	sc.scan()
	if z.known.any() {
		z.known.find(sc)
	}
	for i := range z.cfg.Classes {
		c := &z.cfg.Classes[i]
		for at := 0; at < len(sc.t); {
			start, end := c.Find(sc.t, at)
			if start >= end || start < at || end > len(sc.t) {
				break
			}
			sc.insert(classExtra+class(min(i, 200)), start, end)
			at = end
		}
	}
}

var zero = New(Config{})

// Clean is Sanitizer.Clean of the zero configuration.
func Clean(s string) Text { return zero.Clean(s) }

// Error is Sanitizer.Error of the zero configuration.
func Error(err error) Text { return zero.Error(err) }

// Fingerprint is Sanitizer.Fingerprint of the zero configuration.
func Fingerprint(t Text) uint64 { return zero.Fingerprint(t) }
