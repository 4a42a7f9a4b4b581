package sanitize

import "testing"

func TestPath(t *testing.T) {
	v := "jane" + ".roe"
	checkClass(t, classPath, []row{
		{`open /home/` + v + `/app/main.go: permission denied`, `open /home/[REDACTED]/app/main.go: permission denied`},
		{`/Users/` + v + `/x`, `/Users/[REDACTED]/x`},
		{`(/home/` + v + `)`, `(/home/[REDACTED])`},
		{`C:\Users\` + v + `\x`, `C:\Users\[REDACTED]\x`},
		{`C:\\Users\\` + v + `\\x`, `C:\\Users\\[REDACTED]\\x`},
		{`C:/Users/` + v + `/x`, `C:/Users/[REDACTED]/x`},
		{`file:///home/` + v + `/x`, `file:///home/[REDACTED]/x`},
		{`/Users/Jane ` + `Roe/x`, `/Users/[REDACTED]/x`},
	}, []string{
		`/var/home`,
		`/home/`,
		`https://h/home/page`,
		`/usr/local/bin`,
		`api/users/7`,
		`/homes/x`,
		`/etc/passwd`,
		`D:\data\x`,
	})
}
