package sanitize

import "testing"

func TestEmail(t *testing.T) {
	v := "jane.roe" + "@" + "example.org"
	checkClass(t, classEmail, []row{
		{`user ` + v + ` not found`, `user [REDACTED] not found`},
		{`<` + v + `>`, `<[REDACTED]>`},
		{`` + v + `.`, `[REDACTED].`},
		{`to=` + v + ``, `to=[REDACTED]`},
		{`(` + v + `)`, `([REDACTED])`},
		{`mailto:` + v + `?subject=x`, `mailto:[REDACTED]?subject=x`},
		{`` + v + `, next`, `[REDACTED], next`},
		{`"` + v + `"`, `"[REDACTED]"`},
		{`jane%40` + `example.org`, `[REDACTED]`},
		{`jane\u0040` + `example.org`, `[REDACTED]`},
		{`"Jane Roe"@` + `example.org`, `[REDACTED]`},
		{`jürgen@` + `exämple.de`, `[REDACTED]`},
	}, []string{
		`a@b`,
		`x@localhost`,
		`pkg@v1.2.3`,
		`github.com/x/y@v1.2.3-rc.one`,
		`foo@latest`,
		`user@1000.service`,
		`logo@2x.png`,
		`nginx@sha256:abcdef`,
		`ping@openssh.com`,
		`at example dot com`,
		`@`,
		`a @ b.c`,
	})
}
