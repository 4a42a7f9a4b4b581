package sanitize

import "testing"

func TestNational(t *testing.T) {
	v := "219-09" + "-9999"
	checkClass(t, classNational, []row{
		{`ssn ` + v + ` mismatch`, `ssn [REDACTED] mismatch`},
		{`` + v + ``, `[REDACTED]`},
		{`(` + v + `)`, `([REDACTED])`},
		{`"` + v + `",`, `"[REDACTED]",`},
		{`SSN 2190` + `99999`, `SSN [REDACTED]`},
		{`social security 219 09` + ` 9999`, `social security [REDACTED]`},
	}, []string{
		`000-12-3456`,
		`666-12-3456`,
		`900-12-3456`,
		`123-00-4567`,
		`123-45-0000`,
		`123-45-678`,
		`1123-45-6789`,
		`123-45-6789-0`,
		`219099999`,
		`219 09 9999`,
		`219-09 9999`,
	})
}
