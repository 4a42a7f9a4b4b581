package connect_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jobtrail/jobtrail/internal/connect"
	"github.com/jobtrail/jobtrail/internal/connect/documented"
)

// secret is built at run time so that no file holds something like a password.
func secret() string { return strings.Repeat("s3", 3) + "-" + fmt.Sprint(7*6) }

type config struct {
	connect.Kafka
	Store connect.ClickHouse
	Group string        `env:"JOBTRAIL_GROUP,required" doc:"Group."`
	Grace time.Duration `env:"GRACE" envDefault:"5s" doc:"Grace | period."`
	Depth int           `env:"DEPTH" envDefault:"3" doc:"Depth."`
}

func TestParseFillsNestedStructs(t *testing.T) {
	var c config
	err := connect.Parse([]string{
		"KAFKA_BROKERS=a:1,b:2", "KAFKA_TLS=true", "CLICKHOUSE_ADDR=c:3", "JOBTRAIL_GROUP=g", "GRACE=2m",
		"DEPTH=", // set but empty: the default holds
	}, &c)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprintf("%v %v %v %v %v %v %v %v", c.Brokers, c.TLS, c.Store.Addrs, c.Store.TLS, c.Store.Database, c.Group, c.Grace, c.Depth); got != "[a:1 b:2] true [c:3] false jobtrail g 2m0s 3" {
		t.Errorf("got %s", got)
	}
}

func TestParseReportsEveryProblem(t *testing.T) {
	for _, tt := range []struct {
		name    string
		environ []string
		want    []string
	}{
		{"nothing set", nil, []string{
			"KAFKA_BROKERS: is required and not set", "CLICKHOUSE_ADDR: is required and not set", "JOBTRAIL_GROUP: is required and not set",
		}},
		{"bad values", []string{"KAFKA_BROKERS=a:1", "KAFKA_TLS=ja", "CLICKHOUSE_ADDR=c:3", "CLICKHOUSE_TLS=nein", "JOBTRAIL_GROUP=g", "GRACE=long", "DEPTH=deep"}, []string{
			`KAFKA_TLS is "ja", it must be true or false`,
			`CLICKHOUSE_TLS is "nein", it must be true or false`,
			`GRACE is "long", it must be a duration such as 500ms, 30s or 1h30m`,
			`DEPTH is "deep", it must be a whole number`,
		}},
		{"values that do not parse beside contradictions", []string{
			"KAFKA_TLS=yes", "KAFKA_TLS_CA_FILE=x", "KAFKA_TLS_CERT_FILE=x", "KAFKA_SASL_MECHANISM=GSSAPI", "CLICKHOUSE_ADDR=:9000", "GRACE=25",
		}, []string{
			"KAFKA_BROKERS: is required and not set", `KAFKA_TLS is "yes", it must be true or false`,
			"KAFKA_TLS_CERT_FILE and KAFKA_TLS_KEY_FILE go together",
			`KAFKA_SASL_MECHANISM: "GSSAPI" is none of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512`,
			`CLICKHOUSE_ADDR: ":9000" is not host:port`,
			"JOBTRAIL_GROUP: is required and not set", `GRACE is "25", it must be a duration such as 500ms, 30s or 1h30m`,
		}},
		{"contradictions", []string{
			"KAFKA_BROKERS=a:1,nowhere,b:99999", "KAFKA_TLS_CERT_FILE=x", "KAFKA_SASL_MECHANISM=GSSAPI",
			"CLICKHOUSE_ADDR=:9000", "CLICKHOUSE_DATABASE=a b", "CLICKHOUSE_CLUSTER=c-1", "CLICKHOUSE_TLS_CA_FILE=x", "JOBTRAIL_GROUP=g",
		}, []string{
			`KAFKA_BROKERS: "nowhere" is not host:port`, `KAFKA_BROKERS: "b:99999": a port is a number up to 65535`, `KAFKA_TLS_…_FILE is set but KAFKA_TLS is not true`,
			`KAFKA_TLS_CERT_FILE and KAFKA_TLS_KEY_FILE go together`,
			`KAFKA_SASL_MECHANISM: "GSSAPI" is none of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512`,
			`CLICKHOUSE_ADDR: ":9000" is not host:port`, `CLICKHOUSE_DATABASE: "a b": want letters, digits and underscores`,
			`CLICKHOUSE_CLUSTER: "c-1": want letters, digits and underscores`, `CLICKHOUSE_TLS_…_FILE is set but CLICKHOUSE_TLS is not true`,
		}},
		{"user in an address", []string{"KAFKA_BROKERS=u:" + secret() + "@a:1", "CLICKHOUSE_ADDR=clickhouse://u:" + secret() + "@c:3", "JOBTRAIL_GROUP=g"}, []string{
			"KAFKA_BROKERS: an address is host:port; user and password have variables of their own",
			"CLICKHOUSE_ADDR: an address is host:port; user and password have variables of their own",
		}},
		{"SASL without a mechanism", []string{"KAFKA_BROKERS=a:1", "KAFKA_SASL_USERNAME=u", "CLICKHOUSE_ADDR=c:3", "JOBTRAIL_GROUP=g"},
			[]string{"KAFKA_SASL_USERNAME and KAFKA_SASL_PASSWORD need KAFKA_SASL_MECHANISM"}},
		{"SASL without a user", []string{"KAFKA_BROKERS=a:1", "KAFKA_SASL_MECHANISM=PLAIN", "CLICKHOUSE_ADDR=c:3", "JOBTRAIL_GROUP=g"},
			[]string{"KAFKA_SASL_MECHANISM=PLAIN needs KAFKA_SASL_USERNAME and KAFKA_SASL_PASSWORD"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := connect.Parse(tt.environ, &config{})
			if err == nil {
				t.Fatal("no error")
			}
			if got := err.Error(); got != strings.Join(tt.want, "\n") {
				t.Errorf("got\n%s\nwant\n%s", got, strings.Join(tt.want, "\n"))
			}
		})
	}
}

