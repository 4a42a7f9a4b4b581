package localstack

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Addresses are where a stack of Up answers.
type Addresses struct {
	Kafka          string // seed broker
	ClickHouse     string // native protocol
	ClickHouseHTTP string
}

// Up starts the stack in cfg.Dir and leaves it running when this process ends;
// Down stops it. What already runs in the folder is kept, if it answers on the
// wanted ports; a server that cannot be started takes those that were started
// with it down again.
func Up(ctx context.Context, cfg Config) (Addresses, error) {
	st, unlock, err := open(ctx, cfg, true)
	if err != nil {
		return Addresses{}, err
	}
	defer unlock()
	defer st.spawner.close()
	var missing []*Server
	for _, s := range st.servers() {
		wanted := s.ports
		running, err := s.find()
		switch {
		case err != nil:
			return Addresses{}, err
		case !running:
			missing = append(missing, s)
		default:
			if err := s.keep(ctx, wanted); err != nil {
				return Addresses{}, err
			}
		}
	}
	if len(missing) > 0 {
		if err := st.start(ctx, cfg, missing); err != nil {
			return Addresses{}, err
		}
	}
	return Addresses{Kafka: st.Kafka.Addr(), ClickHouse: st.ClickHouse.Addr(), ClickHouseHTTP: st.ClickHouse.SecondAddr()}, nil
}

// keep checks that a server found running is the one that is wanted.
func (s *Server) keep(ctx context.Context, wanted ports) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := s.launcher.name()
	if !wanted.fits(s.ports) {
		return fmt.Errorf("%s runs in %s on ports %d and %d, not on those wanted: stop it first, with jobtrail down --data %s", name, s.dir, s.ports.Port, s.ports.Second, s.dir)
	}
	if err := s.waitReady(ctx, s.proc, s.ports); err != nil {
		return fmt.Errorf("asking %s, which runs as process %d: %w", name, s.proc.id.PID, err)
	}
	fmt.Fprintf(s.progress, "%s runs already, on %s.\n", name, address(s.ports.Port))
	return nil
}

// Down stops what runs in cfg.Dir, in an orderly way, and waits for its end.
// It ends only processes that a stack in this folder started. Nothing running
// is fine; a folder that does not exist is an error.
func Down(ctx context.Context, cfg Config) error {
	if _, err := os.Stat(cfg.Dir); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no stack in %s: no such folder", cfg.Dir)
	}
	st, unlock, err := open(ctx, cfg, true)
	if err != nil {
		return err
	}
	defer unlock()
	defer st.spawner.close()
	return each(st.servers(), func(s *Server) error {
		name := s.launcher.name()
		running, err := s.find()
		if err != nil {
			return err
		}
		if !running {
			fmt.Fprintf(s.progress, "%s does not run.\n", name)
			return nil
		}
		fmt.Fprintf(s.progress, "Stopping %s.\n", name)
		if err := s.Stop(ctx); err != nil {
			return err
		}
		fmt.Fprintf(s.progress, "%s is stopped; its data stays.\n", name)
		return nil
	})
}
