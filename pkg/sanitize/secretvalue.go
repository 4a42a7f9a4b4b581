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
	case toldKey:
		return quoted || len(v) >= 4 && !prose(v)
	case plainKey:
		return opaqueValue(v) && !identifier(v)
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
// words, which have two letters or more and a vowel.
func opaqueValue(v string) bool {
	if len(v) < 8 {
		return false
	}
	digits, mixed := 0, 0
	words := true // every upper-case run begins a word
	lowers, vowels := 0, 0
	for i := range len(v) {
		c := v[i]
		switch {
		case isDigit(c):
			digits++
		case isUpper(c):
			if i > 0 && !isUpper(v[i-1]) {
				mixed++
				words = words && lowers >= 2 && vowels > 0
			}
			if isVowel(c) {
				vowels = 1 // of the word that may begin here
			} else if lowers > 0 {
				vowels = 0
			}
			lowers = 0
		case isLetter(c):
			lowers++
			if isVowel(c) {
				vowels++
			}
		case c == '_' || c == '-' || c == '.' || c == '/':
			lowers, vowels = 2, 1
		case c == '+' || c == '=' || c == '~' || c == '%' || c == ':' || c == '$' || c == '[' || c == ']':
			words = words && (c == '[' || c == ']')
		case c == '|' || c == '!' || c == '*' || c == '^' || c == '#' || c == '@' || c == '&' || c == '?':
			words = false
		default:
			return false
		}
	}
	if digits > 0 {
		return true
	}
	if mixed > 0 {
		return !words || vowels == 0
	}
	return len(v) >= 16 && lowers >= 16
}

// isVowel reports whether a word may have its sound from c.
func isVowel(c byte) bool {
	switch lower(c) {
	case 'a', 'e', 'i', 'o', 'u', 'y':
		return true
	}
	return false
}

// identifier reports whether v is the name of a thing: a UUID or ULID, a path,
// or words and numbers with separators, as in orders-2024-01.
func identifier(v string) bool {
	if len(v) == 36 && v[8] == '-' && v[13] == '-' && v[18] == '-' && v[23] == '-' || len(v) == 26 && v[0] == '0' {
		return true
	}
	parts, letters, digits := 1, 0, 0 // letters and digits of the current part
	numbers := 0
	for k := range len(v) {
		switch c := v[k]; {
		case isDigit(c):
			digits++
			numbers++
		case isUpper(c):
			return false
		case isLetter(c):
			letters++
		case c == '-' || c == '_' || c == '/' || c == '.' || c == ':':
			parts++
			letters, digits = 0, 0
		default:
			return false
		}
		if letters > 0 && digits > 0 {
			return false
		}
	}
	return parts > 1 || numbers == len(v) && len(v) <= 12
}
