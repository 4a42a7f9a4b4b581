// Command worker runs the jobs of a worker group: each job type of the jobs
// file is an HTTP endpoint or a command. docs/jobs-file.md describes the file,
// docs/handlers.md what endpoints and commands are told and what they answer.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/jobtrail/jobtrail/internal/connect"
	"github.com/jobtrail/jobtrail/internal/jobsfile"
	"github.com/jobtrail/jobtrail/internal/redact"
)

// Exit codes.
const (
	exitDone   = 0 // also after SIGTERM, when everything was put in order
	exitFailed = 1 // the run failed
	exitUsage  = 2 // the flags, the environment or the jobs file is wrong
)

// process is what a run has of its process.
type process struct {
	args    []string
	environ []string
	stdout  io.Writer
	stderr  io.Writer
}

// gcPercent is GOGC where the environment says nothing: a worker makes much
// garbage beside a small heap, and to collect it earlier costs little and saves
// memory: see docs/performance.md.
const gcPercent = 30

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	os.Exit(run(untilSignal(), process{os.Args[1:], os.Environ(), os.Stdout, os.Stderr}))
}

// untilSignal returns a context that ends with the first signal. The second one
// has its default effect: it ends the process at once.
func untilSignal() context.Context {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx
}

// run does what the flags say and returns the exit code. ctx ends a worker in
// order.
func run(ctx context.Context, p process) int {
	flags := flag.NewFlagSet("worker", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	check := flags.Bool("check", false, "")
	schema := flags.Bool("schema", false, "")
	version := flags.Bool("version", false, "")
	err := flags.Parse(p.args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		help(p.stdout)
		return exitDone
	case err == nil && flags.NArg() > 0:
		err = fmt.Errorf("unexpected argument %s", flags.Arg(0))
	}
	switch {
	case err != nil:
		fmt.Fprintf(p.stderr, "worker: %s\nRun worker --help.\n", strings.Join(redact.Lines(redact.New(nil, p.environ), err), "\n"))
		return exitUsage
	case *schema:
		_, _ = p.stdout.Write(jobsfile.Schema())
		return exitDone
	case *version:
		fmt.Fprintf(p.stdout, "worker %s\n", buildVersion())
		return exitDone
	}
	plan, clean, err := configure(p.environ)
	if err != nil {
		fmt.Fprintf(p.stderr, "worker: the configuration is wrong:\n  %s\n", strings.Join(redact.Lines(clean, err), "\n  "))
		return exitUsage
	}
	if *check {
		fmt.Fprintf(p.stdout, "ok: %d job types, topics %s\n", len(plan.worker.Types), strings.Join(plan.worker.Topics, ", "))
		return exitDone
	}
	return serve(ctx, plan, clean, p.stderr)
}

func help(w io.Writer) {
	fmt.Fprint(w, `Usage: worker [--check | --schema | --version | --help]

Runs the jobs of a worker group: each job type of the jobs file is an HTTP
endpoint or a command. SIGTERM or SIGINT ends it in order, a second one at once.
Exit codes: 0 after an orderly end, 1 the run failed, 2 the configuration is wrong.

  --check    Read environment and jobs file, report every problem, run nothing.
  --schema   Print the JSON schema of the jobs file.
  --version  Print the version.

Environment:
`)
	_ = connect.WriteText(w, connect.Reference(config{}))
}

// buildVersion is what the Go toolchain recorded.
func buildVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version
	}
	return "unknown"
}
