package sanitize

import (
	"encoding/base64"
	"fmt"
	"math/big"
	"math/rand/v2"
	"net/url"
	"strings"
)

// password returns a password that stands bare in a text: it holds no blank,
// quote or bracket.
func password(r *rand.Rand) string {
	p := draw(r, 1, alnumChars) + draw(r, 5+r.IntN(20), alnumChars+"!$*-_.~^@%/+") + draw(r, 2, alnumChars)
	for placeholder(p) || strings.Contains(p, "%2") {
		p = draw(r, 12, alnumChars)
	}
	return p
}

func generators() []generator {
	return []generator{
		{"key-value", 1, makeKeyValue}, {"userinfo", 1, makeUserinfo}, {"dsn", 1, makeDSN}, {"header", 1, makeHeader},
		{"jwt", 1, makeJWT}, {"vendor", 1, makeVendor}, {"pem", 1, makePEM}, {"card", 1, makeCard}, {"iban", 1, makeIBAN},
		{"email", 1, makeEmail}, {"ssn", 1, makeSSN}, {"ip", 1, makeIP}, {"phone", 0.97, makePhone}, {"opaque", 0.95, makeOpaque},
	}
}

func makeKeyValue(r *rand.Rand) sample {
	key := pick(r, []string{
		"password", "Password", "passwd", "pwd", "DB_PASSWORD", "dbPassword", "db.password", "passphrase", "secret", "client_secret",
		"clientSecret", "api_key", "apikey", "API-Key", "x-api-key", "access_token", "accessToken", "refresh_token", "id_token",
		"session_token", "private_key", "signing_key", "encryption_key", "session_id", "sid", "otp", "cvv", "pin", "connection_string",
		"credentials", "AWS_SECRET_ACCESS_KEY", "secret-key", "PGPASSWORD", "MYSQL_PWD", "AccountKey", "SharedAccessKey",
	})
	p := password(r)
	form := pick(r, []string{
		"%s=%s", "%s: %s", "%s:%s", "%s = %s", "%s => %s", "%s='%s'", `%s="%s"`, `"%s":"%s"`, `"%s": "%s", "n": 1`, `'%s': '%s'`,
		`{\"%s\":\"%s\"}`, "a=1&%s=%s&b=2", "--%s %s", "--%s=%s", `%s=%s;Database=app`, "map[%s:%s]", "%s=%s, user=x", "%s := `%s`",
	})
	if strings.HasPrefix(form, "--") {
		key = pick(r, []string{"password", "db-password", "api-key", "client-secret", "access-token"})
	}
	if strings.HasPrefix(form, "a=1") || strings.Contains(form, "map") {
		p = draw(r, 12, alnumChars)
	}
	text := fmt.Sprintf(form, key, p)
	if strings.Contains(form, `"`) || strings.Contains(form, "`") {
		return sample{"x " + text + " y", p}
	}
	return sample{framed(r, text), p}
}

func makeUserinfo(r *rand.Rand) sample {
	scheme := pick(r, []string{"postgres", "postgresql", "mysql", "redis", "rediss", "amqp", "mongodb", "mongodb+srv", "clickhouse", "https", "http", "ftp", "nats", "kafka+ssl", "ldap"})
	p := draw(r, 6+r.IntN(14), alnumChars+"!$*-_.~^%+")
	if scheme != "http" && scheme != "https" && r.IntN(3) == 0 {
		p += pick(r, []string{"/", "@", ":", "#"}) + draw(r, 6, alnumChars)
	}
	user := pick(r, []string{"svc", "app_rw", "root", ""})
	host := pick(r, []string{"db1", "db1.internal:5432", "10.0.0.5:3306", "[fd00::1]:6379", "cache", "h1:27017,h2:27017"})
	rest := pick(r, []string{"", "/", "/app", "/app?sslmode=require", "?x=1"})
	return sample{framed(r, scheme+"://"+user+":"+p+"@"+host+rest), p}
}

func makeDSN(r *rand.Rand) sample {
	p := draw(r, 1, alnumChars) + draw(r, 5+r.IntN(10), alnumChars+"!$*-_.~^%+") + draw(r, 1, alnumChars)
	form := pick(r, []string{
		"svc:%s@tcp(127.0.0.1:3306)/app", "host=db1 user=svc password=%s dbname=app", "host=db1 password='%s' user=svc",
		"Server=sql1;User ID=svc;Pwd=%s;Encrypt=True", "Server=sql1;Password=%s", "AccountName=a;AccountKey=%s==;EndpointSuffix=x",
		"Endpoint=sb://x.example.com/;SharedAccessKeyName=n;SharedAccessKey=%s=", `required username="w" password="%s";`,
		"PGPASSWORD=%s psql -h db", "MYSQL_PWD=%s mysql", "jdbc:postgresql://db1/app?user=svc&password=%s",
		"jdbc:sqlserver://db1:1433;user=svc;password=%s;encrypt=true", "root:%s@db1.internal:3306", "mysql -u root -p%s app",
	})
	return sample{"connect " + fmt.Sprintf(form, p) + pick(r, []string{"", " failed"}), p}
}

