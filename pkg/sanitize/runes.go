package sanitize

import "unicode/utf8"

type runeKind uint8

const (
	keepRune   runeKind = iota
	foldRune            // full-width form of an ASCII character
	spaceRune           // any blank
	lineRune            // any line break
	escapeRune          // begins a terminal control sequence
	dropRune            // control, invisible or direction character
)

// kindOf says what normalise does with a rune outside printable ASCII that was
// decoded from size bytes.
func kindOf(r rune, size int) runeKind {
	switch {
	case r == utf8.RuneError && size <= 1:
		return keepRune // written as U+FFFD
	case r == '\t':
		return spaceRune
	case r == '\n', r == '\r', r == '\v', r == '\f', r == 0x85, r == 0x2028, r == 0x2029:
		return lineRune
	case r == 0x1B, r == 0x9B, r == 0x9D, r == 0x90, r == 0x98, r == 0x9E, r == 0x9F:
		return escapeRune
	case r < 0xA0:
		return dropRune
	case r == 0xA0, r == 0x1680, r >= 0x2000 && r <= 0x200A, r == 0x202F, r == 0x205F, r == 0x3000:
		return spaceRune
	case r >= 0xFF01 && r <= 0xFF5E:
		return foldRune
	case invisible(r):
		return dropRune
	}
	return keepRune
}

// invisible reports whether r shows nothing or changes the direction of what
// follows.
func invisible(r rune) bool {
	switch {
	case r == 0xAD, r == 0x34F, r == 0x61C, r == 0x115F, r == 0x1160, r == 0x17B4, r == 0x17B5:
		return true
	case r >= 0x180B && r <= 0x180E, r == 0x3164, r == 0xFEFF, r == 0xFFA0, r >= 0xFFF9 && r <= 0xFFFB:
		return true
	case r >= 0x200B && r <= 0x200F, r >= 0x202A && r <= 0x202E, r >= 0x2060 && r <= 0x206F:
		return true
	case r >= 0xE0000 && r <= 0xE0FFF:
		return true
	}
	return false
}

// Kinds of ASCII characters.
const (
	kDigit uint8 = 1 << iota
	kUpper
	kLower
	kHex
	kOpaque // base64 in both alphabets, without padding
	kKey    // part of the name of a key
	kToken  // base64url
)

// kinds holds the kinds of every byte.
var kinds = func() (k [256]uint8) {
	for c := '0'; c <= '9'; c++ {
		k[c] = kDigit | kHex | kOpaque | kKey | kToken
	}
	for c := 'a'; c <= 'z'; c++ {
		k[c] = kLower | kOpaque | kKey | kToken
		k[c-'a'+'A'] = kUpper | kOpaque | kKey | kToken
	}
	for c := 'a'; c <= 'f'; c++ {
		k[c] |= kHex
		k[c-'a'+'A'] |= kHex
	}
	k['+'], k['/'], k['.'] = kOpaque, kOpaque, kKey
	k['-'], k['_'] = kOpaque|kKey|kToken, kOpaque|kKey|kToken
	return k
}()

func isPunct(c byte) bool { return c > ' ' && c < 0x7F && !isAlnum(c) }

func isAlnum(c byte) bool { return kinds[c]&(kDigit|kUpper|kLower) != 0 }

func isLetter(c byte) bool { return kinds[c]&(kUpper|kLower) != 0 }

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isUpper(c byte) bool { return c >= 'A' && c <= 'Z' }

func isHex(c byte) bool { return kinds[c]&kHex != 0 }

func opaqueByte(c byte) bool { return kinds[c]&kOpaque != 0 }

func keyByte(c byte) bool { return kinds[c]&kKey != 0 }

func lower(c byte) byte {
	if isUpper(c) {
		return c | 0x20
	}
	return c
}
