package sanitize

// secretValue reports whether v is to be removed after a key of the given kind.
func secretValue(v string, kind keyKind, quoted bool) bool {
	if v == marker {
		return true
	}
	if placeholder(v) {
		return false
	}
	switch kind {
	case strongKey, pluralKey:
		return true
	case shortKey:
		return quoted || !smallNumber(v)
	case weakKey, queryKey:
		return opaqueValue(v)
	}
	return false
}

func smallNumber(v string) bool {
	for i := range len(v) {
		if !isDigit(v[i]) && v[i] != '%' && v[i] != '.' {
			return false
		}
	}
	return len(v) <= 5
}

// opaqueValue reports whether v is of one piece, long enough, and not made of
// words.
func opaqueValue(v string) bool {
	if len(v) < 8 {
		return false
	}
	digits, mixed := 0, 0
	words := true // every upper-case run begins a word
	lowers := 0
	for i := range len(v) {
		c := v[i]
		switch {
		case isDigit(c):
			digits++
		case isUpper(c):
			if i > 0 && !isUpper(v[i-1]) {
				mixed++
				words = words && lowers >= 2
			}
			lowers = 0
		case isLetter(c):
			lowers++
		case c == '_' || c == '-' || c == '.' || c == '/':
			lowers = 2
		case c == '+' || c == '=' || c == '~' || c == '%' || c == ':' || c == '$' || c == '[' || c == ']':
			words = words && (c == '[' || c == ']')
		default:
			return false
		}
	}
	if digits > 0 {
		return true
	}
	if mixed > 0 {
		return !words
	}
	return len(v) >= 16 && lowers >= 16
}
