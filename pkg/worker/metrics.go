package worker

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/jobtrail/jobtrail/pkg/events"
	"github.com/jobtrail/jobtrail/pkg/sanitize"
)

// metrics of a worker; docs/metrics.md says what each means and what to do.
type metrics struct {
	attempts    *prometheus.CounterVec
	duration    *prometheus.HistogramVec
	terminals   *prometheus.CounterVec
	retries     *prometheus.CounterVec
	started     *prometheus.CounterVec
	abandoned   *prometheus.CounterVec
	parked      *prometheus.CounterVec
	duplicates  prometheus.Counter
	rejected    prometheus.Counter
	running     prometheus.Gauge
	stuck       prometheus.Gauge
	ready       *prometheus.GaugeVec
	waiting     prometheus.Gauge
	suspects    prometheus.Gauge
	shards      prometheus.Gauge
	split       prometheus.Gauge
	late        prometheus.Counter
	adopted     prometheus.Counter
	ticks       *prometheus.CounterVec
	tickSeconds prometheus.Histogram
	tickRecords prometheus.Histogram
	aborted     prometheus.Counter
	doubts      *prometheus.CounterVec
	replaced    prometheus.Counter
	fenced      prometheus.Counter
	lost        prometheus.Counter
	replayed    prometheus.Histogram
	undecodable prometheus.Counter
	skew        prometheus.Gauge
}

