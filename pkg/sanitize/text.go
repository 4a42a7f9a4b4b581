// Package sanitize decides what may be written down.
//
// Evidence, logs, spans and dead-letter metadata carry free text only as
// [Text], and only this package can make one, so raw text does not compile
// into a record.
package sanitize

import "log/slog"

// MaxBytes is the longest text, in bytes, that the sanitiser lets through.
const MaxBytes = 1024

// Text is text that has been through a Sanitizer: one line of valid UTF-8 of
// at most MaxBytes bytes, with secrets and personal data replaced by
// [REDACTED]. The zero Text is the empty text.
type Text struct{ s string }

// String returns the sanitised text.
func (t Text) String() string { return t.s }

// IsZero reports whether the text is empty.
func (t Text) IsZero() bool { return t.s == "" }

// LogValue implements slog.LogValuer.
func (t Text) LogValue() slog.Value { return slog.StringValue(t.s) }

// MarshalText implements encoding.TextMarshaler.
func (t Text) MarshalText() ([]byte, error) { return []byte(t.s), nil }
