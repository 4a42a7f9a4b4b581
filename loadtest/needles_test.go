package loadtest_test

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/jobtrail/jobtrail/internal/planted"
	"github.com/jobtrail/jobtrail/pkg/sanitize"
)

// window is how many bytes of a secret, in any of its forms, must not be found.
const window = 12

// needles finds parts of secrets in bytes, in every form in which they may stand
// there.
type needles struct {
	bits  []uint64 // by hash of the first eight bytes
	heads map[uint64][]needle
}

type needle struct{ name, part string }

func newNeedles() *needles {
	return &needles{bits: make([]uint64, 1<<22/64), heads: make(map[uint64][]needle)}
}

// add looks for a secret of at least eight bytes; what the text around it holds
// as well is no sign of it.
func (n *needles) add(name string, s planted.Sample) {
	rest := strings.ReplaceAll(s.Text, s.Secret, "\x00")
	for form, whole := range forms(s.Secret) {
		for at := 0; at == 0 || at+window <= len(whole); at++ {
			part := whole[at:min(at+window, len(whole))]
			if len(part) < 8 || strings.Contains(rest, part) {
				continue
			}
			head := binary.LittleEndian.Uint64([]byte(part))
			h := hash(head)
			n.bits[h/64] |= 1 << (h % 64)
			n.heads[head] = append(n.heads[head], needle{name + " (" + form + ")", part})
		}
	}
}

func hash(head uint64) uint64 { return head * 0x9E3779B97F4A7C15 >> 42 }

// forms returns the ways in which a secret may be written, with their names.
func forms(s string) map[string]string {
	asJSON, _ := json.Marshal(s)
	twice, _ := json.Marshal(string(asJSON))
	var everyByte strings.Builder
	for _, b := range []byte(s) {
		fmt.Fprintf(&everyByte, "%%%02X", b)
	}
	out := map[string]string{
		"raw": s, "query": url.QueryEscape(s), "path": url.PathEscape(s), "percent": everyByte.String(), "percent in lower case": strings.ToLower(everyByte.String()),
		"JSON": string(asJSON[1 : len(asJSON)-1]), "JSON twice": string(twice[3 : len(twice)-3]), "quoted": strconv.QuoteToASCII(s)[1 : len(strconv.QuoteToASCII(s))-1], "hex": hex.EncodeToString([]byte(s)),
	}
	for shift := range 3 {
		for name, enc := range map[string]*base64.Encoding{"base64": base64.RawStdEncoding, "base64 for URLs": base64.RawURLEncoding} {
			e := enc.EncodeToString([]byte(strings.Repeat("\x00", shift) + s))
			out[fmt.Sprintf("%s at %d", name, shift)] = e[(shift*8+5)/6 : (shift+len(s))*8/6]
		}
	}
	return out
}

// find returns the names of what is in b. Under the race detector it would take
// ten times as long.
//
//go:norace
func (n *needles) find(b []byte) (found []string) {
	for i := 0; i+8 <= len(b); i++ {
		head := binary.LittleEndian.Uint64(b[i:])
		if h := hash(head); n.bits[h/64]&(1<<(h%64)) == 0 {
			continue
		}
		for _, x := range n.heads[head] {
			if len(b)-i >= len(x.part) && string(b[i:i+len(x.part)]) == x.part && !slices.Contains(found, x.name) {
				found = append(found, x.name)
			}
		}
	}
	return found
}

// plant returns n samples of every class that the sanitiser has to find, whose
// secrets are long enough to be told from chance.
func plant(t *testing.T, r *rand.Rand, n int) map[string][]planted.Sample {
	out := make(map[string][]planted.Sample)
	for _, c := range planted.Classes() {
		for tries := 0; len(out[c.Name]) < n; tries++ {
			if tries == 1000*n {
				t.Fatalf("no sample of %s is cleaned", c.Name)
			}
			s := c.Make(r)
			s.Text = oneLine(s.Text)
			if len(s.Secret) < 10 || !strings.Contains(s.Text, s.Secret) {
				continue
			}
			// Of telephone numbers and random runs a few may stay.
			if c.Recall < 1 && !strings.Contains(sanitize.Clean("word "+s.Text).String(), "[REDACTED]") {
				continue
			}
			out[c.Name] = append(out[c.Name], s)
		}
	}
	return out
}

var lineBreaks = strings.NewReplacer("\r", " ", "\n", " ")

func oneLine(s string) string { return lineBreaks.Replace(s) }

// TestNeedlesAreFound hides every form of every secret and looks for it.
func TestNeedlesAreFound(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	hay := []byte(planted.Draw(r, 4096, planted.Alnum+"\x00\x01\xff \n"))
	for class, samples := range plant(t, r, 20) {
		for _, s := range samples {
			n := newNeedles()
			n.add(class, s)
			if found := n.find(hay); len(found) > 0 {
				t.Fatalf("found %v where there is none", found)
			}
			for form, text := range forms(s.Secret) {
				for _, b := range []string{text, text[len(text)-min(len(text), window):], text[:min(len(text), window)]} {
					if strings.Contains(strings.ReplaceAll(s.Text, s.Secret, "\x00"), b) {
						continue // not only the secret's
					}
					if len(n.find([]byte(string(hay)+b+string(hay)))) == 0 {
						t.Errorf("%s: %q, %s of %q, is not found", class, b, form, s.Secret)
					}
				}
			}
		}
	}
}
