package connect

import "log/slog"

// Redacted is what a set Secret prints as.
const Redacted = "[REDACTED]"

// A Secret is text that must not be written down. Printing, logging or
// marshalling it shows Redacted (nothing when it is empty); Reveal is the only
// way to its value.
type Secret string

// Reveal returns the secret itself, for handing it to a client.
func (s Secret) Reveal() string { return string(s) }

// String implements fmt.Stringer.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return Redacted
}

// GoString implements fmt.GoStringer.
func (s Secret) GoString() string { return `"` + s.String() + `"` }

// LogValue implements slog.LogValuer.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText implements encoding.TextMarshaler.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