func TestSecretsPrintRedacted(t *testing.T) {
	plain := secret()
	var k connect.Kafka
	if err := connect.Parse([]string{"KAFKA_BROKERS=a:1", "KAFKA_SASL_MECHANISM=SCRAM-SHA-512", "KAFKA_SASL_USERNAME=u", "KAFKA_SASL_PASSWORD=" + plain}, &k); err != nil {
		t.Fatal(err)
	}
	if k.SASLPassword.Reveal() != plain {
		t.Fatal("the password was not read")
	}
	asJSON, err := json.Marshal(k)
	if err != nil {
		t.Fatal(err)
	}
	var logged strings.Builder
	slog.New(slog.NewTextHandler(&logged, nil)).Info("starting", "kafka", k, "password", k.SASLPassword)
	for name, shown := range map[string]string{
		"%v": fmt.Sprintf("%v", k), "%+v": fmt.Sprintf("%+v", k), "%#v": fmt.Sprintf("%#v", k),
		"Sprint": fmt.Sprint(k.SASLPassword), "%q": fmt.Sprintf("%q", k.SASLPassword), "%x": fmt.Sprintf("%x", k.SASLPassword),
		"json": string(asJSON), "slog": logged.String(),
	} {
		if strings.Contains(shown, plain) || strings.Contains(shown, fmt.Sprintf("%x", plain)) {
			t.Errorf("%s shows the password: %s", name, shown)
		}
	}
	if got := fmt.Sprint(k.SASLPassword); got != connect.Redacted {
		t.Errorf("a set secret prints as %q", got)
	}
}

func TestOptionsNameTheVariableOfABadFile(t *testing.T) {
	for _, tt := range []struct{ name, value, want string }{
		{"KAFKA_TLS_CA_FILE", t.TempDir() + "/none.pem", "KAFKA_TLS_CA_FILE: open"},
		{"KAFKA_TLS_CA_FILE", "connect_test.go", "KAFKA_TLS_CA_FILE: connect_test.go holds no PEM certificate"},
	} {
		var k connect.Kafka
		if err := connect.Parse([]string{"KAFKA_BROKERS=a:1", "KAFKA_TLS=true", tt.name + "=" + tt.value}, &k); err != nil {
			t.Fatal(err)
		}
		if _, err := k.Options(); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%s=%s: got %v, want %s…", tt.name, tt.value, err, tt.want)
		}
	}
}

func TestOptionsCarryTheConnection(t *testing.T) {
	var c connect.ClickHouse
	if err := connect.Parse([]string{"CLICKHOUSE_ADDR=a:1,b:2", "CLICKHOUSE_TLS=true", "CLICKHOUSE_PASSWORD=" + secret()}, &c); err != nil {
		t.Fatal(err)
	}
	opts, err := c.Options()
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprintf("%v %v %v %v %v", opts.Addr, opts.Auth.Database, opts.Auth.Username, opts.TLS != nil, opts.Auth.Password == secret()); got != "[a:1 b:2] jobtrail default true true" {
		t.Errorf("got %s", got)
	}
	k := connect.Kafka{Brokers: []string{"a:1"}, TLS: true, SASLMechanism: "PLAIN", SASLUsername: "u", SASLPassword: connect.Secret(secret())}
	kopts, err := k.Options()
	if err != nil {
		t.Fatal(err)
	}
	if len(kopts) != 3 { // seeds, TLS, SASL
		t.Errorf("got %d Kafka options, want 3", len(kopts))
	}
}

func TestReferenceListsTypeDefaultAndMeaning(t *testing.T) {
	var b strings.Builder
	if err := connect.WriteText(&b, connect.Reference(&config{})); err != nil {
		t.Fatal(err)
	}
	flat := strings.Join(strings.Fields(b.String()), " ")
	for _, want := range []string{
		"NAME TYPE DEFAULT MEANING KAFKA_BROKERS list required Seed brokers",
		"KAFKA_TLS switch false Speak", "KAFKA_SASL_PASSWORD secret - SASL", "CLICKHOUSE_DATABASE text jobtrail Database",
		"JOBTRAIL_GROUP text required Group.", "GRACE duration 5s Grace | period.", "DEPTH number 3 Depth.",
	} {
		if !strings.Contains(flat, want) {
			t.Errorf("no %q in:\n%s", want, b.String())
		}
	}
	if md := connect.Markdown(connect.Reference(config{})); !strings.Contains(md, "| `GRACE` | duration | `5s` | Grace \\| period. |\n") {
		t.Errorf("got\n%s", md)
	}
}

func TestDocumented(t *testing.T) {
	documented.Check(t, "../../docs/configuration.md", "kafka", connect.Kafka{})
	documented.Check(t, "../../docs/configuration.md", "clickhouse", connect.ClickHouse{})
}
