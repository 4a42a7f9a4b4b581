package sanitize

import "math"

// atWord asks the classes that begin with the first letter of a word.
func (s *scanner) atWord(i int) {
	t := s.t
	if i+3 >= len(t) {
		return
	}
	if start, end := s.opaque(i); start < end {
		s.add(classOpaque, start, end)
	}
	if isDigit(t[i+2]) && isDigit(t[i+3]) {
		start, end := s.iban(i)
		s.add(classIBAN, start, end)
	}
	if tokenStarts.at(t, i) && i >= s.tokenUntil {
		if start, end := s.vendor(i); start < end {
			s.add(classVendor, start, end)
			s.tokenUntil = end
		}
	}
	if !wordStarts.at(t, i) {
		return
	}
	switch t[i] | 0x20 {
	case 'e':
		if i >= s.tokenUntil {
			start, end := s.jwt(i)
			s.add(classJWT, start, end)
			s.tokenUntil = max(s.tokenUntil, end)
		}
		start, end := s.imageVariable(i)
		s.add(classKeyValue, start, end)
	case 'b', 'd', 'n', 'a':
		if end := authWordEnd(t, i); end > i {
			start, stop := s.authWord(i, end)
			s.add(classHeader, start, stop)
		}
		if s.strict && t[i] == 'a' {
			start, end := s.spelled(i)
			s.add(classEmail, start, end)
		}
	case 'i':
		start, end := s.identified(i)
		s.add(classKeyValue, start, end)
	case 'm', 's', 'r', 'l', 'v':
		start, end := s.command(i)
		s.add(classCLI, start, end)
		if start == end && t[i]|0x20 == 's' {
			start, end = s.spoken(i)
			s.add(classKeyValue, start, end)
		}
	case 'p', 'o', 't', 'c', 'k':
		start, end := s.spoken(i)
		s.add(classKeyValue, start, end)
	case 'f':
		start, end := s.ipv6(i)
		s.add(classIP, start, end)
	}
	if dataStarts.at(t, i) {
		start, end := s.quotedData(i)
		s.add(classLiteral, start, end)
	}
	if literalStarts.at(t, i) {
		end := i
		for end < len(t) && isLetter(t[end]) && end-i < 8 {
			end++
		}
		start, stop := s.longLiteral(i, end)
		s.add(classLiteral, start, stop)
	}
}

// starts holds how the words of a list begin: bit c of the entry of a and b is
// set when a word begins with a, b and c, of which the low five bits count. So
// case does not matter.
type starts [32 * 32]uint32

func startsOf(lists ...[]string) *starts {
	var s starts
	for _, list := range lists {
		for _, w := range list {
			thirds := uint32(math.MaxUint32)
			if len(w) > 2 {
				thirds = 1 << (w[2] & 31)
			}
			s[int(w[0]&31)<<5|int(w[1]&31)] |= thirds
		}
	}
	return &s
}

// at reports whether one of the words may begin at t[i], of which there are
// three bytes.
func (s *starts) at(t string, i int) bool {
	return s[int(t[i]&31)<<5|int(t[i+1]&31)]&(1<<(t[i+2]&31)) != 0
}

var (
	// tokenStarts is of the tokens that vendor knows.
	tokenStarts = func() *starts {
		var prefixes []string
		for _, tokens := range vendorTokens {
			for _, v := range tokens {
				prefixes = append(prefixes, v.prefix)
			}
		}
		return startsOf(prefixes)
	}()
	// dataStarts is of the words that quotedData knows.
	dataStarts = func() *starts {
		var leads []string
		for _, p := range dataPhrases {
			leads = append(leads, p.lead)
		}
		return startsOf(leads)
	}()
	// literalStarts is of the words that longLiteral knows.
	literalStarts = startsOf(literalWords[:])
	// wordStarts is of every word that atWord knows, besides tokens.
	wordStarts = func() *starts {
		s := startsOf(literalWords[:], spokenWords[:], spokenNumbers[:], opaqueWords[:], commandWords[:], authWords[:],
			[]string{"identified", "env", "pass", "plain", "code", "key ", "eyJ", "at ", "fe80", "fc", "fd", "fa", "fb", "f0", "f1", "f2", "f3", "f4", "f5", "f6", "f7", "f8", "f9", "ff"})
		for k, thirds := range dataStarts {
			s[k] |= thirds
		}
		return s
	}()
)

// atNumber asks the classes that begin with the first digit of a number.
func (s *scanner) atNumber(i int) {
	if start, end := s.opaque(i); start < end {
		s.add(classOpaque, start, end)
	}
	s.atDigits(i)
}

