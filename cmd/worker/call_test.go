package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/jobtrail/jobtrail/internal/jobsfile"
	"github.com/jobtrail/jobtrail/pkg/events"
	"github.com/jobtrail/jobtrail/pkg/worker"
)

// errLimit is the cause of a context that ends in these tests.
var errLimit = fmt.Errorf("the test's limit passed: %w", context.DeadlineExceeded)

func testJob(value string) *worker.Job {
	return &worker.Job{
		ID: "order-1/charge", Type: "charge-card", OperationID: "op-1", TenantID: "acme", Step: "capture",
		AttemptID: uuid.MustParse("11111111-1111-5111-8111-111111111111"), Attempt: 3, IdempotencyKey: uuid.MustParse("22222222-2222-5222-8222-222222222222"),
		Deadline: time.Date(2026, 3, 1, 12, 0, 0, 5e6, time.UTC), ContentType: "application/json",
		TraceParent: "00-01000000000000000000000000000000-0200000000000000-01", TraceState: "a=b", Value: []byte(value),
	}
}

func limited(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(context.Background(), d, errLimit)
	t.Cleanup(cancel)
	return ctx
}

// within fails the test when f takes longer than d.
func within(t testing.TB, d time.Duration, f func() error) error {
	t.Helper()
	start := time.Now()
	err := f()
	if took := time.Since(start); took > d {
		t.Errorf("it took %v, more than %v", took, d)
	}
	return err
}

func wantError(t *testing.T, err error, class events.ErrorClass, name, message string) {
	t.Helper()
	if e, ok := errors.AsType[*worker.Error](err); !ok {
		t.Errorf("got %T %v, want a worker.Error", err, err)
	} else if e.Class != class || e.Type != name || e.Error() != message {
		t.Errorf("got %s %s %q, want %s %s %q", e.Class, e.Type, e.Error(), class, name, message)
	}
}

func TestCallTellsTheEndpointAboutTheJob(t *testing.T) {
	var got *http.Request
	var body []byte
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
		w.WriteHeader(http.StatusAccepted)
	}))
	defer srv.Close()
	c := newCaller(&jobsfile.HTTP{URL: srv.URL + "/charge?x=1", Headers: map[string]string{"authorization": "Bearer x", "Host": "pay.internal"}}, 1)
	if err := c.Handle(limited(t, 5*time.Second), testJob(`{"a":1}`)); err != nil {
		t.Fatal(err)
	}
	if got.Method != "POST" || got.URL.RequestURI() != "/charge?x=1" || got.Host != "pay.internal" || string(body) != `{"a":1}` || got.ContentLength != 7 {
		t.Errorf("got %s %s, host %s, body %q, length %d", got.Method, got.URL, got.Host, body, got.ContentLength)
	}
	for name, want := range map[string]string{
		"Jobtrail-Job-Id": "order-1/charge", "Jobtrail-Job-Type": "charge-card", "Jobtrail-Attempt-Id": "11111111-1111-5111-8111-111111111111", "Jobtrail-Attempt": "3",
		"Jobtrail-Operation-Id": "op-1", "Jobtrail-Tenant-Id": "acme", "Jobtrail-Step": "capture", "Jobtrail-Deadline": "2026-03-01T12:00:00.005Z",
		"Idempotency-Key": "22222222-2222-5222-8222-222222222222", "Traceparent": "00-01000000000000000000000000000000-0200000000000000-01", "Tracestate": "a=b",
		"Content-Type": "application/json", "Authorization": "Bearer x", "User-Agent": "jobtrail-worker", "Accept-Encoding": "",
	} {
		if v := got.Header.Values(name); strings.Join(v, "|") != want {
			t.Errorf("%s: got %q, want %q", name, v, want)
		}
	}

	bare := &worker.Job{ID: "a", Type: "b", ContentType: "application/octet-stream"}
	if err := c.Handle(limited(t, 5*time.Second), bare); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"Jobtrail-Operation-Id", "Jobtrail-Tenant-Id", "Jobtrail-Step", "Jobtrail-Deadline", "Traceparent", "Tracestate"} {
		if v, ok := got.Header[name]; ok {
			t.Errorf("%s is sent without a value: %q", name, v)
		}
	}
	if len(body) != 0 || got.ContentLength != 0 || len(got.TransferEncoding) != 0 {
		t.Errorf("an empty value: got body %q, length %d, encoding %q", body, got.ContentLength, got.TransferEncoding)
	}

	c = newCaller(&jobsfile.HTTP{URL: srv.URL, Headers: map[string]string{"Content-Type": "text/plain", "User-Agent": "shop"}}, 1)
	if err := c.Handle(limited(t, 5*time.Second), bare); err != nil {
		t.Fatal(err)
	}
	if got.Header.Get("Content-Type") != "text/plain" || got.Header.Get("User-Agent") != "shop" {
		t.Errorf("configured headers do not win: %v", got.Header)
	}
}

