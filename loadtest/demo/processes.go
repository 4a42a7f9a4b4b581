package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// process is a command that runs, its log in the demo's folder.
type process struct {
	cmd  *exec.Cmd
	log  *os.File
	done chan struct{}
}

func (d *demo) start(name string, env ...string) (*process, error) {
	log, err := os.OpenFile(filepath.Join(d.dir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(filepath.Join(d.bin, name)), log: log, done: make(chan struct{})}
	p.cmd.Env = append(append(os.Environ(), d.env...), env...)
	p.cmd.Stderr = log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt is for the demo, which ends its processes in order
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the %s: %w", name, err)
	}
	go func() { _ = p.cmd.Wait(); close(p.done) }()
	return p, nil
}

// stop ends the process in order, or after a while at once.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(20 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
	_ = p.log.Close()
}

// supervisor starts a command again whenever it ends, as a platform does.
type supervisor struct {
	quit chan struct{}
	gone chan struct{}

	mu    sync.Mutex
	count int
	err   error
}

func (d *demo) supervise(name string, env ...string) *supervisor {
	s := &supervisor{quit: make(chan struct{}), gone: make(chan struct{})}
	go func() {
		defer close(s.gone)
		for {
			p, err := d.start(name, env...)
			if err != nil {
				s.fail(err)
				return
			}
			select {
			case <-s.quit:
				p.stop()
				return
			case <-p.done:
			}
			_ = p.log.Close()
			status, _ := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
			if !status.Signaled() {
				s.fail(fmt.Errorf("the %s ended by itself with exit code %d: see %s", name, p.cmd.ProcessState.ExitCode(), p.log.Name()))
				return
			}
			s.mu.Lock()
			s.count++
			s.mu.Unlock()
		}
	}()
	return s
}

func (s *supervisor) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *supervisor) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

func (s *supervisor) crashes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count
}

func (s *supervisor) stop() {
	close(s.quit)
	<-s.gone
}
