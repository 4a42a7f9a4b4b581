package sanitize

import "testing"

func TestIBAN(t *testing.T) {
	v := "DE8937040" + "0440532013000"
	g := "DE89 3704 " + "0044 0532 0130 00"
	checkClass(t, classIBAN, []row{
		{`refund to ` + v + ` failed`, `refund to [REDACTED] failed`},
		{`(` + v + `)`, `([REDACTED])`},
		{`iban=` + v + `,`, `iban=[REDACTED],`},
		{`"` + v + `"`, `"[REDACTED]"`},
		{`` + v + `.`, `[REDACTED].`},
		{`to ` + g + ` failed`, `to [REDACTED] failed`},
		{`GB82` + `WEST12345698765432`, `[REDACTED]`},
		{`gb82` + `west12345698765432`, `[REDACTED]`},
	}, []string{
		`DE89370400440532013001`,
		`XX82WEST12345698765432`,
		`DE89 3704`,
		`DE8937040044053201300`,
		`AB12`,
		`TX11 2222 3333 4444`,
	})
}
