package sanitize

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"encoding/asn1"
	"encoding/base64"
	"encoding/binary"
	"encoding/csv"
	"encoding/gob"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/mail"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"text/template"
	"time"

	"github.com/ClickHouse/ch-go/proto"
	"github.com/twmb/franz-go/pkg/kerr"
)

// TestBenignTexts reports, for every source of messages that hold nothing
// secret, how many are changed: at most one in a thousand may be.
func TestBenignTexts(t *testing.T) {
	total, changed := 0, 0
	for _, source := range []struct {
		name  string
		least int
		texts []string
	}{
		{"kafka errors", 200, kafkaTexts()},
		{"SQLSTATE", 1000, sqlstateTexts(t)},
		{"ClickHouse errors", 2000, clickhouseTexts()},
		{"Go errors", 250, goErrorTexts(t)},
		{"Go stacks", 80, stackTexts(t)},
		{"own logs", 500, ownLogTexts(t)},
	} {
		wrong := 0
		for _, text := range source.texts {
			text = normalise(text)
			if len(text) > MaxBytes {
				text = normalise(text[:MaxBytes/2])
			}
			if got := Clean(text).String(); got != text {
				if wrong++; wrong <= 5 {
					t.Logf("%s\n in  %q\n out %q", source.name, text, got)
				}
			}
		}
		t.Logf("%-18s %5d texts %3d changed (%.3f %%)", source.name, len(source.texts), wrong, 100*float64(wrong)/float64(len(source.texts)))
		if len(source.texts) < source.least {
			t.Errorf("%s: %d texts", source.name, len(source.texts))
		}
		total, changed = total+len(source.texts), changed+wrong
	}
	if changed*1000 > total {
		t.Errorf("%d of %d texts changed", changed, total)
	}
}

func kafkaTexts() (texts []string) {
	for code := int16(-1); code < 200; code++ {
		if err := kerr.ErrorForCode(code); err != nil {
			texts = append(texts, err.Error(), fmt.Sprintf("producing to jobs-%d: %v", code, err))
		}
	}
	return texts
}

// sqlstateTexts writes the conditions of PostgreSQL as drivers do.
func sqlstateTexts(t *testing.T) (texts []string) {
	data, err := os.ReadFile("testdata/sqlstates.tsv")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		code, name, _ := strings.Cut(strings.TrimSpace(line), "\t")
		spaced := strings.ReplaceAll(name, "_", " ")
		texts = append(texts,
			fmt.Sprintf("ERROR: %s (SQLSTATE %s)", spaced, code),
			fmt.Sprintf("pq: %s", name),
			fmt.Sprintf("inserting order 17: FATAL: %s: relation \"orders\" (SQLSTATE %s)", spaced, code),
			fmt.Sprintf("sqlstate=%s condition=%s attempt=2", code, name),
			fmt.Sprintf("SQLSTATE[%s]: %s: 7 ERROR", code, spaced),
		)
	}
	return texts
}

// clickhouseTexts writes every error of ClickHouse as the server and the
// drivers do, with texts that the server gives.
func clickhouseTexts() (texts []string) {
	details := []string{
		"Table jobtrail.attempts does not exist. Maybe you meant jobtrail.attempt?",
		"Memory limit (total) exceeded: would use 1.50 GiB (attempt to allocate chunk of 4194304 bytes), maximum: 1.40 GiB",
		"Timeout exceeded: elapsed 30.000123 seconds, maximum: 30",
		"Cannot parse input: expected ',' before: end of line: (at row 3)",
		"Missing columns: 'tenant' while processing query: 'SELECT tenant FROM jobtrail.jobs', required columns: 'tenant'",
		"Too many simultaneous queries. Maximum: 100",
	}
	for k, code := range proto.ErrorValues() {
		name := code.String()
		texts = append(texts,
			fmt.Sprintf("Code: %d. DB::Exception: %s (%s) (version 26.7.1.1 (official build))", int(code), details[k%len(details)], name),
			fmt.Sprintf("code: %d, message: %s", int(code), details[(k+1)%len(details)]),
			fmt.Sprintf("applying batch 12: %s (%d): %s", name, int(code), details[(k+2)%len(details)]),
			fmt.Sprintf("DB::Exception: %s. (%s)", strings.ToLower(strings.ReplaceAll(name, "_", " ")), name),
		)
	}
	return texts
}

