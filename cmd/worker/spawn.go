package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jobtrail/jobtrail/internal/jobsfile"
	"github.com/jobtrail/jobtrail/pkg/events"
	"github.com/jobtrail/jobtrail/pkg/worker"
)

// pipeDelay is how long stderr is still read after a command ended: a process
// that left the command's group may keep it open.
const pipeDelay = 500 * time.Millisecond

// cutPatience is less than the worker gives a handler to return when a shutdown
// cuts it off.
const cutPatience = time.Second

// inherited are the only variables of the worker that its commands see.
var inherited = []string{"HOME", "LANG", "LC_ALL", "PATH", "TMPDIR", "TZ", "USER"}

// A runner runs jobs as commands.
type runner struct {
	conf    *jobsfile.Exec
	path    string
	env     []string
	starter *starter
}

// newRunner returns a runner, or an error when there is no such command.
// environ is the worker's own environment.
func newRunner(conf *jobsfile.Exec, environ []string, starter *starter) (*runner, error) {
	path, err := findCommand(conf)
	if err != nil {
		return nil, err
	}
	r := &runner{conf: conf, path: path, starter: starter}
	for _, line := range environ {
		if name, _, _ := strings.Cut(line, "="); slices.Contains(inherited, name) {
			r.env = append(r.env, line)
		}
	}
	for name, v := range conf.Env {
		r.env = append(r.env, name+"="+v)
	}
	return r, nil
}

// findCommand returns the path that starts the command: a name without a slash
// is looked for in PATH, any other one is relative to the command's directory.
// The error does not show the name, which may hold a variable's value.
func findCommand(conf *jobsfile.Exec) (string, error) {
	name := conf.Argv[0]
	lookFor, where := name, "it is not in PATH"
	if strings.Contains(name, "/") {
		where = "it cannot be run"
		if !filepath.IsAbs(name) {
			where += " in the command's directory"
			dir, err := filepath.Abs(conf.Dir)
			if err != nil {
				return "", fmt.Errorf("finding the command's directory: %w", err)
			}
			lookFor = filepath.Join(dir, name)
		}
	}
	path, err := exec.LookPath(lookFor)
	if e, ok := errors.AsType[*exec.Error](err); ok {
		err = e.Err
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err
	}
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return "", fmt.Errorf("no such command: %s", where)
	case err != nil:
		return "", fmt.Errorf("%s: %w", where, err)
	case strings.Contains(name, "/"):
		return name, nil
	}
	return path, nil
}

// Handle implements worker.Handler.
func (r *runner) Handle(ctx context.Context, job *worker.Job) error {
	var stderr lastLine
	cmd := &exec.Cmd{
		Path: r.path, Args: r.conf.Argv, Dir: r.conf.Dir, Env: append(slices.Clone(r.env), jobEnv(job)...),
		Stdin: bytes.NewReader(job.Value), Stderr: &stderr,
		WaitDelay: pipeDelay, SysProcAttr: ownGroup(),
	}
	if ctx.Err() != nil {
		return fmt.Errorf("starting the command: %w", context.Cause(ctx))
	}
	if err := r.starter.start(cmd); err != nil {
		return &worker.Error{Class: events.ClassTransient, Type: "exec_start", Err: fmt.Errorf("starting the command: %w", err)}
	}
	ended := r.supervise(ctx, cmd)
	// What Wait returns beyond the process's state is about stdin that was not
	// read and stderr that was left open: neither says how the job ended.
	err := cmd.Wait()
	switch {
	case ended:
		return fmt.Errorf("the command was ended: %w", context.Cause(ctx))
	case cmd.ProcessState == nil:
		return fmt.Errorf("waiting for the command: %w", err)
	}
	return r.judge(cmd.ProcessState.Sys().(syscall.WaitStatus), stderr.String())
}

// supervise returns when the command has ended, and whether it was made to; then
// its group has no other process left.
func (r *runner) supervise(ctx context.Context, cmd *exec.Cmd) (ended bool) {
	pid := cmd.Process.Pid
	exited := make(chan struct{})
	go func() {
		awaitExit(cmd)
		close(exited)
	}()
	select {
	case <-exited:
	case <-ctx.Done():
		select {
		case <-exited: // both happened; it ended by itself
		default:
			ended = true
			signalGroup(pid, syscall.SIGTERM)
			kill := time.NewTimer(r.patience(ctx))
			defer kill.Stop()
			select {
			case <-exited:
			case <-kill.C:
				signalGroup(pid, syscall.SIGKILL)
				<-exited
			}
		}
	}
	// On Linux the process is not reaped yet, so the group's number is its own.
	signalGroup(pid, syscall.SIGKILL)
	return ended
}

