package sanitize

import "testing"

func TestPhone(t *testing.T) {
	v := "+49 151 " + "23456789"
	w := "(555) 123" + "-4567"
	checkClass(t, classPhone, []row{
		{`SMS to ` + v + ` bounced`, `SMS to [REDACTED] bounced`},
		{`` + v + ``, `[REDACTED]`},
		{`(` + v + `)`, `([REDACTED])`},
		{`"` + v + `"`, `"[REDACTED]"`},
		{`tel:` + v + ``, `tel:[REDACTED]`},
		{`call ` + w + ` now`, `call [REDACTED] now`},
		{`fax: 1-800-` + `555-0199`, `fax: [REDACTED]`},
		{`phone 555` + `1234567`, `phone [REDACTED]`},
		{`%2B4915` + `123456789`, `[REDACTED]`},
		{`0301234567 (pho` + `ne)`, `[REDACTED] (phone)`},
		{`userPhone=0151` + `2345678`, `userPhone=[REDACTED]`},
	}, []string{
		`UTC+02:00 +0200`,
		`+1 2 3`,
		`job call took 1234567890 ns`,
		`call at 2024-01-02 10:00`,
		`microphone 12345678`,
		`faxed 12345678`,
		`offset 12345678`,
		`sms 12345`,
		`+123456789012345678`,
		`phone 2024-01-02`,
		`tel 10.0.0.1:5432`,
	})
}
