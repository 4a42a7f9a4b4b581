package sanitize

import "strings"

// keyValue looks at a separator at t[sep:after], which is "=" or ":" or an
// encoded form of it, and returns the span of the value when the key before it
// promises a secret.
func (s *scanner) keyValue(sep, after int, mark byte) (start, end int) {
	t := s.t
	if sep < s.pairUntil || mark == ':' && after < len(t) && (t[after] == ':' || t[after] == '=') {
		return 0, 0
	}
	kind := s.keyBefore(sep)
	if kind == noKey || kind == safeKey {
		if mark == '=' && strings.HasSuffix(t[:sep], " name") {
			return s.formField(after)
		}
		return 0, 0
	}
	if kind == weakKey && strings.HasPrefix(t[after:], "('") { // auth=('user', 'x')
		s.pairUntil = endBefore(t, after+1, "')")
		return after + 1, s.pairUntil
	}
	at := after
	for at < len(t) && at-after < 2 && (t[at] == '=' || t[at] == '>') {
		at++
	}
	spaced := at < len(t) && t[at] == ' '
	for at < len(t) && t[at] == ' ' {
		at++
	}
	if at == len(t) {
		return 0, 0
	}
	if kind == queryKey && (spaced || mark != '=' || !s.inQuery(sep)) {
		return 0, 0
	}
	if mark == ':' && !spaced && at+1 < len(t) && t[at] == '/' && t[at+1] == '/' {
		return 0, 0
	}
	start, end, quoted := s.value(at)
	if start >= end {
		return 0, 0
	}
	if !quoted && spaced && mark == ':' && end-start == 1 && isDigit(t[start]) {
		return 0, 0 // an error number
	}
	if kind == pluralKey && mark == ':' && spaced && !quoted && s.sentenceAt(start, end) && !opaqueValue(t[start:end]) {
		return 0, 0
	}
	if mark == ',' && quoted && namesMember(t, end) {
		return 0, 0 // a value, and the name of the next member
	}
	if mark == ',' && kind != safeKey {
		kind = weakKey // a list of names is no pair
	}
	if !secretValue(t[start:end], kind, quoted) || !quoted && mark == ':' && spaced && s.proseAt(start, end) {
		return 0, 0
	}
	if mark == '=' && quoted && t[start-1] == '\'' && at == start-1 {
		start = at // the quotes of a connection string belong to its value
		if end < len(t) {
			end++
		}
	}
	if environment(t, sep, kind, mark, spaced, t[start:end]) {
		return 0, 0
	}
	s.pairUntil = end
	return start, end
}

// namesMember reports whether the quoted text that ends before t[end] is the name
// of a member: a colon follows its quote.
func namesMember(t string, end int) bool {
	for end < len(t) && t[end] == '\\' {
		end++
	}
	if end == len(t) || t[end] != '"' && t[end] != '\'' {
		return false
	}
	for end++; end < len(t) && t[end] == ' '; end++ {
	}
	return end < len(t) && t[end] == ':'
}

// imageVariable looks at a word at t[i] and returns the span of the value of
// "ENV NAME value" in the description of an image.
func (s *scanner) imageVariable(i int) (start, end int) {
	t := s.t
	if !strings.HasPrefix(t[i:], "ENV ") {
		return 0, 0
	}
	k := i + 4
	for k < len(t) && keyByte(t[k]) && k-i < maxKey {
		k++
	}
	if k+1 >= len(t) || t[k] != ' ' {
		return 0, 0
	}
	if kind := classify(t, i+4, k); kind == noKey || kind == safeKey {
		return 0, 0
	}
	if start, end = k+1, bareEnd(t, k+1); !opaqueValue(t[start:end]) {
		return 0, 0
	}
	return start, end
}

// formField looks at the quoted name of a field of multipart/form-data at
// t[at] and returns the span of its value, which follows an empty line, when
// the name promises a secret.
func (s *scanner) formField(at int) (start, end int) {
	t := s.t
	if at >= len(t) || t[at] != '"' {
		return 0, 0
	}
	k := at + 1
	for k < len(t) && keyByte(t[k]) && k-at < maxKey {
		k++
	}
	const empty = `"\n\n`
	if !strings.HasPrefix(t[k:], empty) {
		return 0, 0
	}
	if kind := classify(t, at+1, k); kind != strongKey && kind != pluralKey && kind != weakKey && kind != shortKey {
		return 0, 0
	}
	start = k + len(empty)
	end = endBefore(t, start, `\n--`)
	s.pairUntil = end
	return start, end
}

