package localstack

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// A server that never answers is not started for ever; one that ends before its
// first answer, or in order, is not started again at all.
func TestSupervisorGivesUp(t *testing.T) {
	for _, tt := range []struct {
		name    string
		trusted bool
		script  string
		lives   int
		fails   bool
		says    string
	}{
		{"never answers", true, "exit 1", maxSilent, true, "ended (exit status 1) without an answer 10 times in a row: giving up"},
		{"aborts", true, "kill -ABRT $$", maxSilent, true, "ended by itself (signal: aborted"},
		{"before its first answer", false, "exit 1", 1, true, ""},
		{"in order", true, "exit 0", 1, false, ""},
		{"in order, as Java does", true, "exit 143", 1, false, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			trusted := make(chan os.Signal, 1)
			if tt.trusted {
				trusted <- syscall.SIGUSR1
			}
			var log bytes.Buffer
			lives := 0
			s := &supervisor{
				name: "it", addr: "127.0.0.1:1", trusted: trusted, log: &log, pause: &backoff.ZeroBackOff{},
				command: func() *exec.Cmd { lives++; return exec.Command("sh", "-c", tt.script) },
			}
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			err := s.run(ctx)
			if lives != tt.lives || (err != nil) != tt.fails || !strings.Contains(log.String(), tt.says) || (tt.says == "") != (log.Len() == 0) {
				t.Errorf("%d lives, want %d; %v; it said\n%s", lives, tt.lives, err, log.String())
			}
		})
	}
}

func TestSupervisorEndsItsServerInOrder(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	s := &supervisor{
		name: "it", addr: "127.0.0.1:1", trusted: make(chan os.Signal), log: &bytes.Buffer{}, pause: &backoff.ZeroBackOff{},
		command: func() *exec.Cmd {
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			go func() { // the server runs: it is told to end
				_, _ = r.Read(make([]byte, 1))
				cancel()
			}()
			cmd := exec.Command("sh", "-c", "trap 'exit 0' TERM; echo >&3; while :; do sleep 0.05; done")
			cmd.ExtraFiles = []*os.File{w}
			return cmd
		},
	}
	if err := s.run(ctx); err != nil || ctx.Err() != context.Canceled {
		t.Errorf("got %v, %v", err, ctx.Err())
	}
}
