// Command jobtrail is the operator's tool: it starts a local stack, makes
// topics, publishes jobs and answers questions about them.
//
// One file holds one verb: a struct named <verb>Cmd whose fields are its
// arguments and flags and whose Run(ctx, *Globals) error does the work. A verb
// that talks to a server also has Environment, which returns the connect
// structs it reads; they are listed by its --help. It prints its answer to
// g.Stdout and what it does meanwhile to g.Stderr. The verbs are the fields of
// the cli struct below.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"reflect"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/jobtrail/jobtrail/internal/connect"
	"github.com/jobtrail/jobtrail/internal/localstack"
	"github.com/jobtrail/jobtrail/pkg/retrytopics"
)

// cli is the command line: one field a verb, in the order of the help.
type cli struct {
	Up   upCmd   `cmd:"" help:"Start a local Kafka and ClickHouse, without Docker."`
	Down downCmd `cmd:"" help:"Stop what up started."`

	Topics   topicsCmd   `cmd:"" help:"Plan and make the topics of a worker group."`
	Enqueue  enqueueCmd  `cmd:"" help:"Publish a job, or many."`
	Queue    queueCmd    `cmd:"" help:"See what waits."`
	DLQ      dlqCmd      `cmd:"" name:"dlq" help:"See dead-lettered jobs."`
	Parked   parkedCmd   `cmd:"" help:"See jobs that wait for a decision."`
	Doctor   doctorCmd   `cmd:"" help:"Check servers, topics and groups, and say what to do."`
	Op       opCmd       `cmd:"" help:"Operations: what happened to one."`
	Job      jobCmd      `cmd:"" help:"Jobs: what happened to one, and lists."`
	Migrate  migrateCmd  `cmd:"" help:"Bring the evidence store's schema up to date. Running it again does nothing."`
	Rebuild  rebuildCmd  `cmd:"" help:"Fill the evidence store anew from the logs, compare, and switch to it."`
	Sanitize sanitizeCmd `cmd:"" help:"Remove secrets and personal data from lines of text."`
	Version  versionCmd  `cmd:"" help:"Print the version of this program."`
}

// Exit codes of every verb. A verb with codes of its own returns exitError.
const (
	exitFailed = 1 // something went wrong
	exitUsage  = 2 // the command line or the environment is wrong
)

// exitError ends the program with a code of the verb's own. err may be nil:
// then nothing is printed.
type exitError struct {
	code int
	err  error
}

func (e exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e exitError) Unwrap() error { return e.err }

// usageError marks err as a mistake in the command line or the environment.
func usageError(err error) error { return exitError{code: exitUsage, err: err} }

// environmentUser is a verb that reads connection variables. Environment
// returns a struct (or pointer) whose fields they are.
type environmentUser interface{ Environment() any }

func main() {
	localstack.Main() // a ClickHouse server is this program started under another name
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	g := &Globals{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Environ: os.Environ()}
	code := run(ctx, os.Args[1:], g)
	stop()
	os.Exit(code)
}

// newParser returns the command line. exit is called after a help text was
// printed; parsing goes on then.
func newParser(g *Globals, exit func(code int)) (*kong.Kong, error) {
	return kong.New(&cli{},
		kong.Name("jobtrail"),
		kong.Description("Background jobs over Kafka with durable evidence of every attempt."),
		kong.Writers(g.Stdout, g.Stderr),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true}),
		kong.Help(printHelp),
		kong.Vars{"tiers": retrytopics.DefaultTiers().String()},
		kong.Exit(exit),
	)
}

// run parses args, runs the verb and returns the exit code.
func run(ctx context.Context, args []string, g *Globals) int {
	helped := false
	parser, err := newParser(g, func(int) { helped = true })
	if err != nil {
		fmt.Fprintf(g.Stderr, "jobtrail: building the command line: %s\n", g.lines(err))
		return exitFailed
	}
	kctx, err := parser.Parse(joinNegative(args))
	if helped {
		return 0
	}
	if err != nil {
		fmt.Fprintf(g.Stderr, "jobtrail: %s\n", g.lines(err))
		fmt.Fprintln(g.Stderr, "Run jobtrail --help, or --help after a command.")
		return exitUsage
	}
	kctx.BindTo(ctx, (*context.Context)(nil))
	err = kctx.Run(g)
	verb := kctx.Selected().Path()
	var exit exitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		if exit.err != nil {
			fmt.Fprintf(g.Stderr, "jobtrail %s: %s\n", verb, g.lines(exit.err))
		}
		return exit.code
	default:
		fmt.Fprintf(g.Stderr, "jobtrail %s: %s\n", verb, g.lines(err))
		return exitFailed
	}
}

// joinNegative joins a flag and a negative number or time that follows it, which
// would pass for a flag of its own: --limit -1 is --limit=-1.
func joinNegative(args []string) []string {
	var joined []string
	for i, a := range args {
		if a == "--" {
			return append(joined, args[i:]...)
		}
		if len(a) > 1 && a[0] == '-' && a[1] >= '0' && a[1] <= '9' && i > 0 && strings.HasPrefix(args[i-1], "--") && !strings.Contains(args[i-1], "=") {
			joined[len(joined)-1] += "=" + a
			continue
		}
		joined = append(joined, a)
	}
	return joined
}

// printHelp is kong's help and then the variables that the verb reads.
func printHelp(options kong.HelpOptions, kctx *kong.Context) error {
	if err := kong.DefaultHelpPrinter(options, kctx); err != nil {
		return err
	}
	node := kctx.Selected()
	if node == nil {
		return nil
	}
	verb, ok := reflect.TypeAssert[environmentUser](node.Target.Addr())
	if !ok {
		return nil
	}
	return printEnvironment(kctx.Stdout, verb.Environment())
}

func printEnvironment(w io.Writer, config any) error {
	if _, err := fmt.Fprintln(w, "\nEnvironment:"); err != nil {
		return err
	}
	return connect.WriteText(w, connect.Reference(config))
}
