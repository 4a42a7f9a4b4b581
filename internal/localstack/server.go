package localstack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// readyWithin bounds a start: a broker that recovers a thousand partitions
// after a kill needs 16 s on two cores.
const readyWithin = 90 * time.Second

// launcher knows one kind of server.
type launcher interface {
	name() string
	stateName() string  // in the data folder
	logNames() []string // in logs; the last is what the process prints
	grace() time.Duration
	command(ctx context.Context, dir string, p ports) (*exec.Cmd, error)
	ready(ctx context.Context, p ports) error
}

// A Server is one server of a stack. Its methods may be called concurrently;
// those that start or end the process run one after the other.
type Server struct {
	launcher launcher
	dir      string
	detached bool
	spawner  *spawner
	progress io.Writer

	mu    sync.Mutex
	ports ports
	proc  *process // nil when it was stopped or killed
}

// state is what a data folder says of a running server.
type state struct {
	identity
	ports
}

// Addr is where clients reach the server: 127.0.0.1 and the port, which stays
// the same over restarts.
func (s *Server) Addr() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return address(s.ports.Port)
}

// SecondAddr is the HTTP address of ClickHouse and the controller of Kafka.
func (s *Server) SecondAddr() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return address(s.ports.Second)
}

// PID is the process id of the server's supervisor, which starts it again when
// it ends by itself and whose end, even by kill -9, is the server's; 0 if it does
// not run.
func (s *Server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil || s.proc.ended() {
		return 0
	}
	return s.proc.id.PID
}

// Start starts a server that was stopped or killed or that died, on its old
// ports and data, and returns when it answers a query.
func (s *Server) Start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.start(ctx)
}

// Stop ends the server in an orderly way and waits for its end. A server that
// takes longer than ctx or its grace period (Kafka 20 s, ClickHouse 10 s) is
// killed. A server that does not run is fine.
func (s *Server) Stop(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stop(ctx)
}

// Kill ends the server at once (SIGKILL) and waits for its end.
func (s *Server) Kill() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.end((*process).kill)
}

// Restart is Stop and Start.
func (s *Server) Restart(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.stop(ctx); err != nil {
		return err
	}
	return s.start(ctx)
}

// Pause stops the server in its tracks (SIGSTOP): connections stay open and
// nobody answers. Continue ends it.
func (s *Server) Pause() error { return s.withProcess((*process).pause) }

// Continue lets a paused server go on.
func (s *Server) Continue() error { return s.withProcess((*process).resume) }

func (s *Server) withProcess(do func(*process) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil {
		return fmt.Errorf("%s does not run", s.launcher.name())
	}
	if err := do(s.proc); err != nil {
		return fmt.Errorf("signalling %s: %w", s.launcher.name(), err)
	}
	return nil
}

func (s *Server) start(ctx context.Context) error {
	name := s.launcher.name()
	if s.proc != nil && !s.proc.ended() {
		return fmt.Errorf("starting %s: it runs already", name)
	}
	// A free port may be taken between the choice and its use.
	const tries = 3
	for try := 1; ; try++ {
		chosen, free, err := s.ports.choose(name)
		if err != nil {
			return fmt.Errorf("starting %s: %w", name, err)
		}
		err = s.startOn(ctx, chosen)
		if err == nil {
			s.ports = chosen
			return nil
		}
		taken := !isFree(chosen.Port) || !isFree(chosen.Second)
		if !free || !taken || try == tries || ctx.Err() != nil {
			return fmt.Errorf("starting %s: %w", name, err)
		}
	}
}

func (s *Server) startOn(ctx context.Context, p ports) error {
	began := time.Now()
	fmt.Fprintf(s.progress, "Starting %s on %s, data in %s.\n", s.launcher.name(), address(p.Port), s.dir)
	logs := filepath.Join(s.dir, "logs")
	if err := os.MkdirAll(logs, 0o755); err != nil {
		return err
	}
	cmd, err := s.launcher.command(ctx, s.dir, p)
	if err != nil {
		return err
	}
	names := s.launcher.logNames()
	output, err := os.Create(filepath.Join(logs, names[len(names)-1]))
	if err != nil {
		return err
	}
	defer output.Close()
	cmd = supervised(cmd, s.launcher.name(), address(p.Port))
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.dir, output, output
	proc, err := s.spawner.spawn(cmd, s.detached)
	if err != nil {
		return err
	}
	if err := writeState(s.statePath(), state{proc.id, p}); err != nil {
		return errors.Join(err, proc.kill())
	}
	if err := s.waitReady(ctx, proc, p); err != nil {
		return errors.Join(err, proc.kill(), os.Remove(s.statePath()))
	}
	if err := proc.trust(); err != nil {
		return errors.Join(err, proc.kill(), os.Remove(s.statePath()))
	}
	s.proc = proc
	fmt.Fprintf(s.progress, "%s answers after %s.\n", s.launcher.name(), time.Since(began).Round(100*time.Millisecond))
	return nil
}

// waitReady asks until the server answers, it ends, or time is up.
func (s *Server) waitReady(ctx context.Context, proc *process, p ports) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		ask, done := context.WithTimeout(ctx, 3*time.Second)
		err := s.launcher.ready(ask, p)
		done()
		if proc.ended() {
			return fmt.Errorf("it ended before it answered; the end of its logs (in %s):\n%s", filepath.Join(s.dir, "logs"), s.tail(15))
		}
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			if context.Cause(ctx) == context.DeadlineExceeded { //nolint:errorlint // the cause itself, not what wraps it
				return fmt.Errorf("no answer within %s, last: %w; the end of its logs (in %s):\n%s", readyWithin, err, filepath.Join(s.dir, "logs"), s.tail(15))
			}
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

func (s *Server) stop(ctx context.Context) error {
	return s.end(func(p *process) error {
		graceful, err := p.stop(ctx, s.launcher.grace())
		if err == nil && !graceful {
			fmt.Fprintf(s.progress, "%s did not stop in time and was killed.\n", s.launcher.name())
		}
		return err
	})
}

// end ends the process by how, if there is one, and forgets it.
func (s *Server) end(how func(*process) error) error {
	if s.proc == nil {
		return nil
	}
	if err := how(s.proc); err != nil {
		return fmt.Errorf("ending %s: %w", s.launcher.name(), err)
	}
	s.proc = nil
	return removeState(s.statePath())
}

// find adopts the server that the data folder names, if it still runs, and
// reports whether it did.
func (s *Server) find() (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text, err := os.ReadFile(s.statePath())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	var st state
	if err := json.Unmarshal(text, &st); err != nil {
		return false, fmt.Errorf("reading %s: %w", s.statePath(), err)
	}
	proc, err := adopt(st.identity)
	if errors.Is(err, errGone) {
		return false, removeState(s.statePath())
	}
	if err != nil {
		return false, err
	}
	s.proc, s.ports = proc, st.ports
	return true, nil
}

func (s *Server) statePath() string { return filepath.Join(s.dir, s.launcher.stateName()) }

// tail returns the last n lines of each log.
func (s *Server) tail(n int) string {
	var b strings.Builder
	for _, name := range s.launcher.logNames() {
		text, err := os.ReadFile(filepath.Join(s.dir, "logs", name))
		if err != nil || len(text) == 0 {
			continue
		}
		fmt.Fprintf(&b, "--- %s\n%s\n", name, lastLines(text, n))
	}
	return b.String()
}

// writeState is atomic: a reader sees all of it or none.
func writeState(name string, st state) error {
	text, err := json.Marshal(st)
	if err != nil {
		return err
	}
	if err := os.WriteFile(name+".new", append(text, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}

func removeState(name string) error {
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