func makeHeader(r *rand.Rand) sample {
	token := draw(r, 12+r.IntN(40), alnumChars+"-_.~") + draw(r, 2, alnumChars)
	basic := base64.StdEncoding.EncodeToString([]byte("svc:" + password(r)))
	switch r.IntN(10) {
	case 0:
		return sample{framed(r, "Authorization: Bearer "+token), token}
	case 1:
		return sample{framed(r, "authorization: Basic "+basic), basic}
	case 2:
		return sample{framed(r, "Cookie: sid="+token+"; theme=dark"), token}
	case 3:
		return sample{framed(r, "Set-Cookie: s="+token+"; HttpOnly"), token}
	case 4:
		return sample{framed(r, "Proxy-Authorization: "+token), token}
	case 5:
		return sample{"x map[Authorization:[Bearer " + token + "] Accept:[json]] y", token}
	case 6:
		return sample{`{"Authorization":"Bearer ` + token + `"}`, token}
	case 7:
		return sample{framed(r, "X-Amz-Security-Token: "+token), token}
	case 8:
		return sample{framed(r, "sent bearer "+draw(r, 1, digitChars)+token), token}
	default:
		return sample{framed(r, "with Basic "+basic), basic}
	}
}

func makeJWT(r *rand.Rand) sample {
	seg := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	tok := seg(`{"alg":"`+pick(r, []string{"HS256", "RS256", "none"})+`","typ":"JWT"}`) + "." + seg(`{"sub":"`+draw(r, 8+r.IntN(30), alnumChars)+`"}`)
	if r.IntN(4) > 0 {
		tok += "." + draw(r, 20+r.IntN(60), alnumChars+"-_")
	}
	return sample{framed(r, tok), tok}
}

func makeVendor(r *rand.Rand) sample {
	hex := digitChars + "abcdef"
	v := pick(r, []struct {
		prefix, alphabet string
		n                int
	}{
		{"AKIA", upperLetters + "234567", 16}, {"ASIA", upperLetters + "234567", 16}, {"ghp_", alnumChars, 36}, {"gho_", alnumChars, 36},
		{"ghs_", alnumChars, 36}, {"github_pat_", alnumChars + "_", 82}, {"glpat-", alnumChars + "-_", 20}, {"xoxb-", alnumChars + "-", 40},
		{"xoxp-", alnumChars + "-", 50}, {"sk_live_", alnumChars, 24}, {"rk_live_", alnumChars, 24}, {"AIza", alnumChars + "-_", 35},
		{"ya29.", alnumChars + "-_", 60}, {"npm_", alnumChars, 36}, {"pypi-", alnumChars + "-_", 100}, {"SG.", alnumChars + "-_", 66},
		{"dop_v1_", hex, 64}, {"hvs.", alnumChars + "-_", 24}, {"sk-", alnumChars, 48}, {"sk-ant-", alnumChars + "-_", 90}, {"shpat_", hex, 32},
		{"whsec_", alnumChars, 32}, {"hf_", alnumChars, 34}, {"glsa_", alnumChars, 32},
	})
	tok := v.prefix + draw(r, v.n-1, v.alphabet) + draw(r, 1, hex[:10])
	return sample{framed(r, tok), tok}
}

func makePEM(r *rand.Rand) sample {
	kind := pick(r, []string{"PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY", "OPENSSH PRIVATE KEY", "ENCRYPTED PRIVATE KEY", "CERTIFICATE"})
	nl := pick(r, []string{"\n", "\r\n", `\n`, " "})
	body := draw(r, 64, alnumChars+"+/")
	text := "-----BEGIN " + kind + "-----" + nl + body + nl
	if r.IntN(2) == 0 {
		text += "-----END " + kind + "----- end"
	}
	return sample{"loading key: " + text, body}
}

// checked returns n digits that begin with prefix and end in a check digit.
func checked(r *rand.Rand, prefix string, n int) string {
	d := []byte(prefix + draw(r, n-len(prefix), digitChars))
	for c := byte('0'); c <= '9'; c++ {
		d[n-1] = c
		v := make([]byte, n)
		for k := range d {
			v[k] = d[k] - '0'
		}
		if luhn(v) {
			break
		}
	}
	return string(d)
}

