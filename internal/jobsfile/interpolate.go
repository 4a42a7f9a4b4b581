package jobsfile

import (
	"regexp"
	"strings"
)

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// interpolate replaces ${NAME} by the variable's value, which becomes a secret,
// and $${ by ${. Values are not looked at again.
func (b *builder) interpolate(s, key string, pos position) string {
	var out strings.Builder
	for {
		before, rest, ok := strings.Cut(s, "${")
		if !ok {
			out.WriteString(s)
			return out.String()
		}
		if strings.HasSuffix(before, "$") {
			out.WriteString(before)
			out.WriteString("{")
			s = rest
			continue
		}
		out.WriteString(before)
		name, after, closed := strings.Cut(rest, "}")
		switch {
		case !closed:
			b.addAt(pos, key, "${ is not closed; write $${ for the characters themselves")
			return ""
		case !variableName.MatchString(name):
			b.addAt(pos, key, "${%s} is no environment variable; write $${ for the characters themselves", name)
		default:
			v, ok := b.lookup(name)
			if !ok || v == "" {
				b.addAt(pos, key, "the environment variable %s is not set", name)
			}
			out.WriteString(v)
			if v != "" && !b.seen[v] {
				b.seen[v] = true
				b.secrets = append(b.secrets, v)
			}
		}
		s = after
	}
}
