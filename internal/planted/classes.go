package planted

import (
	"encoding/base64"
	"fmt"
	"math/big"
	"math/rand/v2"
	"net/url"
	"strings"
)

// A Sample is a text with a secret in it.
type Sample struct{ Text, Secret string }

// A Class makes samples of one kind, of which a sanitiser must find at least the
// share Recall.
type Class struct {
	Name   string
	Recall float64
	Make   func(r *rand.Rand) Sample
}

// frames are what stands around a secret. Each holds one %s.
var frames = []string{
	"%s", "%s failed", "dial: %s: i/o timeout", "error (%s)", "got [%s], retrying", `parsing "%s": invalid syntax`,
	"line one\nline two %s\nline three", "a=1 %s b=2", "<%s>", "see %s.", "attempt 3 of 5: %s, next in 2s", "{%s}",
	`msg="%s" level=error`, "%s; %s", "\u00fcber %s \u2026", "\t%s\r\n",
}

// Framed returns s within what may stand around it in a message.
func Framed(r *rand.Rand, s string) string {
	frame := frames[r.IntN(len(frames))]
	if strings.Count(frame, "%s") == 2 {
		return fmt.Sprintf(frame, s, s)
	}
	return fmt.Sprintf(frame, s)
}

// Pick returns one of them.
func Pick[T any](r *rand.Rand, of []T) T { return of[r.IntN(len(of))] }

// Draw returns n characters of an alphabet.
func Draw(r *rand.Rand, n int, alphabet string) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = alphabet[r.IntN(len(alphabet))]
	}
	return string(b)
}

// Alphabets.
const (
	Lower  = "abcdefghijklmnopqrstuvwxyz"
	Upper  = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	Digits = "0123456789"
	Alnum  = Lower + Upper + Digits
)

// password returns a password that stands bare in a text: it holds no blank,
// quote or bracket.
func password(r *rand.Rand) string {
	p := Draw(r, 1, Alnum) + Draw(r, 5+r.IntN(20), Alnum+"!$*-_.~^@%/+") + Draw(r, 2, Alnum)
	for strings.Contains(p, "%2") {
		p = Draw(r, 12, Alnum)
	}
	return p
}

// Classes are all kinds of text that must not be written down.
func Classes() []Class {
	return []Class{
		{"key-value", 1, makeKeyValue}, {"userinfo", 1, makeUserinfo}, {"dsn", 1, makeDSN}, {"header", 1, makeHeader},
		{"jwt", 1, makeJWT}, {"vendor", 1, makeVendor}, {"pem", 1, makePEM}, {"card", 1, makeCard}, {"iban", 1, makeIBAN},
		{"email", 1, makeEmail}, {"ssn", 1, makeSSN}, {"ip", 1, makeIP}, {"phone", 0.97, makePhone}, {"opaque", 0.95, makeOpaque},
	}
}

func makeKeyValue(r *rand.Rand) Sample {
	key := Pick(r, []string{
		"password", "Password", "passwd", "pwd", "DB_PASSWORD", "dbPassword", "db.password", "passphrase", "secret", "client_secret",
		"clientSecret", "api_key", "apikey", "API-Key", "x-api-key", "access_token", "accessToken", "refresh_token", "id_token",
		"session_token", "private_key", "signing_key", "encryption_key", "session_id", "sid", "otp", "cvv", "pin", "connection_string",
		"credentials", "AWS_SECRET_ACCESS_KEY", "secret-key", "PGPASSWORD", "MYSQL_PWD", "AccountKey", "SharedAccessKey",
	})
	p := password(r)
	form := Pick(r, []string{
		"%s=%s", "%s: %s", "%s:%s", "%s = %s", "%s => %s", "%s='%s'", `%s="%s"`, `"%s":"%s"`, `"%s": "%s", "n": 1`, `'%s': '%s'`,
		`{\"%s\":\"%s\"}`, "a=1&%s=%s&b=2", "--%s %s", "--%s=%s", `%s=%s;Database=app`, "map[%s:%s]", "%s=%s, user=x", "%s := `%s`",
	})
	if strings.HasPrefix(form, "--") {
		key = Pick(r, []string{"password", "db-password", "api-key", "client-secret", "access-token"})
	}
	if strings.HasPrefix(form, "a=1") || strings.Contains(form, "map") {
		p = Draw(r, 12, Alnum)
	}
	text := fmt.Sprintf(form, key, p)
	if strings.Contains(form, `"`) || strings.Contains(form, "`") {
		return Sample{"x " + text + " y", p}
	}
	return Sample{Framed(r, text), p}
}

