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
	case indexFold(word, spokenNumbers[:]) >= 0:
		end = k
		for end < len(t) && isDigit(t[end]) {
			end++
		}
		if end-k < 3 || end-k > 8 || end < len(t) && (isAlnum(t[end]) || t[end] == '.' && end+1 < len(t) && isDigit(t[end+1])) {
			return 0, 0
		}
		return k, end
	case indexFold(word, spokenWords[:]) < 0:
		return 0, 0
	}
	for _, verb := range [...]string{"is ", "was "} {
		if strings.HasPrefix(t[k:], verb) {
			k += len(verb)
			if start, end = k, bareEnd(t, k); quotelessSecret(t[start:end]) {
				return start, end
			}
			break
		}
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
	spokenNumbers = [...]string{"pin", "otp", "totp", "cvv", "cvc", "passcode"}
)

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
