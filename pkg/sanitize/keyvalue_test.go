package sanitize

import "testing"

func TestKeyValue(t *testing.T) {
	v := "hunter" + "2hunter"
	checkClass(t, classKeyValue, []row{
		{`password=` + v + ``, `password=[REDACTED]`},
		{`Password: ` + v + ``, `Password: [REDACTED]`},
		{`DB_PASSWORD=` + v + `, user=svc`, `DB_PASSWORD=[REDACTED], user=svc`},
		{`dbPassword => ` + v + ``, `dbPassword => [REDACTED]`},
		{`spring.datasource.password: ` + v + ``, `spring.datasource.password: [REDACTED]`},
		{`client-secret := "` + v + `"`, `client-secret := "[REDACTED]"`},
		{`"api_key":"` + v + `","n":1`, `"api_key":"[REDACTED]","n":1`},
		{`msg={\"secret\":\"` + v + `\"}`, `msg={\"secret\":\"[REDACTED]\"}`},
		{`a=1&access_token=` + v + `&b=2`, `a=1&access_token=[REDACTED]&b=2`},
		{`password%3D` + v + `%26b%3D2`, `password%3D[REDACTED]%26b%3D2`},
		{`Pwd=` + v + `;Encrypt=True`, `Pwd=[REDACTED];Encrypt=True`},
		{`the session id: ` + v + ``, `the session id: [REDACTED]`},
		{`<password>` + v + `</password>`, `<password>[REDACTED]</password>`},
		{`password -> ` + v + ``, `password -> [REDACTED]`},
		{`set("auth_token", "` + v + `")`, `set("auth_token", "[REDACTED]")`},
		{`wrong password "` + v + `"`, `wrong password "[REDACTED]"`},
		{`pin=` + v + ``, `pin=[REDACTED]`},
		{`the password is ` + v + `, really`, `the password is [REDACTED], really`},
		{`secrets: [` + v + `]`, `secrets: [[REDACTED]]`},
		{`'passphrase': '` + v + `'`, `'passphrase': '[REDACTED]'`},
		{`DB_PASS=` + v + ` next`, `DB_PASS=[REDACTED] next`},
		{`var fooToken string = "` + v + `"`, `var fooToken string = "[REDACTED]"`},
		{`host=db password='` + v + ` x' user=a`, `host=db password=[REDACTED] user=a`},
		{`otp 123` + `456 refused`, `otp [REDACTED] refused`},
		{`CREATE USER x IDENTIFIED WITH sha256_password BY '` + v + `'`, `CREATE USER x IDENTIFIED WITH sha256_password BY '[REDACTED]'`},
		{`SET PASSWORD FOR 'x'@'h' = '` + v + `'`, `SET PASSWORD FOR 'x'@'h' = '[REDACTED]'`},
		{`form-data; name="password"\n\n` + v + `\n--end`, `form-data; name="password"\n\n[REDACTED]\n--end`},
		{`<property name="db.password">` + v + `</property>`, `<property name="db.password">[REDACTED]</property>`},
		{`machine h login svc password ` + v, `machine h login svc password [REDACTED]`},
		{`ENV API_SECRET ` + v, `ENV API_SECRET [REDACTED]`},
		{`credentials: ` + "rsOWE" + "ESNYpqo" + ` b=2`, `credentials: [REDACTED] b=2`}, // letters only, and no words
		{`otp was 123` + `456`, `otp was [REDACTED]`},
		{`your one-time code is 123` + `456.`, `your one-time code is [REDACTED].`},
		{`verification code: 123` + `456`, `verification code: [REDACTED]`},
		{`Security Code (12` + `34)`, `Security Code ([REDACTED])`},
		{`AUTH PLAIN AGJvYg` + `BodW50ZXIy`, `AUTH PLAIN [REDACTED]`},
		{`login for bob with password ` + v + ` failed`, `login for bob with password [REDACTED] failed`},
		{`Password is: ` + v + ``, `Password is: [REDACTED]`},
		{`incorrect API key provided: ` + v + `.`, `incorrect API key provided: [REDACTED].`},
		{`Password is: correct` + `horse.`, `Password is: [REDACTED].`},
		{`token is abc123` + `def456`, `token is [REDACTED]`},
		{`the api key is 12ab` + `34cd56ef`, `the api key is [REDACTED]`},
		{`{"name":"DB_PASSWORD","value":"` + v + `"}`, `{"name":"DB_PASSWORD","value":"[REDACTED]"}`},
		{`{Name:DB_PASSWORD Value:` + v + ` ValueFrom:nil}`, `{Name:DB_PASSWORD Value:[REDACTED] ValueFrom:nil}`},
		{`- name: API_TOKEN\n  value: ` + v + `\n`, `- name: API_TOKEN\n  value: [REDACTED]\n`},
		{`<add key="apiKey" value="` + v + `"/>`, `<add key="apiKey" value="[REDACTED]"/>`},
		{`auth=('svc', '` + v + `')`, `auth=([REDACTED]')`},
		{`GET /x?password=a%26` + v + `&n=1`, `GET /x?password=[REDACTED]&n=1`},
	}, []string{
		`token: parseHTTPResponse failed`, `auth: InvalidGrantError`, `token: getUserID failed`,
		`password: expired`,
		`password=`,
		`token expired`,
		`password must not be empty`,
		`password: must be longer`,
		`the password is: not set`, `secret was: not found`, `API key provided: none`,
		`name="order" value="12345678"`, `key value: 12345678`, `{"name":"token","value":null}`,
		`exit code 1234`, `error code: 123456`, `code 123456`, `security code: 12.5`, `verification code 1.25`,
		`primary key is order_id_12`, `the key is abc123def456`, `password is: required`,
		`password sha256_password plugin`, `password reset-2024 mail`, `password v2 hashes`, `password TooLong(128)`,
		`secret "db-creds" not found`,
		`private key: asn1: structure error`,
		`max_tokens: 100000000`,
		`partition_key=abc12345678`,
		`key=orders-2024-01`,
		`exit code=137 state=running`,
		`PASS: TestClean`,
		`PWD=/srv/app`,
		`inside=12345 spin=7`,
		`token: invalid`,
		`author=jane`,
		`{"password": null}`,
		`primary key: id`,
		`key "value" missing`,
		`monkey=banana123456`,
		`{"0":"CvC","00000000":"0"}`,
		`password=${DB_PASSWORD}`,
		`FATAL: invalid password: relation "orders" is missing`,
		`the token is invalid for this operation`,
		`ENV LANG C.UTF-8`,
		`name="comment"\n\nfine`,
	})
}

// TestNameOfNextMember keeps the name of a member that follows a value which
// reads like a key.
func TestNameOfNextMember(t *testing.T) {
	for _, s := range []string{`got {"0":"CvC","00000000":"0"}`, `got {\"0\":\"CvC\",\"00000000\":\"0\"}`} {
		if got := Clean(s).String(); got != s {
			t.Errorf("%s became %s", s, got)
		}
	}
	if got := Clean(`"CvC","00000000"`).String(); got == `"CvC","00000000"` {
		t.Error("a name and its value in a list are a pair")
	}
}
