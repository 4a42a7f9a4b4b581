package sanitize

import "strings"

// spoken looks at a word t[i:] and returns the span of a secret that follows
// its name without a separator: a quoted text after "password", a word with
// digits after "password is", a number after "pin" or "otp".
func (s *scanner) spoken(i int) (start, end int) {
	t := s.t
	k := i
	for k < len(t) && isLetter(t[k]) && k-i < 11 {
		k++
	}
	if k >= len(t) || t[k] != ' ' || k-i < 3 {
		return 0, 0
	}
	word := t[i:k]
	for k < len(t) && t[k] == ' ' {
		k++
	}
	switch {
	case indexFold(word, opaqueWords[:]) >= 0:
		for _, verb := range [...]string{"is ", "was "} {
			if strings.HasPrefix(t[k:], verb) {
				start = k + len(verb)
				if end = bareEnd(t, start); end-start >= 16 && opaqueValue(t[start:end]) && !identifier(t[start:end]) {
					return start, end
				}
			}
		}
		return 0, 0
	case indexFold(word, spokenNumbers[:]) >= 0:
		end = k
		for end < len(t) && isDigit(t[end]) {
			end++
		}
		if end-k < 3 || end-k > 8 || end < len(t) && (isAlnum(t[end]) || t[end] == '.' && end+1 < len(t) && isDigit(t[end+1])) {
			return 0, 0
		}
		return k, end
	case word == "pass" && (wordsBefore(t, i, "user") || wordsBefore(t, i, "login")):
		if start, end = k, bareEnd(t, k); quotelessSecret(t[start:end]) {
			return start, end
		}
		return 0, 0
	case indexFold(word, spokenWords[:]) < 0:
		return 0, 0
	}
	for _, verb := range [...]string{"is ", "was "} {
		if strings.HasPrefix(t[k:], verb) {
			k += len(verb)
			if start, end = k, bareEnd(t, k); quotelessSecret(t[start:end]) || end-start >= 4 && smallest(t[start:end]) {
				return start, end
			}
			break
		}
	}
	if strings.HasPrefix(t[k:], "for ") || strings.HasPrefix(t[k:], "FOR ") { // SET PASSWORD FOR user = 'x'
		if n := strings.Index(t[k:min(len(t), k+80)], " = '"); n > 0 {
			start = k + n + 4
			return start, quotedEnd(t, start, '\'', 0)
		}
	}
	if wordsBefore(t, i, "login") { // a line of .netrc
		return k, bareEnd(t, k)
	}
	quote, slashes, next := quoteAt(t, k)
	if quote == 0 {
		return 0, 0
	}
	end = quotedEnd(t, next, quote, slashes)
	if end == len(t) || placeholder(t[next:end]) {
		return 0, 0
	}
	return next, end
}

var (
	spokenWords   = [...]string{"password", "passwd", "passphrase", "passcode", "pwd"}
	opaqueWords   = [...]string{"token", "secret"}
	spokenNumbers = [...]string{"pin", "otp", "totp", "cvv", "cvc", "passcode"}
)

// smallest reports whether v is of digits only.
func smallest(v string) bool {
	for k := range len(v) {
		if !isDigit(v[k]) {
			return false
		}
	}
	return true
}

// wordsBefore reports whether name and one more word come just before t[i].
func wordsBefore(t string, i int, name string) bool {
	if i < 2 || t[i-1] != ' ' {
		return false
	}
	k := i - 1
	for k > 0 && i-k < 80 && t[k-1] != ' ' {
		k--
	}
	return k > len(name) && strings.HasSuffix(t[:k-1], name)
}

// identified looks at the word "identified" at t[i] and returns the span of the
// password of a statement: IDENTIFIED [WITH method] BY 'x'.
func (s *scanner) identified(i int) (start, end int) {
	t := s.t
	if len(t)-i < 16 || !strings.EqualFold(t[i:i+11], "identified ") {
		return 0, 0
	}
	for k := i + 10; k+4 < len(t) && k < i+60; k++ {
		if strings.EqualFold(t[k:k+4], " by ") {
			quote, slashes, next := quoteAt(t, k+4)
			if quote == 0 {
				return 0, 0
			}
			return next, quotedEnd(t, next, quote, slashes)
		}
	}
	return 0, 0
}

// quotelessSecret reports whether a word of prose can only be a secret.
func quotelessSecret(v string) bool {
	digits, letters := 0, 0
	for k := range len(v) {
		if isDigit(v[k]) {
			digits++
		} else if isLetter(v[k]) {
			letters++
		}
	}
	return digits > 0 && letters > 0 && len(v) >= 5
}
