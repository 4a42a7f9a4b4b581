package sanitize

// maxCard is the most digits that a card number has.
const maxCard = 19

// card looks at a digit at t[i] and returns the span of a payment card number:
// a known issuer range with its lengths, the check digit, groups of three or
// more digits with single separators, no further digit next to it.
func (s *scanner) card(i int) (start, end int) {
	t := s.t
	if i > 1 && t[i-1] == '.' && isDigit(t[i-2]) || wordBefore(t, i, 3, countWords[:]) >= 0 {
		return 0, 0
	}
	var digits [maxCard]byte
	n, k := 0, i
	sep := 0 // separator of the groups: 0 until the first, then its character
	for {
		first := k
		for k < len(t) && isDigit(t[k]) {
			if n == maxCard {
				return start, end
			}
			digits[n] = t[k] - '0'
			n++
			k++
		}
		if k-first < 3 {
			return start, end
		}
		if n >= 13 && !joined(t, i, k) && issuer(digits[:n]) && luhn(digits[:n]) {
			start, end = i, k
		}
		c, next := separator(t, k)
		if c == 0 || sep != 0 && int(c) != sep && c != ' ' && c != '-' || next >= len(t) || !isDigit(t[next]) {
			return start, end
		}
		sep, k = int(c), next
	}
}

// countWords stand just before a number that only counts.
var countWords = [...]string{"offset", "offsets", "lag", "epoch", "xid", "lsn", "snowflake", "seq", "watermark"}

// joined reports whether the digits t[first:k] are only one of several runs of
// digits in their word, as in an identifier.
func joined(t string, first, k int) bool {
	for ; k < len(t) && isAlnum(t[k]); k++ {
		if isDigit(t[k]) {
			return true
		}
	}
	for first > 0 && isLetter(t[first-1]) {
		first--
	}
	return first > 0 && isDigit(t[first-1])
}

// separator returns the separator of digit groups at t[k], and the index after
// it; 0 when there is none.
func separator(t string, k int) (c byte, next int) {
	if k >= len(t) {
		return 0, k
	}
	switch t[k] {
	case ' ', '-', '.', '+', '_':
		return t[k], k + 1
	case '%':
		if c, next = encoded(t, k); c == ' ' || c == '-' {
			return c, next
		}
	}
	return 0, k
}

// An issuerRange is a range of the first four digits, with the lengths that
// its numbers have.
type issuerRange struct{ from, to, least, most int }

var issuerRanges = [...]issuerRange{
	{2221, 2720, 16, 16}, {3000, 3059, 14, 19}, {3095, 3095, 14, 19}, {3400, 3499, 15, 15}, {3500, 3599, 16, 19},
	{3600, 3699, 14, 19}, {3700, 3799, 15, 15}, {3800, 3999, 14, 19}, {4000, 4999, 13, 19}, {5100, 5599, 16, 16},
	{6011, 6011, 16, 19}, {6200, 6299, 16, 19}, {6440, 6599, 16, 19}, {8100, 8171, 16, 19},
}

func issuer(d []byte) bool {
	head := int(d[0])*1000 + int(d[1])*100 + int(d[2])*10 + int(d[3])
	for _, r := range issuerRanges {
		if head >= r.from && head <= r.to {
			if d[0] == 4 && len(d) != 13 && len(d) != 16 && len(d) != 19 {
				return false
			}
			return len(d) >= r.least && len(d) <= r.most
		}
	}
	return false
}

func luhn(d []byte) bool {
	sum := 0
	for k := range d {
		v := int(d[len(d)-1-k])
		if k%2 == 1 {
			if v *= 2; v > 9 {
				v -= 9
			}
		}
		sum += v
	}
	return sum%10 == 0
}
