package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	driver "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/jobtrail/jobtrail/clickhouse"
	"github.com/jobtrail/jobtrail/internal/connect"
	"github.com/jobtrail/jobtrail/internal/projector"
	"github.com/jobtrail/jobtrail/internal/rebuild"
)

type rebuildCmd struct {
	Run      rebuildRunCmd      `cmd:"" default:"withargs" help:"What rebuild alone does: fill the other generation from the logs, compare it with the live one and make it live. Goes on where an earlier call was cut off."`
	Status   rebuildStatusCmd   `cmd:"" help:"Show which generation is live, what is kept and how far the last rebuild came."`
	Rollback rebuildRollbackCmd `cmd:"" help:"Make the generation live again that was live before the last rebuild."`
	Drop     rebuildDropCmd     `cmd:"" help:"Empty the generation that is not live."`
}

// Exit codes of rebuild.
const (
	exitDiffers = 3 // the generations are not equal; nothing was turned
	exitRefused = 4 // another rebuild is at work, or the other generation is kept
)

type rebuildEnvironment struct {
	connect.Kafka
	connect.ClickHouse
}

// gcPercent is GOGC of a rebuild where the environment says nothing.
const gcPercent = 50

// rebuilding is what the verbs of rebuild have in common.
type rebuilding struct{ outputFlag }

// Environment lists the variables that the verb reads.
func (c *rebuilding) Environment() any { return rebuildEnvironment{} }

type rebuildRunCmd struct {
	rebuilding
	Groups            []string      `name:"group" help:"Worker group whose log is read although the store holds nothing of it yet. May be repeated."`
	Keep              time.Duration `default:"24h" help:"For how long the generation that was live is kept for a rollback; 0s: not at all (${default})."`
	NoFlip            bool          `help:"End after the comparison. The next call goes on from there."`
	Restart           bool          `help:"Begin anew even if an unfinished rebuild could be continued."`
	DiscardKept       bool          `help:"Empty the other generation although it is still kept."`
	AcceptDifferences bool          `help:"Make the new generation live although it differs from the live one. For a live generation that is damaged."`
}

// Run rebuilds.
func (c *rebuildRunCmd) Run(ctx context.Context, g *Globals) error {
	cfg := rebuild.Config{Groups: c.Groups, Keep: keepFor(c.Keep), NoFlip: c.NoFlip, Restart: c.Restart, DiscardKept: c.DiscardKept, AcceptDifferences: c.AcceptDifferences}
	return c.with(ctx, g, cfg, (*rebuild.Rebuild).Run)
}

type rebuildRollbackCmd struct {
	rebuilding
	Keep time.Duration `default:"24h" help:"For how long the generation that is turned away from is kept; 0s: not at all (${default})."`
}

// Run rolls back.
func (c *rebuildRollbackCmd) Run(ctx context.Context, g *Globals) error {
	return c.with(ctx, g, rebuild.Config{Keep: keepFor(c.Keep)}, (*rebuild.Rebuild).Rollback)
}

// keepFor is Config.Keep of the flag, for which 0 means not at all.
func keepFor(flag time.Duration) time.Duration {
	if flag <= 0 {
		return -1
	}
	return flag
}

type rebuildDropCmd struct {
	rebuilding
	DiscardKept bool `help:"Empty it although it is still kept."`
}

// Run empties the generation that is not live.
func (c *rebuildDropCmd) Run(ctx context.Context, g *Globals) error {
	return c.with(ctx, g, rebuild.Config{DiscardKept: c.DiscardKept}, (*rebuild.Rebuild).Drop)
}

