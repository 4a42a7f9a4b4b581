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
	if k-i == 4 && t[i]|0x20 == 'c' {
		return oneTimeCode(t, i)
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
		return saidToBe(t, k)
	case strings.EqualFold(word, "key"):
		if s.keyBefore(i+len(word)) == strongKey { // "api key", not "primary key"
			return saidToBe(t, k)
		}
		return 0, 0
	case indexFold(word, spokenNumbers[:]) >= 0:
		if at := afterVerb(t, k); at > k {
			return numberAt(t, at, 4)
		}
		return numberAt(t, k, 3)
	case word == "PLAIN" && strings.HasSuffix(t[:i], "AUTH "): // RFC 4616 in SMTP
		if end = bareEnd(t, k); end-k >= 8 {
			return k, end
		}
		return 0, 0
	case word == "pass" && (wordsBefore(t, i, "user") || wordsBefore(t, i, "login")):
		if start, end = k, bareEnd(t, k); quotelessSecret(t[start:end]) {
			return start, end
		}
		return 0, 0
	case indexFold(word, spokenWords[:]) < 0:
		return 0, 0
	}
	if at := afterVerb(t, k); at > k {
		k = at
		if start, end = k, bareEnd(t, k); quotelessSecret(t[start:end]) || end-start >= 4 && smallest(t[start:end]) {
			return start, end
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
		if end = bareEnd(t, k); passwordLike(t[k:end]) {
			return k, end
		}
		return 0, 0
	}
	end = quotedEnd(t, next, quote, slashes)
	if end == len(t) || placeholder(t[next:end]) {
		return 0, 0
	}
	return next, end
}

// saidToBe returns the span of the opaque word after "is" or "was" at t[k].
func saidToBe(t string, k int) (start, end int) {
	if start = afterVerb(t, k); start == k {
		return 0, 0
	}
	if end = bareEnd(t, start); end-start >= 10 && opaqueValue(t[start:end]) && !identifier(t[start:end]) {
		return start, end
	}
	return 0, 0
}

// afterVerb returns the index after "is " or "was " at t[k], or k.
func afterVerb(t string, k int) int {
	for _, verb := range [...]string{"is ", "was "} {
		if strings.HasPrefix(t[k:], verb) {
			return k + len(verb)
		}
	}
	return k
}

// numberAt returns the span of a number of least to eight digits at t[i].
func numberAt(t string, i, least int) (start, end int) {
	end = i
	for end < len(t) && isDigit(t[end]) {
		end++
	}
	if end-i < least || end-i > 8 || end < len(t) && (isAlnum(t[end]) || t[end] == '.' && end+1 < len(t) && isDigit(t[end+1])) {
		return 0, 0
	}
	return i, end
}

// oneTimeCode looks at the word "code" at t[i] and returns the span of the
// number after it when the word before says that it lets somebody in.
func oneTimeCode(t string, i int) (start, end int) {
	if !strings.EqualFold(t[i:i+4], "code") || i < 4 || t[i-1] != ' ' {
		return 0, 0
	}
	if indexFold(t[wordStart(t, i-1):i-1], codeNames[:]) < 0 {
		return 0, 0
	}
	k := i + 4
	for k < len(t) && k-i < 8 && (t[k] == ' ' || t[k] == ':' || t[k] == '=' || t[k] == '(' || t[k] == '"') {
		k++
	}
	return numberAt(t, afterVerb(t, k), 4)
}

// codeNames come before the word code when it is a secret for a short time.
var codeNames = [...]string{"verification", "one-time", "onetime", "security", "confirmation", "2fa", "mfa", "otp", "sms", "login", "authentication"}

// passwordLike reports whether a word just after "password" is one: of letters
// and digits, and no name of a method, such as sha256_password.
func passwordLike(v string) bool {
	if len(v) < 6 || !quotelessSecret(v) || identifier(v) || strings.ContainsAny(v, ":=/(){}<>[]$%\\") {
		return false
	}
	for _, method := range methods {
		for k := 0; k+len(method) <= len(v); k++ {
			if strings.EqualFold(v[k:k+len(method)], method) {
				return false
			}
		}
	}
	return true
}

// methods are parts of the names of ways to hash or encode a password.
var methods = [...]string{"sha", "md5", "argon2", "pbkdf2", "crypt", "base64", "base32", "utf", "oauth", "x509", "pkcs", "version", "rfc"}

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
