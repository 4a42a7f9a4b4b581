package sanitize

import "testing"

func TestVendor(t *testing.T) {
	v := "gh" + "p_" + "0123456789abcdefghijABCDEFGHIJ012345"
	w := "AK" + "IASYNTHETICKEY2345"
	x := "xo" + "xb-123456789012-abcdefABCDEF"
	checkClass(t, classVendor, []row{
		{`push failed: ` + v + ``, `push failed: [REDACTED]`},
		{`(` + v + `)`, `([REDACTED])`},
		{`"` + v + `"`, `"[REDACTED]"`},
		{`` + v + `, then`, `[REDACTED], then`},
		{`a_` + v + ``, `a_[REDACTED]`},
		{`url?t=` + v + `&b=1`, `url?t=[REDACTED]&b=1`},
		{`denied for ` + w + `.`, `denied for [REDACTED].`},
		{`slack ` + x, `slack [REDACTED]`},
		{`cut ` + w[:17], `cut [REDACTED]`},
	}, []string{
		`ghp_short`,
		`AKIA is a prefix`,
		`ASIA2026 conference`,
		`sk-learn-model-0.1`,
		`npm_config_cache`,
		`xoxb-`,
		`sl.no`,
		`hvs.x`,
		`SG.1`,
		`SKIPPED`,
		`ACCEPTED`,
		`EAAC`,
		`glpat-`,
	})
}
