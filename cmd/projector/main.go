// Command projector copies the evidence logs of worker groups into ClickHouse,
// exactly once. It is configured by environment variables; --help lists them.
package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	driver "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/jobtrail/jobtrail/clickhouse"
	"github.com/jobtrail/jobtrail/internal/admin"
	"github.com/jobtrail/jobtrail/internal/connect"
	"github.com/jobtrail/jobtrail/internal/projector"
	"github.com/jobtrail/jobtrail/internal/redact"
	"github.com/jobtrail/jobtrail/pkg/retrytopics"
	"github.com/jobtrail/jobtrail/pkg/sanitize"
)

type config struct {
	connect.Kafka
	connect.ClickHouse
	Own
}

// Own holds the variables that only the projector reads.
type Own struct {
	Groups    []string `env:"JOBTRAIL_GROUPS,required" doc:"Worker groups, comma-separated; the log of each, <group>.evidence, is projected."`
	AdminAddr string   `env:"JOBTRAIL_ADMIN_ADDR" envDefault:"127.0.0.1:8082" doc:"Where /livez, /readyz, /metrics and /debug/pprof/ are served, without credentials. Port 0 takes a free one."`
	Log       string   `env:"JOBTRAIL_LOG" envDefault:"json" doc:"Format of the log on stderr: json or text."`
	LogLevel  string   `env:"JOBTRAIL_LOG_LEVEL" envDefault:"info" doc:"Least level that is logged: debug, info, warn or error."`
}

// Validate reports what is wrong with the values.
func (o Own) Validate() error {
	_, err := o.level()
	for i, g := range o.Groups {
		if problem := (retrytopics.Topology{Group: g, Jobs: []string{"any"}, Tiers: retrytopics.DefaultTiers()}).Validate(); problem != nil {
			err = errors.Join(err, fmt.Errorf("JOBTRAIL_GROUPS: %w", problem))
		} else if slices.Contains(o.Groups[:i], g) {
			err = errors.Join(err, fmt.Errorf("JOBTRAIL_GROUPS: group %q is named twice", g))
		}
	}
	if _, _, bad := net.SplitHostPort(o.AdminAddr); bad != nil {
		err = errors.Join(err, fmt.Errorf("JOBTRAIL_ADMIN_ADDR: %q is not host:port", o.AdminAddr))
	}
	if o.Log != "json" && o.Log != "text" {
		err = errors.Join(err, fmt.Errorf("JOBTRAIL_LOG: %q is neither json nor text", o.Log))
	}
	return err
}

func (o Own) level() (l slog.Level, err error) {
	if err := l.UnmarshalText([]byte(o.LogLevel)); err != nil {
		return l, fmt.Errorf("JOBTRAIL_LOG_LEVEL: %q is none of debug, info, warn, error", o.LogLevel)
	}
	return l, nil
}

// gcPercent is GOGC where the environment says nothing: blocks and fetched
// records come and go by tens of megabytes, and cleaning up after them costs
// little beside what memory does.
const gcPercent = 25

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run returns the exit code: 1 for a failure, 2 for a wrong command line or
// environment.
func run(ctx context.Context, args, environ []string, stdout, stderr io.Writer) int {
	if len(args) > 0 {
		if args[0] == "--help" || args[0] == "-h" {
			fmt.Fprintln(stdout, "Usage: projector [--version | --help]\n\nCopies the evidence logs of worker groups into ClickHouse, exactly once, until it is\ntold to stop (SIGTERM, SIGINT). It migrates the store's schema at its start.\n\nEnvironment:")
			if err := connect.WriteText(stdout, connect.Reference(config{})); err != nil {
				return 1
			}
			return 0
		}
		if args[0] == "--version" && len(args) == 1 {
			fmt.Fprintf(stdout, "projector %s\n", buildVersion())
			return 0
		}
		fmt.Fprintf(stderr, "projector: unexpected argument %s; it is configured by environment variables, see --help\n", redact.New(nil, environ).Clean(args[0]))
		return 2
	}
	var cfg config
	err := connect.Parse(environ, &cfg)
	clean := redact.New(cfg, environ)
	if err != nil {
		fmt.Fprintf(stderr, "projector: reading the environment:\n%s\n", strings.Join(redact.Lines(clean, err), "\n"))
		return 2
	}
	level, _ := cfg.level() // valid, or Parse had said so
	log := redact.NewLog(stderr, cfg.Log == "text", level, clean)
	if err := serve(ctx, cfg, clean, log); err != nil {
		redact.Failed(log, cfg.Log == "text", "projector failed", clean, err)
		return 1
	}
	log.Info("projector stopped")
	return 0
}

// buildVersion is what the Go toolchain recorded.
func buildVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version
	}
	return "unknown"
}

func serve(ctx context.Context, cfg config, clean *sanitize.Sanitizer, log *slog.Logger) error {
	reach, err := cfg.Kafka.Options()
	if err != nil {
		return err
	}
	store, err := cfg.ClickHouse.Options()
	if err != nil {
		return err
	}
	// The store's own database may not exist yet, and every statement names its
	// database.
	store.Auth.Database = ""
	conn, err := driver.Open(store)
	if err != nil {
		return fmt.Errorf("opening a ClickHouse client: %w", err)
	}
	defer conn.Close()
	layout := clickhouse.Layout{Database: cfg.ClickHouse.Database, Cluster: cfg.ClickHouse.Cluster}
	registry := admin.NewRegistry()
	p, err := projector.New(projector.Config{Groups: cfg.Groups, Layout: layout, Instance: instance()}, projector.Deps{
		Kafka: func(opts ...kgo.Opt) (*kgo.Client, error) {
			return kgo.NewClient(append(append([]kgo.Opt{}, reach...), opts...)...)
		},
		Store:    conn,
		Server:   projector.Server{Addrs: store.Addr, Username: store.Auth.Username, Password: store.Auth.Password, TLS: store.TLS},
		Migrate:  func(ctx context.Context) error { return migrate(ctx, store, layout, log) },
		Logger:   log,
		Registry: registry, Sanitizer: clean,
	})
	if err != nil {
		return err
	}
	server, err := admin.New(admin.Config{Addr: cfg.AdminAddr}, admin.Deps{Ready: p.Ready, Metrics: registry, Log: log, Sanitizer: clean})
	if err != nil {
		return err
	}
	log.Info("projector started", "version", buildVersion(), "admin_addr", server.Addr(), "groups", cfg.Groups, "database", layout.Database)
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	served := make(chan error, 1)
	go func() { served <- server.Run(serving) }()
	err = p.Run(ctx)
	stopServing()
	return errors.Join(err, <-served)
}

func migrate(ctx context.Context, opts *driver.Options, layout clickhouse.Layout, log *slog.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	applied, err := clickhouse.Migrate(ctx, opts, layout)
	for _, a := range applied {
		log.Info("migration applied", "database", a.Database, "file", a.File)
	}
	return err
}

// instance names this process: the host and an id of this start.
func instance() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	b := make([]byte, 4)
	rand.Read(b)
	return host + "/" + hex.EncodeToString(b)
}
