package localstack

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/cenkalti/backoff/v4"
)

const (
	// A life of a server that was shorter makes the pause before the next one longer.
	shortLife = 10 * time.Second
	// maxSilent bounds the lives in a row in which the server never answered.
	maxSilent = 10
	// orderlyJava is how a Java program ends that was told to by SIGTERM.
	orderlyJava = 128 + int(syscall.SIGTERM)
)

// A supervisor runs one server and starts it again when it ends otherwise than
// in order. The server is in the supervisor's process group and dies with it.
type supervisor struct {
	name    string // of the server
	addr    string // answers while the server does
	command func() *exec.Cmd
	// trusted says that the server has answered a query. Before that its end is
	// the supervisor's: it is the business of who waits for the first answer.
	trusted <-chan os.Signal
	log     io.Writer
	pause   backoff.BackOff
}

// runSupervisor is the body of the supervising process: name, address, program
// and its argv.
func runSupervisor(args []string) error {
	// The kernel ends the server when the thread that started it ends.
	runtime.LockOSThread()
	trusted := make(chan os.Signal, 1)
	signal.Notify(trusted, syscall.SIGUSR1)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	s := &supervisor{
		name: args[0], addr: args[1], trusted: trusted, log: os.Stderr,
		command: func() *exec.Cmd {
			cmd := exec.Command(args[2])
			cmd.Args, cmd.Stdout, cmd.Stderr = args[3:], os.Stdout, os.Stderr
			return cmd
		},
		pause: backoff.NewExponentialBackOff(backoff.WithInitialInterval(100*time.Millisecond), backoff.WithMultiplier(2),
			backoff.WithRandomizationFactor(0), backoff.WithMaxInterval(5*time.Second), backoff.WithMaxElapsedTime(0)),
	}
	return s.run(ctx)
}

// supervised returns the command that runs cmd under a supervisor.
func supervised(cmd *exec.Cmd, name, addr string) *exec.Cmd {
	// The link names the executable even if its file was replaced meanwhile.
	under := exec.Command("/proc/self/exe", append([]string{name, addr, cmd.Path}, cmd.Args...)...)
	under.Args[0] = supervisorName
	// A process built with the race detector would wait a second at its end.
	under.Env = append(cmd.Environ(), "GORACE=atexit_sleep_ms=0")
	return under
}

// run returns when ctx ends, when the server ends in order, or when there is no
// use in starting it again.
func (s *supervisor) run(ctx context.Context) error {
	trusted, silent := false, 0
	for {
		began := time.Now()
		answered, err := s.live(ctx, &trusted)
		switch {
		case ctx.Err() != nil || err == nil:
			return nil
		case !trusted:
			return err
		}
		if silent++; answered {
			silent = 0
		}
		if silent == maxSilent {
			s.say("%s has ended (%v) without an answer %d times in a row: giving up", s.name, err, maxSilent)
			return err
		}
		life := time.Since(began)
		if life >= shortLife {
			s.pause.Reset()
		}
		pause := s.pause.NextBackOff()
		s.say("%s has ended by itself (%v) after %s and is started again in %s", s.name, err, life.Round(time.Millisecond), pause)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

func (s *supervisor) say(format string, args ...any) {
	fmt.Fprintf(s.log, "%s %s%s\n", time.Now().UTC().Format(time.RFC3339), supervisorMark, fmt.Sprintf(format, args...))
}

// live runs the server to its end, which is nil when it was an orderly one, and
// reports whether it answered.
func (s *supervisor) live(ctx context.Context, trusted *bool) (answered bool, err error) {
	cmd := s.command()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return false, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	ask := time.NewTicker(100 * time.Millisecond)
	defer ask.Stop()
	told := ctx.Done()
	for {
		select {
		case err := <-ended:
			select {
			case <-s.trusted:
				*trusted = true
			default:
			}
			if cmd.ProcessState.ExitCode() == orderlyJava {
				return answered, nil
			}
			return answered, err
		case <-s.trusted:
			*trusted = true
		case <-told:
			told = nil
			_ = cmd.Process.Signal(syscall.SIGTERM)
		case <-ask.C:
			if conn, err := net.DialTimeout("tcp", s.addr, 100*time.Millisecond); err == nil {
				_ = conn.Close()
				answered = true
				ask.Stop()
			}
		}
	}
}