func makeCard(r *rand.Rand) sample {
	v := pick(r, []struct {
		prefix string
		n      int
	}{
		{"4", 16}, {"4", 13}, {"4", 19}, {"51", 16}, {"55", 16}, {"2221", 16}, {"2720", 16}, {"34", 15}, {"37", 15}, {"6011", 16},
		{"65", 16}, {"644", 16}, {"3528", 16}, {"3589", 16}, {"36", 14}, {"305", 14}, {"38", 14}, {"62", 16}, {"62", 19},
	})
	n := checked(r, v.prefix, v.n)
	if sep := pick(r, []string{"", "", " ", "-"}); sep != "" && (v.n == 16 || v.n == 19) {
		var groups []string
		for rest := n; rest != ""; rest = rest[min(4, len(rest)):] {
			groups = append(groups, rest[:min(4, len(rest))])
		}
		n = strings.Join(groups, sep)
	} else if sep != "" && v.n == 15 {
		n = n[:4] + sep + n[4:10] + sep + n[10:]
	}
	return sample{framed(r, pick(r, []string{"", "card ", "pan=", "number:"})+n), n}
}

func makeIBAN(r *rand.Rand) sample {
	country := pick(r, []string{"DE", "GB", "FR", "NL", "ES", "IT", "CH", "AT", "BE", "PL", "SE", "NO", "MT", "LC"})
	n := int(ibanLengths[country[0]-'A'][country[1]-'A'])
	body := draw(r, n-4, digitChars)
	if country == "GB" || country == "NL" {
		body = draw(r, 4, upperLetters) + body[4:]
	}
	var num strings.Builder
	for _, c := range []byte(body + country + "00") {
		if isDigit(c) {
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
	return sample{framed(r, pick(r, []string{"", "iban ", "account="})+out), out}
}

func makeEmail(r *rand.Rand) sample {
	local := draw(r, 1, lowerLetters) + draw(r, 3+r.IntN(10), alnumChars+"._-") + draw(r, 1, lowerLetters)
	if r.IntN(4) == 0 {
		local += "+tag" + draw(r, 2, digitChars)
	}
	if r.IntN(6) == 0 {
		local = "j\u00fcrgen" + local
	}
	domain := draw(r, 4+r.IntN(8), lowerLetters) + pick(r, []string{".com", ".org", ".co.uk", ".example", ".de", ".internal", ".museum"})
	at := pick(r, []string{"@", "@", "@", "%40", `\u0040`})
	addr := local + at + domain
	return sample{framed(r, pick(r, []string{"", "user ", "to=", "mailto:", "email: "})+addr), local}
}

func makeSSN(r *rand.Rand) sample {
	n := fmt.Sprintf("%03d-%02d-%04d", 1+r.IntN(665), 1+r.IntN(99), 1+r.IntN(9999))
	return sample{framed(r, pick(r, []string{"", "ssn ", "SSN: "})+n), n}
}

func makeIP(r *rand.Rand) sample {
	ip := fmt.Sprintf("%d.%d.%d.%d", pick(r, []int{5, 8, 52, 93, 133, 203}), r.IntN(256), r.IntN(256), 1+r.IntN(254))
	switch r.IntN(3) {
	case 0:
		ip = fmt.Sprintf("2a0%d:%x:%x::%x", r.IntN(10), r.IntN(65536), 1+r.IntN(65535), 256+r.IntN(65000))
		return sample{framed(r, "from "+ip), ip}
	case 1:
		return sample{framed(r, "dial tcp "+ip+":443"), ip}
	}
	return sample{framed(r, pick(r, []string{"client ", "", "remote_addr="})+ip), ip}
}

func makePhone(r *rand.Rand) sample {
	d := func(n int) string { return draw(r, 1, "23456789") + draw(r, n-1, digitChars) }
	n := pick(r, []string{
		"+49 " + d(3) + " " + d(8), "+1-" + d(3) + "-" + d(3) + "-" + d(4), "+44 20 " + d(4) + " " + d(4), "+" + d(11), "+33 (0)1 " + d(2) + " " + d(2) + " " + d(2) + " " + d(2),
		"(" + d(3) + ") " + d(3) + "-" + d(4), d(3) + "-" + d(3) + "-" + d(4), "0" + d(9), "0" + d(3) + "/" + d(7), d(3) + "." + d(3) + "." + d(4), d(10),
	})
	context := pick(r, []string{"phone ", "tel: ", "call ", "SMS to ", "mobile=", "fax ", "phone_number=", "customer phone number "})
	return sample{framed(r, context+n), n}
}

func makeOpaque(r *rand.Rand) sample {
	alphabet := pick(r, []string{alnumChars, alnumChars + "-_", alnumChars + "+/"})
	v := draw(r, 1, alnumChars) + draw(r, 30+r.IntN(60), alphabet) + draw(r, 1, alnumChars)
	if r.IntN(4) == 0 {
		v = url.QueryEscape(draw(r, 40, alnumChars)) + "=="
	}
	return sample{framed(r, pick(r, []string{"", "blob ", "id=", "got "})+v), v}
}
