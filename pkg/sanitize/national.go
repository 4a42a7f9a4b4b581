package sanitize

// national looks at a digit at t[i] and returns the span of a social security
// number of the United States: three, two and four digits in the ranges that
// are issued, with dashes, or in another form next to a word that says so.
func (s *scanner) national(i int) (start, end int) {
	t := s.t
	if i+9 > len(t) || i > 1 && (t[i-1] == '-' || t[i-1] == '.') && isDigit(t[i-2]) {
		return 0, 0
	}
	var digits [9]byte
	k := i
	var sep byte
	for n := range digits {
		if (n == 3 || n == 5) && k < len(t) && !isDigit(t[k]) {
			if t[k] != '-' && t[k] != ' ' && t[k] != '.' || n == 5 && t[k] != sep {
				return 0, 0
			}
			sep = t[k]
			k++
		} else if n == 5 && sep != 0 {
			return 0, 0
		}
		if k == len(t) || !isDigit(t[k]) {
			return 0, 0
		}
		digits[n] = t[k]
		k++
	}
	if k < len(t) && (isAlnum(t[k]) || t[k] == '-' && k+1 < len(t) && isAlnum(t[k+1])) || i > 0 && (isDigit(t[i-1]) || afterLetter(t, i)) {
		return 0, 0
	}
	area, group, serial := string(digits[:3]), string(digits[3:5]), string(digits[5:])
	if area == "000" || area == "666" || area[0] == '9' || group == "00" || serial == "0000" {
		return 0, 0
	}
	if sep != '-' && wordBefore(t, i, near, nationalWords[:]) < 0 {
		return 0, 0
	}
	return i, k
}

var nationalWords = [...]string{"ssn", "security", "ssns", "tin"}
