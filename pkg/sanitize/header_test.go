package sanitize

import "testing"

func TestHeader(t *testing.T) {
	v := "abc.DEF-" + "123_xyz"
	checkClass(t, classHeader, []row{
		{`Authorization: ` + v + ``, `Authorization: [REDACTED]`},
		{`authorization=` + v + ` next=1`, `authorization=[REDACTED] next=1`},
		{`Proxy-Authorization: ` + v + ``, `Proxy-Authorization: [REDACTED]`},
		{`Cookie: ` + v + ``, `Cookie: [REDACTED]`},
		{`Set-Cookie: ` + v + ``, `Set-Cookie: [REDACTED]`},
		{`X-Amz-Security-Token: ` + v + ``, `X-Amz-Security-Token: [REDACTED]`},
		{`-H "Authorization: ` + v + `" https://h`, `-H "Authorization: [REDACTED]" https://h`},
		{`retry with bearer ` + v + ` failed`, `retry with bearer [REDACTED] failed`},
		{`"cookie":"` + v + `","n":1`, `"cookie":"[REDACTED]","n":1`},
		{`map[Authorization:[` + v + `] Accept:[x]]`, `map[Authorization:[[REDACTED]] Accept:[x]]`},
		{`got Bearer ` + v + `.`, `got Bearer [REDACTED].`},
		{`401: Authorization: Bearer ` + v, `401: Authorization: [REDACTED]`},
		{`Cookie: sid=` + v + `; theme=dark`, `Cookie: [REDACTED]`},
		{`sent Basic c3Zj` + `OnB3, then`, `sent Basic [REDACTED], then`},
		{`Digest username="x", realm="y", response="` + v + `" end`, `Digest [REDACTED] end`},
	}, []string{
		`authorization header missing`,
		`Authorization: missing`,
		`bearer token expired`,
		`basic auth failed`,
		`Digest mismatch`,
		`Bearer realm="api"`,
		`cookie: none`,
		`cookies disabled`,
		`a bearer of news`,
		`Basic usage: jobtrail up`,
	})
}
