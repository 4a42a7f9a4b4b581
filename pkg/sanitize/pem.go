package sanitize

import "strings"

// pem looks at a dash at t[i] and returns the span of an armoured block, which
// reaches to the end of the text when its last line is missing.
func (s *scanner) pem(i int) (start, end int) {
	t := s.t
	if i > 0 && t[i-1] == '-' && i < s.dashUntil {
		return 0, 0
	}
	k := i
	for k < len(t) && t[k] == '-' {
		k++
	}
	s.dashUntil = k
	if k-i < 4 {
		return 0, 0
	}
	if k < len(t) && t[k] == ' ' {
		k++
	}
	if !strings.HasPrefix(t[k:], "BEGIN ") || s.covered(i) {
		return 0, 0
	}
	last := strings.Index(t[k:], "END ")
	for last >= 0 && (last < 4 || t[k+last-1] != '-' && t[k+last-2] != '-') {
		next := strings.Index(t[k+last+4:], "END ")
		if next < 0 {
			last = -1
			break
		}
		last += 4 + next
	}
	if last < 0 {
		return i, len(t)
	}
	end = k + last
	for end < len(t) && t[end] != '-' {
		end++
	}
	for end < len(t) && t[end] == '-' {
		end++
	}
	return i, end
}
