package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jobtrail/jobtrail/internal/jobsfile"
	"github.com/jobtrail/jobtrail/pkg/events"
	"github.com/jobtrail/jobtrail/pkg/worker"
)

// example writes an example of docs/handlers.md to a file and returns its path.
func example(t *testing.T, name string) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/handlers.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(page), "<!-- example: "+name+" -->\n```")
	_, rest, _ = strings.Cut(rest, "\n")
	code, _, closed := strings.Cut(rest, "\n```\n")
	if !ok || !closed {
		t.Fatalf("docs/handlers.md has no example %s", name)
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(code+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// The examples do what the page says: an empty value is permanent, a value is
// done, and again for the same job without a second side effect.
func tryExample(t *testing.T, h worker.Handler, permanent, message string) {
	t.Helper()
	wantError(t, h.Handle(limited(t, 10*time.Second), testJob("")), events.ClassPermanent, permanent, message)
	for range 2 {
		if err := h.Handle(limited(t, 10*time.Second), testJob("42")); err != nil {
			t.Error(err)
		}
	}
}

func TestTheShellExample(t *testing.T) {
	state := t.TempDir()
	r, err := newRunner(&jobsfile.Exec{Argv: []string{example(t, "handler.sh")}, Env: map[string]string{"STATE_DIR": state}, ExitCodes: map[int]string{65: "permanent"}, KillAfter: time.Second}, os.Environ(), newStarter())
	if err != nil {
		t.Fatal(err)
	}
	tryExample(t, r, "exit_65", "the job has no value")
	log, err := os.ReadFile(filepath.Join(state, "log"))
	if err != nil || string(log) != "job order-1/charge, attempt 3: 42\n" {
		t.Errorf("got %q, %v", log, err)
	}
}

func TestThePythonExample(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	_, port, _ := net.SplitHostPort(addr)
	l.Close()
	var out syncBuffer
	cmd := exec.Command("python3", example(t, "handler.py"), port)
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	eventually(t, "the example listens", func() bool {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	c := newCaller(&jobsfile.HTTP{URL: "http://" + addr}, 1)
	defer c.client.CloseIdleConnections()
	tryExample(t, c, "http_422", "HTTP/1.1 422 Unprocessable Entity")
	if got := out.String(); got != "charging order-1/charge attempt 3\n" {
		t.Errorf("got %q", got)
	}
}