// newMetrics registers the metrics. What can be counted is there from the start,
// at 0: alerts on the first occurrence need that.
func newMetrics(reg prometheus.Registerer, clean *sanitize.Sanitizer, types []Type) *metrics {
	f := promauto.With(reg)
	f.NewCounterFunc(prometheus.CounterOpts{Namespace: "jobtrail", Subsystem: "worker", Name: "sanitize_failed_closed_total", Help: "Texts replaced as a whole because they could not be cleaned."},
		func() float64 { return float64(clean.FailedClosed()) })
	counter := func(name, help string) prometheus.Counter {
		return f.NewCounter(prometheus.CounterOpts{Namespace: "jobtrail", Subsystem: "worker", Name: name, Help: help})
	}
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		return f.NewCounterVec(prometheus.CounterOpts{Namespace: "jobtrail", Subsystem: "worker", Name: name, Help: help}, labels)
	}
	gauge := func(name, help string) prometheus.Gauge {
		return f.NewGauge(prometheus.GaugeOpts{Namespace: "jobtrail", Subsystem: "worker", Name: name, Help: help})
	}
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		return f.NewHistogram(prometheus.HistogramOpts{Namespace: "jobtrail", Subsystem: "worker", Name: name, Help: help, Buckets: buckets})
	}
	m := &metrics{
		attempts: counters("attempts_total", "Attempts that ended here, by type, outcome and error class.", "job_type", "outcome", "error_class"),
		duration: f.NewHistogramVec(prometheus.HistogramOpts{Namespace: "jobtrail", Subsystem: "worker", Name: "attempt_seconds",
			Help: "How long attempts ran.", Buckets: prometheus.ExponentialBuckets(0.001, 4, 10)}, []string{"job_type"}),
		started:     counters("attempts_started_total", "Attempts recorded as started, by type and cause.", "job_type", "cause"),
		retries:     counters("retries_total", "Retries scheduled, by type and error class.", "job_type", "error_class"),
		terminals:   counters("terminals_total", "Runs that ended, by type, outcome and reason.", "job_type", "outcome", "reason"),
		abandoned:   counters("abandoned_total", "Attempts found without an outcome, by cause.", "cause"),
		parked:      counters("parked_total", "Jobs parked for a decision, by type and reason.", "job_type", "reason"),
		duplicates:  counter("duplicates_total", "Second publications seen within the duplicate window."),
		rejected:    counter("rejected_transitions_total", "What the state machine forbade. Expected to stay 0."),
		running:     gauge("handlers_running", "Handlers that run now."),
		stuck:       gauge("handlers_stuck", "Handlers that ignore their timeout and keep their slot."),
		ready:       f.NewGaugeVec(prometheus.GaugeOpts{Namespace: "jobtrail", Subsystem: "worker", Name: "jobs_ready", Help: "Jobs read that wait for a slot, by type."}, []string{"job_type"}),
		waiting:     gauge("jobs_waiting", "Jobs read that wait for their time."),
		suspects:    gauge("suspects", "Jobs that wait to be run in a small cohort, since attempts of them ended with their worker."),
		shards:      gauge("partitions_ready", "Partition numbers that this worker runs jobs of."),
		split:       gauge("partitions_split", "Partition numbers of which only some topics are assigned here. Expected to return to 0 within a rebalance."),
		late:        counter("late_facts_total", "Outcomes written after the partition was lost."),
		adopted:     counter("adopted_total", "Late outcomes of other workers taken over."),
		ticks:       counters("ticks_total", "Transactions, by result.", "result"),
		tickSeconds: histogram("tick_seconds", "How long a transaction took.", prometheus.ExponentialBuckets(0.001, 2, 14)),
		tickRecords: histogram("tick_records", "Records a transaction wrote.", prometheus.ExponentialBuckets(1, 4, 8)),
		aborted:     counter("ticks_aborted_total", "Transactions aborted since the group had moved on."),
		doubts:      counters("transactions_in_doubt_total", "Transactions whose end was in doubt, by what was found.", "found"),
		replaced:    counter("producers_replaced_total", "Transactional clients replaced."),
		fenced:      counter("transactions_fenced_total", "Hung transactions of dead workers ended here."),
		lost:        counter("partitions_lost_total", "Partitions lost without a drain."),
		replayed:    histogram("replayed_events", "Events replayed to recover a partition.", prometheus.ExponentialBuckets(10, 4, 9)),
		undecodable: counter("undecodable_evidence_total", "Evidence records that are no event. Expected to stay 0."),
		skew:        gauge("clock_skew_seconds", "Brokers' clock minus own clock."),
	}
	for _, t := range types {
		m.begin(t.Name)
	}
	for _, reason := range []events.TerminalReason{events.ReasonMalformed, events.ReasonUnknownType, events.ReasonOversize} {
		m.terminals.WithLabelValues(unnamed, events.TerminalFailed.String(), reason.String())
	}
	for _, cause := range []events.AbandonCause{events.AbandonWorkerLost, events.AbandonMovedAway, events.AbandonDeadlinePassed, events.AbandonNotStarted} {
		m.abandoned.WithLabelValues(cause.String())
	}
	for _, result := range []string{"committed", "failed"} {
		m.ticks.WithLabelValues(result)
	}
	for _, found := range []string{"committed", "aborted", "unknown"} {
		m.doubts.WithLabelValues(found)
	}
	return m
}

// tellReady registers the gauge of what /readyz says.
func tellReady(reg prometheus.Registerer, ready func() error) {
	promauto.With(reg).NewGaugeFunc(prometheus.GaugeOpts{Namespace: "jobtrail", Subsystem: "worker", Name: "ready", Help: "1 while the worker does its work, as /readyz says."}, func() float64 {
		if ready() != nil {
			return 0
		}
		return 1
	})
}

// unnamed is the label of job types that nobody configured: their names are not
// bounded.
const unnamed = "unknown"