func TestCallJudgesByTheStatus(t *testing.T) {
	const day = 24 * time.Hour
	now := time.Now().UTC().Truncate(time.Second)
	for _, tt := range []struct {
		status     int
		retryAfter string
		date       string
		class      events.ErrorClass // 0: done
		wait       time.Duration
	}{
		{status: 200}, {status: 201}, {status: 204}, {status: 299},
		{status: 301, class: events.ClassPermanent}, {status: 302, class: events.ClassPermanent}, {status: 304, class: events.ClassPermanent}, {status: 307, class: events.ClassPermanent},
		{status: 400, class: events.ClassPermanent}, {status: 401, class: events.ClassPermanent}, {status: 404, class: events.ClassPermanent},
		{status: 409, class: events.ClassPermanent}, {status: 410, retryAfter: "9", class: events.ClassPermanent}, {status: 422, class: events.ClassPermanent}, {status: 499, class: events.ClassPermanent},
		{status: 408, class: events.ClassTimeout}, {status: 425, class: events.ClassTransient}, {status: 429, class: events.ClassThrottled},
		{status: 500, class: events.ClassTransient}, {status: 501, class: events.ClassTransient}, {status: 502, class: events.ClassTransient}, {status: 503, class: events.ClassTransient},
		{status: 504, class: events.ClassTimeout}, {status: 599, class: events.ClassTransient}, {status: 999, class: events.ClassTransient},
		{status: 429, retryAfter: "120", class: events.ClassThrottled, wait: 2 * time.Minute},
		{status: 503, retryAfter: " 7 ", class: events.ClassThrottled, wait: 7 * time.Second},
		{status: 500, retryAfter: "7", class: events.ClassTransient, wait: 7 * time.Second},
		{status: 503, retryAfter: "0", class: events.ClassTransient},
		{status: 503, retryAfter: "-5", class: events.ClassTransient},
		{status: 503, retryAfter: "1.5", class: events.ClassTransient},
		{status: 503, retryAfter: "soon", class: events.ClassTransient},
		{status: 429, retryAfter: "99999999999999999999", class: events.ClassThrottled, wait: 365 * day},
		{status: 503, retryAfter: now.Add(time.Minute).Format(http.TimeFormat), date: now.Format(http.TimeFormat), class: events.ClassThrottled, wait: time.Minute},
		// The server's clock is an hour ahead.
		{status: 503, retryAfter: now.Add(time.Hour + time.Minute).Format(http.TimeFormat), date: now.Add(time.Hour).Format(http.TimeFormat), class: events.ClassThrottled, wait: time.Minute},
		{status: 503, retryAfter: now.Add(-time.Minute).Format(http.TimeFormat), date: now.Format(http.TimeFormat), class: events.ClassTransient},
		{status: 503, retryAfter: now.Add(time.Minute).Format(time.RFC850), date: now.Format(http.TimeFormat), class: events.ClassThrottled, wait: time.Minute},
		{status: 503, retryAfter: now.Add(time.Minute).Format(time.ANSIC), date: now.Format(http.TimeFormat), class: events.ClassThrottled, wait: time.Minute},
	} {
		t.Run(fmt.Sprintf("%d %s", tt.status, tt.retryAfter), func(t *testing.T) {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if tt.retryAfter != "" {
					w.Header().Set("Retry-After", tt.retryAfter)
				}
				if tt.date != "" {
					w.Header().Set("Date", tt.date)
				}
				w.Header().Set("Location", "http://127.0.0.1:1/")
				w.WriteHeader(tt.status)
				if tt.status != 204 && tt.status != 304 {
					fmt.Fprint(w, "the body is not for evidence")
				}
			}))
			defer srv.Close()
			err := newCaller(&jobsfile.HTTP{URL: srv.URL}, 1).Handle(limited(t, 5*time.Second), testJob("x"))
			if tt.class == 0 {
				if err != nil {
					t.Errorf("got %v, want nil", err)
				}
				return
			}
			phrase := http.StatusText(tt.status)
			if phrase == "" {
				phrase = fmt.Sprintf("status code %d", tt.status) // what the test's server says
			}
			wantError(t, err, tt.class, fmt.Sprintf("http_%d", tt.status), fmt.Sprintf("HTTP/1.1 %d %s", tt.status, phrase))
			if e, ok := errors.AsType[*worker.Error](err); ok && e.RetryAfter != tt.wait {
				t.Errorf("retry after %v, want %v", e.RetryAfter, tt.wait)
			}
		})
	}
}

