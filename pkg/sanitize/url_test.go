package sanitize

import "testing"

func TestURL(t *testing.T) {
	v := "svc:" + "hunter2"
	checkClass(t, classURL, []row{
		{`dial postgres://` + v + `@db1:5432/app: refused`, `dial postgres://[REDACTED]@db1:5432/app: refused`},
		{`redis://` + v + `@cache:6379`, `redis://[REDACTED]@cache:6379`},
		{`amqp://` + v + `@mq`, `amqp://[REDACTED]@mq`},
		{`http://` + v + `@h/x?y=1`, `http://[REDACTED]@h/x?y=1`},
		{`mongodb://` + v + `@h1:27017,h2:27017/`, `mongodb://[REDACTED]@h1:27017,h2:27017/`},
		{`ftp://` + v + `@h/`, `ftp://[REDACTED]@h/`},
		{`parse "mysql://` + v + `@h:1/": bad port`, `parse "mysql://[REDACTED]@h:1/": bad port`},
		{`` + v + `@tcp(127.0.0.1:3306)/app`, `[REDACTED]@tcp(127.0.0.1:3306)/app`},
		{`open ` + v + `@unix(/run/db.sock)/app`, `open [REDACTED]@unix(/run/db.sock)/app`},
		{`https%3A%2F%2F` + v + `%40h%2Fx`, `https%3A%2F%2F[REDACTED]%40h%2Fx`},
		{`http:\/\/` + v + `@h\/x`, `http:\/\/[REDACTED]@h\/x`},
		{`clickhouse://` + v + `@h:9000/db`, `clickhouse://[REDACTED]@h:9000/db`},
		{`go to ldap://` + v + `@h, then`, `go to ldap://[REDACTED]@h, then`},
		{`x://u:p/q@r` + `s@h:1/`, `x://[REDACTED]@h:1/`},
		{`jdbc:oracle:thin:scott/` + `tiger@//h:1521/s`, `jdbc:oracle:thin:[REDACTED]@//h:1521/s`},
	}, []string{
		`https://medium.com/@bob/post`,
		`https://h:8080/a@b/c`,
		`redis://cache:6379/0`,
		`https://proxy.example.com/x/@v/v1.0.0.zip`,
		`file:///etc/hosts`,
		`http://h/ and a @ b`,
		`scheme:// @`,
		`tcp://10.0.0.5:9092`,
	})
}
