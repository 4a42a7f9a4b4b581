package sanitize

import "strings"

// urlMemo remembers the extent of the last token that holds a URL, so that a
// token is measured once, however many schemes it holds.
type urlMemo struct {
	end, lastAt int // of the token
	spanEnd     int // end of the last span
}

// userinfo looks at the colon of "scheme://" at t[i] and returns the span of
// user name and password: all from the slashes to the last at sign of the
// token, because passwords that were not encoded hold slashes and at signs.
func (s *scanner) userinfo(i int) (start, end int) {
	t := s.t
	switch {
	case strings.HasPrefix(t[i:], "://"):
		start = i + 3
	case strings.HasPrefix(t[i:], `:\/\/`):
		start = i + 5
	default:
		return 0, 0
	}
	m := &s.url
	if i < m.spanEnd {
		return 0, 0
	}
	if start > m.end || m.end == 0 {
		m.end, m.lastAt = tokenEnd(t, start, openQuote(t, i))
	}
	last := m.lastAt
	if last < start {
		return 0, 0
	}
	slash, at, colon := -1, -1, -1 // first slash, at sign and colon of the authority
	for k := start; k <= last && slash < 0; k++ {
		switch t[k] {
		case '/', '?', '#':
			slash = k
		case '@':
			at = k
		case ':':
			if colon < 0 {
				colon = k
			}
		}
	}
	if slash >= 0 && slash < last {
		if at < 0 && (colon < 0 || port(t, colon+1, slash) && web(t, i)) {
			return 0, 0
		}
		if q := queryStart(t, max(at, start), last); at >= 0 && q >= 0 {
			last = start + strings.LastIndexByte(t[start:q], '@')
		}
	}
	if last == start {
		return 0, 0
	}
	m.spanEnd = last
	return start, last
}

// tokenEnd returns where the token ends that holds t[start], and its last at
// sign. A token that began with a quote ends with it and may hold blanks.
func tokenEnd(t string, start int, quote byte) (end, lastAt int) {
	lastAt = -1
	for k := start; k < len(t); k++ {
		switch c := t[k]; {
		case c == '@':
			lastAt = k
		case c == ' ' && quote == 0, c == '"', c == '`', c == '<', c == '>':
			return k, lastAt
		case c == '\'' && (quote == '\'' || boundaryAfter(t, k+1)):
			return k, lastAt
		case c == '\\' && lineBreak(t, k):
			return k, lastAt
		}
	}
	if quote != 0 {
		return tokenEnd(t, start, 0) // the quote was never closed
	}
	return len(t), lastAt
}

// openQuote returns the quote just before the scheme whose colon is at t[i].
func openQuote(t string, i int) byte {
	k := i
	for k > 0 && i-k < 24 && (isAlnum(t[k-1]) || t[k-1] == '+' || t[k-1] == '-' || t[k-1] == '.') {
		k--
	}
	if k > 0 && (t[k-1] == '"' || t[k-1] == '\'' || t[k-1] == '`') {
		return t[k-1]
	}
	return 0
}

// port reports whether t[from:to] is a port number.
func port(t string, from, to int) bool {
	for k := from; k < to; k++ {
		if !isDigit(t[k]) {
			return false
		}
	}
	return to-from <= 5
}

// web reports whether the scheme that ends before t[i] is http or https.
func web(t string, i int) bool {
	return i >= 4 && strings.EqualFold(t[i-4:i], "http") || i >= 5 && strings.EqualFold(t[i-5:i], "https")
}

// queryStart returns where a query with a pair begins in t[from:to], or -1.
func queryStart(t string, from, to int) int {
	q := strings.IndexByte(t[from:to], '?')
	if q < 0 || strings.IndexByte(t[from+q:to], '=') < 0 {
		return -1
	}
	return from + q
}

// encodedUserinfo looks at a percent-encoded colon at t[i:after] and returns
// the span of user name and password of an encoded URL.
func (s *scanner) encodedUserinfo(i, after int) (start, end int) {
	t := s.t
	if i < s.url.spanEnd {
		return 0, 0
	}
	start = after
	for range 2 {
		c, next := encoded(t, start)
		if c != '/' {
			return 0, 0
		}
		start = next
	}
	last := -1
	for k := start; k < len(t) && k-start < 1024 && t[k] != ' ' && t[k] != '"' && t[k] != '&'; k++ {
		if t[k] == '%' {
			if c, _ := encoded(t, k); c == '@' {
				last = k
			}
		}
	}
	if last <= start {
		return 0, 0
	}
	s.url.spanEnd = last
	return start, last
}

// encoded returns the ASCII character that is percent-encoded, once or more
// often, at t[i], and the index after it; 0 when there is none.
func encoded(t string, i int) (c byte, next int) {
	if i+2 >= len(t) || t[i] != '%' {
		return 0, i
	}
	k := i + 1
	for k+3 < len(t) && t[k] == '2' && t[k+1] == '5' && k-i < 9 {
		k += 2
	}
	if k+1 >= len(t) || !isHex(t[k]) || !isHex(t[k+1]) {
		return 0, i
	}
	c = unhex(t[k])<<4 | unhex(t[k+1])
	if c >= 0x80 {
		return 0, i
	}
	return c, k + 2
}

func unhex(c byte) byte {
	if isDigit(c) {
		return c - '0'
	}
	return c&0x0F + 9
}
