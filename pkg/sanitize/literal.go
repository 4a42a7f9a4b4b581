package sanitize

import "strings"

// maxLiteral is the longest quoted part of a statement that may be kept.
const maxLiteral = 64

// literalWords come before a quoted part of a statement or of its data.
var literalWords = [...]string{"value", "values", "near", "before", "parsing", "literal", "row"}

// columnValue looks at "=" at t[i] and returns the span of the value in
// "Key (column)=(value)" of PostgreSQL.
func (s *scanner) columnValue(i int) (start, end int) {
	t := s.t
	if i == 0 || t[i-1] != ')' || i+1 >= len(t) || t[i+1] != '(' || i < s.columnUntil {
		return 0, 0
	}
	open := strings.LastIndexByte(t[max(0, i-256):i], '(')
	if open < 0 || !strings.HasSuffix(t[:max(0, i-256)+open], "Key ") {
		return 0, 0
	}
	start = i + 2
	depth := 1
	for end = start; end < len(t); end++ {
		if t[end] == '(' {
			depth++
		} else if t[end] == ')' {
			if depth--; depth == 0 {
				break
			}
		}
	}
	s.columnUntil = end
	return start, end
}

// longLiteral looks at a word t[i:end] and returns the span of a long quoted
// text after it.
func (s *scanner) longLiteral(i, end int) (int, int) {
	t := s.t
	if i < s.literalUntil || indexFold(t[i:end], literalWords[:]) < 0 {
		return 0, 0
	}
	k := end
	for k < len(t) && k-end < 3 && (t[k] == ' ' || t[k] == ':' || t[k] == '(') {
		k++
	}
	if k == end || k == len(t) {
		return 0, 0
	}
	quote, slashes, next := quoteAt(t, k)
	if quote == 0 {
		return 0, 0
	}
	stop := quotedEnd(t, next, quote, slashes)
	s.literalUntil = stop
	if stop-next <= maxLiteral {
		return 0, 0
	}
	return next, stop
}

// dataPhrases come before a value that a database or parser quotes from the
// data: the word that begins at the end of lead, and what opens and closes it.
var dataPhrases = [...]struct {
	lead        string
	close       byte
	closeBefore string // what follows the end; "" for anything
}{
	{"Duplicate entry '", '\'', "' for key"},
	{"Failing row contains (", ')', ""},
	{"duplicate key value is (", ')', ""},
	{"dup key: {", '}', ""},
	{"varchar value '", '\'', "' to data type"},
	{"Incorrect integer value: '", '\'', "' for column"},
	{"Incorrect string value: '", '\'', "' for column"},
	{"Incorrect datetime value: '", '\'', "' for column"},
	{"Cannot parse string '", '\'', "' as"},
}

// quotedData looks at a word at t[i] and returns the span of the data that a
// message of a database quotes.
func (s *scanner) quotedData(i int) (start, end int) {
	t := s.t
	for _, p := range dataPhrases {
		if !strings.HasPrefix(t[i:], p.lead) {
			continue
		}
		start = i + len(p.lead)
		if p.closeBefore != "" {
			if n := strings.Index(t[start:], p.closeBefore); n > 0 {
				return start, start + n
			}
		}
		if n := strings.IndexByte(t[start:], p.close); n > 0 {
			return start, start + n
		}
		return start, len(t)
	}
	return 0, 0
}
