package sanitize

import "testing"

func TestCard(t *testing.T) {
	v := "4111" + "111111111111"
	g := "4111 1111 " + "1111 1111"
	a := "3782-822463" + "-10005"
	checkClass(t, classCard, []row{
		{`card ` + v + ` declined`, `card [REDACTED] declined`},
		{`(` + v + `)`, `([REDACTED])`},
		{`"` + v + `"`, `"[REDACTED]"`},
		{`n=` + v + `,`, `n=[REDACTED],`},
		{`` + v + `.`, `[REDACTED].`},
		{`PAN` + v + ``, `PAN[REDACTED]`},
		{`x_` + v + ``, `x_[REDACTED]`},
		{`card ` + g + ` declined`, `card [REDACTED] declined`},
		{a, `[REDACTED]`},
		{`5555` + `555555554444, 6011` + `111111111117`, `[REDACTED], [REDACTED]`},
		{`3530` + `111333300000`, `[REDACTED]`},
		{g + ` 12/27`, `[REDACTED] 12/27`},
	}, []string{
		`4111111111111112`,
		`0.4111111111111111`,
		`41111111111111111111`,
		`1700000000000`,
		`1700000000000000000`,
		`20240102030405`,
		`6304000000000000`,
		`order 1234567890123456`,
		`4111 1111 1111 111`,
		`a4111111111111111b2`,
		`90210 4711`,
	})
}
