package sanitize

// atWord asks the classes that begin with the first letter of a word.
func (s *scanner) atWord(i int) {
	t := s.t
	if i >= s.tokenUntil {
		if start, end := s.vendor(i); start < end {
			s.add(classVendor, start, end)
			s.tokenUntil = end
		} else if t[i] == 'e' {
			if start, end := s.jwt(i); start < end {
				s.add(classJWT, start, end)
				s.tokenUntil = end
			}
		}
	}
	if start, end := s.opaque(i); start < end {
		s.add(classOpaque, start, end)
	}
	switch t[i] | 0x20 {
	case 'b', 'd', 'n', 'a':
		if end := authWordEnd(t, i); end > i {
			if start, stop := s.authWord(i, end); start < stop {
				s.add(classHeader, start, stop)
			}
		}
		if s.strict && t[i] == 'a' {
			start, end := s.spelled(i)
			s.add(classEmail, start, end)
		}
	}
}

// atNumber asks the classes that begin with the first digit of a number.
func (s *scanner) atNumber(i int) {
	if start, end := s.opaque(i); start < end {
		s.add(classOpaque, start, end)
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
func (s *scanner) atEquals(i int) { s.atPair(i, i+1, '=') }

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
	}
}

// atStructure asks the classes that begin with a bracket, a plus or a slash.
func (s *scanner) atStructure(i int) {}

// atEscape asks the classes that an encoded character begins, and returns the
// index of its last byte.
func (s *scanner) atEscape(i int) int {
	t := s.t
	if t[i] == '\\' {
		if i+1 == len(t) {
			return i
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
