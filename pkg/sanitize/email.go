package sanitize

import (
	"strings"
	"unicode/utf8"
)

// email looks at an at sign at t[i:after], plain or encoded, and returns the
// span of the address around it.
func (s *scanner) email(i, after int) (start, end int) {
	t := s.t
	if i == s.url.spanEnd || i == s.dsnEnd || i == 0 || after >= len(t) {
		return 0, 0
	}
	end = domainEnd(t, after)
	if end == after || t[after:end] == "openssh.com" { // a name of the SSH protocol
		return 0, 0
	}
	start = localStart(t, i, s.spanFloor())
	if start == i {
		return 0, 0
	}
	if start > 0 && t[start-1] == '/' && t[after] == 'v' && isDigit(t[after+1]) {
		return 0, 0 // module@version
	}
	return start, end
}

// localStart returns where the local part begins that ends before t[i].
func localStart(t string, i, floor int) int {
	k := i
	if t[k-1] == '"' && k >= 3 { // "quoted local part"@
		if q := strings.LastIndexByte(t[max(floor, k-66):k-1], '"'); q >= 0 {
			return max(floor, k-66) + q
		}
	}
	for k > floor {
		c := t[k-1]
		if k-3 >= floor && t[k-3] == '%' {
			if d, next := encoded(t, k-3); next == k {
				if !localByte(d) {
					break
				}
				k -= 3
				continue
			}
		}
		if !localByte(c) {
			break
		}
		k--
	}
	k = afterEscape(t, k, i)
	for k < i && !utf8.RuneStart(t[k]) {
		k++
	}
	for k < i && (t[k] == '.' || t[k] == '-' || t[k] == '\'' || t[k] == '%') {
		k++
	}
	return k
}

func localByte(c byte) bool {
	return isAlnum(c) || c >= 0x80 || c == '.' || c == '_' || c == '-' || c == '+' || c == '\'' || c == '%' ||
		c == '!' || c == '~' || c == '*' || c == '^'
}

// domainEnd returns where a domain name ends that begins at t[i], or i when
// none does. The last label is of letters and no file or unit name ending.
func domainEnd(t string, i int) int {
	k, label, dots := i, i, 0
	end := i
	for k < len(t) {
		c := t[k]
		if isAlnum(c) || c >= 0x80 || c == '-' {
			k++
			continue
		}
		if c == '%' && k+2 < len(t) && isHex(t[k+1]) && isHex(t[k+2]) && unhex(t[k+1]) >= 8 {
			k += 3 // a letter beyond ASCII
			continue
		}
		if c != '.' || k == label {
			break
		}
		dots++
		if dots > 1 && topLevel(t[label:k]) {
			end = k
		}
		k++
		label = k
	}
	if dots > 0 && k > label && topLevel(t[label:k]) {
		return k
	}
	if dots > 0 && k > label {
		trimmed := strings.TrimRight(t[label:k], "-0123456789")
		trimmed = strings.TrimSuffix(trimmed, "-")
		if len(trimmed) < k-label && len(trimmed) > 0 && t[label+len(trimmed)] == '-' && topLevel(trimmed) {
			return label + len(trimmed)
		}
	}
	return end
}

// topLevel reports whether label can be the last one of a domain name.
func topLevel(label string) bool {
	if strings.HasPrefix(label, "xn--") {
		return true
	}
	letters := 0
	for k := range len(label) {
		if !isLetter(label[k]) && label[k] < 0x80 {
			return false
		}
		letters++
	}
	switch label {
	case "service", "socket", "target", "timer", "mount", "slice", "scope", "png", "jpg", "jpeg", "svg", "gif", "webp":
		return false
	}
	return letters >= 2
}

// spelled looks at " at " at t[i:] and returns the span of an address that is
// written out in words, as in "bob at example dot com".
func (s *scanner) spelled(i int) (start, end int) {
	t := s.t
	if i < 2 || t[i-1] != ' ' || !strings.HasPrefix(t[i:], "at ") {
		return 0, 0
	}
	k := i + 3
	dots := 0
	for k < len(t) {
		first := k
		for k < len(t) && (isAlnum(t[k]) || t[k] == '-' || t[k] >= 0x80) {
			k++
		}
		if k == first {
			break
		}
		end = k
		if !strings.HasPrefix(t[k:], " dot ") {
			break
		}
		dots++
		k += len(" dot ")
	}
	if start = localStart(t, i-1, s.spanFloor()); dots == 0 || start == i-1 {
		return 0, 0
	}
	return start, end
}
