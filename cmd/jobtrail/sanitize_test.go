package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
)

func TestSanitize(t *testing.T) {
	secret := "hunter" + "2x"
	tests := []struct {
		name, in, want string
		args           []string
		code           int
	}{
		{"lines", "a\n\nlogin password=" + secret + " failed\r\nlast " + "jane@" + "example.org", "a\n\nlogin password=[REDACTED] failed\nlast [REDACTED]\n", nil, 0},
		{"nothing", "", "", nil, 0},
		{"explain", "password=" + secret + " of jane@" + "example.org\nfine\n", "password=[REDACTED] of [REDACTED]\tkey-value:9-17 email:21-37\nfine\n", []string{"--explain"}, 0},
		{"jsonl", `"a\nb\u001b[2Jc password=` + secret + `"` + "\n" + `"<&>"` + "\n", `"a\\nbc password=[REDACTED]"` + "\n" + `"<&>"` + "\n", []string{"--jsonl"}, 0},
		{"jsonl explained", `"pin=1234"` + "\n" + `"fine"`, `{"findings":[{"class":"key-value","start":4,"end":8}],"text":"pin=[REDACTED]"}` + "\n" + `{"findings":[],"text":"fine"}` + "\n", []string{"--jsonl", "--explain"}, 0},
		{"strict", "bob at example dot com\n", "[REDACTED]\n", []string{"--strict"}, 0},
		{"no JSON", "a\n", "", []string{"--jsonl"}, exitFailed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out, problems bytes.Buffer
			g := &Globals{Stdin: strings.NewReader(tt.in), Stdout: &out, Stderr: &problems}
			if code := run(context.Background(), append([]string{"sanitize"}, tt.args...), g); code != tt.code {
				t.Fatalf("code %d, want %d: %s", code, tt.code, &problems)
			}
			if out.String() != tt.want {
				t.Errorf("got  %q\nwant %q", &out, tt.want)
			}
			if strings.Contains(problems.String(), secret) {
				t.Errorf("secret in %q", &problems)
			}
		})
	}
}
