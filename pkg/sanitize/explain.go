package sanitize

import "strings"

// A Finding is a part of a text that was removed.
type Finding struct {
	Class string `json:"class"`

	// Text[Start:End] of the normalised input was removed; see Explain.
	Start int `json:"start"`
	End   int `json:"end"`
}

// Explain is Clean that also says what was removed, in order. The offsets are
// bytes of the normalised input: one line, without invisible characters. The
// parts found in the result of an earlier round are not among them.
func (z *Sanitizer) Explain(s string) (clean Text, found []Finding) {
	clean = z.Clean(s)
	defer func() {
		if recover() != nil { // counted by Clean
			found = nil
		}
	}()
	t, _ := normaliseTo(bound(s), maxLook)
	sc := scanner{t: t, strict: z.cfg.Strict, marked: strings.Contains(t, marker)}
	z.find(&sc)
	for _, p := range sc.spans {
		name := p.class.String()
		if p.class >= classExtra {
			name = z.extraName(int(p.class - classExtra))
		}
		found = append(found, Finding{name, p.start, p.end})
	}
	return clean, found
}

// extraName returns the name of the configured class with index n.
func (z *Sanitizer) extraName(n int) string {
	if n < len(z.cfg.Classes) && z.cfg.Classes[n].Name != "" {
		return z.cfg.Classes[n].Name
	}
	return classExtra.String()
}
