package rebuild

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/google/uuid"

	"github.com/jobtrail/jobtrail/clickhouse"
)

// errLost says that another process took the claim while this one was silent
// for longer than its expiry.
var errLost = errors.New("another rebuild took over while this one gave no sign of life")

// claim is the right to change the generation that is not live. The store has
// no locks, so it is a row that says "I am here" followed by a look at the
// others: of two processes that ask at once each sees the other, or one does.
// Who sees another that is alive withdraws. All times are the server's.
type claim struct {
	r  *Rebuild
	id uuid.UUID
	// dead are the claims that were dead when this one was acquired; they stay
	// dead even if their process wakes up.
	dead     map[uuid.UUID]bool
	acquired bool
	end      context.CancelFunc
	done     chan struct{}
}

type claimRow struct {
	id                 uuid.UUID
	holder             string
	silent             time.Duration
	acquired, released bool
}

// claims returns all claims of the last days.
func claims(ctx context.Context, store driver.Conn, layout clickhouse.Layout) ([]claimRow, error) {
	rows, err := store.Query(ctx, "SELECT claim_id, holder, toUnixTimestamp64Milli(now64(3)) - toUnixTimestamp64Milli(beat_at), acquired, released FROM "+layout.Database+".rebuild_claims FINAL")
	if err != nil {
		return nil, fmt.Errorf("reading the claims: %w", err)
	}
	defer rows.Close()
	var all []claimRow
	for rows.Next() {
		var c claimRow
		var ms int64
		if err := rows.Scan(&c.id, &c.holder, &ms, &c.acquired, &c.released); err != nil {
			return nil, fmt.Errorf("reading the claims: %w", err)
		}
		c.silent = time.Duration(ms) * time.Millisecond
		all = append(all, c)
	}
	return all, rows.Err()
}

// acquire claims the generation, or returns a *HeldError. The context it
// returns ends when the claim is lost.
func (r *Rebuild) acquire(ctx context.Context) (context.Context, error) {
	c := &claim{r: r, id: uuid.New(), dead: map[uuid.UUID]bool{}, done: make(chan struct{})}
	if err := c.ask(ctx); err != nil {
		c.withdraw(ctx)
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	beating, end := context.WithCancel(ctx)
	c.end = end
	go func() {
		defer close(c.done)
		tick := time.NewTicker(r.cfg.Expiry / 10)
		defer tick.Stop()
		for {
			select {
			case <-beating.Done():
				return
			case <-tick.C:
			}
			if err := c.verify(beating); errors.Is(err, errLost) {
				cancel(errLost)
				return
			} else if err != nil && beating.Err() == nil {
				r.log.Warn("renewing the claim failed", "error", r.deps.Sanitizer.Error(err))
			}
		}
	}()
	r.claim = c
	return ctx, nil
}

// ask writes the claim, looks whether it is alone, and acquires it.
func (c *claim) ask(ctx context.Context) error {
	if err := c.beat(ctx, false, false); err != nil {
		return err
	}
	all, err := claims(ctx, c.r.deps.Store, c.r.cfg.Layout)
	if err != nil {
		return err
	}
	for _, o := range all {
		if o.id == c.id {
			continue
		}
		if !o.released && o.silent < c.r.cfg.Expiry {
			return &HeldError{Holder: o.holder, Silent: o.silent, Expiry: c.r.cfg.Expiry}
		}
		c.dead[o.id] = true
	}
	c.acquired = true
	return c.beat(ctx, true, false)
}

// verify renews the claim and returns errLost if another process acquired one.
// It is called again before every step that cannot be undone.
func (c *claim) verify(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.r.cfg.Expiry/2)
	defer cancel()
	if err := c.beat(ctx, true, false); err != nil {
		return err
	}
	all, err := claims(ctx, c.r.deps.Store, c.r.cfg.Layout)
	if err != nil {
		return err
	}
	for _, o := range all {
		if o.id != c.id && o.acquired && !c.dead[o.id] {
			return fmt.Errorf("%s: %w", o.holder, errLost)
		}
	}
	return nil
}

// release gives the claim up.
func (c *claim) release(ctx context.Context) {
	c.end()
	<-c.done
	c.withdraw(ctx)
}

func (c *claim) withdraw(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := c.beat(ctx, c.acquired, true); err != nil {
		c.r.log.Warn("giving up the claim failed; it expires", "error", c.r.deps.Sanitizer.Error(err))
	}
}

// beat writes the claim anew.
func (c *claim) beat(ctx context.Context, acquired, released bool) error {
	err := c.r.deps.Store.Exec(ctx, "INSERT INTO "+c.r.cfg.Layout.Database+".rebuild_claims (claim_id, beat_at, acquired, released, holder) SELECT ?, now64(3), ?, ?, ?", c.id, acquired, released, c.r.cfg.Holder)
	if err != nil {
		return fmt.Errorf("writing the claim: %w", err)
	}
	return nil
}
