package projector

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/jobtrail/jobtrail/pkg/sanitize"
)

type metrics struct {
	rows, poison, batches, rewinds    *prometheus.CounterVec
	insertErrors                      prometheus.Counter
	insertSeconds, batchRows          prometheus.Histogram
	position, end, stable, lagSeconds *prometheus.GaugeVec
	stopped, lost                     *prometheus.GaugeVec
	breakerOpen, budgetBytes          prometheus.Gauge
}

// begin makes the series of a partition that would else appear with their first
// occurrence: alerts on it need them at 0 before.
func (m *metrics) begin(labels []string) {
	for _, c := range []*prometheus.CounterVec{m.rows, m.poison, m.batches, m.rewinds} {
		c.WithLabelValues(labels...)
	}
	for _, g := range []*prometheus.GaugeVec{m.stopped, m.lost} {
		g.WithLabelValues(labels...)
	}
}

// endOf takes away what a partition that was given up would else say for ever.
func (m *metrics) endOf(labels []string) {
	for _, g := range []*prometheus.GaugeVec{m.position, m.end, m.stable, m.lagSeconds} {
		g.DeleteLabelValues(labels...)
	}
}

func newMetrics(reg prometheus.Registerer, clean *sanitize.Sanitizer) *metrics {
	const ns = "jobtrail_projector_"
	partition := []string{"group", "partition"}
	counter := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: ns + name, Help: help}, partition)
	}
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: ns + name, Help: help}, partition)
	}
	m := &metrics{
		rows:          counter("rows_total", "Events inserted into the table evidence."),
		poison:        counter("quarantined_total", "Records of the log that are no events."),
		batches:       counter("batches_total", "Batches acknowledged by the store and committed."),
		rewinds:       counter("rewinds_total", "Times the partition was read again because the store had lost acknowledged rows."),
		insertErrors:  prometheus.NewCounter(prometheus.CounterOpts{Name: ns + "insert_errors_total", Help: "Inserts whose outcome was an error or unknown; the same batch goes again."}),
		insertSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{Name: ns + "insert_seconds", Help: "Duration of acknowledged inserts.", Buckets: prometheus.ExponentialBuckets(0.005, 2, 14)}),
		batchRows:     prometheus.NewHistogram(prometheus.HistogramOpts{Name: ns + "batch_rows", Help: "Records in a batch.", Buckets: prometheus.ExponentialBuckets(1, 4, 10)}),
		position:      gauge("position", "Every event before this offset is in the store."),
		end:           gauge("log_end_offset", "End of the log."),
		stable:        gauge("log_stable_offset", "Offset before which no transaction is open; an end that stays ahead of it is a hung transaction."),
		lagSeconds:    gauge("lag_seconds", "Age of the time up to which the store is complete."),
		stopped:       gauge("stopped", "1 while the store's schema or rights refuse the partition's batch."),
		lost:          gauge("log_truncated", "1 when the log lost records before they were read."),
		breakerOpen:   prometheus.NewGauge(prometheus.GaugeOpts{Name: ns + "breaker_open", Help: "1 while the store is taken to be away and fetching is paused."}),
		budgetBytes:   prometheus.NewGauge(prometheus.GaugeOpts{Name: ns + "buffered_bytes", Help: "Memory held by fetched records and blocks."}),
	}
	reg.MustRegister(m.rows, m.poison, m.batches, m.rewinds, m.insertErrors, m.insertSeconds, m.batchRows, m.position, m.end, m.stable, m.lagSeconds, m.stopped, m.lost, m.breakerOpen, m.budgetBytes)
	reg.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: ns + "sanitize_failed_closed_total", Help: "Texts replaced as a whole because they could not be cleaned."},
		func() float64 { return float64(clean.FailedClosed()) }))
	return m
}

// tellReady registers the gauge of what /readyz says.
func tellReady(reg prometheus.Registerer, ready func() error) {
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "jobtrail_projector_ready", Help: "1 while the projector does its work, as /readyz says."}, func() float64 {
		if ready() != nil {
			return 0
		}
		return 1
	}))
}
