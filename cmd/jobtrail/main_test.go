package main

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
)

// call runs the command line in this process.
func call(t *testing.T, environ []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(context.Background(), args, &Globals{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Environ: environ})
	return code, out.String(), errs.String()
}

func TestExitCodes(t *testing.T) {
	for _, tt := range []struct {
		args         string
		code         int
		stdout, errs string
	}{
		{"--help", 0, "Commands:", ""},
		{"version --help", 0, "Print the version", ""},
		{"version", 0, "jobtrail ", ""},
		{"", exitUsage, "", "jobtrail: expected"},
		{"nope", exitUsage, "", "unexpected argument nope"},
		{"version --nope", exitUsage, "", "unknown flag --nope"},
	} {
		t.Run(tt.args, func(t *testing.T) {
			code, stdout, errs := call(t, nil, strings.Fields(tt.args)...)
			if code != tt.code || !strings.Contains(stdout, tt.stdout) || !strings.Contains(errs, tt.errs) {
				t.Errorf("code %d, want %d\nstdout: %s\nstderr: %s", code, tt.code, stdout, errs)
			}
		})
	}
}

func TestClientsReportTheEnvironment(t *testing.T) {
	g := &Globals{Environ: []string{"KAFKA_TLS=x"}}
	_, err := g.Kafka()
	var exit exitError
	if !errors.As(err, &exit) || exit.code != exitUsage {
		t.Fatalf("got %v, want a usage error", err)
	}
	for _, want := range []string{"KAFKA_BROKERS: is required", `KAFKA_TLS is "x", it must be true or false`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
	if _, _, err := g.ClickHouse(nil); err == nil || !strings.Contains(err.Error(), "CLICKHOUSE_ADDR: is required") {
		t.Errorf("got %v", err)
	}
}