func TestARetryDateWithoutAServerDateCountsFromNow(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	h := http.Header{"Retry-After": {now.Add(90 * time.Second).Format(http.TimeFormat)}}
	if got := retryAfter(h, now); got != 90*time.Second {
		t.Errorf("got %v", got)
	}
}

func TestCallDoesNotFollowRedirects(t *testing.T) {
	var followed atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/elsewhere" {
			followed.Add(1)
			return
		}
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	}))
	defer srv.Close()
	err := newCaller(&jobsfile.HTTP{URL: srv.URL}, 1).Handle(limited(t, 5*time.Second), testJob("x"))
	wantError(t, err, events.ClassPermanent, "http_307", "HTTP/1.1 307 Temporary Redirect")
	if followed.Load() != 0 {
		t.Error("the redirect was followed")
	}
}

// The first byte of the body is there, its end never comes.
func TestAnUnfinishedBodyDoesNotHoldUpTheOutcome(t *testing.T) {
	release := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/bad" {
			w.WriteHeader(500)
		}
		fmt.Fprint(w, "x")
		_ = http.NewResponseController(w).Flush()
		<-release
	}))
	defer srv.Close()
	defer close(release)
	if err := within(t, 3*time.Second, func() error {
		return newCaller(&jobsfile.HTTP{URL: srv.URL}, 1).Handle(limited(t, 10*time.Second), testJob("x"))
	}); err != nil {
		t.Errorf("got %v, want nil", err)
	}
	err := within(t, 3*time.Second, func() error {
		return newCaller(&jobsfile.HTTP{URL: srv.URL + "/bad"}, 1).Handle(limited(t, 10*time.Second), testJob("x"))
	})
	wantError(t, err, events.ClassTransient, "http_500", "HTTP/1.1 500 Internal Server Error")
	// Also when the attempt ends meanwhile.
	if err := newCaller(&jobsfile.HTTP{URL: srv.URL}, 1).Handle(limited(t, 200*time.Millisecond), testJob("x")); err != nil {
		t.Errorf("got %v, want nil: the status said that the job is done", err)
	}
}

func TestAHugeBodyIsNotReadToItsEnd(t *testing.T) {
	var sent atomic.Int64
	done := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		defer close(done)
		chunk := bytes.Repeat([]byte("x"), 64<<10)
		for sent.Load() < 1<<30 {
			n, err := w.Write(chunk)
			sent.Add(int64(n))
			if err != nil {
				return
			}
		}
	}))
	defer srv.Close()
	if err := newCaller(&jobsfile.HTTP{URL: srv.URL}, 1).Handle(limited(t, 20*time.Second), testJob("x")); err != nil {
		t.Errorf("got %v", err)
	}
	<-done
	if sent.Load() > 64<<20 {
		t.Errorf("the server got rid of %d bytes", sent.Load())
	}
}

func TestTheAttemptsTimeoutEndsACall(t *testing.T) {
	gone := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
		close(gone)
	}))
	defer srv.Close()
	err := within(t, 3*time.Second, func() error {
		return newCaller(&jobsfile.HTTP{URL: srv.URL}, 1).Handle(limited(t, 100*time.Millisecond), testJob("x"))
	})
	if !errors.Is(err, errLimit) {
		t.Errorf("got %v, want the context's cause", err)
	}
	if _, ok := errors.AsType[*worker.Error](err); ok {
		t.Errorf("%v has a class of its own, the worker must give it", err)
	}
	select {
	case <-gone:
	case <-time.After(5 * time.Second):
		t.Error("the endpoint did not see the end of the request")
	}
}

// rawServer accepts connections and gives each, with the requests on it, to serve.
func rawServer(t *testing.T, serve func(n int, conn net.Conn, br *bufio.Reader)) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for n := 1; ; n++ {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
				serve(n, conn, bufio.NewReader(conn))
			}()
		}
	}()
	return l.Addr().String()
}

func readRequest(br *bufio.Reader) bool {
	r, err := http.ReadRequest(br)
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, r.Body)
	return err == nil
}

