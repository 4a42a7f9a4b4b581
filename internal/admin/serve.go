package admin

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/jobtrail/jobtrail/pkg/sanitize"
)

const (
	headerTimeout   = 5 * time.Second
	scrapeTimeout   = 10 * time.Second
	shutdownTimeout = time.Second
)

// Config says where the server listens.
type Config struct {
	// Addr is host:port. Port 0 takes a free one; see Server.Addr.
	Addr string
}

// Deps are what the server reports about. All may be zero.
type Deps struct {
	// Live reports why the process should be restarted, nil while it works; with
	// no Live, answering is proof enough. It must return at once and be safe for
	// concurrent use, like Ready.
	Live func() error
	// Ready reports why the process cannot do its work now, nil when it can.
	Ready func() error
	// Metrics are served at /metrics.
	Metrics prometheus.Gatherer
	Log     *slog.Logger
	// Sanitizer cleans the reasons that are shown and logged.
	Sanitizer *sanitize.Sanitizer
}

// A Server listens from New on and answers while Run runs.
type Server struct {
	deps     Deps
	listener net.Listener
	addr     string
}

// New opens the address, so that a port that is taken shows at once.
func New(cfg Config, deps Deps) (*Server, error) {
	ok := func() error { return nil }
	if deps.Live == nil {
		deps.Live = ok
	}
	if deps.Ready == nil {
		deps.Ready = ok
	}
	if deps.Metrics == nil {
		deps.Metrics = prometheus.Gatherers{}
	}
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	if deps.Sanitizer == nil {
		deps.Sanitizer = sanitize.New(sanitize.Config{})
	}
	l, err := net.Listen("tcp", cfg.Addr)
	if err != nil {
		return nil, fmt.Errorf("opening the admin address %s: %w", cfg.Addr, err)
	}
	return &Server{deps: deps, listener: l, addr: l.Addr().String()}, nil
}

// Addr returns the address that the server listens on.
func (s *Server) Addr() string { return s.addr }

// Run serves until ctx ends and then returns nil, after at most a second for
// requests in flight. When serving breaks it opens the address again, with
// back-off.
func (s *Server) Run(ctx context.Context) error {
	pause := backoff.NewExponentialBackOff(backoff.WithMaxInterval(10*time.Second), backoff.WithMaxElapsedTime(0))
	l := s.listener
	for {
		var err error
		if l != nil {
			err = s.serve(ctx, l)
		}
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			s.deps.Log.Error("admin server stopped, restarting", "addr", s.addr, "err", s.deps.Sanitizer.Error(err))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause.NextBackOff()):
		}
		if l, err = net.Listen("tcp", s.addr); err != nil {
			l = nil
			s.deps.Log.Error("admin address cannot be opened", "addr", s.addr, "err", s.deps.Sanitizer.Error(err))
		}
	}
}

// serve returns when ctx ends or the listener breaks; it closes l.
func (s *Server) serve(ctx context.Context, l net.Listener) error {
	srv := &http.Server{
		Handler:           s.routes(),
		ReadHeaderTimeout: headerTimeout,
		ErrorLog:          s.lines(slog.LevelDebug),
	}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }()
	select {
	case err := <-done:
		// Serve leaves established connections open.
		return errors.Join(err, srv.Close())
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	err := srv.Shutdown(last)
	if err != nil { // requests in flight
		err = srv.Close()
	}
	if stopped := <-done; !errors.Is(stopped, http.ErrServerClosed) {
		err = errors.Join(err, stopped)
	}
	return err
}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /livez", s.check(s.deps.Live))
	mux.Handle("GET /readyz", s.check(s.deps.Ready))
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.deps.Metrics, promhttp.HandlerOpts{
		ErrorLog:      s.lines(slog.LevelWarn),
		ErrorHandling: promhttp.ContinueOnError,
		Timeout:       scrapeTimeout,
	}))
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return mux
}

// lines returns the log of a library that knows only lines of text.
func (s *Server) lines(level slog.Level) *log.Logger {
	return log.New(lineWriter{s, level}, "", 0)
}

type lineWriter struct {
	s     *Server
	level slog.Level
}

// Write logs one line.
func (w lineWriter) Write(p []byte) (int, error) {
	w.s.deps.Log.Log(context.Background(), w.level, "admin server", "says", w.s.deps.Sanitizer.Clean(strings.TrimSuffix(string(p), "\n")))
	return len(p), nil
}

// check answers 200 "ok", or 503 with the reasons, one a line.
func (s *Server) check(reason func() error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		if err := reason(); err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			for _, problem := range s.deps.Sanitizer.Problems(err) {
				fmt.Fprintln(w, problem)
			}
			return
		}
		fmt.Fprintln(w, "ok")
	})
}
