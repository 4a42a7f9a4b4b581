package worker

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/plugin/kprom"
)

// kafkaMetrics counts what all Kafka clients of a worker do, together. kprom
// alone serves one client: a second one with the same metrics panics.
type kafkaMetrics struct {
	*kprom.Metrics
	once sync.Once
}

func newKafkaMetrics(r prometheus.Registerer) *kafkaMetrics {
	return &kafkaMetrics{Metrics: kprom.NewMetrics("jobtrail_worker_kafka", kprom.Registerer(countersOnly{r}))}
}

// OnNewClient implements kgo.HookNewClient.
func (m *kafkaMetrics) OnNewClient(cl *kgo.Client) {
	m.once.Do(func() { m.Metrics.OnNewClient(cl) })
}

// OnClientClosed implements kgo.HookClientClosed: the other clients go on.
func (m *kafkaMetrics) OnClientClosed(*kgo.Client) {}

// countersOnly leaves out kprom's gauges, which show the buffers of one client.
// They are its only collectors that are single metrics.
type countersOnly struct{ prometheus.Registerer }

// MustRegister implements prometheus.Registerer.
func (r countersOnly) MustRegister(cs ...prometheus.Collector) {
	for _, c := range cs {
		if _, single := c.(prometheus.Metric); !single {
			r.Registerer.MustRegister(c)
		}
	}
}