func makeUserinfo(r *rand.Rand) Sample {
	scheme := Pick(r, []string{"postgres", "postgresql", "mysql", "redis", "rediss", "amqp", "mongodb", "mongodb+srv", "clickhouse", "https", "http", "ftp", "nats", "kafka+ssl", "ldap"})
	p := Draw(r, 6+r.IntN(14), Alnum+"!$*-_.~^%+")
	if scheme != "http" && scheme != "https" && r.IntN(3) == 0 {
		p += Pick(r, []string{"/", "@", ":", "#"}) + Draw(r, 6, Alnum)
	}
	user := Pick(r, []string{"svc", "app_rw", "root", ""})
	host := Pick(r, []string{"db1", "db1.internal:5432", "10.0.0.5:3306", "[fd00::1]:6379", "cache", "h1:27017,h2:27017"})
	rest := Pick(r, []string{"", "/", "/app", "/app?sslmode=require", "?x=1"})
	return Sample{Framed(r, scheme+"://"+user+":"+p+"@"+host+rest), p}
}

func makeDSN(r *rand.Rand) Sample {
	p := Draw(r, 1, Alnum) + Draw(r, 5+r.IntN(10), Alnum+"!$*-_.~^%+") + Draw(r, 1, Alnum)
	form := Pick(r, []string{
		"svc:%s@tcp(127.0.0.1:3306)/app", "host=db1 user=svc password=%s dbname=app", "host=db1 password='%s' user=svc",
		"Server=sql1;User ID=svc;Pwd=%s;Encrypt=True", "Server=sql1;Password=%s", "AccountName=a;AccountKey=%s==;EndpointSuffix=x",
		"Endpoint=sb://x.example.com/;SharedAccessKeyName=n;SharedAccessKey=%s=", `required username="w" password="%s";`,
		"PGPASSWORD=%s psql -h db", "MYSQL_PWD=%s mysql", "jdbc:postgresql://db1/app?user=svc&password=%s",
		"jdbc:sqlserver://db1:1433;user=svc;password=%s;encrypt=true", "root:%s@db1.internal:3306", "mysql -u root -p%s app",
	})
	return Sample{"connect " + fmt.Sprintf(form, p) + Pick(r, []string{"", " failed"}), p}
}

func makeHeader(r *rand.Rand) Sample {
	token := Draw(r, 12+r.IntN(40), Alnum+"-_.~") + Draw(r, 2, Alnum)
	basic := base64.StdEncoding.EncodeToString([]byte("svc:" + password(r)))
	switch r.IntN(10) {
	case 0:
		return Sample{Framed(r, "Authorization: Bearer "+token), token}
	case 1:
		return Sample{Framed(r, "authorization: Basic "+basic), basic}
	case 2:
		return Sample{Framed(r, "Cookie: sid="+token+"; theme=dark"), token}
	case 3:
		return Sample{Framed(r, "Set-Cookie: s="+token+"; HttpOnly"), token}
	case 4:
		return Sample{Framed(r, "Proxy-Authorization: "+token), token}
	case 5:
		return Sample{"x map[Authorization:[Bearer " + token + "] Accept:[json]] y", token}
	case 6:
		return Sample{`{"Authorization":"Bearer ` + token + `"}`, token}
	case 7:
		return Sample{Framed(r, "X-Amz-Security-Token: "+token), token}
	case 8:
		return Sample{Framed(r, "sent bearer "+Draw(r, 1, Digits)+token), token}
	default:
		return Sample{Framed(r, "with Basic "+basic), basic}
	}
}

func makeJWT(r *rand.Rand) Sample {
	seg := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	tok := seg(`{"alg":"`+Pick(r, []string{"HS256", "RS256", "none"})+`","typ":"JWT"}`) + "." + seg(`{"sub":"`+Draw(r, 8+r.IntN(30), Alnum)+`"}`)
	if r.IntN(4) > 0 {
		tok += "." + Draw(r, 20+r.IntN(60), Alnum+"-_")
	}
	return Sample{Framed(r, tok), tok}
}

