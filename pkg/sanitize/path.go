package sanitize

import "strings"

// homePath looks at a slash at t[i] and returns the span of the user name in
// the path of a home directory.
func (s *scanner) homePath(i int) (start, end int) {
	t := s.t
	switch {
	case strings.HasPrefix(t[i:], "/home/"):
		start = i + len("/home/")
	case strings.HasPrefix(t[i:], "/Users/"):
		start = i + len("/Users/")
	default:
		return 0, 0
	}
	if i > 0 && (isAlnum(t[i-1]) || t[i-1] == ']') && !(i > 1 && t[i-1] == 'n' && t[i-2] == '\\') {
		return 0, 0
	}
	return start, fullName(t, nameEnd(t, start))
}

// fullName returns where a name ends of which the first part ends before t[i]:
// capitalised words that follow belong to it when the last one ends the part
// of the path, as in /Users/Jane Roe/.
func fullName(t string, i int) int {
	k := i
	for k+1 < len(t) && t[k] == ' ' && isUpper(t[k+1]) && k-i < 40 {
		for k++; k < len(t) && (isAlnum(t[k]) || t[k] >= 0x80 || t[k] == '-'); {
			k++
		}
	}
	if k < len(t) && t[k] == '/' {
		return k
	}
	return i
}

// windowsPath looks at a backslash at t[i] and returns the span of the user
// name in the path of a home directory on Windows.
func (s *scanner) windowsPath(i int) (start, end int) {
	t := s.t
	k := i
	for k < len(t) && t[k] == '\\' {
		k++
	}
	if i == 0 || t[i-1] != ':' || k+6 > len(t) || !strings.EqualFold(t[k:k+5], "users") || t[k+5] != '\\' {
		return 0, 0
	}
	for k += 5; k < len(t) && t[k] == '\\'; {
		k++
	}
	end = k
	for end < len(t) && strings.IndexByte("\\\"'<>|:,;)", t[end]) < 0 {
		end++
	}
	if end == len(t) || t[end] != '\\' {
		end = nameEnd(t, k)
	}
	return k, end
}

// nameEnd returns where the part of a path ends that begins at t[i].
func nameEnd(t string, i int) int {
	for k := i; k < len(t); k++ {
		if markerAt(t, k) {
			k += len(marker) - 1
			continue
		}
		if strings.IndexByte("/\\ \"'`<>|:,;)]}?&", t[k]) >= 0 {
			return k
		}
	}
	return len(t)
}
