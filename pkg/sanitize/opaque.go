package sanitize

import (
	"math"
	"strings"
)

const (
	minOpaque  = 32  // shortest run that counts
	minEntropy = 4.0 // bits per character
	lookOpaque = 256 // how much of a long run is judged
)

// opaque looks at a run of base64 characters at t[i] and returns it when it
// looks random: upper case, lower case and digits, in quick change.
func (s *scanner) opaque(i int) (start, end int) {
	t := s.t
	if i < s.opaqueUntil || i+minOpaque > len(t) {
		return 0, 0
	}
	for k := i + minOpaque - 1; k >= i; k-- {
		if !opaqueByte(t[k]) {
			s.opaqueUntil = k + 1 // no run that begins before is long enough
			return 0, 0
		}
	}
	for end = i + minOpaque; end < len(t) && opaqueByte(t[end]); {
		end++
	}
	s.opaqueUntil = end
	run := t[i:end]
	for end < len(t) && t[end] == '=' {
		end++
	}
	switch {
	case hashBefore(t, i):
		return 0, 0
	case pathLike(t, i, end, run), !random(run):
		return opaquePart(run, i)
	}
	const terraform = ".atlasv1."
	if strings.HasSuffix(t[:i], terraform) {
		for i -= len(terraform); i > s.spanFloor() && isAlnum(t[i-1]); {
			i--
		}
	}
	return i, end
}

// opaquePart returns the span of the first part between slashes of the run at
// i that looks random, as in the address of a webhook.
func opaquePart(run string, i int) (start, end int) {
	if strings.IndexByte(run, '/') < 0 {
		return 0, 0
	}
	for at := 0; at < len(run); {
		part, _, _ := strings.Cut(run[at:], "/")
		if len(part) >= minOpaque && random(part) {
			return i + at, i + at + len(part)
		}
		at += len(part) + 1
	}
	return 0, 0
}

// pathLike reports whether a run is part of a path, a host name or an import.
func pathLike(t string, i, end int, run string) bool {
	if strings.IndexByte(run, '/') < 0 {
		return false
	}
	if i > 0 && (t[i-1] == '.' || t[i-1] == '/') || end+1 < len(t) && t[end] == '.' && isAlnum(t[end+1]) {
		return true
	}
	longest, at := 0, 0
	for k := 0; k <= len(run); k++ {
		if k == len(run) || run[k] == '/' {
			longest, at = max(longest, k-at), k+1
		}
	}
	return longest < 16
}

// hashBefore reports whether the run is a published checksum: "h1:" of go.sum,
// "sha256-" of subresource integrity.
func hashBefore(t string, i int) bool {
	run := t[i:]
	return i >= 3 && t[i-3:i] == "h1:" || i >= 7 && t[i-7:i] == "sha256:" || strings.HasPrefix(run, "sha256-") ||
		strings.HasPrefix(run, "sha384-") || strings.HasPrefix(run, "sha512-")
}

// random reports whether a run has the three kinds of characters, enough
// entropy, changes between kinds more often than names do, and is not of words.
func random(run string) bool {
	run = run[:min(len(run), lookOpaque)]
	var count [128]uint16
	var kinds [4]int
	last, changes := -1, 0
	lowers, vowel, inWords := 0, false, 0 // the lower-case run, and characters in long ones with a vowel
	for k := range len(run) {
		c := run[k]
		count[c]++
		kind := 3
		switch {
		case isDigit(c):
			kind = 0
		case isUpper(c):
			kind = 1
		case isLetter(c):
			kind = 2
		}
		kinds[kind]++
		if kind == 2 {
			lowers++
			vowel = vowel || c == 'a' || c == 'e' || c == 'i' || c == 'o' || c == 'u'
		}
		if kind != 2 || k == len(run)-1 {
			if vowel && lowers >= 3 {
				inWords += lowers
			}
			lowers, vowel = 0, false
		}
		if last >= 0 && kind != last {
			changes++
		}
		last = kind
	}
	if kinds[0] == 0 || kinds[1] == 0 || kinds[2] == 0 || changes*3 < len(run) || inWords*100 > 45*len(run) {
		return false
	}
	n := float64(len(run))
	sum := 0.0
	for _, c := range count {
		sum += timesLog[c]
	}
	return timesLog[len(run)]-sum >= minEntropy*n
}

// timesLog holds n·log2(n).
var timesLog = func() (v [lookOpaque + 1]float64) {
	for n := 1; n < len(v); n++ {
		v[n] = float64(n) * math.Log2(float64(n))
	}
	return v
}()
