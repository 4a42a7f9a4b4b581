package sanitize

import "testing"

func TestPEM(t *testing.T) {
	b, e := "-----BEGIN RSA PRIVATE "+"KEY-----", "-----END RSA PRIVATE "+"KEY-----"
	checkClass(t, classPEM, []row{
		{`key ` + b + `
MIIE
` + e + ` end`, `key [REDACTED] end`},
		{b + `
MIIE`, `[REDACTED]`},
		{b + `\nMIIE\n` + e, `[REDACTED]`},
		{`"-----BEGIN CERTIFICATE----- x -----END CERTIFICATE-----"`, `"[REDACTED]"`},
		{`a ---- BEGIN SSH2 PUBLIC KEY ---- x ---- END SSH2 PUBLIC KEY ---- b`, `a [REDACTED] b`},
	}, []string{
		`BEGIN PRIVATE KEY`,
		`--- BEGIN`,
		`-----`,
		`failed to find PEM block`,
		`----- a -----`,
	})
}
