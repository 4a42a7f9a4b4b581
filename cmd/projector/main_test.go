package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/jobtrail/jobtrail/internal/connect/documented"
)

func TestEnvironmentIsDocumented(t *testing.T) {
	documented.Check(t, "../../docs/configuration.md", "projector", Own{})
}

func TestExitCodes(t *testing.T) {
	for _, tt := range []struct {
		name         string
		args         []string
		environ      []string
		code         int
		stdout, errs string
	}{
		{"help", []string{"--help"}, nil, 0, "JOBTRAIL_GROUPS", ""},
		{"argument", []string{"x"}, nil, 2, "", "unexpected argument x"},
		{"every problem", nil, []string{"KAFKA_TLS=x"}, 2, "", "JOBTRAIL_GROUPS: is required"},
		{"taken port", nil, []string{"KAFKA_BROKERS=127.0.0.1:1", "CLICKHOUSE_ADDR=127.0.0.1:1", "JOBTRAIL_GROUPS=g", "JOBTRAIL_ADMIN_ADDR=256.0.0.1:1"}, 1, "", "opening the admin address"},
		{"groups that cannot be", nil, []string{"KAFKA_BROKERS=127.0.0.1:1", "CLICKHOUSE_ADDR=127.0.0.1:1", "JOBTRAIL_GROUPS=g,g,a b", "JOBTRAIL_ADMIN_ADDR=8082"}, 2, "",
			"JOBTRAIL_GROUPS: group \"g\" is named twice\nJOBTRAIL_GROUPS: group \"a b\": 1 to 200 letters, digits, dots, dashes and underscores are allowed\nJOBTRAIL_ADMIN_ADDR: \"8082\" is not host:port\n"},
		{"version", []string{"--version"}, nil, 0, "projector ", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out, errs bytes.Buffer
			code := run(t.Context(), tt.args, tt.environ, &out, &errs)
			if code != tt.code || !strings.Contains(out.String(), tt.stdout) || !strings.Contains(errs.String(), tt.errs) {
				t.Errorf("code %d, want %d\nstdout: %s\nstderr: %s", code, tt.code, out.String(), errs.String())
			}
		})
	}
}
