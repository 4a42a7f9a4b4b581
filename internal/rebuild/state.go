package rebuild

import (
	"context"
	"fmt"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/google/uuid"

	"github.com/jobtrail/jobtrail/clickhouse"
)

// What a call was for.
const (
	KindRebuild  = "rebuild"
	KindRollback = "rollback"
	KindDrop     = "drop"
)

// The phases, in order. Differs and equal end a call but not the rebuild: the
// next call goes on from there.
const (
	PhaseEmptying  = "emptying"
	PhaseFilling   = "filling"
	PhaseComparing = "comparing"
	PhaseDiffers   = "differs"
	PhaseEqual     = "equal"
	PhaseFlipping  = "flipping"
	PhaseFlipped   = "flipped"
	PhaseDropped   = "dropped"
	PhaseGivenUp   = "given_up"
)

// State is a row of the table rebuilds.
type State struct {
	ID          uuid.UUID `json:"rebuild_id"`
	Kind        string    `json:"kind"`
	Database    string    `json:"database"`
	Previous    string    `json:"previous"`
	Phase       string    `json:"phase"`
	Mapping     uint32    `json:"mapping"`
	StartedAt   time.Time `json:"started_at"`
	UpdatedAt   time.Time `json:"updated_at"`
	Copied      uint64    `json:"copied"`
	Compared    uint64    `json:"compared"`
	Differences uint64    `json:"differences"`
	KeepUntil   time.Time `json:"keep_until"`
	Holder      string    `json:"holder"`
}

// unfinished reports whether the next call goes on with it.
func (s State) unfinished() bool {
	switch s.Phase {
	case PhaseEmptying, PhaseFilling, PhaseComparing, PhaseDiffers, PhaseEqual, PhaseFlipping:
		return true
	}
	return false
}

// latest returns the rebuild that began last; the zero State when there was
// none.
func latest(ctx context.Context, store driver.Conn, layout clickhouse.Layout) (State, error) {
	rows, err := store.Query(ctx, "SELECT rebuild_id, kind, database, previous, phase, mapping, started_at, updated_at, copied, compared, differences, keep_until, holder FROM "+
		layout.Database+".rebuilds FINAL ORDER BY started_at DESC, updated_at DESC LIMIT 1")
	if err != nil {
		return State{}, fmt.Errorf("reading the state of the last rebuild: %w", err)
	}
	defer rows.Close()
	var s State
	for rows.Next() {
		if err := rows.Scan(&s.ID, &s.Kind, &s.Database, &s.Previous, &s.Phase, &s.Mapping, &s.StartedAt, &s.UpdatedAt, &s.Copied, &s.Compared, &s.Differences, &s.KeepUntil, &s.Holder); err != nil {
			return State{}, fmt.Errorf("reading the state of the last rebuild: %w", err)
		}
	}
	return s, rows.Err()
}

// reach writes down that a phase was reached.
func (r *Rebuild) reach(ctx context.Context, phase string) error {
	r.mu.Lock()
	s := r.state
	r.mu.Unlock()
	before := s.UpdatedAt
	s.Phase, s.Holder = phase, r.cfg.Holder
	// Of two rows of one time the table keeps the later insert, too.
	s.UpdatedAt = time.Now().UTC().Truncate(time.Millisecond)
	if !s.UpdatedAt.After(before) {
		s.UpdatedAt = before.Add(time.Millisecond)
	}
	err := r.deps.Store.Exec(ctx, "INSERT INTO "+r.cfg.Layout.Database+`.rebuilds (rebuild_id, kind, database, previous, phase, mapping, started_at, updated_at, copied, compared, differences, keep_until, holder)
SELECT ?, ?, ?, ?, ?, ?, fromUnixTimestamp64Milli(?), fromUnixTimestamp64Milli(?), ?, ?, ?, fromUnixTimestamp64Milli(?), ?`,
		s.ID, s.Kind, s.Database, s.Previous, s.Phase, s.Mapping, s.StartedAt.UnixMilli(), s.UpdatedAt.UnixMilli(), s.Copied, s.Compared, s.Differences, millis(s.KeepUntil), s.Holder)
	if err != nil {
		return fmt.Errorf("writing down phase %s: %w", phase, err)
	}
	r.mu.Lock()
	r.state.Phase, r.state.Holder, r.state.UpdatedAt = s.Phase, s.Holder, s.UpdatedAt
	r.mu.Unlock()
	r.log.Info("a phase was reached", "phase", phase, "database", s.Database)
	r.tell(Progress{})
	return nil
}

func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// Status is which generation is live and what became of the last rebuild.
type Status struct {
	Live string `json:"live"`
	// Last is the rebuild, rollback or drop that began last; null when there was
	// none.
	Last *State `json:"last"`
	// Holder is the process that is at work; empty when none is.
	Holder string `json:"holder"`
	// Kept is the generation to which a rollback would turn; empty when there is
	// none. It may be emptied by a rebuild after KeptUntil.
	Kept      string     `json:"kept"`
	KeptUntil *time.Time `json:"kept_until"`
}

// Read returns the store's status.
func Read(ctx context.Context, store driver.Conn, layout clickhouse.Layout) (Status, error) {
	var st Status
	var err error
	if st.Live, err = clickhouse.Live(ctx, store, layout); err != nil {
		return st, err
	}
	last, err := latest(ctx, store, layout)
	if err != nil {
		return st, err
	}
	if last.ID != uuid.Nil {
		st.Last = &last
	}
	if last.Phase == PhaseFlipped {
		st.Kept, st.KeptUntil = last.Previous, &last.KeepUntil
	}
	others, err := claims(ctx, store, layout)
	if err != nil {
		return st, err
	}
	for _, c := range others {
		if !c.released && c.silent < 5*time.Second {
			st.Holder = c.holder
		}
	}
	return st, nil
}
