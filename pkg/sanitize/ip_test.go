package sanitize

import "testing"

func TestIP(t *testing.T) {
	v := "203.0" + ".113.77"
	w := "2001:db8:85a3::" + "8a2e:370:7334"
	checkClass(t, classIP, []row{
		{`rate limited client ` + v + ``, `rate limited client [REDACTED]`},
		{`dial tcp ` + v + `:443: refused`, `dial tcp [REDACTED]:443: refused`},
		{`` + v + ``, `[REDACTED]`},
		{`(` + v + `)`, `([REDACTED])`},
		{`from ` + v + `, then`, `from [REDACTED], then`},
		{`http://` + v + `/x`, `http://[REDACTED]/x`},
		{`kafka ` + v + `:9092`, `kafka [REDACTED]:9092`},
		{`::ffff:` + v + ``, `::ffff:[REDACTED]`},
		{`X-Forwarded-For: ` + w, `X-Forwarded-For: [REDACTED]`},
		{`dial tcp [` + w + `]:443`, `dial tcp [[REDACTED]]:443`},
		{`client 10.0` + `.0.5`, `client [REDACTED]`},
		{`client fe80` + `::1 left`, `client [REDACTED] left`},
		{`X-Real-IP: 192.168` + `.1.1`, `X-Real-IP: [REDACTED]`},
	}, []string{
		`10.0.0.5:5432`,
		`172.16.0.1`,
		`192.168.0.1`,
		`127.0.0.1`,
		`0.0.0.0`,
		`169.254.1.1`,
		`100.64.0.1`,
		`version 1.2.3.4`,
		`v1.2.3.4`,
		`librdkafka 2.3.0.1`,
		`Chrome/120.0.6099.109`,
		`OpenSSL 1.1.1.1`,
		`1.2.3.4.5`,
		`1.2.3.400`,
		`fe80::1`,
		`10:20:30:40`,
		`aa:bb:cc:dd:ee:ff`,
		`12:34:56`,
		`1.2.3.4-rc1`,
		`fd00::1`,
	})
}
