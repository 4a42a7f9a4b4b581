package connect

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

func checkTLS(prefix string, on bool, ca, cert, key string) error {
	var problems []error
	if !on && (ca != "" || cert != "" || key != "") {
		problems = append(problems, fmt.Errorf("%s_TLS_…_FILE is set but %s_TLS is not true", prefix, prefix))
	}
	if (cert == "") != (key == "") {
		problems = append(problems, fmt.Errorf("%s_TLS_CERT_FILE and %s_TLS_KEY_FILE go together", prefix, prefix))
	}
	return errors.Join(problems...)
}

func loadTLS(prefix, ca, cert, key string) (*tls.Config, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		pool, err := readAuthorities(ca)
		if err != nil {
			return nil, fmt.Errorf("%s_TLS_CA_FILE: %w", prefix, err)
		}
		conf.RootCAs = pool
	}
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("%s_TLS_CERT_FILE, %s_TLS_KEY_FILE: %w", prefix, prefix, err)
		}
		conf.Certificates = []tls.Certificate{pair}
	}
	return conf, nil
}

func readAuthorities(file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no PEM certificate", file)
	}
	return pool, nil
}
