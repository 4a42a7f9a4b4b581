package connect

import (
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
)

// ClickHouse says how to reach the evidence store, over its native protocol.
type ClickHouse struct {
	Addrs     []string `env:"CLICKHOUSE_ADDR,required" doc:"Native-protocol address, host:port; several, comma-separated, are replicas tried in order."`
	Database  string   `env:"CLICKHOUSE_DATABASE" envDefault:"jobtrail" doc:"Database that holds the views onto the live generation."`
	Username  string   `env:"CLICKHOUSE_USERNAME" envDefault:"default" doc:"User."`
	Password  Secret   `env:"CLICKHOUSE_PASSWORD" doc:"Password."`
	Cluster   string   `env:"CLICKHOUSE_CLUSTER" doc:"Cluster on whose replicas migrations make Replicated tables, ON CLUSTER; plain tables on one server when not set."`
	TLS       bool     `env:"CLICKHOUSE_TLS" envDefault:"false" doc:"Speak TLS to the server."`
	TLSCAFile string   `env:"CLICKHOUSE_TLS_CA_FILE" doc:"PEM file of the authorities that sign the server's certificate; the system's own when not set."`
}

// plainName is a name that statements use unquoted.
var plainName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,99}$`)

// Validate reports every contradiction among the variables. It opens no file.
func (c ClickHouse) Validate() error {
	var problems []error
	for _, addr := range c.Addrs {
		problems = append(problems, checkAddr("CLICKHOUSE_ADDR", addr))
	}
	for _, n := range []struct{ variable, name string }{{"CLICKHOUSE_DATABASE", c.Database}, {"CLICKHOUSE_CLUSTER", c.Cluster}} {
		if n.name != "" && !plainName.MatchString(n.name) {
			problems = append(problems, fmt.Errorf("%s: %q: want letters, digits and underscores", n.variable, n.name))
		}
	}
	problems = append(problems, checkTLS("CLICKHOUSE", c.TLS, c.TLSCAFile, "", ""))
	return errors.Join(problems...)
}

// Options returns the client options for reaching the server, with a dial
// timeout of 5 s. Auth.Database is c.Database: a caller that must connect
// before that database exists clears it. It reads the TLS file.
func (c ClickHouse) Options() (*clickhouse.Options, error) {
	opts := &clickhouse.Options{
		Addr:        c.Addrs,
		Auth:        clickhouse.Auth{Database: c.Database, Username: c.Username, Password: c.Password.Reveal()},
		DialTimeout: 5 * time.Second,
	}
	if c.TLS {
		conf, err := loadTLS("CLICKHOUSE", c.TLSCAFile, "", "")
		if err != nil {
			return nil, err
		}
		opts.TLS = conf
	}
	return opts, nil
}
