package sanitize

import "testing"

func TestJWT(t *testing.T) {
	v := "eyJhbGciOiJIUzI1NiJ9" + ".eyJzdWIiOiJzeW4tMSJ9" + ".c2lnLXN5bnRoZXRpYw"
	w := "eyJhbGciOiJub25lIn0" + ".eyJzdWIiOiJzeW4tMSJ9"
	checkClass(t, classJWT, []row{
		{`(` + v + `), retrying`, `([REDACTED]), retrying`},
		{`"` + v + `"}`, `"[REDACTED]"}`},
		{`got ` + v + ``, `got [REDACTED]`},
		{`x=` + v + `;`, `x=[REDACTED];`},
		{`` + v + `: expired`, `[REDACTED]: expired`},
		{`[` + v + `]`, `[[REDACTED]]`},
		{`<` + v + `>`, `<[REDACTED]>`},
		{`a_` + v + ``, `a_[REDACTED]`},
		{`two ` + w + ` end`, `two [REDACTED] end`},
		{`two ` + w + `. End`, `two [REDACTED]. End`},
	}, []string{
		`eyJ`,
		`eyJ.eyJ`,
		`eyes only`,
		`key.value.pair`,
		`eyJhbGc and more`,
	})
}
