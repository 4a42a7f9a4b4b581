package connect

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// Kafka says how to reach the brokers.
type Kafka struct {
	Brokers       []string `env:"KAFKA_BROKERS,required" doc:"Seed brokers, host:port, comma-separated."`
	TLS           bool     `env:"KAFKA_TLS" envDefault:"false" doc:"Speak TLS to the brokers."`
	TLSCAFile     string   `env:"KAFKA_TLS_CA_FILE" doc:"PEM file of the authorities that sign the brokers' certificates; the system's own when not set."`
	TLSCertFile   string   `env:"KAFKA_TLS_CERT_FILE" doc:"PEM file of the client certificate, for mutual TLS."`
	TLSKeyFile    string   `env:"KAFKA_TLS_KEY_FILE" doc:"PEM file of the client certificate's key."`
	SASLMechanism string   `env:"KAFKA_SASL_MECHANISM" doc:"PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512; no SASL when not set."`
	SASLUsername  string   `env:"KAFKA_SASL_USERNAME" doc:"SASL user."`
	SASLPassword  Secret   `env:"KAFKA_SASL_PASSWORD" doc:"SASL password."`
}

// Validate reports every contradiction among the variables. It opens no file.
func (k Kafka) Validate() error {
	var problems []error
	for _, addr := range k.Brokers {
		problems = append(problems, checkAddr("KAFKA_BROKERS", addr))
	}
	problems = append(problems, checkTLS("KAFKA", k.TLS, k.TLSCAFile, k.TLSCertFile, k.TLSKeyFile))
	switch k.SASLMechanism {
	case "":
		if k.SASLUsername != "" || k.SASLPassword != "" {
			problems = append(problems, errors.New("KAFKA_SASL_USERNAME and KAFKA_SASL_PASSWORD need KAFKA_SASL_MECHANISM"))
		}
	case "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512":
		if k.SASLUsername == "" || k.SASLPassword == "" {
			problems = append(problems, fmt.Errorf("KAFKA_SASL_MECHANISM=%s needs KAFKA_SASL_USERNAME and KAFKA_SASL_PASSWORD", k.SASLMechanism))
		}
	default:
		problems = append(problems, fmt.Errorf("KAFKA_SASL_MECHANISM: %q is none of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512", k.SASLMechanism))
	}
	return errors.Join(problems...)
}

// Options returns the client options for reaching the brokers: seeds, TLS and
// SASL. It reads the TLS files.
func (k Kafka) Options() ([]kgo.Opt, error) {
	opts := []kgo.Opt{kgo.SeedBrokers(k.Brokers...)}
	if k.TLS {
		conf, err := loadTLS("KAFKA", k.TLSCAFile, k.TLSCertFile, k.TLSKeyFile)
		if err != nil {
			return nil, err
		}
		opts = append(opts, kgo.DialTLSConfig(conf))
	}
	if k.SASLMechanism != "" {
		mechanism, err := k.mechanism()
		if err != nil {
			return nil, err
		}
		opts = append(opts, kgo.SASL(mechanism))
	}
	return opts, nil
}

func (k Kafka) mechanism() (sasl.Mechanism, error) {
	auth := scram.Auth{User: k.SASLUsername, Pass: k.SASLPassword.Reveal()}
	switch k.SASLMechanism {
	case "PLAIN":
		return plain.Auth{User: k.SASLUsername, Pass: k.SASLPassword.Reveal()}.AsMechanism(), nil
	case "SCRAM-SHA-256":
		return auth.AsSha256Mechanism(), nil
	case "SCRAM-SHA-512":
		return auth.AsSha512Mechanism(), nil
	default:
		return nil, fmt.Errorf("KAFKA_SASL_MECHANISM: unknown %q", k.SASLMechanism)
	}
}

func checkAddr(name, addr string) error {
	if strings.Contains(addr, "@") {
		// Not shown: it may hold a password.
		return fmt.Errorf("%s: an address is host:port; user and password have variables of their own", name)
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil || host == "" || port == "" {
		return fmt.Errorf("%s: %q is not host:port", name, addr)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("%s: %q: a port is a number up to 65535", name, addr)
	}
	return nil
}
