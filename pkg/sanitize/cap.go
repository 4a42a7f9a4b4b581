package sanitize

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	marker = "[REDACTED]"

	// maxLook bounds the work: what lies beyond is never looked at and never
	// written down.
	maxLook = 16 << 10

	// lookAhead bytes before the end of a text that was cut at maxLook are read
	// but not written down, because what begins in them may have been cut.
	lookAhead = 512

	// suffixRoom is the longest suffix that says how much was left out.
	suffixRoom = len("…(+ bytes)") + 20
)

// bound returns what may be looked at of s, cut on a rune boundary.
func bound(s string) string {
	if len(s) <= maxLook {
		return s
	}
	cut := maxLook
	for cut > maxLook-utf8.UTFMax && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut]
}

// assemble writes t with every span replaced by the marker, no longer than
// MaxBytes. Of t only the first shown bytes are written, and unseen is the
// number of bytes that were not even looked at.
func assemble(t string, spans []span, shown, unseen int) string {
	for shown < len(t) && shown > 0 && !utf8.RuneStart(t[shown]) {
		shown--
	}
	for n := len(spans); n > 0 && spans[n-1].start >= shown; n-- {
		spans = spans[:n-1]
	}
	size, at := 0, 0
	for _, p := range spans {
		size += p.start - at + len(marker)
		at = p.end
	}
	size += max(0, shown-at)
	left := unseen + len(t) - max(at, shown)
	limit := MaxBytes
	if size > limit || left > 0 {
		limit -= suffixRoom
	} else if size == len(t) && onlyMarkers(t, spans) {
		return t
	}

	var out strings.Builder
	out.Grow(min(size, limit) + suffixRoom)
	fits := true
	at = 0
	for _, p := range spans {
		if fits = write(&out, t[at:p.start], limit) && out.Len()+len(marker) <= limit; !fits {
			break
		}
		out.WriteString(marker)
		at = p.end
	}
	if fits && at < shown {
		write(&out, t[at:shown], limit)
	}
	if left += size - out.Len(); left > 0 {
		out.WriteString("…(+")
		out.WriteString(strconv.Itoa(left))
		out.WriteString(" bytes)")
	}
	return out.String()
}

// onlyMarkers reports whether all spans are markers already.
func onlyMarkers(t string, spans []span) bool {
	for _, p := range spans {
		if t[p.start:p.end] != marker {
			return false
		}
	}
	return true
}

// write appends part to out as far as limit allows, and reports whether all of
// it fitted.
func write(out *strings.Builder, part string, limit int) bool {
	kept := cutText(part, limit-out.Len())
	out.WriteString(kept)
	return len(kept) == len(part)
}

// cutText returns the longest beginning of t of at most n bytes that ends on a
// rune boundary and not inside a marker or a visible line break.
func cutText(t string, n int) string {
	if n >= len(t) {
		return t
	}
	if n <= 0 {
		return ""
	}
	for n > 0 && !utf8.RuneStart(t[n]) {
		n--
	}
	for k := max(0, n-len(marker)+1); k < n; k++ {
		if strings.HasPrefix(t[k:], marker) {
			return t[:k]
		}
	}
	if n > 0 && t[n-1] == '\\' {
		n--
	}
	return t[:n]
}
