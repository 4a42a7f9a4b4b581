package sanitize

import "strings"

// A span is a part of a normalised text that must not be written down.
type span struct {
	start, end int
	class      class
}

// trigger is a set of reasons to look closer at a byte.
type trigger uint16

const (
	onLetter    trigger = 1 << iota // a word, when the byte before is no word byte
	onDigit                         // a number, when the byte before is no word byte
	onComma                         // key in a list of arguments
	onColon                         // key, header, scheme
	onEquals                        // key
	onAt                            // address
	onDash                          // option, armour
	onEscape                        // backslash or percent: an encoded character
	onStructure                     // bracket or slash: body, path
)

// triggers says for every byte what may begin at it.
var triggers = [256]trigger{
	',': onComma, ':': onColon, '=': onEquals, '@': onAt, '-': onDash, '\\': onEscape, '%': onEscape,
	'{': onStructure, '<': onStructure, '[': onStructure, '/': onStructure,
	'0': onDigit, '1': onDigit, '2': onDigit, '3': onDigit, '4': onDigit,
	'5': onDigit, '6': onDigit, '7': onDigit, '8': onDigit, '9': onDigit,
	'a': onLetter, 'b': onLetter, 'c': onLetter, 'd': onLetter, 'e': onLetter, 'f': onLetter, 'g': onLetter,
	'h': onLetter, 'i': onLetter, 'j': onLetter, 'k': onLetter, 'l': onLetter, 'm': onLetter, 'n': onLetter,
	'o': onLetter, 'p': onLetter, 'q': onLetter, 'r': onLetter, 's': onLetter, 't': onLetter, 'u': onLetter,
	'v': onLetter, 'w': onLetter, 'x': onLetter, 'y': onLetter, 'z': onLetter,
	'A': onLetter, 'B': onLetter, 'C': onLetter, 'D': onLetter, 'E': onLetter, 'F': onLetter, 'G': onLetter,
	'H': onLetter, 'I': onLetter, 'J': onLetter, 'K': onLetter, 'L': onLetter, 'M': onLetter, 'N': onLetter,
	'O': onLetter, 'P': onLetter, 'Q': onLetter, 'R': onLetter, 'S': onLetter, 'T': onLetter, 'U': onLetter,
	'V': onLetter, 'W': onLetter, 'X': onLetter, 'Y': onLetter, 'Z': onLetter,
}

// scanner finds the spans of one text in one pass. Fields that end in Until
// remember how far an earlier look went, which keeps the pass linear.
type scanner struct {
	t      string
	strict bool
	marked bool // t holds a marker
	spans  []span
	hidden int // how much shorter the spans make the text
	skipTo int // what lies before in the last span need not be scanned

	pairUntil    int // end of the last value found by keyValue
	headerUntil  int // end of the last value found by header
	dashUntil    int // end of the last run of dashes
	opaqueUntil  int // before it begins no run that opaque has not looked at
	tokenUntil   int // end of the last token found by vendor or jwt
	dsnEnd       int // end of the last span found by dsn
	phoneUntil   int // end of the last number found by phone
	bodyUntil    int // end of the last object looked at by body
	columnUntil  int // end of the last value found by columnValue
	literalUntil int // end of the last text looked at by longLiteral
	mysqlUntil   int // how far options count as those of mysql
	commandUntil int // how far -p and -a count as a password
	ipUntil      int // end of the last run looked at by ipv6
	url          urlMemo
}

// lookBack is how much of the end of a span is scanned for what begins in it
// and reaches beyond it.
const lookBack = 64

// scan looks at every byte once and asks the classes that may begin there. It
// leaves out the inside of long spans, and stops when more text was passed
// than can be written down.
func (s *scanner) scan() {
	t := s.t
	fresh := true // a word may begin at i
	for i := 0; i < len(t) && i-s.hidden <= MaxBytes+lookAhead; i++ {
		if i < s.skipTo {
			i, fresh = s.skipTo, false
		}
		c := t[i]
		switch triggers[c] {
		case 0:
			fresh = true
			continue
		case onLetter:
			if fresh {
				s.atWord(i)
				fresh = false
			}
			for i+1 < len(t) && triggers[t[i+1]] == onLetter {
				i++
			}
			continue
		case onDigit:
			if fresh {
				s.atNumber(i)
				fresh = false
			} else if !isDigit(t[i-1]) {
				s.atDigits(i)
			}
			continue
		case onComma:
			s.atComma(i)
		case onColon:
			s.atColon(i)
		case onEquals:
			s.atEquals(i)
		case onAt:
			s.atAt(i)
		case onDash:
			s.atDash(i)
		case onStructure:
			if s.marked && markerAt(t, i) {
				i += len(marker) - 1
			} else {
				s.atStructure(i)
			}
		case onEscape:
			i = s.atEscape(i)
		}
		fresh = true
	}
}

// add records a span when it is not empty.
func (s *scanner) add(k class, start, end int) {
	if start < end {
		s.record(k, start, end)
	}
}

// record is add for a span that is not empty. Spans that touch become one, and
// a marker that is already in the text is taken whole or not at all.
func (s *scanner) record(k class, start, end int) {
	if s.marked {
		start, end = wholeMarkers(s.t, start, end)
	}
	for n := len(s.spans); n > 0 && s.spans[n-1].end >= start; n-- {
		last := s.spans[n-1]
		if last.start <= start {
			start, k = last.start, last.class
		}
		end = max(end, last.end)
		s.spans = s.spans[:n-1]
		s.hidden -= last.end - last.start - len(marker)
	}
	if s.spans == nil {
		s.spans = make([]span, 0, 16)
	}
	s.spans = append(s.spans, span{start, end, k})
	s.hidden += end - start - len(marker)
	s.skipTo = end - lookBack
}

// wholeMarkers widens the span so that it cuts no marker.
func wholeMarkers(t string, start, end int) (int, int) {
	if k := insideMarker(t, start); k >= 0 {
		start = k
	}
	if k := insideMarker(t, end); k >= 0 {
		end = k + len(marker)
	}
	return start, end
}

// insideMarker returns where the marker begins that lies across i, or -1.
func insideMarker(t string, i int) int {
	for k := max(0, i-len(marker)+1); k < i; k++ {
		if t[k] == '[' && strings.HasPrefix(t[k:], marker) {
			return k
		}
	}
	return -1
}

// covered reports whether i lies in the last span.
func (s *scanner) covered(i int) bool {
	n := len(s.spans)
	return n > 0 && s.spans[n-1].end > i && s.spans[n-1].start <= i
}
