//go:build !linux

package localstack

import (
	"context"
	"errors"
	"os/exec"
	"time"
)

// checkPlatform refuses every other platform first, so nothing here is
// reached: it lets the commands be built elsewhere.

var (
	errGone     = errors.New("no such process")
	errPlatform = errors.New("the local stack runs on linux only")
)

type identity struct {
	PID        int    `json:"pid"`
	StartTicks uint64 `json:"start_ticks"`
	BootID     string `json:"boot_id"`
}

type process struct {
	id   identity
	done chan struct{}
}

func adopt(identity) (*process, error)                             { return nil, errPlatform }
func (*process) ended() bool                                       { return true }
func (*process) pause() error                                      { return errPlatform }
func (*process) trust() error                                      { return errPlatform }
func (*process) resume() error                                     { return errPlatform }
func (*process) kill() error                                       { return errPlatform }
func (*process) stop(context.Context, time.Duration) (bool, error) { return false, errPlatform }

type spawner struct{}

func newSpawner() *spawner                                     { return &spawner{} }
func (*spawner) close()                                        {}
func (*spawner) spawn(*exec.Cmd, bool) (*process, error)       { return nil, errPlatform }
func killGroupOnCancel(*exec.Cmd)                              {}
func runningDirs() []string                                    { return nil }
func runSupervisor([]string) error                             { return errPlatform }
func supervised(cmd *exec.Cmd, _, _ string) *exec.Cmd          { return cmd }
func runClickHouse(library, config, boot string) error         { return errPlatform }
func lockFile(context.Context, string, func()) (func(), error) { return nil, errPlatform }