// with runs one of the rebuild's methods and prints what it did.
func (c *rebuilding) with(ctx context.Context, g *Globals, cfg rebuild.Config, do func(*rebuild.Rebuild, context.Context) (rebuild.Report, error)) error {
	conn, conf, err := g.reachClickHouse(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	var kafka connect.Kafka
	if err := g.parse(&kafka); err != nil {
		return err
	}
	opts, err := conf.Options()
	if err != nil {
		return usageError(err)
	}
	opts.Auth.Database = ""
	reach, err := kafka.Options()
	if err != nil {
		return usageError(err)
	}
	cl, err := g.reachKafka(ctx)
	if err != nil {
		return err
	}
	cl.Close()
	cfg.Layout = layoutOf(conf)
	if err := cfg.Layout.Validate(); err != nil {
		return usageError(err)
	}
	// What is filled is garbage a moment later: earlier collections keep the
	// memory low and cost little.
	if !g.has("GOGC") {
		debug.SetGCPercent(gcPercent)
	}
	cfg.Holder = holder()
	progress := &progressLines{w: g.Stderr, now: time.Now}
	r, err := rebuild.New(cfg, rebuild.Deps{
		Kafka: func(opts ...kgo.Opt) (*kgo.Client, error) {
			return kgo.NewClient(append(append([]kgo.Opt{}, reach...), opts...)...)
		},
		Store:  conn,
		Server: projector.Server{Addrs: opts.Addr, Username: opts.Auth.Username, Password: opts.Auth.Password, TLS: opts.TLS},
		Migrate: func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
			defer cancel()
			_, err := clickhouse.Migrate(ctx, migrationOptions(opts), cfg.Layout)
			return err
		},
		Progress:  progress.show,
		Sanitizer: g.clean(),
	})
	if err != nil {
		return usageError(err)
	}
	rep, err := do(r, ctx)
	if c.Output == "json" {
		if err := printJSON(g.Stdout, rebuildAnswer(rep)); err != nil {
			return err
		}
	} else {
		printRebuild(g.Stdout, rep)
	}
	return rebuildExit(ctx, rep, err)
}

// migrationOptions returns a copy, since the databases change.
func migrationOptions(opts *driver.Options) *driver.Options {
	o := *opts
	return &o
}

func holder() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s/%d", host, os.Getpid())
}

// rebuildExit gives an error the exit code and says what to do.
func rebuildExit(ctx context.Context, rep rebuild.Report, err error) error {
	if err == nil {
		return nil
	}
	if held, ok := errors.AsType[*rebuild.HeldError](err); ok {
		return exitError{exitRefused, held}
	}
	if kept, ok := errors.AsType[*rebuild.KeptError](err); ok {
		return exitError{exitRefused, kept}
	}
	if differs, ok := errors.AsType[*rebuild.DiffersError](err); ok {
		return exitError{exitDiffers, differs}
	}
	if ctx.Err() != nil && rep.Phase != "" {
		return fmt.Errorf("stopped while %s; the same command goes on from there: %w", rep.Phase, err)
	}
	return explain(err)
}

// rebuildJSON is a report whose lists are never null.
type rebuildJSON struct{ rebuild.Report }

func rebuildAnswer(rep rebuild.Report) rebuildJSON {
	rep.Partitions, rep.Verdicts, rep.Found = notNil(rep.Partitions), notNil(rep.Verdicts), notNil(rep.Found)
	return rebuildJSON{rep}
}

func printRebuild(w io.Writer, rep rebuild.Report) {
	if rep.Phase == "" {
		return // it was refused; the error says why
	}
	if len(rep.Partitions) > 0 {
		t := newTable("LOG", "PARTITION", "COMPARED BEFORE", "EVENTS", "CHECKSUM", "EQUAL")
		for _, p := range rep.Partitions {
			before := fmt.Sprint(p.Before)
			if p.Before == 0 && p.Events > 0 {
				before = ""
			}
			log := p.Log
			if log == "" {
				log = p.LogID.String()
			}
			t.add(log, fmt.Sprint(p.Partition), before, fmt.Sprint(p.Events), p.Checksum, yesNo(p.Equal))
		}
		_ = t.print(w)
		fmt.Fprintln(w)
	}
	if len(rep.Verdicts) > 0 {
		t := newTable("TABLE", "ROWS", "CHECKSUM", "EQUAL")
		for _, s := range rep.Verdicts {
			t.add(s.Table, fmt.Sprint(s.Rows), s.Checksum, yesNo(s.Equal))
		}
		_ = t.print(w)
		fmt.Fprintln(w)
	}
	const shown = 20
	for i, d := range rep.Found {
		if i == shown {
			fmt.Fprintf(w, "  … and %d others; -o json lists up to 100\n", len(rep.Found)-shown)
			break
		}
		fmt.Fprintf(w, "  %s\n", printable(d.String()))
	}
	if rep.Copied > 0 {
		fmt.Fprintf(w, "%d events are older than the logs and came from %s.\n", rep.Copied, rep.Previous)
	}
	switch rep.Phase {
	case rebuild.PhaseFlipped:
		fmt.Fprintf(w, "%s is live since %s; it took %s.\n", rep.Live, rep.UpdatedAt.UTC().Format("2006-01-02 15:04:05 UTC"), time.Duration(rep.Seconds*float64(time.Second)).Round(100*time.Millisecond))
		if rep.KeepUntil.After(rep.UpdatedAt) {
			fmt.Fprintf(w, "%s is kept until %s; `jobtrail rebuild rollback` makes it live again.\n", rep.Previous, rep.KeepUntil.UTC().Format("2006-01-02 15:04:05 UTC"))
		}
		if !rep.TakenOver {
			fmt.Fprintln(w, "No projector has taken over yet: nothing new arrives until one runs.")
		}
	case rebuild.PhaseEqual:
		fmt.Fprintf(w, "%s equals %s, which stays live. `jobtrail rebuild` makes it live.\n", rep.Database, rep.Previous)
	case rebuild.PhaseDiffers:
		fmt.Fprintf(w, "%s differs from %s, which stays live.\n", rep.Database, rep.Previous)
	case rebuild.PhaseDropped:
		fmt.Fprintf(w, "%s is empty; %s is live.\n", rep.Database, rep.Live)
	}
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "NO"
}

