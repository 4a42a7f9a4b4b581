package projector

import (
	"context"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// budget is the memory of the process for records and blocks. Taking never
// blocks; whoever fetches waits while it is spent, so it is overdrawn by at
// most one fetch.
type budget struct {
	limit int
	gauge prometheus.Gauge

	mu    sync.Mutex
	used  int
	freed chan struct{} // closed when used falls below limit
}

func (b *budget) add(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used += n
	b.gauge.Set(float64(b.used))
	if b.used < b.limit && b.freed != nil {
		close(b.freed)
		b.freed = nil
	}
}

func (b *budget) spent() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used >= b.limit
}

// wait returns when the budget is not spent or ctx ends.
func (b *budget) wait(ctx context.Context) error {
	for {
		b.mu.Lock()
		if b.used < b.limit {
			b.mu.Unlock()
			return nil
		}
		if b.freed == nil {
			b.freed = make(chan struct{})
		}
		freed := b.freed
		b.mu.Unlock()
		select {
		case <-freed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