func makeVendor(r *rand.Rand) Sample {
	hex := Digits + "abcdef"
	v := Pick(r, []struct {
		prefix, alphabet string
		n                int
	}{
		{"AKIA", Upper + "234567", 16}, {"ASIA", Upper + "234567", 16}, {"ghp_", Alnum, 36}, {"gho_", Alnum, 36},
		{"ghs_", Alnum, 36}, {"github_pat_", Alnum + "_", 82}, {"glpat-", Alnum + "-_", 20}, {"xoxb-", Alnum + "-", 40},
		{"xoxp-", Alnum + "-", 50}, {"sk_live_", Alnum, 24}, {"rk_live_", Alnum, 24}, {"AIza", Alnum + "-_", 35},
		{"ya29.", Alnum + "-_", 60}, {"npm_", Alnum, 36}, {"pypi-", Alnum + "-_", 100}, {"SG.", Alnum + "-_", 66},
		{"dop_v1_", hex, 64}, {"hvs.", Alnum + "-_", 24}, {"sk-", Alnum, 48}, {"sk-ant-", Alnum + "-_", 90}, {"shpat_", hex, 32},
		{"whsec_", Alnum, 32}, {"hf_", Alnum, 34}, {"glsa_", Alnum, 32},
	})
	tok := v.prefix + Draw(r, v.n-1, v.alphabet) + Draw(r, 1, hex[:10])
	return Sample{Framed(r, tok), tok}
}

func makePEM(r *rand.Rand) Sample {
	kind := Pick(r, []string{"PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY", "OPENSSH PRIVATE KEY", "ENCRYPTED PRIVATE KEY", "CERTIFICATE"})
	nl := Pick(r, []string{"\n", "\r\n", `\n`, " "})
	body := Draw(r, 64, Alnum+"+/")
	text := "-----BEGIN " + kind + "-----" + nl + body + nl
	if r.IntN(2) == 0 {
		text += "-----END " + kind + "----- end"
	}
	return Sample{"loading key: " + text, body}
}

// checked returns n digits that begin with prefix and end in a check digit.
func checked(r *rand.Rand, prefix string, n int) string {
	d := []byte(prefix + Draw(r, n-len(prefix), Digits))
	for d[n-1] = '0'; !luhn(d); d[n-1]++ {
	}
	return string(d)
}

// luhn reports whether the digits end in their check digit.
func luhn(digits []byte) bool {
	sum := 0
	for k := range digits {
		v := int(digits[len(digits)-1-k] - '0')
		if k%2 == 1 {
			v = v*2/10 + v*2%10
		}
		sum += v
	}
	return sum%10 == 0
}

func makeCard(r *rand.Rand) Sample {
	v := Pick(r, []struct {
		prefix string
		n      int
	}{
		{"4", 16}, {"4", 13}, {"4", 19}, {"51", 16}, {"55", 16}, {"2221", 16}, {"2720", 16}, {"34", 15}, {"37", 15}, {"6011", 16},
		{"65", 16}, {"644", 16}, {"3528", 16}, {"3589", 16}, {"36", 14}, {"305", 14}, {"38", 14}, {"62", 16}, {"62", 19},
	})
	n := checked(r, v.prefix, v.n)
	if sep := Pick(r, []string{"", "", " ", "-"}); sep != "" && (v.n == 16 || v.n == 19) {
		var groups []string
		for rest := n; rest != ""; rest = rest[min(4, len(rest)):] {
			groups = append(groups, rest[:min(4, len(rest))])
		}
		n = strings.Join(groups, sep)
	} else if sep != "" && v.n == 15 {
		n = n[:4] + sep + n[4:10] + sep + n[10:]
	}
	return Sample{Framed(r, Pick(r, []string{"", "card ", "pan=", "number:"})+n), n}
}

// ibanLengths holds the lengths of account numbers.
var ibanLengths = map[string]int{"DE": 22, "GB": 22, "FR": 27, "NL": 18, "ES": 24, "IT": 27, "CH": 21, "AT": 20, "BE": 16, "PL": 28, "SE": 24, "NO": 15, "MT": 31, "LC": 32}

