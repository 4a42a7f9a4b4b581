package sanitize

import "testing"

func TestCLI(t *testing.T) {
	v := "hunter" + "2hunter"
	checkClass(t, classCLI, []row{
		{`run --password ` + v + ` --verbose`, `run --password [REDACTED] --verbose`},
		{`run --api-key ` + v + ``, `run --api-key [REDACTED]`},
		{`kubectl --token ` + v + ` get`, `kubectl --token [REDACTED] get`},
		{`mysql -u root -p` + v + ` app`, `mysql -u root -p[REDACTED] app`},
		{`sshpass -p ` + v + ` ssh h`, `sshpass -p [REDACTED] ssh h`},
		{`redis-cli -h h -a ` + v + ` ping`, `redis-cli -h h -a [REDACTED] ping`},
		{`{--client-secret ` + v + `}`, `{--client-secret [REDACTED]}`},
		{`["--password", "` + v + `"]`, `["--password", "[REDACTED]"]`},
		{`curl -u admin:` + v + ` https://h`, `curl -u [REDACTED] https://h`},
		{`wget --user a:` + v, `wget --user [REDACTED]`},
	}, []string{
		`docker run -p 8080:80 nginx`,
		`psql --port 5432`,
		`curl -u admin https://h`,
		`tar -pxf a.tar`,
		`using --password via the CLI`,
		`--token`,
		`a--password-less`,
		`cp -a b c`,
		`mysql --protocol tcp -port 3306`,
	})
}
