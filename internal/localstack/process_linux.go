package localstack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// identity names one process for ever: a pid alone is given to another one
// sooner or later.
type identity struct {
	PID        int    `json:"pid"`
	StartTicks uint64 `json:"start_ticks"` // clock ticks after boot, field 22 of /proc/PID/stat
	BootID     string `json:"boot_id"`
}

var errGone = errors.New("no such process")

// identify reads the identity of a live process; errGone if there is none or
// it has ended and is only not reaped yet.
func identify(pid int) (identity, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return identity{}, err
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return identity{}, errGone
	}
	fields := statFields(stat)
	if len(fields) < 20 {
		return identity{}, fmt.Errorf("reading /proc/%d/stat: %d fields", pid, len(fields))
	}
	if fields[0] == "Z" || fields[0] == "X" {
		return identity{}, errGone
	}
	ticks, err := strconv.ParseUint(fields[19], 10, 64)
	if err != nil {
		return identity{}, fmt.Errorf("reading /proc/%d/stat: %w", pid, err)
	}
	return identity{PID: pid, StartTicks: ticks, BootID: strings.TrimSpace(string(boot))}, nil
}

// A process is one running server: its supervisor, which leads a process group
// and takes the server with it, a child of ours or one found again by its
// identity. It holds a pidfd, so a signal never reaches another process.
type process struct {
	id   identity
	fd   int
	done chan struct{} // closed when all of the group has ended
	mu   sync.Mutex    // guards fd against use after close
}

// adopt finds a running process by its identity; errGone if it has ended or
// its pid belongs to somebody else.
func adopt(id identity) (*process, error) {
	fd, err := unix.PidfdOpen(id.PID, 0)
	if err != nil {
		// The server may be about to follow its supervisor.
		if boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil && strings.TrimSpace(string(boot)) == id.BootID {
			awaitGroup(id.PID)
		}
		return nil, errGone
	}
	// The pidfd is open: from here the pid cannot be given to another one
	// without us noticing.
	if now, err := identify(id.PID); err != nil || now != id {
		_ = unix.Close(fd)
		return nil, errGone
	}
	p := &process{id: id, fd: fd, done: make(chan struct{})}
	go p.watch(nil)
	return p, nil
}

// watch waits for the end; child is nil for a process that is not ours to reap.
func (p *process) watch(child *exec.Cmd) {
	if child != nil {
		_ = child.Wait() // how a server ends is in its log
	} else {
		for {
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}}, -1)
			if n > 0 || (err != nil && !errors.Is(err, unix.EINTR)) {
				break
			}
		}
	}
	awaitGroup(p.id.PID)
	close(p.done)
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = unix.Close(p.fd)
	p.fd = -1
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

func (p *process) signal(sig syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fd < 0 {
		return errGone
	}
	err := unix.PidfdSendSignal(p.fd, sig, nil, 0)
	if errors.Is(err, unix.ESRCH) {
		return errGone
	}
	return err
}

// awaitGroup waits, at most 10 s, until nobody is left in the process group of a
// leader that has ended. Its number is nobody else's while somebody is.
func awaitGroup(leader int) {
	late := time.Now().Add(10 * time.Second)
	for _, pid := range group(leader) {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue // it is reaped
		}
		// The state in /proc is that of the first thread: others may still hold the
		// server's ports.
		for time.Now().Before(late) {
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(time.Until(late).Milliseconds())+1)
			if n > 0 || (err != nil && !errors.Is(err, unix.EINTR)) {
				break
			}
		}
		_ = unix.Close(fd)
	}
}

// group returns the processes of the process group but its leader.
func group(leader int) []int {
	names, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil
	}
	var pids []int
	for _, name := range names {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if err == nil && pid != leader && inGroup(pid, leader) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func inGroup(pid, leader int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	fields := statFields(stat)
	return len(fields) > 2 && fields[2] == strconv.Itoa(leader)
}

// signalServer signals those that the supervisor runs.
func (p *process) signalServer(sig syscall.Signal) (pids []int, err error) {
	for _, pid := range group(p.id.PID) {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue // it has ended
		}
		if inGroup(pid, p.id.PID) {
			err = unix.PidfdSendSignal(fd, sig, nil, 0)
		}
		_ = unix.Close(fd)
		if err != nil && !errors.Is(err, unix.ESRCH) {
			return pids, err
		}
		pids = append(pids, pid)
	}
	return pids, nil
}

// pause stops all threads of the supervisor, so that it starts nothing, and then
// of the server: the signal alone returns before they have stopped.
func (p *process) pause() error {
	if err := p.signal(unix.SIGSTOP); err != nil {
		return err
	}
	if err := p.awaitStopped(p.id.PID); err != nil {
		return err
	}
	pids, err := p.signalServer(unix.SIGSTOP)
	if err != nil {
		return err
	}
	for _, pid := range pids {
		if err := p.awaitStopped(pid); err != nil {
			return err
		}
	}
	return nil
}