func makeIBAN(r *rand.Rand) Sample {
	country := Pick(r, []string{"DE", "GB", "FR", "NL", "ES", "IT", "CH", "AT", "BE", "PL", "SE", "NO", "MT", "LC"})
	n := ibanLengths[country]
	body := Draw(r, n-4, Digits)
	if country == "GB" || country == "NL" {
		body = Draw(r, 4, Upper) + body[4:]
	}
	var num strings.Builder
	for _, c := range []byte(body + country + "00") {
		if c >= '0' && c <= '9' {
			num.WriteByte(c)
		} else {
			fmt.Fprint(&num, int(c-'A')+10)
		}
	}
	v, _ := new(big.Int).SetString(num.String(), 10)
	out := fmt.Sprintf("%s%02d%s", country, 98-new(big.Int).Mod(v, big.NewInt(97)).Int64(), body)
	if r.IntN(2) == 0 {
		var groups []string
		for rest := out; rest != ""; rest = rest[min(4, len(rest)):] {
			groups = append(groups, rest[:min(4, len(rest))])
		}
		out = strings.Join(groups, " ")
	}
	return Sample{Framed(r, Pick(r, []string{"", "iban ", "account="})+out), out}
}

func makeEmail(r *rand.Rand) Sample {
	local := Draw(r, 1, Lower) + Draw(r, 3+r.IntN(10), Alnum+"._-") + Draw(r, 1, Lower)
	if r.IntN(4) == 0 {
		local += "+tag" + Draw(r, 2, Digits)
	}
	if r.IntN(6) == 0 {
		local = "j\u00fcrgen" + local
	}
	domain := Draw(r, 4+r.IntN(8), Lower) + Pick(r, []string{".com", ".org", ".co.uk", ".example", ".de", ".internal", ".museum"})
	at := Pick(r, []string{"@", "@", "@", "%40", `\u0040`})
	addr := local + at + domain
	return Sample{Framed(r, Pick(r, []string{"", "user ", "to=", "mailto:", "email: "})+addr), local}
}

func makeSSN(r *rand.Rand) Sample {
	n := fmt.Sprintf("%03d-%02d-%04d", 1+r.IntN(665), 1+r.IntN(99), 1+r.IntN(9999))
	return Sample{Framed(r, Pick(r, []string{"", "ssn ", "SSN: "})+n), n}
}

func makeIP(r *rand.Rand) Sample {
	ip := fmt.Sprintf("%d.%d.%d.%d", Pick(r, []int{5, 8, 52, 93, 133, 203}), r.IntN(256), r.IntN(256), 1+r.IntN(254))
	switch r.IntN(3) {
	case 0:
		ip = fmt.Sprintf("2a0%d:%x:%x::%x", r.IntN(10), r.IntN(65536), 1+r.IntN(65535), 256+r.IntN(65000))
		return Sample{Framed(r, "from "+ip), ip}
	case 1:
		return Sample{Framed(r, "dial tcp "+ip+":443"), ip}
	}
	return Sample{Framed(r, Pick(r, []string{"client ", "", "remote_addr="})+ip), ip}
}

func makePhone(r *rand.Rand) Sample {
	d := func(n int) string { return Draw(r, 1, "23456789") + Draw(r, n-1, Digits) }
	n := Pick(r, []string{
		"+49 " + d(3) + " " + d(8), "+1-" + d(3) + "-" + d(3) + "-" + d(4), "+44 20 " + d(4) + " " + d(4), "+" + d(11), "+33 (0)1 " + d(2) + " " + d(2) + " " + d(2) + " " + d(2),
		"(" + d(3) + ") " + d(3) + "-" + d(4), d(3) + "-" + d(3) + "-" + d(4), "0" + d(9), "0" + d(3) + "/" + d(7), d(3) + "." + d(3) + "." + d(4), d(10),
	})
	context := Pick(r, []string{"phone ", "tel: ", "call ", "SMS to ", "mobile=", "fax ", "phone_number=", "customer phone number "})
	return Sample{Framed(r, context+n), n}
}

func makeOpaque(r *rand.Rand) Sample {
	alphabet := Pick(r, []string{Alnum, Alnum + "-_", Alnum + "+/"})
	v := Draw(r, 1, Alnum) + Draw(r, 30+r.IntN(60), alphabet) + Draw(r, 1, Alnum)
	if r.IntN(4) == 0 {
		v = url.QueryEscape(Draw(r, 40, Alnum)) + "=="
	}
	return Sample{Framed(r, Pick(r, []string{"", "blob ", "id=", "got "})+v), v}
}