// atDigits asks the classes that begin with the first digit of a run, also
// inside a word.
func (s *scanner) atDigits(i int) {
	t := s.t
	if i+6 >= len(t) {
		return
	}
	k := i + 1
	for k < len(t) && isDigit(t[k]) {
		k++
	}
	if (t[i] == '2' || t[i] == '3') && t[i+4] == ':' {
		start, end := s.ipv6(i)
		s.add(classIP, start, end)
	}
	n := k - i
	if n <= 3 && t[k] == '.' {
		start, end := s.ipv4(i)
		s.add(classIP, start, end)
	}
	if n < 7 && (k+1 >= len(t) || isAlnum(t[k]) || !isDigit(t[k+1]) && t[k] != ' ' && t[k] != ')' && t[k] != '(' && t[k] != '%') {
		return
	}
	if n >= 3 {
		start, end := s.card(i)
		s.add(classCard, start, end)
	}
	if n == 3 || n == 9 {
		start, end := s.national(i)
		s.add(classNational, start, end)
	}
	start, end := s.phone(i)
	s.add(classPhone, start, end)
}

// atComma asks the classes that are a key and a value in a list of arguments,
// both quoted.
func (s *scanner) atComma(i int) {
	t := s.t
	if i == 0 || i+2 >= len(t) || t[i-1] != '"' && t[i-1] != '\'' {
		return
	}
	if next := t[i+1]; next == '"' || next == '\'' || next == '\\' || next == ' ' && (t[i+2] == '"' || t[i+2] == '\'' || t[i+2] == '\\') {
		start, end := s.keyValue(i, i+1, ',')
		s.add(classKeyValue, start, end)
	}
}

// atColon asks the classes that begin at a colon.
func (s *scanner) atColon(i int) {
	if start, end := s.userinfo(i); start < end {
		s.add(classURL, start, end)
		return
	}
	s.atPair(i, i+1, ':')
}

// atPair asks the classes that are a key and a value around a separator.
func (s *scanner) atPair(sep, after int, mark byte) {
	if start, end := s.header(sep, after, mark); start < end {
		s.add(classHeader, start, end)
	} else if start, end := s.keyValue(sep, after, mark); start < end {
		s.add(classKeyValue, start, end)
	}
}

// atEquals asks the classes that begin at an equals sign.
func (s *scanner) atEquals(i int) {
	start, end := s.columnValue(i)
	s.add(classLiteral, start, end)
	s.atPair(i, i+1, '=')
}

// atAt asks the classes that are recognised by an at sign.
func (s *scanner) atAt(i int) {
	if start, end := s.dsn(i); start < end {
		s.add(classURL, start, end)
		s.dsnEnd = end
	}
	if start, end := s.email(i, i+1); start < end {
		s.add(classEmail, start, end)
	}
}

// atDash asks the classes that begin with a dash.
func (s *scanner) atDash(i int) {
	if start, end := s.pem(i); start < end {
		s.add(classPEM, start, end)
		return
	}
	if i+1 < len(s.t) && s.t[i+1] == '>' {
		s.atPair(i, i+2, '=')
		return
	}
	start, end := s.option(i)
	s.add(classCLI, start, end)
}

// atStructure asks the classes that begin with a bracket or a slash.
func (s *scanner) atStructure(i int) {
	if s.t[i] == '/' {
		start, end := s.homePath(i)
		s.add(classPath, start, end)
		return
	}
	if start, end := s.body(i); start < end {
		s.add(classBody, start, end)
	} else if s.t[i] == '<' {
		start, end := s.element(i)
		s.add(classKeyValue, start, end)
	}
}

// atEscape asks the classes that an encoded character begins, and returns the
// index of its last byte.
func (s *scanner) atEscape(i int) int {
	t := s.t
	if t[i] == '\\' {
		if i+1 == len(t) {
			return i
		}
		if i > 0 && t[i-1] == ':' {
			if start, end := s.windowsPath(i); start < end {
				s.add(classPath, start, end)
				return start - 1
			}
		}
		switch t[i+1] {
		case 'n', 'r', 't', 'b', 'f':
			return i + 1
		case 'u':
			if c, after := unicodeEscape(t, i); c != 0 {
				s.atEncoded(c, i, after)
				return after - 1
			}
		}
		return i
	}
	c, after := encoded(t, i)
	if c == 0 {
		return i
	}
	s.atEncoded(c, i, after)
	return after - 1
}

// atEncoded asks the classes that begin at c, which is encoded in t[i:after].
func (s *scanner) atEncoded(c byte, i, after int) {
	switch c {
	case '@':
		if start, end := s.email(i, after); start < end {
			s.add(classEmail, start, end)
		}
	case '=':
		s.atPair(i, after, '=')
	case ':':
		if start, end := s.encodedUserinfo(i, after); start < end {
			s.add(classURL, start, end)
		} else {
			s.atPair(i, after, ':')
		}
	}
}

// unicodeEscape returns the ASCII character of \u00XX at t[i], and the index
// after it.
func unicodeEscape(t string, i int) (c byte, after int) {
	if i+6 > len(t) || t[i+2] != '0' || t[i+3] != '0' || !isHex(t[i+4]) || !isHex(t[i+5]) {
		return 0, i
	}
	return unhex(t[i+4])<<4 | unhex(t[i+5]), i + 6
}