// patience is how long a command that got SIGTERM may take to end. A shutdown
// has no time left when it cuts handlers off, and the command must not outlive
// what is recorded of it.
func (r *runner) patience(ctx context.Context) time.Duration {
	if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		return r.conf.KillAfter
	}
	return min(r.conf.KillAfter, cutPatience)
}

// signalGroup ignores errors: a group whose processes have ended is fine.
func signalGroup(pid int, sig syscall.Signal) { _ = syscall.Kill(-pid, sig) }

// judge says what the end of a command means.
func (r *runner) judge(ws syscall.WaitStatus, line string) error {
	if ws.Signaled() {
		name := unix.SignalName(ws.Signal())
		if line == "" {
			line = "ended by " + name
		}
		return &worker.Error{Class: events.ClassCrash, Type: "signal_" + strings.ToLower(strings.TrimPrefix(name, "SIG")), Err: errors.New(line)}
	}
	code := ws.ExitStatus()
	meaning := r.conf.ExitCodes[code]
	if code == 0 || meaning == "done" {
		return nil
	}
	if line == "" {
		line = "exit code " + strconv.Itoa(code)
	}
	e := &worker.Error{Class: events.ClassTransient, Type: "exit_" + strconv.Itoa(code), Err: errors.New(line)}
	if meaning == "permanent" {
		e.Class = events.ClassPermanent
	}
	return e
}

// jobEnv returns the variables that tell the command about the job. All are
// always set.
func jobEnv(job *worker.Job) []string {
	return []string{
		"JOBTRAIL_JOB_ID=" + job.ID,
		"JOBTRAIL_JOB_TYPE=" + job.Type,
		"JOBTRAIL_ATTEMPT_ID=" + job.AttemptID.String(),
		"JOBTRAIL_ATTEMPT=" + strconv.Itoa(job.Attempt),
		"JOBTRAIL_OPERATION_ID=" + job.OperationID,
		"JOBTRAIL_TENANT_ID=" + job.TenantID,
		"JOBTRAIL_STEP=" + job.Step,
		"JOBTRAIL_DEADLINE=" + deadlineText(job.Deadline),
		"JOBTRAIL_IDEMPOTENCY_KEY=" + job.IdempotencyKey.String(),
		"JOBTRAIL_CONTENT_TYPE=" + job.ContentType,
		"TRACEPARENT=" + job.TraceParent,
		"TRACESTATE=" + job.TraceState,
	}
}

// A starter starts processes, all from one OS thread that lives as long as this
// process: the kernel ends a command with the thread that started it, not with
// the process, and the runtime may end any other thread.
type starter struct{ requests chan startRequest }

type startRequest struct {
	cmd  *exec.Cmd
	done chan error
}

// newStarter returns a starter. It cannot be stopped.
func newStarter() *starter {
	s := &starter{requests: make(chan startRequest)}
	go func() {
		runtime.LockOSThread()
		for r := range s.requests {
			r.done <- r.cmd.Start()
		}
	}()
	return s
}

func (s *starter) start(cmd *exec.Cmd) error {
	r := startRequest{cmd, make(chan error, 1)}
	s.requests <- r
	return <-r.done
}

// maxLine is how much of a line of stderr is kept: more than the sanitiser looks
// at, because half a secret would not be recognised as one.
const maxLine = 32 << 10

// lastLine keeps the start of the last line that is not blank of what is
// written to it.
type lastLine struct {
	last    []byte
	current []byte
}

// Write implements io.Writer.
func (l *lastLine) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		i := bytes.IndexAny(rest, "\r\n")
		line := rest
		if i >= 0 {
			line = rest[:i]
		}
		l.current = append(l.current, line[:min(len(line), maxLine-len(l.current))]...)
		if i < 0 {
			break
		}
		l.keep()
		rest = rest[i+1:]
	}
	return len(p), nil
}

func (l *lastLine) keep() {
	if len(bytes.TrimSpace(l.current)) > 0 {
		l.last, l.current = l.current, l.last
	}
	l.current = l.current[:0]
}

// String returns the line.
func (l *lastLine) String() string {
	l.keep()
	return strings.TrimSpace(string(l.last))
}
