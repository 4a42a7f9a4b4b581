package sanitize

import (
	"bytes"
	"encoding/base64"
	"strings"
)

// headerKey reports whether t[start:end] is the name of a header that holds
// nothing but credentials.
func headerKey(name string) bool {
	switch len(name) {
	case len("cookie"):
		return strings.EqualFold(name, "cookie")
	case len("set-cookie"):
		return strings.EqualFold(name, "set-cookie") || strings.EqualFold(name, "set_cookie")
	case len("authorization"):
		return strings.EqualFold(name, "authorization")
	case len("proxy-authorization"):
		return strings.EqualFold(name, "proxy-authorization")
	case len("x-amz-security-token"):
		return strings.EqualFold(name, "x-amz-security-token")
	}
	return false
}

// header looks at a separator at t[sep] and returns the span of the value of a
// header, which is the rest of the line, or of the quote or bracket in which
// it stands.
func (s *scanner) header(sep, after int, mark byte) (start, end int) {
	t := s.t
	if sep < s.headerUntil {
		return 0, 0
	}
	last := sep
	quoted := false
	if last > 0 && (t[last-1] == '"' || t[last-1] == '\'') {
		quoted = true
		for last--; last > 0 && t[last-1] == '\\'; {
			last--
		}
	}
	first := wordStart(t, last)
	if !headerKey(t[first:last]) {
		return 0, 0
	}
	start = after
	for start < len(t) && (t[start] == ' ' || t[start] == '>' && start == after) {
		start++
	}
	if start == len(t) {
		return 0, 0
	}
	quote, slashes, next := quoteAt(t, start)
	word := bareEnd(t, max(start, next))
	if placeholder(t[max(start, next):word]) || s.proseAt(max(start, next), word) {
		return 0, 0
	}
	switch {
	case quote != 0:
		start = next
		end = quotedEnd(t, next, quote, slashes)
	case t[start] == '[' && !markerAt(t, start):
		start++
		if quote, slashes, next = quoteAt(t, start); quote != 0 {
			start, end = next, quotedEnd(t, next, quote, slashes)
		} else {
			end = closing(t, start, ']')
		}
	case mark == '=':
		end = schemeEnd(t, start)
	case !quoted && first > 0 && (t[first-1] == '"' || t[first-1] == '\''):
		m := 0
		for first-1-m > 0 && t[first-2-m] == '\\' {
			m++
		}
		end = quotedEnd(t, start, t[first-1], m)
	default:
		end = lineEnd(t, start)
	}
	s.headerUntil = end
	return start, end
}

// schemeEnd returns where "Bearer token" or a single value ends.
func schemeEnd(t string, i int) int {
	end := bareEnd(t, i)
	if end < len(t) && t[end] == ' ' && indexFold(t[i:end], authWords[:]) >= 0 {
		return bareEnd(t, end+1)
	}
	return end
}

// lineEnd returns where the line ends, of which trailing blanks do not count. A
// quote ends it too unless it encloses a value.
func lineEnd(t string, i int) int {
	k := i
	open := false
	for ; k < len(t) && !lineBreak(t, k); k++ {
		if t[k] != '"' {
			continue
		}
		if !open && (t[k-1] != '=' && t[k-1] != '\\' || k == i) {
			break
		}
		open = !open
	}
	for k > i && (t[k-1] == ' ' || t[k-1] == '\\') {
		k--
	}
	return k
}

func closing(t string, i int, c byte) int {
	for k := i; k < len(t); k++ {
		if t[k] == '[' && markerAt(t, k) {
			k += len(marker) - 1
		} else if t[k] == c {
			return k
		}
	}
	return len(t)
}

// authWord looks at a word t[i:end] that may be an authentication scheme and
// returns the span of the credentials after it.
func (s *scanner) authWord(i, end int) (int, int) {
	t := s.t
	if end >= len(t) || t[end] != ' ' && t[end] != '+' && t[end] != '%' || i < s.headerUntil {
		return 0, 0
	}
	start := end + 1
	if t[end] == '%' {
		if c, next := encoded(t, end); c == ' ' {
			start = next
		} else {
			return 0, 0
		}
	}
	for start < len(t) && t[start] == ' ' {
		start++
	}
	if start < len(t) && markerAt(t, start) {
		return start, start + len(marker)
	}
	stop := start
	for stop < len(t) && (isAlnum(t[stop]) || strings.IndexByte("-._~+/=%$", t[stop]) >= 0) {
		stop++
	}
	for stop > start && (t[stop-1] == '.' || t[stop-1] == '/') {
		stop--
	}
	word, value := t[i:end], t[start:stop]
	switch {
	case value == "", strings.HasSuffix(t[:i], "type=") && newPair(t, start): // token_type=bearer expires_in=3600
		return 0, 0
	case strings.EqualFold(word, "digest"):
		if strings.IndexByte(value, '=') < 0 || stop >= len(t) {
			return 0, 0
		}
		s.headerUntil = digestEnd(t, start)
		return start, s.headerUntil
	case strings.EqualFold(word, "basic"):
		if !basicValue(value) {
			return 0, 0
		}
	case strings.EqualFold(word, "bearer"):
		if !bearerValue(t, value, stop) {
			return 0, 0
		}
	case !opaqueValue(value) || len(value) < 16:
		return 0, 0
	}
	return start, stop
}

// digestEnd returns where a list of pairs ends, separated by commas, with
// values in quotes or bare.
func digestEnd(t string, i int) int {
	for k := i; k < len(t); k++ {
		switch {
		case t[k] == '"' && t[k-1] == '=', t[k] == '"' && k > 1 && t[k-1] == '\\' && t[k-2] == '=':
			m := 0
			if t[k-1] == '\\' {
				m = 1
			}
			k = min(quotedEnd(t, k+1, '"', m)+m, len(t)-1)
		case t[k] == '"', lineBreak(t, k), t[k] == ' ' && t[k-1] != ',':
			return k
		}
	}
	return len(t)
}

// basicValue reports whether v is base64 of "user:password", or looks like it.
func basicValue(v string) bool {
	if len(v) > 512 {
		return true
	}
	var buf [384]byte
	trimmed := strings.TrimRight(v, "=")
	enc := base64.RawStdEncoding
	if strings.ContainsAny(v, "-_") {
		enc = base64.RawURLEncoding
	}
	if n, err := enc.Decode(buf[:], []byte(trimmed)); err == nil && n > 0 {
		if bytes.IndexByte(buf[:n], ':') >= 0 {
			return true
		}
	}
	return opaqueValue(v)
}

// bearerValue reports whether v, which ends before t[stop], is a token and not
// a word of prose.
func bearerValue(t, v string, stop int) bool {
	if opaqueValue(v) {
		return true
	}
	if stop < len(t) && (t[stop] == '"' || t[stop] == '\'') && v[len(v)-1] == '=' {
		return false // a parameter
	}
	for i := range len(v) {
		if !isLetter(v[i]) && v[i] != '-' {
			return len(v) >= 3
		}
	}
	return false
}

// authWords are the names of authentication schemes.
var authWords = [...]string{"bearer", "basic", "digest", "negotiate", "ntlm", "apikey"}

// authWordEnd returns the end of the name of an authentication scheme that
// begins at t[i], or i.
func authWordEnd(t string, i int) int {
	end := i + 4
	for end < len(t) && isLetter(t[end]) && end-i < 10 {
		end++
	}
	if end >= len(t) || isAlnum(t[end]) || end-i < 4 {
		return i
	}
	if indexFold(t[i:end], authWords[:]) >= 0 {
		return end
	}
	return i
}
