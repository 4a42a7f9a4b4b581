package sanitize

// jwt looks at "eyJ" at t[i], which is base64 of the beginning of a JSON
// object, and returns the span of a token of two or more segments.
func (s *scanner) jwt(i int) (start, end int) {
	t := s.t
	if i+12 > len(t) || t[i] != 'e' || t[i+1] != 'y' || t[i+2] != 'J' {
		return 0, 0
	}
	end = i
	segments := 0
	for segments < 5 {
		first := end
		for end < len(t) && (kinds[t[end]]&kToken != 0 || t[end] == '=') {
			end++
		}
		segments++
		if segments == 1 && end-first < 10 {
			return 0, 0
		}
		if end+1 >= len(t) || t[end] != '.' || kinds[t[end+1]]&kToken == 0 && t[end+1] != '.' {
			break
		}
		end++
	}
	if segments < 2 && end-i < 20 {
		return 0, 0
	}
	return i, end
}
