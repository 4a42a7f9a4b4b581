package projector_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/jobtrail/jobtrail/internal/projector"
	"github.com/jobtrail/jobtrail/internal/projector/projectortest"
)

// BenchmarkProject measures the whole way: from the log on a real broker into
// all tables of a real server, both on this machine.
func BenchmarkProject(b *testing.B) {
	for _, partitions := range []int32{1, 6} {
		b.Run(fmt.Sprintf("partitions=%d", partitions), func(b *testing.B) {
			const n = 300_000
			var total time.Duration
			for range b.N {
				w := projectortest.New(b, partitions)
				producer, err := w.Kafka(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.MaxBufferedRecords(100_000))
				if err != nil {
					b.Fatal(err)
				}
				projectortest.WriteMix(b, producer, w.Group, int(partitions), n, 0)
				producer.Close()
				begun := time.Now()
				p := w.Project(func(c *projector.Config) { c.BatchWait, c.PositionEvery = time.Second, 2*time.Second })
				// A cheap question: the machine is the server's too.
				w.Eventually("everything is acknowledged", func() bool { return w.Count("SELECT sum(row_count) FROM DB.batches") >= n })
				total += time.Since(begun)
				p.Stop()
			}
			b.ReportMetric(float64(b.N)*n/total.Seconds(), "events/s")
		})
	}
}
