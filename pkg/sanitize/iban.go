package sanitize

// ibanLengths holds the length of an account number by country.
var ibanLengths = [26][26]uint8{
	'A' - 'A': {'D' - 'A': 24, 'E' - 'A': 23, 'L' - 'A': 28, 'T' - 'A': 20, 'Z' - 'A': 28},
	'B' - 'A': {'A' - 'A': 20, 'E' - 'A': 16, 'G' - 'A': 22, 'H' - 'A': 22, 'I' - 'A': 27, 'R' - 'A': 29, 'Y' - 'A': 28},
	'C' - 'A': {'H' - 'A': 21, 'R' - 'A': 22, 'Y' - 'A': 28, 'Z' - 'A': 24},
	'D' - 'A': {'E' - 'A': 22, 'J' - 'A': 27, 'K' - 'A': 18, 'O' - 'A': 28},
	'E' - 'A': {'E' - 'A': 20, 'G' - 'A': 29, 'S' - 'A': 24},
	'F' - 'A': {'I' - 'A': 18, 'K' - 'A': 18, 'O' - 'A': 18, 'R' - 'A': 27},
	'G' - 'A': {'B' - 'A': 22, 'E' - 'A': 22, 'I' - 'A': 23, 'L' - 'A': 18, 'R' - 'A': 27, 'T' - 'A': 28},
	'H' - 'A': {'N' - 'A': 28, 'R' - 'A': 21, 'U' - 'A': 28},
	'I' - 'A': {'E' - 'A': 22, 'L' - 'A': 23, 'Q' - 'A': 23, 'S' - 'A': 26, 'T' - 'A': 27},
	'J' - 'A': {'O' - 'A': 30},
	'K' - 'A': {'W' - 'A': 30, 'Z' - 'A': 20},
	'L' - 'A': {'B' - 'A': 28, 'C' - 'A': 32, 'I' - 'A': 21, 'T' - 'A': 20, 'U' - 'A': 20, 'V' - 'A': 21, 'Y' - 'A': 25},
	'M' - 'A': {'C' - 'A': 27, 'D' - 'A': 24, 'E' - 'A': 22, 'K' - 'A': 19, 'N' - 'A': 20, 'R' - 'A': 27, 'T' - 'A': 31, 'U' - 'A': 30},
	'N' - 'A': {'I' - 'A': 28, 'L' - 'A': 18, 'O' - 'A': 15},
	'O' - 'A': {'M' - 'A': 23},
	'P' - 'A': {'K' - 'A': 24, 'L' - 'A': 28, 'S' - 'A': 29, 'T' - 'A': 25},
	'Q' - 'A': {'A' - 'A': 29},
	'R' - 'A': {'O' - 'A': 24, 'S' - 'A': 22, 'U' - 'A': 33},
	'S' - 'A': {
		'A' - 'A': 24, 'C' - 'A': 31, 'D' - 'A': 18, 'E' - 'A': 24, 'I' - 'A': 19, 'K' - 'A': 24, 'M' - 'A': 27,
		'O' - 'A': 23, 'T' - 'A': 25, 'V' - 'A': 28,
	},
	'T' - 'A': {'L' - 'A': 23, 'N' - 'A': 24, 'R' - 'A': 26},
	'U' - 'A': {'A' - 'A': 29},
	'V' - 'A': {'A' - 'A': 22, 'G' - 'A': 24},
	'X' - 'A': {'K' - 'A': 20},
	'Y' - 'A': {'E' - 'A': 30},
}

// iban looks at a letter at t[i] and returns the span of an international bank
// account number: country, its length, and the remainder by 97.
func (s *scanner) iban(i int) (start, end int) {
	t := s.t
	if i+15 > len(t) || !isLetter(t[i]) || !isLetter(t[i+1]) || !isDigit(t[i+2]) || !isDigit(t[i+3]) {
		return 0, 0
	}
	want := int(ibanLengths[t[i]&0x5F-'A'][t[i+1]&0x5F-'A'])
	if want == 0 {
		return 0, 0
	}
	var body [34]byte
	n, k := 0, i
	for n < want && k < len(t) {
		if isAlnum(t[k]) {
			body[n] = t[k]
			n++
			k++
			continue
		}
		c, next := separator(t, k)
		if c == 0 || next >= len(t) || !isAlnum(t[next]) {
			return 0, 0
		}
		k = next
	}
	if n < want || k < len(t) && isAlnum(t[k]) {
		return 0, 0
	}
	rest := 0
	for j := range n {
		c := body[(j+4)%n]
		if isDigit(c) {
			rest = (rest*10 + int(c-'0')) % 97
		} else {
			rest = (rest*100 + int(c&0x5F-'A') + 10) % 97
		}
	}
	if rest != 1 {
		return 0, 0
	}
	return i, k
}
