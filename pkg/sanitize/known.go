package sanitize

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// minKnown is the length of the shortest value that is searched for.
const minKnown = 6

// known finds the registered values in all their forms. A bit for every hash
// of four bytes says where a form may begin, so that a text without secrets
// costs one look per byte.
type known struct {
	bits  [1 << 12 / 64]uint64
	forms []string // sorted by their first four bytes, longest first
}

func newKnown(values []string) known {
	var k known
	for _, v := range values {
		if len(v) < minKnown {
			continue
		}
		for _, f := range formsOf(v) {
			if len(f) >= minKnown && f != marker {
				k.forms = append(k.forms, f)
			}
		}
	}
	slices.SortFunc(k.forms, func(a, b string) int {
		if c := strings.Compare(a[:4], b[:4]); c != 0 {
			return c
		}
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	k.forms = slices.Compact(k.forms)
	for _, f := range k.forms {
		h := hash4(f)
		k.bits[h/64] |= 1 << (h % 64)
	}
	return k
}

// formsOf returns the ways in which v may appear in a text.
func formsOf(v string) []string {
	quoted := strconv.Quote(v)
	ascii := strconv.QuoteToASCII(v)
	forms := []string{
		v, url.QueryEscape(v), url.PathEscape(v), url.QueryEscape(url.QueryEscape(v)), escapeUserinfo(v),
		quoted[1 : len(quoted)-1], ascii[1 : len(ascii)-1], hex.EncodeToString([]byte(v)),
		strings.ToUpper(hex.EncodeToString([]byte(v))),
	}
	if j, err := json.Marshal(v); err == nil {
		forms = append(forms, string(j[1:len(j)-1]))
	}
	forms = append(forms, lowerEscapes(forms)...)
	forms = append(forms, aligned(v)...)
	for i, f := range forms {
		forms[i] = normalise(f)
	}
	return forms
}

func escapeUserinfo(v string) string { return url.User(v).String() }

// lowerEscapes returns the percent-encoded ones of forms with lower-case hex
// digits.
func lowerEscapes(forms []string) []string {
	var out []string
	for _, f := range forms {
		if !strings.Contains(f, "%") {
			continue
		}
		b := []byte(f)
		for i := 0; i+2 < len(b); i++ {
			if b[i] == '%' {
				b[i+1], b[i+2] = lower(b[i+1]), lower(b[i+2])
			}
		}
		out = append(out, string(b))
	}
	return out
}

// aligned returns what base64 makes of v at each of the three positions it can
// have in a longer value, without the characters that its neighbours change,
// and what it makes of v alone.
func aligned(v string) []string {
	var out []string
	for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
		out = append(out, enc.EncodeToString([]byte(v)))
	}
	for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		out = append(out, enc.EncodeToString([]byte(v)))
		for shift := range 3 {
			e := enc.EncodeToString([]byte(strings.Repeat("\x00", shift) + v))
			from := (shift*8 + 5) / 6
			to := (shift + len(v)) * 8 / 6
			if from < to && to <= len(e) {
				out = append(out, e[from:to])
			}
		}
	}
	return out
}

func hash4(s string) uint32 {
	v := uint32(s[0]) | uint32(s[1])<<8 | uint32(s[2])<<16 | uint32(s[3])<<24
	return v * 0x9E3779B1 >> 20
}

func (k *known) any() bool { return len(k.forms) > 0 }

// find adds a span for every form in the text of sc.
func (k *known) find(sc *scanner) {
	t := sc.t
	for i := 0; i+minKnown <= len(t); i++ {
		h := hash4(t[i:])
		if k.bits[h/64]&(1<<(h%64)) == 0 {
			continue
		}
		first, _ := slices.BinarySearchFunc(k.forms, t[i:i+4], func(f, head string) int {
			return strings.Compare(f[:4], head)
		})
		for _, f := range k.forms[first:] {
			if f[:4] != t[i:i+4] {
				break
			}
			if strings.HasPrefix(t[i:], f) {
				sc.insert(classKnown, i, i+len(f))
				i += len(f) - 1
				break
			}
		}
	}
}
