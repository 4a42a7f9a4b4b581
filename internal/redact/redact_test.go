package redact_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/ch-go"
	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/jobtrail/jobtrail/internal/connect"
	"github.com/jobtrail/jobtrail/internal/redact"
	"github.com/jobtrail/jobtrail/pkg/sanitize"
)

// secret is built at run time so that no file holds something like a password.
// By its looks it is a word.
func secret(n string) string { return "wo" + "rd" + n + strings.Repeat("ly", 3) }

type config struct {
	connect.Kafka
	Store connect.ClickHouse
	Trace struct{ Headers connect.Secret }
}

func TestSecretsOfAConfigurationAreKnown(t *testing.T) {
	var c config
	c.SASLPassword, c.Store.Password, c.Trace.Headers = connect.Secret(secret("a")), connect.Secret(secret("b")), connect.Secret(secret("c"))
	if got := connect.Secrets(&c); len(got) != 3 {
		t.Fatalf("%d secrets", len(got))
	}
	clean := redact.New(c, nil, secret("d"))
	for _, n := range []string{"a", "b", "c", "d"} {
		s := secret(n)
		for _, form := range []string{s, url.QueryEscape(s), base64.StdEncoding.EncodeToString([]byte(s))} {
			if got := clean.Clean("found " + form + " there").String(); got != "found [REDACTED] there" {
				t.Errorf("got %q", got)
			}
		}
	}
}

func TestSecretsOfTheEnvironmentAreKnown(t *testing.T) {
	long, other := secret("a"), secret("b")
	for _, tt := range []struct {
		line, text, want string
	}{
		{"SHOP_TOKEN=" + "12-" + long, "got 12-" + long, "got [REDACTED]"},
		{"DB_PASSWORD=" + long, "got " + long, "got [REDACTED]"},
		{"DB_PASSWORD=two " + long, "got two " + long, "got [REDACTED]"},
		{"HTTPS_PROXY=http://svc:" + long + "@proxy:3128", "got " + long, "got [REDACTED]"},
		{"OTEL_EXPORTER_OTLP_TRACES_HEADERS=api-key=" + long + ",x=y", "got " + long, "got [REDACTED]"},
		{"DB_PASSWORD=none", "got none", "got none"},
		{"HOME=/home/jane.roe", "jane.roe of " + other, "jane.roe of " + other},
		{"GREETING=" + long, "got " + long, "got " + long},
		{"PATH=/usr/local/bin:/usr/bin", "/usr/local/bin:/usr/bin", "/usr/local/bin:/usr/bin"},
	} {
		if got := redact.New(nil, []string{tt.line, "nonsense"}).Clean(tt.text).String(); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.line, got, tt.want)
		}
	}
}

func TestErrorsOfClients(t *testing.T) {
	clean := redact.New(nil, nil)
	raw := "'" + secret("a") + "'"
	for _, tt := range []struct {
		err  error
		want string
	}{
		{fmt.Errorf("committing: %w", kerr.NotLeaderForPartition), "committing: NOT_LEADER_FOR_PARTITION: "},
		{fmt.Errorf("asking: %w", &clickhouse.Exception{Code: 60, Name: "DB::Exception", Message: "Table a.b does not exist: In scope SELECT " + raw, StackTrace: "0. " + raw,
			Nested: []clickhouse.Exception{{Message: raw}}}), "asking: code: 60, message: Table a.b does not exist"},
		{fmt.Errorf("inserting: %w", &ch.Exception{Code: 62, Name: "DB::Exception", Message: "Syntax error (in query: INSERT " + raw + ")", Stack: raw}), "inserting: code: 62, message: Syntax error"},
		{errors.Join(kerr.SaslAuthenticationFailed, errors.New("x")), "SASL_AUTHENTICATION_FAILED: "},
	} {
		got := clean.Error(tt.err).String()
		if !strings.HasPrefix(got, tt.want) || strings.Contains(got, secret("a")) {
			t.Errorf("got %q, want %q…", got, tt.want)
		}
	}
	// In strict mode their types are known, too.
	if got := sanitize.New(sanitize.Config{Strict: true}).Error(kerr.NotLeaderForPartition).String(); got != "*kerr.Error" {
		t.Errorf("without extractors: %q", got)
	}
}

type secretive struct{ s string }

