package sanitize

import "testing"

func TestLiteral(t *testing.T) {
	v := "SELECT a FROM b WHERE name = Jane Roe " + "and something to pass the limit of it"
	checkClass(t, classLiteral, []row{
		{`Key (email)=(bob) already exists.`, `Key (email)=([REDACTED]) already exists.`},
		{`Key (id, name)=(1, Bob (x)) exists`, `Key (id, name)=([REDACTED]) exists`},
		{`syntax error near "` + v + `"`, `syntax error near "[REDACTED]"`},
		{`cannot parse value '` + v + `' as UInt8`, `cannot parse value '[REDACTED]' as UInt8`},
	}, []string{
		`syntax error near "FROM"`,
		`invalid value "x"`,
		`f(a)=(b)`,
		`strconv.Atoi: parsing "abc": invalid syntax`,
		`parsing time "2024" as "2006"`,
	})
}
