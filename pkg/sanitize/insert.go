package sanitize

import "slices"

// insert adds a span anywhere among those already found.
func (s *scanner) insert(k class, start, end int) {
	if start >= end {
		return
	}
	if s.marked {
		start, end = wholeMarkers(s.t, start, end)
	}
	first, _ := slices.BinarySearchFunc(s.spans, start, func(p span, at int) int { return p.end - at })
	last := first
	for last < len(s.spans) && s.spans[last].start <= end {
		if s.spans[last].start <= start {
			start, k = s.spans[last].start, s.spans[last].class
		}
		end = max(end, s.spans[last].end)
		last++
	}
	s.spans = slices.Replace(s.spans, first, last, span{start, end, k})
}
