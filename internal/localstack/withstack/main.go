// Command withstack runs a program beside a fresh local stack on free ports,
// and ends with its exit code:
//
//	withstack PROGRAM [ARGUMENT…]
//
// The program finds the stack in the variables of package stacktest. The
// servers and their data, which are in a temporary folder, are gone when
// withstack ends, however it ends; if it is killed, the folder stays.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/jobtrail/jobtrail/internal/localstack"
	"github.com/jobtrail/jobtrail/internal/localstack/stacktest"
)

func main() {
	localstack.Main()
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: withstack PROGRAM [ARGUMENT…]")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code, err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "withstack: %v\n", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func run(ctx context.Context, args []string) (code int, err error) {
	cache, err := localstack.CacheDir(os.Environ())
	if err != nil {
		return 1, err
	}
	dir, err := os.MkdirTemp("", "jobtrail-withstack-")
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	stack, err := localstack.Start(ctx, localstack.Config{Dir: dir, Cache: cache, Progress: os.Stderr})
	if err != nil {
		return 1, err
	}
	defer func() {
		stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		err = errors.Join(err, stack.Stop(stopCtx))
	}()

	store, err := newShield(stack.ClickHouseAddr())
	if err != nil {
		return 1, err
	}
	defer store.close()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(),
		stacktest.KafkaVariable+"="+strings.Join(stack.Brokers(), ","),
		stacktest.ClickHouseVariable+"="+store.addr())
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 30 * time.Second
	err = cmd.Run()
	if restarts := stack.Restarts(); restarts != "" {
		fmt.Fprintf(os.Stderr, "withstack: servers were started again:\n%sThe end of the logs:\n%s\n", restarts, stack.Logs(15))
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		// The program has said what it had to say.
		return max(exit.ExitCode(), 1), nil
	}
	return 0, err
}