func TestCallsThatBreak(t *testing.T) {
	secret := strings.Repeat("s3", 5)
	tlsServer := httptest.NewUnstartedServer(http.NotFoundHandler())
	tlsServer.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	tlsServer.StartTLS()
	defer tlsServer.Close()
	raw := func(serve func(conn net.Conn)) string {
		return "http://" + rawServer(t, func(_ int, conn net.Conn, br *bufio.Reader) {
			if readRequest(br) {
				serve(conn)
			}
		})
	}
	for _, tt := range []struct {
		name, url string
		kind      string
	}{
		{"nobody listens", "http://127.0.0.1:1", "net_refused"},
		{"reset", raw(func(c net.Conn) { _ = c.(*net.TCPConn).SetLinger(0) }), "net_reset"},
		{"closed", raw(func(net.Conn) {}), "net_closed"},
		{"closed in the header", raw(func(c net.Conn) { fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nX: %s", secret) }), "net_closed"},
		{"not HTTP", raw(func(c net.Conn) { fmt.Fprintf(c, "SSH-2.0-%s\r\n", secret) }), "net_protocol"},
		{"broken header", raw(func(c net.Conn) { fmt.Fprintf(c, "HTTP/1.1 200 OK\r\n%s\r\n\r\n", secret) }), "net_protocol"},
		{"endless header", raw(func(c net.Conn) {
			fmt.Fprint(c, "HTTP/1.1 200 OK\r\n")
			for i := range 1000 {
				fmt.Fprintf(c, "X-%d: %s\r\n", i, strings.Repeat(secret, 100))
			}
		}), "net_protocol"},
		{"unknown authority", tlsServer.URL, "net_tls"},
		{"no TLS there", "https" + strings.TrimPrefix(raw(func(net.Conn) {}), "http"), "net_closed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := newCaller(&jobsfile.HTTP{URL: tt.url + "/" + secret}, 1).Handle(limited(t, 10*time.Second), testJob("x"))
			e, ok := errors.AsType[*worker.Error](err)
			if !ok || e.Class != events.ClassTransient || e.Type != tt.kind {
				t.Fatalf("got %#v, want a transient %s", err, tt.kind)
			}
			if strings.Contains(err.Error(), secret) {
				t.Errorf("the message holds the URL or the peer's bytes: %v", err)
			}
		})
	}
}

func TestBrokenCallClasses(t *testing.T) {
	for _, tt := range []struct {
		err   error
		class events.ErrorClass
		name  string
	}{
		{&net.DNSError{Err: "no such host", Name: "pay.internal", IsNotFound: true}, events.ClassTransient, "net_dns"},
		{&net.DNSError{Err: "i/o timeout", Name: "pay.internal", IsTimeout: true}, events.ClassTransient, "net_dns"},
		{&net.OpError{Op: "dial", Net: "tcp", Err: timeoutError{}}, events.ClassTimeout, "net_timeout"},
		{&net.OpError{Op: "dial", Net: "tcp", Err: errors.New("no route to host")}, events.ClassTransient, "net_error"},
		{errors.New("http2: something new"), events.ClassTransient, "net_protocol"},
	} {
		err := brokenCall(&url.Error{Op: "Post", URL: "http://user@h/", Err: tt.err})
		if e, ok := errors.AsType[*worker.Error](err); !ok || e.Class != tt.class || e.Type != tt.name || strings.Contains(err.Error(), "user") {
			t.Errorf("%v: got %#v", tt.err, err)
		}
	}
}

type timeoutError struct{}

func (timeoutError) Error() string { return "i/o timeout" }
func (timeoutError) Timeout() bool { return true }

// When a connection that was used before breaks after the request was written,
// the endpoint may have acted: only a new attempt may ask again.
func TestABrokenConnectionIsNotAnsweredByASecondRequest(t *testing.T) {
	for _, value := range []string{"value", ""} {
		t.Run("value "+value, func(t *testing.T) {
			var requests atomic.Int32
			addr := rawServer(t, func(n int, conn net.Conn, br *bufio.Reader) {
				for readRequest(br) {
					if requests.Add(1) == 2 {
						return // closes the connection without an answer
					}
					fmt.Fprint(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
				}
			})
			c := newCaller(&jobsfile.HTTP{URL: "http://" + addr}, 1)
			if err := c.Handle(limited(t, 5*time.Second), testJob(value)); err != nil {
				t.Fatal(err)
			}
			err := c.Handle(limited(t, 5*time.Second), testJob(value))
			if _, ok := errors.AsType[*worker.Error](err); !ok {
				t.Errorf("got %v, want the broken connection", err)
			}
			if n := requests.Load(); n != 2 {
				t.Errorf("the endpoint got %d requests of 2 attempts", n)
			}
		})
	}
}

func TestConnectionsAreUsedAgain(t *testing.T) {
	const parallel = 20
	var opened atomic.Int32
	var arrived sync.WaitGroup
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		arrived.Done()
		arrived.Wait() // all at once
		_, _ = w.Write(bytes.Repeat([]byte("x"), 100<<10))
	}))
	srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			opened.Add(1)
		}
	}
	srv.Start()
	defer srv.Close()
	c := newCaller(&jobsfile.HTTP{URL: srv.URL}, parallel)
	for range 5 {
		arrived.Add(parallel)
		var wg sync.WaitGroup
		for range parallel {
			wg.Go(func() {
				if err := c.Handle(limited(t, 10*time.Second), testJob("x")); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
	if n := opened.Load(); n > parallel {
		t.Errorf("%d connections for %d jobs at once", n, parallel)
	}
}
