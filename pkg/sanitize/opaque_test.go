package sanitize

import "testing"

func TestOpaque(t *testing.T) {
	v := "aB3dE5gH7" + "jK9mN1pQ3rS5tU7vW9" + "xY2zA4bC6"
	checkClass(t, classOpaque, []row{
		{`blob ` + v + ``, `blob [REDACTED]`},
		{`(` + v + `)`, `([REDACTED])`},
		{`"` + v + `",`, `"[REDACTED]",`},
		{`id ` + v + ``, `id [REDACTED]`},
		{`` + v + `.`, `[REDACTED].`},
		{`pad ` + v + `== end`, `pad [REDACTED] end`},
	}, []string{
		`018f6e2a-7c1d-7b3e-9f00-2f6f0c9f1a77`,
		`018f6e2a7c1d7b3e9f002f6f0c9f1a77`,
		`01HZY3T9QK7W8X2M4N6P8R0S1T`,
		`e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855`,
		`github.com/SomeOrg/SomeLongProject123/pkg/InternalThing45/Handler.go:12`,
		`main.(*Server).handleRequestWithContext2ForTenant(0xc000123456)`,
		`my-deployment-7d9f8b6c5d-x2x4z-and-more-of-it`,
		`h1:aB3dE5gH7jK9mN1pQ3rS5tU7vW9xY2zA4bC6dE8fG0=`,
		`NOT_LEADER_OR_FOLLOWER_AND_A_LONG_NAME`,
		`aBitOfEverythingServiceUpdateV22InternalServerError`,
	})
}