// environment reports whether the pair is the working directory of a shell, or
// the verdict of a test.
func environment(t string, sep int, kind keyKind, mark byte, spaced bool, value string) bool {
	switch first := wordStart(t, sep); {
	case t[first:sep] == "PWD" || t[first:sep] == "OLDPWD":
		return mark == '=' && (value[0] == '/' || len(value) > 2 && value[1] == ':')
	case t[first:sep] == "PASS":
		return kind == shortKey && mark == ':' && spaced && !opaqueValue(value)
	}
	return false
}

// value returns the span of the value that begins at t[at], without quotes.
func (s *scanner) value(at int) (start, end int, quoted bool) {
	t := s.t
	quote, slashes, next := quoteAt(t, at)
	if quote != 0 {
		return next, quotedEnd(t, next, quote, slashes), true
	}
	if !markerAt(t, at) && (t[at] == '[' || t[at] == '{') && at+1 < len(t) {
		if t[at] == '{' {
			return at, nestedEnd(t, at), true
		}
		if end := closing(t, at+1, ']'); end < len(t) {
			return at + 1, end, true
		}
		at++
	}
	return at, bareEnd(t, at), false
}

// nestedEnd returns the index after the brace that closes the one at t[i].
func nestedEnd(t string, i int) int {
	depth := 0
	for k := i; k < len(t); k++ {
		switch t[k] {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return k + 1
			}
		}
	}
	return len(t)
}

// keyBefore classifies the key that ends before the separator at t[sep]. The
// key may be quoted, and be of two words.
func (s *scanner) keyBefore(sep int) keyKind {
	t := s.t
	end := sep
	for end > 0 && sep-end < 3 && (t[end-1] == ':' || t[end-1] == '?' || t[end-1] == '+' || t[end-1] == '.') {
		end-- // := ::= ?= += .=
	}
	for end > 0 && sep-end < 6 && t[end-1] == ' ' {
		end--
	}
	if end > 0 && (t[end-1] == '"' || t[end-1] == '\'' || t[end-1] == '`' || t[end-1] == ']') {
		end--
		for end > 0 && t[end-1] == '\\' && sep-end < 9 {
			end--
		}
	} else if end >= 3 && t[end-3] == '%' && t[end-2] == '2' && t[end-1] == '2' {
		end -= 3
	} else if end >= 6 && t[end-6] == '\\' && t[end-5:end] == "u0022" {
		end -= 6
	}
	start := wordStart(t, end)
	if start == end {
		return noKey
	}
	if !keyTail(t, start, end) {
		return s.toldBefore(start, end)
	}
	kind := classify(t, start, end)
	if kind == strongKey || kind == safeKey || start < 2 || t[start-1] != ' ' {
		return kind
	}
	if first := wordStart(t, start-1); start-1-first >= 2 {
		if t[start:end] == "string" { // name string = "value"
			return classify(t, first, start-1)
		}
		if two := classify(t, first, end); two == strongKey || two == safeKey {
			return two
		}
	}
	return kind
}

// toldBefore classifies what t[start:end], which is no key, says about the value
// after it: that it is the value of the member whose name comes before, as in
// name="password" value="x", or that of the word before, as in "password is: x".
func (s *scanner) toldBefore(start, end int) keyKind {
	t := s.t
	if end-start == 5 && strings.EqualFold(t[start:end], "value") {
		return namedBefore(t, start)
	}
	if end-start > 8 || start < 4 || t[start-1] != ' ' || indexFold(t[start:end], tellingWords[:]) < 0 {
		return noKey
	}
	last := start - 1
	first := wordStart(t, last)
	kind := classify(t, first, last)
	if kind != strongKey && first >= 2 && t[first-1] == ' ' {
		kind = classify(t, wordStart(t, first-1), last)
	}
	if kind != strongKey {
		return noKey
	}
	return toldKey
}

// tellingWords come between the name of a secret, a colon and the secret.
var tellingWords = [...]string{"is", "was", "provided", "supplied", "given", "used", "entered", "received"}

