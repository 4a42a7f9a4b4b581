package localstack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// Config says what to start and where.
type Config struct {
	// Dir is the data folder; it is made if need be. Required.
	Dir string
	// Cache is the folder of what was fetched, shared by all stacks; see
	// CacheDir. Required.
	Cache string
	// KafkaPort, ClickHousePort (native protocol) and ClickHouseHTTPPort; 0
	// means a free one, between 20000 and 32000.
	KafkaPort, ClickHousePort, ClickHouseHTTPPort int
	// WithoutKafka and WithoutClickHouse leave one server out.
	WithoutKafka, WithoutClickHouse bool
	// ClickHouseUsersFiles are merged into the server's users configuration
	// (roles, grants, row policies), as files in users.d are.
	ClickHouseUsersFiles []string
	// KafkaPasswords are the passwords of users of the broker. With any, clients
	// must log in (SASL PLAIN, without TLS); they hold no quote, backslash or
	// control character, and stand in the broker's configuration in the data folder.
	KafkaPasswords map[string]string
	// KafkaAuthorized lets users of the broker do only what access control lists
	// allow them, except the first of KafkaPasswords by name, who may do anything.
	KafkaAuthorized bool
	// Progress gets a line for whatever takes time; nil discards them.
	Progress io.Writer
}

// A Stack is a running broker and a running ClickHouse server.
type Stack struct {
	Kafka      *Server // nil if left out
	ClickHouse *Server // nil if left out
	spawner    *spawner
}

// Start starts a stack that lives as long as this process, at most until Stop.
// It fetches what is missing, and returns when both servers answer queries.
// When it fails, nothing is left running. Main must have been called.
func Start(ctx context.Context, cfg Config) (*Stack, error) {
	st, unlock, err := open(ctx, cfg, false)
	if err != nil {
		return nil, err
	}
	defer unlock()
	started := false
	defer func() {
		if !started {
			st.spawner.close()
		}
	}()
	for _, s := range st.servers() {
		running, err := s.find()
		if err != nil {
			return nil, err
		}
		if running {
			return nil, fmt.Errorf("starting a stack in %s: %s runs there already, as process %d", cfg.Dir, s.launcher.name(), s.PID())
		}
	}
	if err := st.start(ctx, cfg, st.servers()); err != nil {
		return nil, err
	}
	started = true
	return st, nil
}

// Brokers are the seed brokers of Kafka clients.
func (st *Stack) Brokers() []string { return []string{st.Kafka.Addr()} }

// ClickHouseAddr is the native-protocol address.
func (st *Stack) ClickHouseAddr() string { return st.ClickHouse.Addr() }

// ClickHouseHTTPAddr is the HTTP address.
func (st *Stack) ClickHouseHTTPAddr() string { return st.ClickHouse.SecondAddr() }

// Stop stops both servers in an orderly way, at the same time, and waits.
// Their data stays. The stack is not to be used afterwards.
func (st *Stack) Stop(ctx context.Context) error {
	err := each(st.servers(), func(s *Server) error { return s.Stop(ctx) })
	st.spawner.close()
	return err
}

func (st *Stack) servers() []*Server {
	var servers []*Server
	for _, s := range []*Server{st.Kafka, st.ClickHouse} {
		if s != nil {
			servers = append(servers, s)
		}
	}
	return servers
}

// open locks the data folder and returns the stack in it, with nothing started.
func open(ctx context.Context, cfg Config, detached bool) (_ *Stack, unlock func(), err error) {
	if err := checkPlatform(); err != nil {
		return nil, nil, err
	}
	if cfg.Progress == nil {
		cfg.Progress = io.Discard
	}
	if cfg.Dir == "" {
		return nil, nil, errors.New("Config.Dir is not set")
	}
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return nil, nil, fmt.Errorf("finding the data folder: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, nil, fmt.Errorf("making the data folder: %w", err)
	}
	progress := &lineWriter{w: cfg.Progress}
	unlock, err = lockFile(ctx, filepath.Join(dir, "lock"), func() {
		fmt.Fprintf(progress, "Waiting for another process that starts or stops the stack in %s.\n", dir)
	})
	if err != nil {
		return nil, nil, err
	}
	st := &Stack{spawner: newSpawner()}
	server := func(l launcher, p ports) *Server {
		return &Server{launcher: l, dir: dir, detached: detached, spawner: st.spawner, progress: progress, ports: p}
	}
	if !cfg.WithoutKafka {
		st.Kafka = server(kafka{}, ports{Port: cfg.KafkaPort})
	}
	if !cfg.WithoutClickHouse {
		st.ClickHouse = server(clickHouse{}, ports{Port: cfg.ClickHousePort, Second: cfg.ClickHouseHTTPPort})
	}
	return st, unlock, nil
}

