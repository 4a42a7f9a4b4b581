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
// MaxBytes. Of t at most the first shown bytes are written, and unseen is the
// number of bytes that were not even looked at.
func assemble(t string, spans []span, shown, unseen int) string {
	size, left := 0, unseen
	at := 0
	for _, p := range spans {
		if p.start >= shown {
			break
		}
		size += p.start - at + len(marker)
		at = p.end
	}
	if at < shown {
		size += shown - at
		left += len(t) - shown
	} else {
		left += len(t) - at
	}
	limit := MaxBytes
	if size > limit || left > 0 {
		limit -= suffixRoom
	} else if len(spans) == 0 {
		return t
	}
	var out strings.Builder
	out.Grow(min(size, MaxBytes) + suffixRoom)
	at = 0
	for _, p := range spans {
		if p.start >= shown {
			break
		}
		if out.Len()+p.start-at+len(marker) > limit {
			break
		}
		out.WriteString(t[at:p.start])
		out.WriteString(marker)
		at = p.end
	}
	left += size - out.Len()
	if at < shown {
		next := shown
		for _, p := range spans {
			if p.start >= at {
				next = min(p.start, shown)
				break
			}
		}
		part := cutText(t[at:next], limit-out.Len())
		out.WriteString(part)
		left -= len(part)
	}
	if left > 0 {
		out.WriteString("…(+")
		out.WriteString(strconv.Itoa(left))
		out.WriteString(" bytes)")
	}
	return out.String()
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
