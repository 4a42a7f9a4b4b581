package sanitize

import "strings"

// lineBreak reports whether a visible line break begins at t[i].
func lineBreak(t string, i int) bool {
	return t[i] == '\\' && i+1 < len(t) && t[i+1] == 'n' && (i == 0 || t[i-1] != '\\')
}

// afterLetter reports whether the byte before t[i] is a letter that does not
// belong to an escape sequence.
func afterLetter(t string, i int) bool {
	return i > 0 && isLetter(t[i-1]) && !(i > 1 && t[i-2] == '\\' && (t[i-1] == 'n' || t[i-1] == 'r' || t[i-1] == 't'))
}

// markerAt reports whether a marker begins at t[i].
func markerAt(t string, i int) bool {
	return t[i] == '[' && strings.HasPrefix(t[i:], marker)
}

// quoteAt returns the quote character at t[i], the number of backslashes that
// escape it, and the index after it. The character is 0 when there is none.
func quoteAt(t string, i int) (quote byte, slashes, next int) {
	k := i
	for k < len(t) && t[k] == '\\' && k-i < 7 {
		k++
	}
	if k == len(t) {
		return 0, 0, i
	}
	switch c := t[k]; {
	case c == '"', c == '\'', c == '`':
		return c, k - i, k + 1
	case c == '%' && k == i && strings.HasPrefix(t[k:], "%22"):
		return '%', 0, k + 3
	case c == 'u' && k > i && strings.HasPrefix(t[k:], "u0022"):
		return 'u', k - i, k + 5
	}
	return 0, 0, i
}

// quotedEnd returns where the value ends that begins at t[i] after a quote.
// Without a closing quote that is the end of the text.
func quotedEnd(t string, i int, quote byte, slashes int) int {
	switch quote {
	case '%':
		return endBefore(t, i, "%22")
	case 'u':
		return endBefore(t, i, `\u0022`)
	}
	for k := i; k < len(t); k++ {
		if t[k] != quote {
			continue
		}
		m := 0
		for k-m > i && t[k-m-1] == '\\' {
			m++
		}
		if slashes == 0 && m%2 == 1 || slashes > 0 && m > slashes {
			continue
		}
		if quote == '\'' && k > i && k+1 < len(t) && t[k+1] == '\'' {
			k++
			continue
		}
		return k - m
	}
	return len(t)
}

func endBefore(t string, i int, stop string) int {
	if k := strings.Index(t[i:], stop); k >= 0 {
		return i + k
	}
	return len(t)
}

// bareEnd returns where the value ends that begins at t[i] without a quote. A
// separator ends it only when what follows looks like a new element, because
// passwords hold separators too. A separator that is percent-encoded ends it
// unless a raw one comes before the value.
func bareEnd(t string, i int) int {
	raw := i > 0 && (t[i-1] == '=' || t[i-1] == ':')
	for k := i; k < len(t); k++ {
		switch t[k] {
		case ' ', '"', '`', '<', '>':
			return k
		case '\'':
			if boundaryAfter(t, k+1) {
				return k
			}
		case '[':
			if markerAt(t, k) {
				k += len(marker) - 1
			}
		case '\\':
			if lineBreak(t, k) {
				return k
			}
			if q, _, _ := quoteAt(t, k); q != 0 || strings.HasPrefix(t[k:], `\u0026`) {
				return k
			}
		case ')', ']', '}':
			if boundaryAfter(t, k+1) {
				return k
			}
		case ',', ';', '&', '|':
			if boundaryAfter(t, k+1) || newPair(t, k+1) {
				return k
			}
		case '.', ':', '?', '!':
			if k > i && (k+1 == len(t) || t[k+1] == ' ' || lineBreak(t, k+1)) {
				return k
			}
		case '%':
			if !raw && len(t)-k >= 3 && t[k+1] == '2' && (t[k+2] == '6' || t[k+2] == '2' || t[k+2] == '0') {
				return k
			}
		}
	}
	return len(t)
}

// boundaryAfter reports whether a separator just before t[i] ends a value.
func boundaryAfter(t string, i int) bool {
	if i >= len(t) {
		return true
	}
	switch t[i] {
	case ' ', ',', ';', ')', ']', '}', '"', '\'', '`', '>', ':', '.', '&', '|':
		return true
	case '\\':
		return true
	}
	return false
}

// newPair reports whether "key=" or "key:" begins at t[i].
func newPair(t string, i int) bool {
	k := i
	for k < len(t) && k-i < 40 && (isAlnum(t[k]) || t[k] == '_' || t[k] == '-' || t[k] == '.') {
		k++
	}
	return k > i && k < len(t) && (t[k] == '=' || t[k] == ':')
}
