package sanitize

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"math/rand/v2"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/jobtrail/jobtrail/internal/planted"
)

// The unseen corpus was written without a look at the rules, and ran before
// anything was changed for it: 508 of 7040 dirty lines were missed and 90 of
// 4560 benign ones changed. Each line of testdata/unseen-dirty.txt and
// unseen-benign.txt is a template. What stands between double angle quotes is
// drawn at run time, and what stands between single ones is drawn too and must
// not come out. Lines that begin with "## " name the class of what follows:
// known-gaps holds what is missed still, by-design whole documents and
// addresses of clients, which are removed though they may be harmless.
type unseenTemplate struct{ class, text string }

func readTemplates(t testing.TB, name string) []unseenTemplate {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	var templates []unseenTemplate
	class := ""
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSuffix(line, "\n")
		if after, ok := strings.CutPrefix(line, "## "); ok {
			class = after
		} else if line != "" {
			templates = append(templates, unseenTemplate{class, strings.NewReplacer(`\n`, "\n", `\t`, "\t", `\r`, "\r", `\\`, `\`).Replace(line)})
		}
	}
	return templates
}

// fill replaces what stands between the quotes, and returns the text and its
// secrets.
func fill(r *rand.Rand, text string) (filled string, secrets []string) {
	var b strings.Builder
	for text != "" {
		k := strings.IndexAny(text, "\u2039\u00ab")
		if k < 0 {
			b.WriteString(text)
			break
		}
		b.WriteString(text[:k])
		var name string
		if rest, ok := strings.CutPrefix(text[k:], "\u00ab"); ok {
			name, text, _ = strings.Cut(rest, "\u00bb")
			b.WriteString(filler(r, name))
			continue
		}
		name, text, _ = strings.Cut(strings.TrimPrefix(text[k:], "\u2039"), "\u203a")
		v := secretOf(r, name)
		b.WriteString(v)
		secrets = append(secrets, v)
	}
	return b.String(), secrets
}

func pickOf(r *rand.Rand, of string) string {
	return planted.Pick(r, strings.Split(of, "|"))
}

const hexes = "0123456789abcdef"

// sized is the length that a template asks for.
func sized(param string, usual int) int {
	_, _ = fmt.Sscan(param, &usual)
	return usual
}

// filler draws what is no secret.
func filler(r *rand.Rand, name string) string {
	switch name {
	case "host":
		return pickOf(r, "db-1|db.internal|kafka-3.kafka.svc.cluster.local|localhost|10.1.2.3|cache.prod.example.net|mq|search-eu-west-1.example.com")
	case "db":
		return pickOf(r, "orders|billing|app_production|analytics|inventory")
	case "user":
		return pickOf(r, "app|svc-orders|root|admin|reporting|default|sa|scott")
	case "word":
		return pickOf(r, "orders|invoices|shipments|customers|payments|reports|sessions|users|events|tenants")
	case "svc":
		return pickOf(r, "checkout|ledger|mailer|gateway|indexer|scheduler|worker|projector|api")
	case "port":
		return fmt.Sprint(1024 + r.IntN(60000))
	case "n":
		return fmt.Sprint(r.IntN(1000))
	case "big":
		return fmt.Sprint(r.IntN(1 << 30))
	case "off":
		return fmt.Sprint(r.Int64N(1 << 52))
	case "dur":
		return pickOf(r, "30s|1m30s|250ms|4.217ms|1h0m0s|12.000000031s|0.52s|300 ms")
	case "date":
		return fmt.Sprintf("2026-%02d-%02d", 1+r.IntN(12), 1+r.IntN(28))
	case "clock":
		return fmt.Sprintf("%02d:%02d:%02d", r.IntN(24), r.IntN(60), r.IntN(60))
	case "frac":
		return planted.Draw(r, 3+3*r.IntN(3), planted.Digits)
	case "unix":
		return fmt.Sprint(1700000000 + r.IntN(100000000))
	case "unixms":
		return fmt.Sprint(1700000000000 + r.Int64N(100000000000))
	case "unixns":
		return fmt.Sprint(1700000000000000000 + r.Int64N(100000000000000000))
	case "uuid":
		return newUUID(r)
	case "ulid":
		return "01" + planted.Draw(r, 24, "0123456789ABCDEFGHJKMNPQRSTVWXYZ")
	case "sha1":
		return planted.Draw(r, 40, hexes)
	case "sha256":
		return planted.Draw(r, 64, hexes)
	case "md5":
		return planted.Draw(r, 32, hexes)
	case "short":
		return planted.Draw(r, 7, hexes)
	case "span":
		return planted.Draw(r, 16, hexes)
	case "addr":
		return "0xc000" + planted.Draw(r, 6, hexes)
	case "ver":
		return fmt.Sprintf("%d.%d.%d", r.IntN(30), r.IntN(60), r.IntN(20))
	case "pod":
		return pickOf(r, "api|worker|ledger") + "-" + planted.Draw(r, 10, "bcdfghjklmnpqrstvwxz2456789") + "-" + planted.Draw(r, 5, "bcdfghjklmnpqrstvwxz2456789")
	case "private":
		return pickOf(r, fmt.Sprintf("10.%d.%d.%d|192.168.%[2]d.%[3]d|172.16.%[1]d.%[2]d|127.0.0.1", r.IntN(256), r.IntN(256), 1+r.IntN(254)))
	case "pct":
		return fmt.Sprintf("%d.%d%%", r.IntN(100), r.IntN(10))
	case "size":
		return fmt.Sprintf("%d.%d %s", r.IntN(900), r.IntN(10), pickOf(r, "MiB|GiB|kB|MB|KiB|TB"))
	}
	panic("no filler " + name)
}

func newUUID(r *rand.Rand) string {
	h := planted.Draw(r, 32, hexes)
	return h[:8] + "-" + h[8:12] + "-4" + h[13:16] + "-" + pickOf(r, "8|9|a|b") + h[17:20] + "-" + h[20:]
}

// secretOf draws what must not come out.
func secretOf(r *rand.Rand, name string) string {
	name, param, _ := strings.Cut(name, ":")
	switch name {
	case "pw": // as people and generators choose them, without what ends a value
		switch r.IntN(6) {
		case 0:
			return pickOf(r, "sunshine|dragon|Welcome|letmein|qwerty|monkey|Liverpool|passw0rd|trustno1|iloveyou")
		case 1:
			return pickOf(r, "Sommer|Winter|Herbst|Kwiecien|Lisboa|Kirmizi") + planted.Draw(r, 4, planted.Digits) + pickOf(r, "!|$|*|_")
		case 2:
			return planted.Draw(r, 4+r.IntN(5), planted.Lower) + "-" + planted.Draw(r, 5, planted.Lower) + "-" + planted.Draw(r, 6, planted.Lower)
		case 3:
			return planted.Draw(r, 6+r.IntN(4), planted.Digits)
		default:
			return planted.Draw(r, 1, planted.Alnum) + planted.Draw(r, 7+r.IntN(20), planted.Alnum+"-_.!~*^$+") + planted.Draw(r, 2, planted.Alnum)
		}
	case "pwq": // within quotes
		return planted.Draw(r, 1, planted.Alnum) + planted.Draw(r, 8+r.IntN(12), planted.Alnum+planted.Alnum+" ,;:&@/#%()[]{}<>?=|!") + planted.Draw(r, 2, planted.Alnum)
	case "pwu": // within a URL
		return url.QueryEscape(planted.Draw(r, 2, planted.Alnum) + planted.Draw(r, 6+r.IntN(14), planted.Alnum+",;:&@/#%()[]{}<>?=|!") + planted.Draw(r, 2, planted.Alnum))
	case "digits":
		return planted.Draw(r, 4+r.IntN(5), planted.Digits)
	case "tok":
		return planted.Draw(r, 24+r.IntN(24), planted.Alnum+"-_")
	case "alnum":
		return planted.Draw(r, sized(param, 32), planted.Alnum)
	case "upper":
		return planted.Draw(r, sized(param, 16), planted.Upper+"234567")
	case "hex":
		return planted.Draw(r, sized(param, 32), hexes)
	case "b64":
		raw := make([]byte, sized(param, 32))
		for i := range raw {
			raw[i] = byte(r.Uint32())
		}
		return base64.StdEncoding.EncodeToString(raw)
	case "basic":
		return base64.StdEncoding.EncodeToString([]byte("user" + planted.Draw(r, 3, planted.Digits) + ":" + planted.Draw(r, 12, planted.Alnum)))
	case "uuid":
		return newUUID(r)
	case "jwt":
		part := func(v any) string {
			data, _ := json.Marshal(v)
			return base64.RawURLEncoding.EncodeToString(data)
		}
		return part(map[string]string{"alg": pickOf(r, "HS256|RS256|ES256|EdDSA"), "kid": planted.Draw(r, 8, planted.Alnum)}) + "." +
			part(map[string]any{"sub": planted.Draw(r, 10, planted.Digits), "iss": "https://login.example.com/", "exp": 1700000000 + r.IntN(1000000)}) + "." + planted.Draw(r, 43, planted.Alnum+"-_")
	case "pem": // the lines of a key
		lines := make([]string, 2+r.IntN(6))
		for i := range lines {
			lines[i] = planted.Draw(r, 64, planted.Alnum+"+/")
		}
		return strings.Join(append(lines, planted.Draw(r, 30, planted.Alnum+"+/")+"=="), param+"\n")
	case "pemesc":
		return strings.ReplaceAll(secretOf(r, "pem"), "\n", `\n`)
	case "pan":
		return newCard(r, param)
	case "iban":
		return newIBAN(r, param)
	case "mail":
		return newMail(r)
	case "mailu":
		return url.QueryEscape(newMail(r))
	case "phone":
		return newPhone(r)
	case "ssn":
		return fmt.Sprintf("%03d-%02d-%04d", 100+r.IntN(500), 10+r.IntN(80), 1000+r.IntN(8000))
	case "ip":
		return fmt.Sprintf("%d.%d.%d.%d", []int{81, 93, 45, 185, 8, 203}[r.IntN(6)], 10+r.IntN(200), 10+r.IntN(200), 10+r.IntN(200))
	case "ip6":
		return fmt.Sprintf("2a02:%x:%x:%x::%x", 0x1000+r.IntN(0xefff), 0x1000+r.IntN(0xefff), 0x1000+r.IntN(0xefff), 0x1000+r.IntN(0xefff))
	case "person":
		return pickOf(r, "joanna|mkowalski|yilmaz.a|tanaka|ferreira|oconnor|lindqvist|vanderberg")
	case "value": // of a column
		return pickOf(r, "Joanna Kowalska|M\u00fcller, Jan|O'Connor|Ferreira da Silva|12 Rue des Lilas|J4N3-D03|tanaka_k")
	}
	panic("no secret " + name)
}

func luhnDigit(s string) byte {
	sum := 0
	for i := len(s) - 1; i >= 0; i-- {
		d := int(s[i] - '0')
		if (len(s)-i)%2 == 1 {
			if d *= 2; d > 9 {
				d -= 9
			}
		}
		sum += d
	}
	return byte('0' + (10-sum%10)%10)
}

func newCard(r *rand.Rand, separator string) string {
	prefix := pickOf(r, "4|4|51|53|55|2221|2720|34|37|6011|65|644|3528|3589|36|38|62|60110")
	n := 16
	switch prefix {
	case "34", "37":
		n = 15
	case "36", "38":
		n = 14
	}
	s := prefix + planted.Draw(r, n-1-len(prefix), planted.Digits)
	s += string(luhnDigit(s))
	if separator == "" {
		return s
	}
	groups := []int{4, 4, 4, 4}
	if n < 16 {
		groups = []int{4, 6, n - 10}
	}
	var parts []string
	for _, g := range groups {
		parts = append(parts, s[:g])
		s = s[g:]
	}
	return strings.Join(parts, map[string]string{"space": " ", "dash": "-"}[separator])
}

func newIBAN(r *rand.Rand, how string) string {
	shapes := strings.Fields("DE18n FR5n5n11c2n GB4a14n NL4a10n ES20n IT1a10n12c PL24n PT21n BE12n AT16n CH5n12c SE20n DK14n FI14n NO11n IE4a14n CZ20n TR5n1n16c GR7n16c LU3n13c HU24n RO4a16c SA2n18c AE19n")
	shape := shapes[r.IntN(len(shapes))]
	body := ""
	for rest := shape[2:]; rest != ""; {
		n := 0
		for rest[0] >= '0' && rest[0] <= '9' {
			n, rest = n*10+int(rest[0]-'0'), rest[1:]
		}
		body += planted.Draw(r, n, map[byte]string{'n': planted.Digits, 'a': planted.Upper, 'c': planted.Digits + planted.Upper}[rest[0]])
		rest = rest[1:]
	}
	number := ""
	for _, c := range body + shape[:2] + "00" {
		if c >= 'A' {
			number += fmt.Sprint(c - 'A' + 10)
		} else {
			number += string(c)
		}
	}
	v, _ := new(big.Int).SetString(number, 10)
	s := fmt.Sprintf("%s%02d%s", shape[:2], 98-new(big.Int).Mod(v, big.NewInt(97)).Int64(), body)
	if how == "space" {
		var parts []string
		for ; len(s) > 4; s = s[4:] {
			parts = append(parts, s[:4])
		}
		return strings.Join(append(parts, s), " ")
	}
	return s
}

func newMail(r *rand.Rand) string {
	first := pickOf(r, "joanna|m.kowalski|yilmaz_a|kenji|ferreira|o'connor|lindqvist|van.der.berg|x|sales|hr-team|jose.maria")
	tag := pickOf(r, "|||+news|+"+planted.Draw(r, 4, planted.Digits)+"|"+planted.Draw(r, 3, planted.Digits))
	return first + tag + "@" + pickOf(r, "example.org|mail.example.co.uk|firma.example.de|exa-mple.com.br|sub.dept.example.jp|example.museum|b\u00fccher.example|example.travel")
}

func newPhone(r *rand.Rand) string {
	shape := pickOf(r, "+48 6## ### ###|+90 5## ### ## ##|+81-90-####-####|+55 11 9####-####|+44 7### ######|+33 6 ## ## ## ##|+353 8# ### ####|+47 4## ## ###|"+
		"(212) 5##-####|+1 (415) 5##-####|+1-646-5##-####|06 ## ## ## ##|0171 ########|+49 (0)30 #######|+39 3## ### ####|+91 9####-#####|+61 4## ### ###|00353 1 ### ####|+861380013####|07### ######")
	b := []byte(shape)
	for i := range b {
		if b[i] == '#' {
			b[i] = "23456789"[r.IntN(8)]
		}
	}
	return string(b)
}

// unseenRounds is how often each template is filled.
const unseenRounds = 16

// TestUnseen reports what the sanitiser does to the unseen corpus.
func TestUnseen(t *testing.T) {
	r := rand.New(rand.NewPCG(2026, 11))
	type row struct{ total, wrong int }
	var order []string
	rows := map[string]*row{}
	count := func(class string, wrong bool) {
		if rows[class] == nil {
			rows[class] = &row{}
			order = append(order, class)
		}
		rows[class].total++
		if wrong {
			rows[class].wrong++
		}
	}
	dirty, missed, benign, changed := 0, 0, 0, 0
	for _, tmpl := range readTemplates(t, "unseen-dirty.txt") {
		shown := false
		for range unseenRounds {
			text, secrets := fill(r, tmpl.text)
			out := Clean(text).String()
			leaked := false
			for _, s := range secrets {
				leaked = leaked || unseenLeak(text, s, out)
			}
			dirty++
			if leaked {
				missed++
			}
			count(tmpl.class, leaked)
			if leaked && !shown {
				shown = true
				t.Logf("%s\n in  %.300q\n out %.300q", tmpl.class, text, out)
			}
		}
	}
	for _, tmpl := range readTemplates(t, "unseen-benign.txt") {
		shown := false
		for range unseenRounds {
			text, _ := fill(r, tmpl.text)
			out := Clean(text).String()
			want := normalise(text)
			benign++
			if out != want {
				changed++
			}
			count(tmpl.class, out != want)
			if out != want && !shown {
				shown = true
				t.Logf("%s\n in  %.300q\n out %.300q", tmpl.class, text, out)
			}
		}
	}
	var report strings.Builder
	for _, class := range order {
		fmt.Fprintf(&report, "\n%-16s %6d lines %6d wrong %7.2f %%", class, rows[class].total, rows[class].wrong, 100*float64(rows[class].wrong)/float64(rows[class].total))
	}
	t.Logf("%s\ndirty %d missed %d, benign %d changed %d", report.String(), dirty, missed, benign, changed)
	if dirty < 3000 || benign < 3000 {
		t.Errorf("%d dirty and %d benign lines", dirty, benign)
	}
	allowed := map[string]int{"opaque": 50, "phone": 30, "known-gaps": 1000, "by-design": 1000} // in a thousand
	for _, class := range order {
		if r := rows[class]; r.wrong*1000 > r.total*allowed[class] {
			t.Errorf("%s: %d of %d wrong", class, r.wrong, r.total)
		}
	}
}

// unseenLeak reports whether a part of the secret that the rest of the text
// does not hold is in out.
func unseenLeak(text, secret, out string) bool {
	secret, rest := normalise(secret), normalise(strings.ReplaceAll(text, secret, "\n"))
	least := 4
	if strings.Trim(secret, "0123456789 -+()") == "" {
		least = 6
	}
	least = min(least, len(secret))
	for k := 0; k+least <= len(secret); k++ {
		if part := secret[k : k+least]; strings.Contains(out, part) && !strings.Contains(rest, part) {
			return true
		}
	}
	return false
}