// begin makes the series of a job type, as far as they can occur.
func (m *metrics) begin(typ string) {
	m.duration.WithLabelValues(typ)
	m.ready.WithLabelValues(typ)
	for _, cause := range startCauses {
		m.started.WithLabelValues(typ, cause.String())
	}
	m.attempts.WithLabelValues(typ, events.OutcomeSucceeded.String(), events.ErrorClass(0).String())
	m.attempts.WithLabelValues(typ, events.OutcomeTimedOut.String(), events.ClassTimeout.String())
	m.attempts.WithLabelValues(typ, events.OutcomeInterrupted.String(), events.ClassTransient.String())
	m.terminals.WithLabelValues(typ, events.TerminalSucceeded.String(), events.TerminalReason(0).String())
	m.terminals.WithLabelValues(typ, events.TerminalExpired.String(), events.ReasonDeadline.String())
	for _, class := range errorClasses {
		m.attempts.WithLabelValues(typ, events.OutcomeFailed.String(), class.String())
		m.retries.WithLabelValues(typ, class.String())
	}
	for _, reason := range failReasons {
		m.terminals.WithLabelValues(typ, events.TerminalFailed.String(), reason.String())
	}
	for _, reason := range parkReasons {
		m.parked.WithLabelValues(typ, reason.String())
	}
}

// What the enums hold that this version writes.
var (
	startCauses  = []events.StartCause{events.CauseFirst, events.CauseRetry, events.CauseRedelivery}
	errorClasses = []events.ErrorClass{events.ClassTransient, events.ClassThrottled, events.ClassTimeout, events.ClassPermanent, events.ClassMalformed, events.ClassPanic, events.ClassCrash}
	parkReasons  = []events.ParkReason{events.ParkAbandoned, events.ParkInterrupted}
	failReasons  = []events.TerminalReason{events.ReasonExhausted, events.ReasonPermanent, events.ReasonMalformed, events.ReasonOversize, events.ReasonCrashLoop}
)

func (m *metrics) attempt(typ string, r *result, took time.Duration) {
	m.attempts.WithLabelValues(typ, r.outcome.String(), r.err.Class.String()).Inc()
	m.duration.WithLabelValues(typ).Observe(took.Seconds())
}

func (m *metrics) tick(took time.Duration, records int, err error) {
	result := "committed"
	if err != nil {
		result = "failed"
	}
	m.ticks.WithLabelValues(result).Inc()
	m.tickSeconds.Observe(took.Seconds())
	m.tickRecords.Observe(float64(records))
}

// concluded counts what a committed batch says.
func (m *metrics) concluded(b *batch, l *ledger) {
	m.late.Add(float64(len(b.late) + len(b.missed)))
	for i := range b.units {
		u := &b.units[i]
		r := u.e.result
		if u.a != nil {
			r = u.a.result
		}
		if r != nil && r.adoptedFrom > 0 {
			m.adopted.Inc()
		}
	}
	for _, ev := range b.said {
		typ := ev.JobType
		if _, ok := l.types[typ]; !ok {
			typ = unnamed
		}
		switch x := ev.Body.(type) {
		case *events.AttemptStarted:
			m.started.WithLabelValues(typ, x.Cause.String()).Inc()
		case *events.AttemptFinished:
			if x.Next.RetryAt != 0 {
				m.retries.WithLabelValues(typ, x.Error.Class.String()).Inc()
			}
		case *events.AttemptAbandoned:
			m.abandoned.WithLabelValues(x.Cause.String()).Inc()
		case *events.JobParked:
			m.parked.WithLabelValues(typ, x.Reason.String()).Inc()
		case *events.JobTerminal:
			m.terminals.WithLabelValues(typ, x.Outcome.String(), x.Reason.String()).Inc()
		case *events.DuplicateSeen:
			m.duplicates.Inc()
		case *events.TransitionRejected:
			m.rejected.Inc()
		}
	}
	m.measure(l)
}

// measure sets the gauges of what the ledger holds. The caller holds mu.
func (m *metrics) measure(l *ledger) {
	m.running.Set(float64(l.running))
	m.waiting.Set(float64(len(l.waiting)))
	m.suspects.Set(float64(len(l.suspects)))
	m.shards.Set(float64(len(l.shards)))
	m.split.Set(float64(len(l.split())))
	for name, t := range l.types {
		m.ready.WithLabelValues(name).Set(float64(t.ready.len()))
	}
}
