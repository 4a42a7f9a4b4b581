package sanitize

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"
)

type cardError int64

func (e cardError) Error() string { return strconv.FormatInt(int64(e), 10) }

type panicError struct{}

func (panicError) Error() string { panic("no text") }

// stateError is like the errors of PostgreSQL drivers.
type stateError struct{ message string }

func (e stateError) Error() string  { return e.message }
func (stateError) SQLState() string { return "23505" }

type loopError struct{}

func (e *loopError) Error() string { return "loop" }
func (e *loopError) Unwrap() error { return e }

func TestError(t *testing.T) {
	secret := "hunter" + "2hunter2"
	_, num := strconv.Atoi(secret)
	_, missing := os.Open("/srv/" + secret + "/data.csv")
	_, parse := url.Parse("postgres://svc:" + secret + "%zz@db1/app")
	var typed *json.UnmarshalTypeError
	errors.As(json.Unmarshal([]byte(`{"a":"`+secret+`"}`), &struct {
		A int `json:"a"`
	}{}), &typed)
	refused := &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 5), Port: 5432}, Err: errors.New("connection refused")}
	tests := []struct {
		name string
		err  error
		want string
	}{
		{"nil", nil, ""},
		{"plain", errors.New("no such job"), "no such job"},
		{"number", cardError(4111111111111111), "[REDACTED]"},
		{"url", &url.Error{Op: "Get", URL: "https://api.example.com/v1/" + secret + "?q=" + secret, Err: refused},
			`Get "https://api.example.com": dial tcp 10.0.0.5:5432: connection refused`},
		{"bad url", parse, `parse "[REDACTED]": invalid URL escape "%zz"`},
		{"wrapped url", fmt.Errorf("calling hook: %w", &url.Error{Op: "Post", URL: "https://x.example.com/" + secret, Err: context.DeadlineExceeded}),
			`calling hook: Post "https://x.example.com": context deadline exceeded`},
		{"dns", &net.DNSError{Err: "no such host", Name: "db1.internal", Server: "10.0.0.2:53"}, "lookup db1.internal: no such host"},
		{"path", missing, "open data.csv: no such file or directory"},
		{"number syntax", num, "strconv.Atoi: invalid syntax"},
		{"json type", typed, `json: cannot unmarshal into field "a" of type int at offset 21`},
		{"json syntax", json.Unmarshal([]byte("{"+secret), new(any)), "json: syntax error at offset 2"},
		{"joined", errors.Join(num, fmt.Errorf("second: %w", missing)),
			`strconv.Atoi: invalid syntax\nsecond: open data.csv: no such file or directory`},
		{"two wrapped", fmt.Errorf("%w and %w", num, missing), "strconv.Atoi: invalid syntax and open data.csv: no such file or directory"},
		{"protocol", http.ErrNotSupported, "feature not supported"},
		{"database", fmt.Errorf("storing: %w", stateError{"Key (name)=(" + secret + ") exists"}), "storing: SQLSTATE 23505"},
		{"panicking", panicError{}, "[REDACTED]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := Error(tt.err).String()
			if got != tt.want {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
			if strings.Contains(got, secret) {
				t.Errorf("secret in %q", got)
			}
		})
	}
}

func TestErrorEndless(t *testing.T) {
	if got := Error(&loopError{}).String(); got != "[REDACTED]" {
		t.Errorf("got %q", got)
	}
}

func TestErrorStrict(t *testing.T) {
	z := New(Config{Strict: true})
	tests := []struct {
		err  error
		want string
	}{
		{errors.New("bob likes trains"), "*errors.errorString"},
		{fmt.Errorf("bob: %w", context.Canceled), "context canceled"},
		{&fs.PathError{Op: "open", Path: "/x/y", Err: fs.ErrNotExist}, "open y: file does not exist"},
		{fmt.Errorf("bob: %w", cardError(7)), "sanitize.cardError"},
		{errors.Join(context.Canceled, errors.New("bob")), "context canceled; *errors.errorString"},
	}
	for _, tt := range tests {
		if got := z.Error(tt.err).String(); got != tt.want {
			t.Errorf("%v: got %q, want %q", tt.err, got, tt.want)
		}
	}
}

type vendorError struct{ code, detail string }

func (e *vendorError) Error() string { return e.code + " " + e.detail }

func TestExtractor(t *testing.T) {
	z := New(Config{Extractors: []Extractor{func(err error) (string, bool) {
		if e, ok := err.(*vendorError); ok {
			return "vendor " + e.code, true
		}
		return "", false
	}}})
	err := fmt.Errorf("storing: %w", &vendorError{"E42", "Jane Roe lives here"})
	if got := z.Error(err).String(); got != "storing: vendor E42" {
		t.Errorf("got %q", got)
	}
}

func TestFailedClosed(t *testing.T) {
	z := New(Config{Classes: []Class{{Name: "broken", Find: func(string, int) (int, int) { panic("bug") }}}})
	if got := z.Clean("anything").String(); got != marker {
		t.Errorf("got %q", got)
	}
	if z.Error(panicError{}); z.FailedClosed() != 2 {
		t.Errorf("counted %d", z.FailedClosed())
	}
}

func TestProblems(t *testing.T) {
	secret := "hunter" + "2hunter2"
	clean := New(Config{Secrets: []string{secret}})
	two := errors.Join(errors.New("a"), nil, errors.New("b\nforged"))
	for _, tt := range []struct {
		err  error
		want string
	}{
		{nil, ""},
		{errors.New("one"), "one"},
		{errors.New("one\ntwo"), `one\ntwo`},
		{two, `a|b\nforged`},
		{fmt.Errorf("x: %w", fmt.Errorf("y: %w", two)), `x: y: a|x: y: b\nforged`},
		{errors.Join(fmt.Errorf("x: %w", two), errors.New("c "+secret)), `x: a|x: b\nforged|c [REDACTED]`},
		{fmt.Errorf("%w, and %w", errors.New("a"), errors.New("b")), "a, and b"},
		{fmt.Errorf("(%w)", two), `(a\nb\nforged)`},
		{fmt.Errorf("x: %w", errors.Join(&os.PathError{Op: "open", Path: "/srv/" + secret + "/data.csv", Err: os.ErrNotExist}, errors.New("b"))), "x: open data.csv: file does not exist|x: b"},
		{&loopError{}, marker},
		{panicError{}, marker},
	} {
		var got []string
		for _, text := range clean.Problems(tt.err) {
			got = append(got, text.String())
		}
		if strings.Join(got, "|") != tt.want {
			t.Errorf("got %q, want %q", strings.Join(got, "|"), tt.want)
		}
	}
}
