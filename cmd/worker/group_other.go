//go:build unix && !linux

package main

import (
	"os/exec"
	"syscall"
)

// ownGroup gives a command a process group of its own. Only Linux can end it
// with this process.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// awaitExit waits for the command; only Linux can see its end without that.
func awaitExit(cmd *exec.Cmd) { _ = cmd.Wait() }