// goErrorTexts provokes errors of the standard library, and returns each alone
// and as a link of a chain.
func goErrorTexts(t *testing.T) (texts []string) {
	add := func(err error) {
		t.Helper()
		if err == nil {
			t.Fatal("no error was provoked")
		}
		texts = append(texts, err.Error(), fmt.Sprintf("attempt 3 of 5: %v", err), errors.Join(err, io.ErrUnexpectedEOF).Error())
	}
	only := func(_ any, err error) { t.Helper(); add(err) }

	only(os.Open("data/absent.csv"))
	only(os.ReadFile("testdata"))
	add(os.Mkdir("testdata", 0o700))
	add(os.Remove("absent"))
	add(os.Rename("absent", "other"))
	only(os.Readlink("testdata"))
	only(os.ReadDir("absent"))
	add(fs.ErrPermission)
	only(fs.Sub(os.DirFS("."), "/x"))
	add(exec.Command("no-such-program-here").Run())
	add(exec.Command("sh", "-c", "exit 3").Run())
	add(exec.Command("sh", "-c", "kill -9 $$").Run())
	closed, _, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	only(closed.Read(make([]byte, 1)))
	add(os.ErrDeadlineExceeded)

	for _, addr := range []string{"127.0.0.1:1", "[::1]:1", "localhost:1", "127.0.0.1", "127.0.0.1:99999", "127.0.0.1:http-x", "[::1:80"} {
		only(net.DialTimeout("tcp", addr, time.Second))
	}
	only(net.Dial("nothing", "x:1"))
	only(net.Listen("tcp", "127.0.0.1:-1"))
	add(&net.DNSError{Err: "no such host", Name: "kafka-3.kafka.svc", IsNotFound: true})
	add(&net.OpError{Op: "read", Net: "tcp", Source: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 5), Port: 40312}, Addr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 7), Port: 9092}, Err: errors.New("connection reset by peer")})
	only(netip.ParseAddr("10.0.0.256"))
	only(netip.ParsePrefix("10.0.0.0/33"))
	_, _, err = net.ParseCIDR("10.0.0.0/99")
	add(err)
	only(net.ParseMAC("02:42:ac"))

	for _, raw := range []string{"http://[::1", "http://h:port/", "%zz", ":nothing", "http://h/%", "a b://x"} {
		only(url.Parse(raw))
	}
	only(url.QueryUnescape("%q"))
	only(url.ParseRequestURI("x"))

	for _, doc := range []string{`{`, `{"n":}`, `[1,]`, `{"n":"x"}`, `{"n":1e999}`, `nul`, `"\x"`, `{"n" 1}`, `{n:1}`, "\"\x01\"", `{"n":1}}`, ``} {
		add(json.Unmarshal([]byte(doc), &struct {
			N int `json:"n"`
		}{}))
	}
	only(json.Marshal(math.Inf(1)))
	strict := json.NewDecoder(strings.NewReader(`{"surplus":1}`))
	strict.DisallowUnknownFields()
	add(strict.Decode(&struct{}{}))
	add(xml.Unmarshal([]byte("<a><b></a>"), &struct{}{}))
	add(xml.Unmarshal([]byte("<a"), &struct{}{}))
	only(csv.NewReader(strings.NewReader("a,b\n\"c")).ReadAll())
	only(csv.NewReader(strings.NewReader("a,b\nc")).ReadAll())
	add(gob.NewDecoder(strings.NewReader("x")).Decode(new(int)))
	only(base64.StdEncoding.DecodeString("a*b"))
	only(hex.DecodeString("abz"))
	add(binary.Read(strings.NewReader("a"), binary.BigEndian, new(int64)))

	for _, text := range []string{"", "x", "12a", "99999999999999999999", "1.5"} {
		only(strconv.ParseInt(text, 10, 64))
		only(strconv.ParseUint("-"+text, 10, 32))
	}
	only(strconv.ParseBool("maybe"))
	only(strconv.ParseFloat("1e999", 64))
	only(strconv.Unquote(`"x`))
	for _, base := range []int{1, 99} {
		only(strconv.ParseInt("1", base, 64))
	}
	only(time.Parse(time.RFC3339, "2026-13-01"))
	only(time.Parse(time.DateOnly, "yesterday"))
	only(time.ParseDuration("3 parsecs"))
	only(time.LoadLocation("Nowhere/City"))
	for _, pattern := range []string{`a(b`, `[z-a]`, `*a`, `a{9999}`, `(?P<n`} {
		only(regexp.Compile(pattern))
	}
	only(fmt.Sscanf("x", "%d", new(int)))
	only(filepath.Match("[", "x"))

	only(x509.ParseCertificate([]byte("x")))
	only(x509.ParsePKCS8PrivateKey([]byte{0x30, 0}))
	only(x509.ParsePKIXPublicKey([]byte{1}))
	only(tls.X509KeyPair([]byte("x"), []byte("y")))
	only(tls.LoadX509KeyPair("absent.crt", "absent.key"))
	only(asn1.Unmarshal([]byte{1}, new(int)))
	add(x509.UnknownAuthorityError{})
	add(x509.HostnameError{Certificate: &x509.Certificate{DNSNames: []string{"db.internal"}}, Host: "db-1.internal"})
	add(x509.CertificateInvalidError{Cert: &x509.Certificate{SerialNumber: big.NewInt(7)}, Reason: x509.Expired, Detail: "current time 2026-11-30T08:00:00Z is after 2026-01-01T00:00:00Z"})
	add(pem.Encode(io.Discard, &pem.Block{Type: "X", Headers: map[string]string{"a:b": "c"}}))
	only(mail.ParseAddress("nobody"))
	only(template.New("x").Parse("{{.A"))
	only(template.New("x").Parse("{{nothing 1}}"))
	add(template.Must(template.New("x").Parse("{{.A.B}}")).Execute(io.Discard, struct{ A int }{}))
	only(sql.Open("absent", ""))
	for _, err := range []error{
		sql.ErrNoRows, sql.ErrTxDone, sql.ErrConnDone, io.EOF, io.ErrShortWrite, io.ErrNoProgress, io.ErrClosedPipe, context.Canceled,
		context.DeadlineExceeded, http.ErrAbortHandler, http.ErrBodyNotAllowed, http.ErrHandlerTimeout, http.ErrMissingFile, http.ErrNoCookie,
		http.ErrServerClosed, http.ErrUseLastResponse, net.ErrClosed, errors.ErrUnsupported, tls.AlertError(42), tls.AlertError(80),
	} {
		add(err)
	}

	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hang" {
			<-r.Context().Done()
			return
		}
		panic(http.ErrAbortHandler)
	}))
	defer server.Close()
	client := &http.Client{Timeout: 200 * time.Millisecond}
	get := func(address string) {
		res, err := client.Get(address)
		if err == nil {
			_ = res.Body.Close()
		}
		add(err)
	}
	get(server.URL + "/abort")
	get(server.URL + "/hang")
	get(strings.Replace(server.URL, "http:", "https:", 1))
	get("http://127.0.0.1:1/v1/jobs/17")
	get("ftp://127.0.0.1/x")
	get("http://")
	return texts
}