func (s secretive) LogValue() slog.Value { return slog.GroupValue(slog.String("inner", s.s)) }

func TestNothingPassesTheLogRaw(t *testing.T) {
	s := secret("a")
	clean := redact.New(nil, nil, s)
	for _, text := range []bool{true, false} {
		var b strings.Builder
		log := redact.NewLog(&b, text, slog.LevelInfo, clean)
		log.Debug("not shown")
		log = log.With("with", s, "number", 7).WithGroup("g").With("err", errors.New(s))
		log.Info("message "+s, "text", s, "error", fmt.Errorf("a: %w", errors.New(s)), "list", []string{"shown", s}, "bytes", []byte(s), "any", struct{ X, Y string }{"field", s},
			"valuer", secretive{s}, slog.Group("h", "x", s), "nil", nil, "clean", sanitize.Clean("kept"), "path", &os.PathError{Op: "open", Path: "/srv/" + s + "/file", Err: os.ErrNotExist},
			"map", map[string]string{"k": s}, "flag", true)
		out := b.String()
		if strings.Contains(out, s) {
			t.Errorf("a secret is in %s", out)
		}
		for _, want := range []string{"message [REDACTED]", "shown", "field", "inner", "kept", "a: [REDACTED]", "open file: file does not exist", "number", "flag"} {
			if !strings.Contains(out, want) {
				t.Errorf("no %q in %s", want, out)
			}
		}
		if n := strings.Count(out, "\n"); n != 1 {
			t.Errorf("%d lines", n)
		}
		if !text {
			var line struct {
				Number int
				G      struct {
					List []string
					Flag bool
				}
			}
			if err := json.Unmarshal([]byte(out), &line); err != nil || line.Number != 7 || len(line.G.List) != 2 || !line.G.Flag {
				t.Errorf("%v: %+v", err, line)
			}
		}
	}
}

func TestProblemsAndDurationsInTheLog(t *testing.T) {
	clean := redact.New(nil, nil)
	several := fmt.Errorf("checking: %w", errors.Join(errors.New("a"), errors.New("b\nc")))
	for _, tt := range []struct {
		text bool
		want []string
	}{
		{false, []string{`"pause":"102.061854ms"`, `"wait":{"for":"1m0s"}`, `"raw":["checking: a","checking: b\\nc"]`, `"stack":["goroutine 1","x.go:1"]`,
			`"msg":"it failed","err":["checking: a","checking: b\\nc"]}`, `"msg":"it failed","err":"alone"}`}},
		{true, []string{"pause=102.061854ms", "wait.for=1m0s", `raw="checking: a | checking: b\\nc"`, `stack="goroutine 1 | x.go:1"`,
			`msg="it failed" err="checking: a"`, `msg="it failed" err="checking: b\\nc"`, `msg="it failed" err=alone`}},
	} {
		var b strings.Builder
		log := redact.NewLog(&b, tt.text, slog.LevelInfo, clean)
		log.Info("m", "pause", 102061854*time.Nanosecond, slog.Group("wait", "for", time.Minute), "raw", several, "stack", []string{"goroutine 1", "x.go:1"})
		redact.Failed(log, tt.text, "it failed", clean, several)
		redact.Failed(log, tt.text, "it failed", clean, errors.New("alone"))
		for _, want := range tt.want {
			if !strings.Contains(b.String(), want) {
				t.Errorf("no %s in\n%s", want, b.String())
			}
		}
	}
}

func TestLines(t *testing.T) {
	s := secret("a")
	clean := redact.New(nil, nil, s)
	for _, tt := range []struct {
		err  error
		want string
	}{
		{errors.New("one " + s), "one [REDACTED]"},
		{errors.Join(errors.New("a "+s), errors.Join(errors.New("b"), errors.New("c"))), "a [REDACTED]|b|c"},
		{fmt.Errorf("reading:\n%w", errors.Join(errors.New("a"), errors.New("b "+s))), "reading:|a|b [REDACTED]"},
		{fmt.Errorf("password=%w", errors.Join(errors.New("12-word"), errors.New("b"))), "password=[REDACTED]|b"},
		{fmt.Errorf("opening: %w", &os.PathError{Op: "open", Path: "/srv/x/file", Err: os.ErrNotExist}), "opening: open /srv/x/file: file does not exist"},
	} {
		if got := strings.Join(redact.Lines(clean, tt.err), "|"); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}
