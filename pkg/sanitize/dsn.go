package sanitize

import "strings"

// dsn looks at an at sign at t[i] and returns the span of "user:password"
// before it when a network address follows: "user:password@tcp(host)" of
// go-sql-driver, or "user:password@host:port" without a scheme.
func (s *scanner) dsn(i int) (start, end int) {
	t := s.t
	if strings.HasPrefix(t[i:], "@//") {
		return s.oracle(i)
	}
	if !addressAfter(t, i+1) {
		return 0, 0
	}
	floor := max(s.spanFloor(), i-256)
	colon := -1
	start = i
	for start > floor && !tokenBreak(t[start-1]) && !(t[start-1] == 'n' && start > 1 && lineBreak(t, start-2)) {
		start--
		if t[start] == ':' {
			colon = start
		}
	}
	for start < i && (t[start] == '(' || t[start] == '[' || t[start] == '\'') && !markerAt(t, start) {
		start++
	}
	if k := strings.IndexByte(t[start:i], '='); k >= 0 && start+k < colon {
		start += k + 1
	}
	start = afterEscape(t, start, i)
	if colon <= start && !(colon == start && colon+1 < i) || colon+1 < i && t[colon+1] == '/' && colon+2 < i && t[colon+2] == '/' {
		return 0, 0
	}
	return start, i
}

// tokenBreak reports whether c ends a token on its left.
func tokenBreak(c byte) bool {
	return c == ' ' || c == '"' || c == '`' || c == '<' || c == '>' || c == ','
}

// spanFloor returns the end of the last span, before which a look back need
// not go.
func (s *scanner) spanFloor() int {
	if n := len(s.spans); n > 0 {
		return s.spans[n-1].end
	}
	return 0
}

// addressAfter reports whether t[i:] begins with a network address: tcp(…),
// unix(…), localhost, or a host name or address with a port.
func addressAfter(t string, i int) bool {
	k := i
	for k < len(t) && k-i < 128 && (isAlnum(t[k]) || t[k] == '-' || t[k] == '.' || t[k] == '_') {
		k++
	}
	if k == i {
		return k < len(t) && t[k] == '['
	}
	if k < len(t) && t[k] == '(' {
		return true
	}
	if k+1 < len(t) && t[k] == ':' && isDigit(t[k+1]) {
		return true
	}
	return t[i:k] == "localhost"
}

// oracle returns the span of "user/password" before "@//host" at t[i].
func (s *scanner) oracle(i int) (start, end int) {
	t := s.t
	slash := false
	floor := max(s.spanFloor(), i-128)
	for start = i; start > floor && !tokenBreak(t[start-1]) && t[start-1] != ':' && !(t[start-1] == 'n' && start > 1 && lineBreak(t, start-2)); start-- {
		slash = slash || t[start-1] == '/'
	}
	if !slash && !strings.HasSuffix(t[:i], marker) {
		return 0, 0
	}
	return start, i
}