// stackTexts returns the lines and the whole of stacks of real panics.
func stackTexts(t *testing.T) (texts []string) {
	var empty []int
	var none map[string]int
	var nobody *http.Request
	var thing any = "text"
	index := len(t.Name())
	for _, fail := range []func(){
		func() { _ = empty[index] },
		func() { none["x"] = 1 },
		func() { _ = nobody.Method },
		func() { _ = thing.(int) },
		func() { _ = thing.(fmt.Stringer) },
		func() { _ = make([]int, index-100) },
		func() { _ = index / len(empty) },
		func() { _ = "text"[index:] },
		func() { var c chan int; close(c) },
		func() { panic(errors.New("no such job")) },
	} {
		func() {
			defer func() {
				reason := recover()
				stack := string(debug.Stack())
				texts = append(texts, fmt.Sprintf("panic: %v", reason), fmt.Sprintf("panic: %v [recovered]\n\n%s", reason, stack))
				for line := range strings.Lines(stack) {
					texts = append(texts, strings.TrimSpace(line))
				}
			}()
			fail()
		}()
	}
	// Where the tests run from below a home folder, its name is removed rightly.
	var kept []string
	for _, text := range texts {
		if text != "" && !strings.Contains(text, "/home/") && !strings.Contains(text, "/Users/") && !strings.Contains(text, "/root/") {
			kept = append(kept, text)
		}
	}
	return kept
}

// ownLogTexts returns lines that worker, projector and the broker wrote in a
// demonstration. A line of JSON is given as its handler cleans it, each string
// alone, and as a line of "key=value".
func ownLogTexts(t *testing.T) (texts []string) {
	data, err := os.ReadFile("testdata/own-logs.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if line[0] != '{' {
			texts = append(texts, line)
			continue
		}
		dec := json.NewDecoder(strings.NewReader(line))
		var pairs []string
		for key, depth := "", 0; ; {
			token, err := dec.Token()
			if err != nil {
				break
			}
			switch v := token.(type) {
			case json.Delim:
				if depth++; v == '}' || v == ']' {
					depth -= 2
				}
				key = ""
				continue
			case string:
				if key == "" && depth == 1 {
					key = v
					continue
				}
				texts = append(texts, v)
			}
			pairs = append(pairs, fmt.Sprintf("%s=%v", key, token))
			key = ""
		}
		texts = append(texts, strings.Join(pairs, " "))
	}
	return texts
}