// start checks and fetches what the servers need and starts them at the same
// time; if one fails, those it started are stopped.
func (st *Stack) start(ctx context.Context, cfg Config, servers []*Server) error {
	if cfg.Cache == "" {
		return errors.New("Config.Cache is not set")
	}
	cache, err := filepath.Abs(cfg.Cache)
	if err != nil {
		return fmt.Errorf("finding the cache folder: %w", err)
	}
	err = each(servers, func(s *Server) error { return s.equip(ctx, cache, cfg) })
	if err != nil {
		return err
	}
	err = each(servers, func(s *Server) error { return s.Start(ctx) })
	if err != nil {
		return errors.Join(err, each(servers, (*Server).Kill))
	}
	return nil
}

// equip completes the launcher: it finds or fetches the programs and checks
// the ports, before anything is started.
func (s *Server) equip(ctx context.Context, cache string, cfg Config) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, _, err := s.ports.choose(s.launcher.name()); err != nil {
		return err
	}
	switch s.launcher.(type) {
	case kafka:
		if err := errors.Join(checkClassPath(cache), checkPasswords(cfg.KafkaPasswords)); err != nil {
			return err
		}
		if cfg.KafkaAuthorized && len(cfg.KafkaPasswords) == 0 {
			return errors.New("Config.KafkaAuthorized: nobody logs in without Config.KafkaPasswords")
		}
		java, err := findJava(ctx)
		if err != nil {
			return err
		}
		dir, err := kafkaJars.ensure(ctx, cache, s.progress)
		if err != nil {
			return err
		}
		s.launcher = kafka{java: java, jars: classPath(dir), passwords: cfg.KafkaPasswords, authorized: cfg.KafkaAuthorized}
	case clickHouse:
		dir, err := clickHouseLibrary.ensure(ctx, cache, s.progress)
		if err != nil {
			return err
		}
		s.launcher = clickHouse{library: libraryPath(dir), usersFiles: cfg.ClickHouseUsersFiles}
	}
	return nil
}

// each calls do for all servers at the same time and joins the errors.
func each(servers []*Server, do func(*Server) error) error {
	errs := make([]error, len(servers))
	var wg sync.WaitGroup
	for i, s := range servers {
		wg.Go(func() { errs[i] = do(s) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// lineWriter lets several goroutines write lines to one writer.
type lineWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lineWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// CacheDir returns the folder for what is fetched, from "NAME=value" lines as
// of os.Environ: JOBTRAIL_CACHE_DIR, else jobtrail in the user's own cache
// folder (XDG_CACHE_HOME or HOME/.cache).
func CacheDir(environ []string) (string, error) {
	get := func(name string) string {
		for _, line := range slices.Backward(environ) {
			if value, ok := strings.CutPrefix(line, name+"="); ok {
				return value
			}
		}
		return ""
	}
	switch {
	case get("JOBTRAIL_CACHE_DIR") != "":
		return get("JOBTRAIL_CACHE_DIR"), nil
	case get("XDG_CACHE_HOME") != "":
		return filepath.Join(get("XDG_CACHE_HOME"), "jobtrail"), nil
	case get("HOME") != "":
		return filepath.Join(get("HOME"), ".cache", "jobtrail"), nil
	}
	return "", errors.New("finding a cache folder: none of JOBTRAIL_CACHE_DIR, XDG_CACHE_HOME and HOME is set")
}

// Restarts returns what the supervisors have to say of servers that ended by
// themselves, one line each.
func (st *Stack) Restarts() string {
	var b strings.Builder
	for _, s := range st.servers() {
		names := s.launcher.logNames()
		text, err := os.ReadFile(filepath.Join(s.dir, "logs", names[len(names)-1]))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			if _, said, ok := strings.Cut(line, supervisorMark); ok {
				b.WriteString(said)
			}
		}
	}
	return b.String()
}

// Logs returns the last n lines of each server's logs.
func (st *Stack) Logs(n int) string {
	var b strings.Builder
	for _, s := range st.servers() {
		b.WriteString(s.tail(n))
	}
	return b.String()
}
