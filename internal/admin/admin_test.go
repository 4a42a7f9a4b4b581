package admin_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/jobtrail/jobtrail/internal/admin"
)

// start runs a server for the length of the test and returns its address and
// what ends it, which fails the test unless Run returns nil within 5 s.
func start(t *testing.T, deps admin.Deps) (addr string, stop func()) {
	t.Helper()
	s, err := admin.New(admin.Config{Addr: "127.0.0.1:0"}, deps)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	var stopped atomic.Bool
	stop = func() {
		if stopped.Swap(true) {
			return
		}
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("Run returned %v", err)
			}
		case <-time.After(5 * time.Second):
			t.Error("Run did not return within 5 s")
		}
	}
	t.Cleanup(stop)
	return s.Addr(), stop
}

func get(t *testing.T, url string) (status int, body string) {
	t.Helper()
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func TestChecksFollowTheProcess(t *testing.T) {
	var live, ready atomic.Pointer[error]
	check := func(p *atomic.Pointer[error]) func() error {
		return func() error {
			if e := p.Load(); e != nil {
				return *e
			}
			return nil
		}
	}
	addr, _ := start(t, admin.Deps{Live: check(&live), Ready: check(&ready)})
	for _, tt := range []struct {
		name        string
		live, ready error
	}{
		{"both well", nil, nil},
		{"not ready", nil, errors.New("no assignment\nforged: ok")},
		{"several problems", nil, fmt.Errorf("not projecting: %w", errors.Join(errors.New("a"), errors.New("b\nc")))},
		{"dead", errors.New("tick stuck"), errors.New("tick stuck")},
		{"well again", nil, nil},
	} {
		live.Store(&tt.live)
		ready.Store(&tt.ready)
		for path, want := range map[string]error{"/livez": tt.live, "/readyz": tt.ready} {
			status, body := get(t, "http://"+addr+path)
			if want == nil {
				if status != 200 || body != "ok\n" {
					t.Errorf("%s, %s: got %d %q", tt.name, path, status, body)
				}
				continue
			}
			if tt.name == "several problems" {
				if status != 503 || body != "not projecting: a\nnot projecting: b\\nc\n" {
					t.Errorf("%s, %s: got %d %q", tt.name, path, status, body)
				}
				continue
			}
			first, _, _ := strings.Cut(want.Error(), "\n")
			if status != 503 || !strings.HasPrefix(body, first) || strings.Count(body, "\n") != 1 {
				t.Errorf("%s, %s: got %d %q", tt.name, path, status, body)
			}
		}
	}
}

func TestMetricsAndProfiles(t *testing.T) {
	reg := admin.NewRegistry()
	jobs := prometheus.NewCounter(prometheus.CounterOpts{Name: "jobs_done_total", Help: "Jobs."})
	reg.MustRegister(jobs)
	jobs.Add(7)
	addr, _ := start(t, admin.Deps{Metrics: reg})
	for path, want := range map[string]string{
		"/metrics":                       "\njobs_done_total 7\n",
		"/debug/pprof/":                  "goroutine",
		"/debug/pprof/goroutine?debug=1": "goroutine profile",
		"/debug/pprof/cmdline":           "admin.test",
	} {
		if status, body := get(t, "http://"+addr+path); status != 200 || !strings.Contains(body, want) {
			t.Errorf("%s: got %d, no %q in %.200q", path, status, want, body)
		}
	}
	_, body := get(t, "http://"+addr+"/metrics")
	for _, want := range []string{"go_goroutines ", "process_start_time_seconds ", "go_build_info{"} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q in /metrics", want)
		}
	}
	if status, _ := get(t, "http://"+addr+"/"); status != 404 {
		t.Errorf("/: got %d, want 404", status)
	}
}

func TestTakenPortIsNamed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, err = admin.New(admin.Config{Addr: l.Addr().String()}, admin.Deps{})
	if err == nil || !strings.Contains(err.Error(), "opening the admin address "+l.Addr().String()) || !strings.Contains(err.Error(), "in use") {
		t.Errorf("got %v", err)
	}
}

func TestStopsWithARequestInFlight(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	addr, stop := start(t, admin.Deps{Ready: func() error { close(entered); <-release; return nil }})
	defer close(release)
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	<-entered
	stop()
	if c, err := net.Dial("tcp", addr); err == nil {
		c.Close()
		t.Error("the address still accepts connections")
	}
}
