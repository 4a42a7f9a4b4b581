package sanitize

import "strings"

const (
	minObject = 64 // shortest object of JSON that counts as a document
	minPairs  = 2  // fewest keys of such an object
)

// bodyWords announce a document.
var bodyWords = [...]string{"body", "payload", "response", "request", "content", "data"}

// body looks at a bracket at t[i] and returns the span of a document: all of
// the rest after a word like "body:", all of the rest from the beginning of an
// HTML or XML document, or an object of JSON that is no short remark.
func (s *scanner) body(i int) (start, end int) {
	t := s.t
	if i < s.bodyUntil || markerAt(t, i) {
		return 0, 0
	}
	if t[i] == '<' {
		if document(t[i:]) || bodyBefore(t, i) {
			s.bodyUntil = len(t)
			return i, len(t)
		}
		return 0, 0
	}
	if bodyBefore(t, i) {
		s.bodyUntil = len(t)
		return i, len(t)
	}
	if t[i] != '{' {
		return 0, 0
	}
	end, pairs := objectEnd(t, i)
	s.bodyUntil = end
	if pairs < minPairs || end-i < minObject {
		return 0, 0
	}
	return i, end
}

// document reports whether t begins like HTML or XML.
func document(t string) bool {
	for _, head := range [...]string{"<!doctype", "<html", "<?xml", "<soap:", "<soapenv:"} {
		if len(t) >= len(head) && strings.EqualFold(t[:len(head)], head) {
			return true
		}
	}
	return false
}

// bodyBefore reports whether a word like "body" and a separator end before
// t[i], as in "body: {" or "body={" or "body was: [".
func bodyBefore(t string, i int) bool {
	k := i
	for k > 0 && i-k < 4 && (t[k-1] == ' ' || t[k-1] == '"' || t[k-1] == '\'' || t[k-1] == '\\' || t[k-1] == '`') {
		k--
	}
	if k == 0 || t[k-1] != ':' && t[k-1] != '=' {
		return false
	}
	for k--; k > 0 && (t[k-1] == ' ' || t[k-1] == '"'); {
		k--
	}
	first := k
	for first > 0 && k-first < 16 && isLetter(t[first-1]) {
		first--
		if isUpper(t[first]) && first > 0 && !isUpper(t[first-1]) {
			break
		}
	}
	first = afterEscape(t, first, k)
	return indexFold(t[first:k], bodyWords[:4]) >= 0 || indexFold(t[first:k], bodyWords[4:]) >= 0 && t[i] != '['
}

// objectEnd returns the end of the object of JSON that begins at t[i], and how
// many keys it and the objects in it have. An object that is not closed
// reaches to the end of the text.
func objectEnd(t string, i int) (end, pairs int) {
	depth := 0
	for k := i; k < len(t); k++ {
		switch t[k] {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return k + 1, pairs
			}
		case ':':
			if k > i && (t[k-1] == '"' || t[k-1] == ' ' && t[k-2] == '"') {
				pairs++
			}
		}
	}
	return len(t), pairs
}
