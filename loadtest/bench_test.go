package loadtest_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jobtrail/jobtrail/pkg/jobs"
	"github.com/jobtrail/jobtrail/pkg/worker"
)

// TestThroughput prints how fast no-op jobs go through the ledger.
func TestThroughput(t *testing.T) {
	n, _ := strconv.Atoi(os.Getenv("THROUGHPUT_JOBS"))
	if n == 0 {
		n = 20_000
	}
	inFlight, _ := strconv.Atoi(os.Getenv("THROUGHPUT_IN_FLIGHT"))
	if inFlight == 0 {
		inFlight = 2000
	}
	g := newGroup(t, 6)
	r := rand.New(rand.NewPCG(1, 2))
	for from := 0; from < n; from += 10_000 {
		var list []jobs.Job
		for i := from; i < min(n, from+10_000); i++ {
			b := make([]byte, 192)
			for k := range b {
				b[k] = byte(r.Uint32())
			}
			list = append(list, jobs.Job{ID: fmt.Sprintf("job-%08d", i), Type: "noop", Value: []byte(base64.StdEncoding.EncodeToString(b)[:250])})
		}
		g.publish(list...)
	}
	var done atomic.Int64
	all := make(chan struct{})
	begun := time.Now()
	stop := g.run(worker.Config{Concurrency: inFlight, Types: []worker.Type{{Name: "noop", Policy: policy(nil), Handler: worker.HandlerFunc(func(context.Context, *worker.Job) error {
		if done.Add(1) == int64(n) {
			close(all)
		}
		return nil
	})}}})
	<-all
	stop()
	took := time.Since(begun)
	t.Logf("%d jobs at %d in flight in %v: %.0f jobs/s", n, inFlight, took, float64(n)/took.Seconds())
}
