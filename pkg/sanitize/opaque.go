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
	if i < s.opaqueUntil || i+minOpaque > len(t) || !opaqueByte(t[i+minOpaque-1]) || !opaqueByte(t[i+minOpaque/2]) {
		return 0, 0
	}
	end = i
	for end < len(t) && opaqueByte(t[end]) {
		end++
	}
	if end-i < minOpaque {
		return 0, 0
	}
	s.opaqueUntil = end
	run := t[i:end]
	for end < len(t) && t[end] == '=' {
		end++
	}
	if pathLike(t, i, end, run) || hashBefore(t, i) || !random(run) {
		return 0, 0
	}
	return i, end
}

// pathLike reports whether a run is part of a path, a host name or an import.
func pathLike(t string, i, end int, run string) bool {
	if i > 0 && (t[i-1] == '.' || t[i-1] == '/' && strings.IndexByte(run, '/') >= 0) {
		return true
	}
	if end+1 < len(t) && t[end] == '.' && isAlnum(t[end+1]) {
		return true
	}
	if strings.IndexByte(run, '/') < 0 {
		return false
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
	lowers, inWords := 0, 0 // length of the lower-case run, characters in long ones
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
		if kind != 2 {
			lowers = 0
		} else if lowers++; lowers == 3 {
			inWords += 3
		} else if lowers > 3 {
			inWords++
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