type rebuildStatusCmd struct {
	timeoutFlag
	outputFlag
}

// Environment lists the variables that the verb reads.
func (c *rebuildStatusCmd) Environment() any { return connect.ClickHouse{} }

// Run shows the status.
func (c *rebuildStatusCmd) Run(ctx context.Context, g *Globals) error {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	conn, conf, err := g.reachClickHouse(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	st, err := rebuild.Read(ctx, conn, layoutOf(conf))
	if err != nil {
		return explain(cause(ctx, err))
	}
	if c.Output == "json" {
		return printJSON(g.Stdout, st)
	}
	fmt.Fprintf(g.Stdout, "%s is live.\n", st.Live)
	if st.Kept != "" {
		fmt.Fprintf(g.Stdout, "%s is kept until %s; `jobtrail rebuild rollback` makes it live again.\n", st.Kept, st.KeptUntil.UTC().Format("2006-01-02 15:04:05 UTC"))
	}
	if l := st.Last; l != nil {
		fmt.Fprintf(g.Stdout, "The last %s, of %s, began %s and reached %q %s (%s).\n", l.Kind, l.Database, l.StartedAt.UTC().Format("2006-01-02 15:04:05 UTC"),
			strings.ReplaceAll(l.Phase, "_", " "), l.UpdatedAt.UTC().Format("2006-01-02 15:04:05 UTC"), printable(l.Holder))
	}
	if st.Holder != "" {
		fmt.Fprintf(g.Stdout, "%s is at work.\n", printable(st.Holder))
	}
	return nil
}

// progressLines prints how far it is: at once when the phase or the text
// changes, else every two seconds.
type progressLines struct {
	w   io.Writer
	now func() time.Time

	mu    sync.Mutex
	phase string
	text  string
	at    time.Time
}

func (l *progressLines) show(p rebuild.Progress) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.Phase == l.phase && p.Text == l.text && l.now().Sub(l.at) < 2*time.Second {
		return
	}
	l.phase, l.text, l.at = p.Phase, p.Text, l.now()
	line := strings.ReplaceAll(p.Phase, "_", " ")
	if p.Database != "" {
		line += " " + p.Database
	}
	switch {
	case p.Total > 0:
		line += fmt.Sprintf(": %d of %d offsets, %d %%", p.Done, p.Total, 100*p.Done/p.Total)
		if p.PerSecond >= 1 {
			line += fmt.Sprintf(", %.0f/s", p.PerSecond)
			if left := p.Total - p.Done; left > 0 {
				line += ", " + time.Duration(float64(left)/p.PerSecond*float64(time.Second)).Round(time.Second).String() + " left"
			}
		}
	case p.Done > 0:
		line += fmt.Sprintf(": %d events", p.Done)
	}
	if p.Text != "" {
		line += ": " + p.Text
	}
	fmt.Fprintln(l.w, printable(line))
}
