package sanitize

// atWord asks the classes that begin with the first letter of a word.
func (s *scanner) atWord(i int) {}

// atNumber asks the classes that begin with the first digit of a number.
func (s *scanner) atNumber(i int) {}

// atColon asks the classes that begin at a colon.
func (s *scanner) atColon(i int) {
	if start, end := s.keyValue(i, i+1, ':'); start < end {
		s.add(classKeyValue, start, end)
	}
}

// atEquals asks the classes that begin at an equals sign.
func (s *scanner) atEquals(i int) {
	if start, end := s.keyValue(i, i+1, '='); start < end {
		s.add(classKeyValue, start, end)
	}
}

// atAt asks the classes that are recognised by an at sign.
func (s *scanner) atAt(i int) {}

// atDash asks the classes that begin with a dash.
func (s *scanner) atDash(i int) {}

// atStructure asks the classes that begin with a bracket, a plus or a slash.
func (s *scanner) atStructure(i int) {}

// atEscape asks the classes that an encoded character begins, and returns the
// index of its last byte.
func (s *scanner) atEscape(i int) int { return i }
