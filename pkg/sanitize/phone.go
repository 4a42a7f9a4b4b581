package sanitize

import "strings"

// near is how far from a word like "phone" a number is taken for one.
const near = 20

// phone looks at a digit at t[i] and returns the span of a telephone number:
// international with a plus, or any with a word like "phone" nearby.
func (s *scanner) phone(i int) (start, end int) {
	t := s.t
	if i < s.phoneUntil {
		return 0, 0
	}
	plus := i > 0 && t[i-1] == '+' && (i == 1 || !isAlnum(t[i-2]) || i > 2 && lineBreak(t, i-3))
	plus = plus || i > 2 && t[i-3] == '%' && t[i-2] == '2' && t[i-1]|0x20 == 'b'
	end, digits, groups := phoneEnd(t, i)
	if digits > 15 {
		s.phoneUntil = end // no part of a longer number is one
	}
	if digits < 7 || digits > 15 {
		return 0, 0
	}
	switch {
	case plus && digits >= 8 && t[i] != '0':
	case dateLike(t[i:end], groups) || quad(t, i) > 0:
		return 0, 0
	case !s.phoneWord(i, end, digits, groups):
		return 0, 0
	}
	start = i
	if i > 0 && t[i-1] == '(' {
		start--
	}
	if start > 0 && t[start-1] == '+' {
		start--
	} else if plus && start == i && t[i-1] != '+' {
		start -= 3
	}
	s.phoneUntil = end
	return start, end
}

// phoneEnd returns the end of a run of groups of digits, and the numbers of
// both. Groups are separated by a blank, dash, dot, slash or brackets.
func phoneEnd(t string, i int) (end, digits, groups int) {
	k := i
	for {
		first := k
		for k < len(t) && isDigit(t[k]) {
			k++
		}
		if k+1 < len(t) && t[k]|0x20 == 'x' && isDigit(t[k+1]) && digits+k-first >= 7 { // extension
			digits += k - first
			for k++; k < len(t) && isDigit(t[k]); {
				k++
			}
			return k, digits, groups + 1
		}
		if k < len(t) && (isLetter(t[k]) || t[k] == '_') && k > first {
			return end, digits, groups // part of a word
		}
		digits += k - first
		groups++
		end = k
		if digits > 15 {
			return end, digits, groups
		}
		gap := k
		for k < len(t) && k-gap < 3 && strings.IndexByte(" -./()", t[k]) >= 0 {
			k++
		}
		if k == gap || k == len(t) || !isDigit(t[k]) || k-gap > 1 && !strings.ContainsAny(t[gap:k], "()") {
			return end, digits, groups
		}
	}
}

// dateLike reports whether v is a date such as 2024-01-02 or 02.01.2024.
func dateLike(v string, groups int) bool {
	if groups < 3 || len(v) < 8 {
		return false
	}
	sep := func(k int) bool { return k < len(v) && (v[k] == '-' || v[k] == '.' || v[k] == '/') }
	return sep(4) && sep(7) || sep(2) && sep(5) && len(v) >= 10 && !sep(8)
}

// phoneWord reports whether a word near t[i:end] says that it is a telephone
// number.
func (s *scanner) phoneWord(i, end, digits, groups int) bool {
	t := s.t
	switch k := wordBefore(t, i, near, phoneWords[:]); {
	case k > 0, k == 0 && (groups > 1 || t[i] == '0' || digits >= 9 && wordBefore(t, i, 5, callWords[:]) >= 0):
		return true
	}
	return wordAfter(t, end, near, phoneWords[1:]) >= 0
}

// phoneWords are the words that announce a telephone number. The first one has
// other meanings too.
var phoneWords = [...]string{"call", "tel", "phone", "telephone", "sms", "mobile", "fax", "msisdn", "whatsapp", "telefon", "telefono", "mobil", "cellphone"}

// callWords stand between "call" and a number that is dialled.
var callWords = [...]string{"call", "at", "on", "me", "to", "us", "number"}
