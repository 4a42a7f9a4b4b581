package sanitize

import (
	"strings"
	"unicode/utf8"
)

const (
	maxSpaces      = 3 // longest run of spaces that is kept
	maxPunctuation = 8 // longest run of one punctuation byte that is kept
)

// plain reports whether normalise would return s unchanged: printable ASCII
// without long runs of one separator.
func plain(s string) bool {
	i := 0
	for ; i+8 <= len(s); i += 8 {
		const ones, highs = 0x0101010101010101, 0x8080808080808080
		b := s[i : i+8]
		w := uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 | uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
		// A high bit is set by a byte that is not ASCII, is a DEL, or is below ' '.
		if (w|(w+ones)|^((w|highs)-ones*' '))&highs != 0 {
			return false
		}
		// Every run of four has two in one of its words.
		twice := (w ^ w>>8) | 0xFF<<56
		if (twice-ones)&^twice&highs != 0 && longRun(s, i, i+8) {
			return false
		}
	}
	for k := i; k < len(s); k++ {
		if s[k] < ' ' || s[k] > '~' {
			return false
		}
	}
	return !longRun(s, i, len(s))
}

// longRun reports whether a run of one separator that normalise shortens goes
// into s[from:to] or ends just before it.
func longRun(s string, from, to int) bool {
	for i := from; i < to; {
		c, start := s[i], i
		if i++; isAlnum(c) {
			continue
		}
		for i < len(s) && s[i] == c {
			i++
		}
		for start > 0 && s[start-1] == c {
			start--
		}
		if n := i - start; c == ' ' && n > maxSpaces || n > maxPunctuation && isPunct(c) {
			return true
		}
	}
	return false
}

// normalise makes one line of valid UTF-8 without characters that are
// invisible or that steer a terminal. It runs before the scan, so that hidden
// characters cannot split a word that the scan looks for.
func normalise(s string) string {
	t, _ := normaliseTo(s, 4*len(s))
	return t
}

// normaliseTo is normalise that ends after about limit bytes. It returns how
// much of s it has read.
func normaliseTo(s string, limit int) (t string, read int) {
	if plain(s) {
		return s, len(s)
	}
	n := normaliser{noST: len(s), noBEL: len(s)}
	n.out.Grow(len(s) + 16)
	i := 0
	for i < len(s) && n.out.Len() < limit {
		c := s[i]
		if c >= ' ' && c <= '~' {
			if end := calm(s, i); end > i+1 && (n.run == 0 || c != n.last) {
				n.out.WriteString(s[i:end])
				n.last, n.run = s[end-1], 1
				i = end
				continue
			}
			n.put(c)
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		i += size
		switch k := kindOf(r, size); k {
		case keepRune:
			n.out.WriteRune(r)
			n.run = 0
		case foldRune:
			n.put(byte(r - 0xFF01 + '!'))
		case spaceRune:
			n.put(' ')
		case lineRune:
			if r == '\r' && i < len(s) && s[i] == '\n' {
				i++
			}
			n.put('\\')
			n.put('n')
		case escapeRune:
			i = n.skipSequence(s, i, r)
		case dropRune:
		}
	}
	return n.out.String(), i
}

// calm returns the end of the printable ASCII from s[i] on in which no two
// equal characters follow each other.
func calm(s string, i int) int {
	for i++; i < len(s) && s[i] >= ' ' && s[i] <= '~' && s[i] != s[i-1]; {
		i++
	}
	return i
}

type normaliser struct {
	out   strings.Builder
	last  byte
	run   int
	noST  int // from here on s holds no string terminator
	noBEL int // from here on s holds no BEL
}

// put appends c unless it makes a run of separators too long.
func (n *normaliser) put(c byte) {
	if n.run == 0 || c != n.last {
		n.last, n.run = c, 1
	} else {
		n.run++
		if c == ' ' && n.run > maxSpaces || n.run > maxPunctuation && isPunct(c) {
			return
		}
	}
	n.out.WriteByte(c)
}

// skipSequence returns the index after the terminal control sequence that the
// escape character intro, just before s[i], begins.
func (n *normaliser) skipSequence(s string, i int, intro rune) int {
	if intro == 0x1B {
		if i == len(s) {
			return i
		}
		switch s[i] {
		case '[':
			intro = 0x9B
		case ']', 'P', 'X', '^', '_':
			intro = 0x9D
		case '(', ')', '*', '+':
			if i+1 < len(s) && strings.IndexByte("AB012", s[i+1]) >= 0 {
				return i + 2
			}
			return i
		default:
			if s[i] > ' ' && s[i] <= '~' && !word(s, i) {
				return i + 1
			}
			return i
		}
		i++
	}
	if intro == 0x9B {
		return skipControl(s, i)
	}
	return n.skipString(s, i)
}

// skipControl returns the index after the parameters and the final character
// of a control sequence that begin at s[i]. What may just as well be the first
// letter of a word is left, so that it cannot hide the word from the scan.
func skipControl(s string, i int) int {
	k := i
	for k < len(s) && s[k] >= 0x30 && s[k] <= 0x3F {
		k++
	}
	bare := k == i
	if k+1 < len(s) && s[k] >= 0x20 && s[k] <= 0x2F && s[k+1] >= 0x40 && s[k+1] <= 0x7E {
		if word(s, k+1) {
			return k
		}
		return k + 2
	}
	if k == len(s) || s[k] < 0x40 || s[k] > 0x7E || bare && word(s, k) && strings.IndexByte("mKJHABCD", s[k]) < 0 {
		return k
	}
	return k + 1
}

// word reports whether a word of two letters or more begins at s[i].
func word(s string, i int) bool {
	return isLetter(s[i]) && i+1 < len(s) && (isAlnum(s[i+1]) || s[i+1] == '_' || s[i+1] == '-')
}

// skipString returns the index after the terminator of an operating system
// command or the like. Without a terminator only the introducer is dropped, so
// that it cannot hide the rest of the text.
func (n *normaliser) skipString(s string, i int) int {
	end, width := len(s), 0
	if i < n.noBEL {
		if k := strings.IndexByte(s[i:], '\a'); k >= 0 {
			end, width = i+k, 1
		} else {
			n.noBEL = i
		}
	}
	if i < n.noST {
		k, w := strings.Index(s[i:end], "\x1b\\"), 2
		if c := strings.Index(s[i:end], "\u009c"); c >= 0 && (k < 0 || c < k) {
			k = c
		}
		if k >= 0 {
			end, width = i+k, w
		} else if width == 0 {
			n.noST = i
		}
	}
	if width == 0 {
		return i
	}
	return end + width
}
