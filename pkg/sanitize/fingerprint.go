package sanitize

const (
	fnvOffset = 14695981039346656037
	fnvPrime  = 1099511628211
)

// Fingerprint returns a number that is equal for texts of one template: words
// with digits in them, and long hexadecimal words, count as one placeholder,
// and so does every run of blanks. It is 0 for the empty Text and only for it.
// It is computed from sanitised text, so it cannot be used to guess a secret.
func (z *Sanitizer) Fingerprint(t Text) uint64 {
	if t.s == "" {
		return 0
	}
	h := uint64(fnvOffset)
	last := byte(0)
	put := func(c byte) {
		if c == last && (c == ' ' || c == '#') {
			return
		}
		last = c
		h = (h ^ uint64(c)) * fnvPrime
	}
	for i := 0; i < len(t.s); {
		c := t.s[i]
		if !isAlnum(c) {
			put(c)
			i++
			continue
		}
		end := i
		for end < len(t.s) && (isAlnum(t.s[end]) || variableJoint(t.s, end)) {
			end++
		}
		if word := t.s[i:end]; variable(word) {
			put('#')
		} else {
			for k := range len(word) {
				put(word[k])
			}
		}
		i = end
	}
	if h == 0 {
		h = 1
	}
	return h
}

// variable reports whether a word is likely to differ between two messages of
// one template.
func variable(word string) bool {
	hex := true
	for i := range len(word) {
		if isDigit(word[i]) {
			return true
		}
		hex = hex && isHex(word[i])
	}
	return hex && len(word) >= 8
}

// variableJoint reports whether t[i] joins the parts of one number, time or
// identifier: a single separator between alphanumerics, of which one is a
// digit.
func variableJoint(t string, i int) bool {
	switch t[i] {
	case '-', '.', ':', '_':
	default:
		return false
	}
	return i > 0 && i+1 < len(t) && isAlnum(t[i-1]) && isAlnum(t[i+1]) && (isDigit(t[i-1]) || isDigit(t[i+1]))
}