func (p *process) awaitStopped(pid int) error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	late := time.After(5 * time.Second)
	for {
		stopped, err := allStopped(pid)
		if stopped || err != nil {
			return err
		}
		select {
		case <-p.done:
			return errGone
		case <-late:
			return errors.New("it did not stop within 5 s")
		case <-tick.C:
		}
	}
}

// allStopped reports whether every thread of the process is stopped by a
// signal.
func allStopped(pid int) (bool, error) {
	names, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil || len(names) == 0 {
		return false, errGone
	}
	for _, name := range names {
		stat, err := os.ReadFile(name)
		if err != nil {
			continue // the thread has ended
		}
		if fields := statFields(stat); len(fields) > 0 && fields[0] != "T" {
			return false, nil
		}
	}
	return true, nil
}

// statFields are the fields of a stat file of /proc from the third on. The
// second is the name in parentheses and may hold anything.
func statFields(stat []byte) []string {
	return strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
}

func (p *process) resume() error {
	if _, err := p.signalServer(unix.SIGCONT); err != nil {
		return err
	}
	return p.signal(unix.SIGCONT)
}

// trust tells the supervisor that the server has answered: from now on it is
// started again when it ends by itself.
func (p *process) trust() error { return p.signal(unix.SIGUSR1) }

// kill ends the process and the server with it at once and waits for their end.
func (p *process) kill() error {
	if err := p.signal(unix.SIGKILL); err != nil && !errors.Is(err, errGone) {
		return fmt.Errorf("killing process %d: %w", p.id.PID, err)
	}
	<-p.done
	return nil
}

// stop asks the process to end and waits; when ctx ends or grace is over it is
// killed. It reports whether it ended by itself.
func (p *process) stop(ctx context.Context, grace time.Duration) (graceful bool, err error) {
	if err := p.signal(unix.SIGTERM); err != nil && !errors.Is(err, errGone) {
		return false, fmt.Errorf("stopping process %d: %w", p.id.PID, err)
	}
	_ = p.resume() // a paused process hears SIGTERM only after it
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
		return true, nil
	case <-timer.C:
	case <-ctx.Done():
	}
	return false, p.kill()
}

// A spawner starts child processes from one OS thread that lives as long as
// the spawner: the kernel ends a child with Pdeathsig when the thread that
// started it ends, not the process.
type spawner struct {
	requests chan func()
}

func newSpawner() *spawner {
	s := &spawner{requests: make(chan func())}
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for request := range s.requests {
			request()
		}
	}()
	return s
}

func (s *spawner) close() { close(s.requests) }

// spawn starts cmd in a session of its own if detached, else so that it dies
// with this process.
func (s *spawner) spawn(cmd *exec.Cmd, detached bool) (*process, error) {
	if detached {
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	} else {
		// A group of its own: Ctrl-C at a terminal is for the parent to handle.
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	}
	var p *process
	var err error
	started := make(chan struct{})
	s.requests <- func() {
		defer close(started)
		p, err = start(cmd)
	}
	<-started
	return p, err
}

func start(cmd *exec.Cmd) (*process, error) {
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	// Until it is reaped the pid is the child's, even if it has ended.
	p := &process{done: make(chan struct{})}
	var err error
	if p.fd, err = unix.PidfdOpen(cmd.Process.Pid, 0); err == nil {
		p.id, err = identify(cmd.Process.Pid)
	} else {
		p.fd = -1
	}
	if err != nil && !errors.Is(err, errGone) {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return nil, fmt.Errorf("watching process %d: %w", cmd.Process.Pid, err)
	}
	go p.watch(cmd)
	return p, nil
}

// killGroupOnCancel makes the end of cmd's context kill all that cmd started.
func killGroupOnCancel(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
}

// lockFile takes an exclusive lock on a file, which the kernel lifts when this
// process ends. waiting is called once if somebody else holds it.
func lockFile(ctx context.Context, name string, waiting func()) (unlock func(), err error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|syscall.O_CLOEXEC, 0o644)
	if err != nil {
		return nil, err
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for first := true; ; first = false {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			_ = f.Close()
			return nil, fmt.Errorf("locking %s: %w", name, err)
		}
		if first {
			waiting()
		}
		select {
		case <-ctx.Done():
			_ = f.Close()
			return nil, context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// runningDirs returns the data folders of the stacks that this user runs:
// a supervisor's working folder is its stack's.
func runningDirs() []string {
	names, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return nil
	}
	var dirs []string
	for _, name := range names {
		if text, err := os.ReadFile(name); err != nil || !bytes.HasPrefix(text, []byte(supervisorName+"\x00")) {
			continue
		}
		dir, err := os.Readlink(filepath.Join(filepath.Dir(name), "cwd"))
		if err == nil && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}