// namedBefore classifies the name in name="password" before t[i], or in
// {"name": "PASSWORD", or on the line before.
func namedBefore(t string, i int) keyKind {
	low := max(0, i-100)
	back := func(set string) {
		for i > low && strings.IndexByte(set, t[i-1]) >= 0 {
			i--
		}
	}
	back(" ,;\"'\\")
	if i > low+1 && t[i-1] == 'n' && t[i-2] == '\\' { // a line break
		i -= 2
		back(" ,;\"'\\")
	}
	last := i
	i = wordStart(t, last)
	kind := classify(t, i, last)
	back(" \"'\\")
	if kind == noKey || kind == safeKey || i <= low || t[i-1] != ':' && t[i-1] != '=' {
		return noKey
	}
	i--
	back(" \"'\\")
	if name := t[wordStart(t, i):i]; !strings.EqualFold(name, "name") && !strings.EqualFold(name, "key") {
		return noKey
	}
	return kind
}

// wordStart returns where the key word begins that ends before t[end].
func wordStart(t string, end int) int {
	k := end
	for k > 0 && end-k < maxKey && keyByte(t[k-1]) {
		k--
	}
	return afterEscape(t, k, end)
}

// afterEscape returns the beginning of a word without the letters that belong
// to an escape sequence just before it.
func afterEscape(t string, k, end int) int {
	if k == 0 || k == end {
		return k
	}
	switch t[k-1] {
	case '\\':
		switch t[k] {
		case 'n', 'r', 't', 'b', 'f':
			return k + 1
		case 'u', 'x':
			width := 5
			if t[k] == 'x' {
				width = 3
			}
			if k+width <= end && isHex(t[k+1]) && isHex(t[k+width-1]) {
				return k + width
			}
		}
	case '%':
		for k+2 <= end && isHex(t[k]) && isHex(t[k+1]) {
			if t[k] != '2' || t[k+1] != '5' {
				return k + 2
			}
			k += 2
		}
	}
	return k
}

// inQuery reports whether the key before the separator at t[sep] belongs to
// the query of a URL.
func (s *scanner) inQuery(sep int) bool {
	k := wordStart(s.t, sep)
	return k > 0 && (s.t[k-1] == '?' || s.t[k-1] == '&' || s.t[k-1] == '#')
}

// proseAt reports whether t[start:end] begins prose and not a value.
func (s *scanner) proseAt(start, end int) bool {
	t := s.t
	more := end < len(t) && (t[end] == ':' || t[end] == ' ' && end+1 < len(t) && (isAlnum(t[end+1]) || t[end+1] == '"'))
	return more && prose(t[start:end])
}

// sentenceAt reports whether t[start:end] is a word and another word follows.
func (s *scanner) sentenceAt(start, end int) bool {
	t := s.t
	for k := start; k < end; k++ {
		if !isLetter(t[k]) {
			return false
		}
	}
	return end+1 < len(t) && t[end] == ' ' && isLetter(t[end+1])
}

// element looks at "<" at t[i] and returns the span of the text of an element
// of XML whose name promises a secret.
func (s *scanner) element(i int) (start, end int) {
	t := s.t
	k := i + 1
	for k < len(t) && (keyByte(t[k]) || t[k] == ':') && k-i < maxKey {
		k++
	}
	first := i + 1
	if strings.HasPrefix(t[k:], ` name="`) { // <property name="password">x</property>
		first = k + 7
		for k = first; k < len(t) && keyByte(t[k]) && k-first < 2*maxKey; {
			k++
		}
		if k+1 >= len(t) || t[k] != '"' || t[k+1] != '>' {
			return 0, 0
		}
	}
	if k == first || k == len(t) || t[k] != '>' && t[k] != '"' {
		return 0, 0
	}
	kind := classify(t, first, k)
	if t[k] == '"' {
		k++
	}
	if kind != strongKey && kind != pluralKey && kind != weakKey {
		return 0, 0
	}
	start = k + 1
	for start < len(t) && (t[start] == ' ' || lineBreak(t, start)) {
		if t[start] != ' ' {
			start++
		}
		start++
	}
	end = start
	for end < len(t) && t[end] != '<' && t[end] != ' ' && !lineBreak(t, end) {
		end++
	}
	if start == end || !secretValue(t[start:end], kind, true) {
		return 0, 0
	}
	return start, end
}
