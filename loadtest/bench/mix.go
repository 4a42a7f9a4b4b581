package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/jobtrail/jobtrail/pkg/events"
	"github.com/jobtrail/jobtrail/pkg/sanitize"
)

const (
	// openJobs is how many jobs of a partition are under way at once.
	openJobs = 300
	// tickEvents is how many events a transaction holds.
	tickEvents = 5_000
	// checkpointEvery is after how many events a partition is checkpointed.
	checkpointEvery = 50_000
	// pageEntries is how many jobs a page of the duplicate window lists.
	pageEntries = 10_000
)

// fillMix writes a group's log: s.Jobs events as a few busy workers leave them,
// in transactions, compressed as theirs are. Every call writes the same bytes
// for the same name.
func fillMix(ctx context.Context, s settings) error {
	topic := s.topology().Evidence()
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.Brokers), kgo.TransactionalID(topic), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(kgo.SnappyCompression(), kgo.NoCompression()), kgo.MaxBufferedRecords(2*tickEvents))
	if err != nil {
		return err
	}
	defer cl.Close()
	made, err := kadm.NewClient(cl).CreateTopics(ctx, partitions, 1, map[string]*string{"message.timestamp.type": new("LogAppendTime")}, topic)
	if err == nil {
		err = made.Error()
	}
	if err != nil {
		return fmt.Errorf("making the log: %w", err)
	}
	m := newMix(s.Name)
	for left := s.Jobs; left > 0; left -= tickEvents {
		if err := cl.BeginTransaction(); err != nil {
			return err
		}
		var first atomic.Pointer[error]
		for range min(left, tickEvents) {
			partition, value, err := m.next()
			if err != nil {
				return fmt.Errorf("making event %d: %w", m.made, err)
			}
			cl.Produce(ctx, &kgo.Record{Topic: topic, Partition: partition, Value: value}, func(_ *kgo.Record, err error) {
				if err != nil {
					first.CompareAndSwap(nil, &err)
				}
			})
		}
		if err := cl.Flush(ctx); err != nil {
			return err
		}
		if err := first.Load(); err != nil {
			return fmt.Errorf("writing to the log: %w", *err)
		}
		if err := cl.EndTransaction(ctx, kgo.TryCommit); err != nil {
			return fmt.Errorf("committing: %w", err)
		}
	}
	return nil
}

// mix makes events: jobs of twelve types and fifty tenants, one to four an
// operation; of a hundred jobs about 85 succeed at once, 10 fail once or more
// and are retried, 3 are dead-lettered, and 2 are deferred, abandoned, parked or
// duplicates. The jobs of a partition go on side by side.
type mix struct {
	rng     *rand.Rand
	group   string
	topicID uuid.UUID
	types   []string
	tenants []string
	workers []string
	tiers   []string
	errors  []func(*rand.Rand) events.Error
	encoder events.Encoder
	made    int
	lanes   [partitions]lane
	op      operation
}

// lane is a partition of the job topic and of the log.
type lane struct {
	number  int32
	offset  int64 // of the next publication
	tier    int64 // of the next record in a tier
	since   int   // events since the last checkpoint
	pages   int64 // pages written so far
	pending [][]byte
	open    []*life
	ended   []ended
	last    *life
}

type ended struct {
	tenant, job, typ string
	offset           int64
	state            events.State
	at               events.Time
}

// operation is what the next jobs belong to.
type operation struct {
	id, tenant string
	trace      [16]byte
	left       int
}

// life is a job on its way.
type life struct {
	event    events.Event // what all of its events have in common
	at       events.Job
	plan     []step
	attempt  uuid.UUID
	delivery uint32
	started  events.Time
}

// step is one event of a plan.
type step uint8

const (
	starts step = iota
	succeeds
	failsOnce // with a retry to follow
	givesUp
	isLost // the worker, with a retry to follow
	isAbandoned
	parks
	isRetried  // by an operator
	isSettled  // by an operator, as succeeded
	isDeferred // by a pause or a breaker
	ends
	isDead
	repeats // is a duplicate
)

func newMix(name string) *mix {
	m := &mix{rng: rand.New(rand.NewPCG(4, 2)), group: name}
	m.topicID = m.uuid()
	m.types = strings.Fields("charge-card capture-payment refund ship-order print-label send-mail send-sms sync-crm index-product resize-image close-account monthly-report")
	for i := range 50 {
		m.tenants = append(m.tenants, fmt.Sprintf("tenant-%03d", i))
	}
	for i := range 4 {
		m.workers = append(m.workers, fmt.Sprintf("worker-%d/%08x", i, m.rng.Uint32()))
	}
	for _, d := range []string{"1s", "10s", "1m", "10m"} {
		m.tiers = append(m.tiers, name+".retry."+d)
	}
	say := func(class events.ErrorClass, typ, format string, args ...func(*rand.Rand) any) {
		m.errors = append(m.errors, func(r *rand.Rand) events.Error {
			values := make([]any, len(args))
			for i, arg := range args {
				values[i] = arg(r)
			}
			text := sanitize.Clean(fmt.Sprintf(format, values...))
			return events.Error{Class: class, Type: typ, Message: text, Fingerprint: sanitize.Fingerprint(text)}
		})
	}
	number := func(r *rand.Rand) any { return r.IntN(1_000_000) }
	say(events.ClassTransient, "http_503", "calling the payment gateway: 503 Service Unavailable after %d ms", number)
	say(events.ClassTransient, "*net.OpError", "dial tcp 10.2.%d.7:5432: connect: connection refused", func(r *rand.Rand) any { return r.IntN(250) })
	say(events.ClassThrottled, "http_429", "too many requests: try again in %d seconds", func(r *rand.Rand) any { return r.IntN(60) })
	say(events.ClassTimeout, "context.deadlineExceededError", "waiting for the label printer: context deadline exceeded")
	say(events.ClassTransient, "*pgconn.PgError", "ERROR: could not serialize access due to concurrent update (SQLSTATE 40001)")
	say(events.ClassPermanent, "*errors.errorString", "order %d does not exist", number)
	say(events.ClassPermanent, "http_422", "422 Unprocessable Entity: amount of invoice %d is negative", number)
	say(events.ClassPanic, "runtime.boundsError", "runtime error: index out of range [%d] with length 3", func(r *rand.Rand) any { return 3 + r.IntN(9) })
	for i := range m.lanes {
		l := &m.lanes[i]
		l.number = int32(i)
		for range openJobs {
			l.open = append(l.open, m.publication(l))
		}
	}
	return m
}

func (m *mix) uuid() (id uuid.UUID) {
	for i := range id {
		id[i] = byte(m.rng.Uint32())
	}
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return id
}

// now is the time of the next event: twenty in a millisecond.
func (m *mix) now() events.Time { return 1_780_000_000_000 + events.Time(m.made/20) }

// plan draws the way of a job.
func (m *mix) plan() []step {
	failing := func(n int) []step {
		var p []step
		for range n {
			p = append(p, starts, failsOnce)
		}
		return p
	}
	switch d := m.rng.IntN(1000); {
	case d < 850:
		return []step{starts, succeeds, ends}
	case d < 950:
		return append(failing(1+m.rng.IntN(3)), starts, succeeds, ends)
	case d < 980:
		return append(failing(m.rng.IntN(5)), starts, givesUp, isDead)
	case d < 985:
		return []step{isDeferred, isDeferred, starts, succeeds, ends}
	case d < 990:
		return []step{starts, isLost, starts, succeeds, ends}
	case d < 993:
		return []step{starts, isAbandoned, parks, isRetried, starts, succeeds, ends}
	case d < 995:
		return []step{starts, isAbandoned, parks, isSettled, ends}
	default:
		return []step{repeats}
	}
}

// publication begins a job.
func (m *mix) publication(l *lane) *life {
	if m.op.left == 0 {
		// Some tenants have many more jobs than others.
		m.op = operation{id: m.uuid().String(), tenant: m.tenants[m.rng.IntN(1+m.rng.IntN(len(m.tenants)))], trace: m.uuid(), left: 1 + m.rng.IntN(4)}
	}
	m.op.left--
	typ := m.types[m.rng.IntN(len(m.types))]
	at := m.now()
	p := events.Publication{TopicID: m.topicID, Topic: m.group + "-jobs", Partition: l.number, Offset: l.offset}
	l.offset++
	return &life{plan: m.plan(), event: events.Event{MinReader: 1, Group: m.group, TenantID: m.op.tenant, JobID: m.uuid().String(), JobType: typ, OperationID: m.op.id, Publication: p, Run: 1, OriginAt: at - 20,
		TraceID: m.op.trace, Source: events.Source{Topic: p.Topic, Partition: p.Partition, Offset: p.Offset}, Worker: m.workers[int(l.number)%len(m.workers)], Generation: 7, CodeVersion: "v1.4.2"}}
}

// next makes the next event of the log, in its encoded form.
func (m *mix) next() (partition int32, value []byte, err error) {
	l := &m.lanes[m.rng.IntN(partitions)]
	defer func() { m.made++ }()
	if l.since >= checkpointEvery {
		l.since = 0
		m.checkpoint(l)
	}
	if len(l.pending) > 0 {
		value, l.pending = l.pending[0], l.pending[1:]
		return l.number, value, nil
	}
	l.since++
	i := m.rng.IntN(len(l.open))
	job := l.open[i]
	e, err := m.advance(l, job)
	if err != nil {
		return 0, nil, err
	}
	if len(job.plan) == 0 {
		l.ended = append(l.ended, ended{job.event.TenantID, job.event.JobID, job.event.JobType, job.event.Publication.Offset, job.at.State, e.OccurredAt})
		l.last = job
		l.open[i] = m.publication(l)
	}
	return l.number, m.encoder.Append(nil, e), nil
}

// advance takes a job's next step.
func (m *mix) advance(l *lane, job *life) (*events.Event, error) {
	next := job.plan[0]
	job.plan = job.plan[1:]
	e := job.event
	e.OccurredAt = m.now()
	e.Version, e.Number = job.at.Version+1, job.at.Number
	// A retry comes by its tier.
	hop := func(tier string) {
		job.event.Source = events.Source{Topic: tier, Partition: l.number, Offset: l.tier}
		l.tier++
		job.delivery = 0
	}
	finished := func(outcome events.Outcome) *events.AttemptFinished {
		b := &events.AttemptFinished{AttemptID: job.attempt, Outcome: outcome, StartedAt: job.started, FinishedAt: e.OccurredAt, Delivery: job.delivery}
		if outcome != events.OutcomeSucceeded {
			b.Error = m.errors[m.rng.IntN(len(m.errors))](m.rng)
		}
		return b
	}
	resolved := func(verb events.ResolveVerb) *events.JobResolved {
		return &events.JobResolved{Verb: verb, Actor: "operator@shop", Reason: sanitize.Clean("looked at the provider's side"), CommandID: m.uuid()}
	}
	switch next {
	case starts:
		job.delivery++
		job.attempt = events.AttemptID(m.group, m.topicID, l.number, job.event.Source.Offset, job.delivery)
		job.started = e.OccurredAt + 1
		cause := events.CauseFirst
		if e.Number > 0 {
			cause = events.CauseRetry
		}
		e.Number++
		e.State, e.Body = events.StateRunning, &events.AttemptStarted{AttemptID: job.attempt, Cause: cause, EnqueuedAt: e.OccurredAt - 12, Delivery: job.delivery, IdempotencyKey: events.IdempotencyKey(m.group, e.TenantID, e.JobID, "")}
	case succeeds:
		e.State, e.Body = events.StateDeciding, finished(events.OutcomeSucceeded)
	case failsOnce:
		b := finished([]events.Outcome{events.OutcomeFailed, events.OutcomeFailed, events.OutcomeTimedOut}[m.rng.IntN(3)])
		b.Next = events.Next{RetryAt: e.OccurredAt + 1000, Tier: m.tiers[min(int(e.Number)-1, len(m.tiers)-1)]}
		e.State, e.Body = events.StateRetryWaiting, b
		hop(b.Next.Tier)
	case givesUp:
		e.State, e.Body = events.StateDeciding, finished(events.OutcomeFailed)
	case isLost:
		e.State, e.Body = events.StateRetryWaiting, &events.AttemptAbandoned{AttemptID: job.attempt, Cause: events.AbandonWorkerLost, Losses: 1, Detector: e.Worker, BasedOn: 1 + int64(m.made/partitions), Delivery: job.delivery}
	case isAbandoned:
		e.State, e.Body = events.StateDeciding, &events.AttemptAbandoned{AttemptID: job.attempt, Cause: events.AbandonWorkerLost, Losses: 1, Detector: e.Worker, BasedOn: 1 + int64(m.made/partitions), Delivery: job.delivery}
	case parks:
		e.State, e.Body = events.StateParked, &events.JobParked{Reason: events.ParkAbandoned}
	case isRetried:
		e.State, e.Body = events.StateRetryWaiting, resolved(events.ResolveRetry)
		hop(m.tiers[0])
	case isSettled:
		e.State, e.Body = events.StateDeciding, resolved(events.ResolveSucceeded)
	case isDeferred:
		e.State, e.Body = events.StatePending, &events.JobDeferred{Reason: events.DeferPaused, Until: e.OccurredAt + 10_000, Tier: m.tiers[1]}
		hop(m.tiers[1])
	case ends:
		e.State, e.Body = events.StateSucceeded, &events.JobTerminal{Outcome: events.TerminalSucceeded, Attempts: e.Number}
	case isDead:
		e.State, e.Body = events.StateFailed, &events.JobTerminal{Outcome: events.TerminalFailed, Reason: events.ReasonExhausted, Attempts: e.Number}
	case repeats:
		b := &events.DuplicateSeen{Action: events.DuplicateRejected}
		if l.last != nil {
			b.First, b.FirstOperationID, b.FirstState = l.last.event.Publication, l.last.event.OperationID, l.last.at.State
			e.JobID, e.TenantID, e.JobType = l.last.event.JobID, l.last.event.TenantID, l.last.event.JobType
		}
		e.Run, e.Version, e.Number, e.Body = 0, 0, 0, b
	}
	after, err := job.at.Apply(&e)
	job.at = after
	return &e, err
}

// checkpoint makes the pages of the duplicate window and the checkpoint that
// names them.
func (m *mix) checkpoint(l *lane) {
	about := events.Event{MinReader: 1, OccurredAt: m.now(), Group: m.group, Worker: m.workers[int(l.number)%len(m.workers)], Generation: 7, CodeVersion: "v1.4.2"}
	topic := events.Publication{TopicID: m.topicID, Topic: m.group + "-jobs"}
	write := func(body events.Body) {
		e := about
		e.Body = body
		l.pending = append(l.pending, m.encoder.Append(nil, &e))
	}
	c := &events.Checkpoint{ID: m.uuid(), Parts: 1, Committed: []events.Source{{Topic: topic.Topic, Partition: l.number, Offset: l.offset - 2*openJobs}}}
	for len(l.ended) > 0 {
		n := min(len(l.ended), pageEntries)
		page := &events.DedupPage{Topics: []events.Publication{topic}}
		for _, j := range l.ended[:n] {
			page.Job = append(page.Job, m.rng.Uint64())
			page.JobType = append(page.JobType, uint32(len(j.typ)))
			page.Topic = append(page.Topic, 0)
			page.Offset = append(page.Offset, j.offset)
			page.State = append(page.State, j.state)
			page.LastAt = append(page.LastAt, uint32(j.at/1000))
		}
		l.ended = l.ended[n:]
		write(page)
		c.DedupPages = append(c.DedupPages, int64(m.made/partitions)+l.pages)
		l.pages++
	}
	for _, job := range l.open {
		e := &job.event
		if job.at.State == events.StateRunning {
			c.Open = append(c.Open, events.OpenEntry{TenantID: e.TenantID, JobID: e.JobID, JobType: e.JobType, OperationID: e.OperationID, Publication: e.Publication, Run: 1, Version: job.at.Version, State: job.at.State,
				Number: job.at.Number, OriginAt: e.OriginAt, Source: e.Source, Delivery: job.delivery, AttemptID: job.attempt, Worker: e.Worker, StartedAt: job.started})
		}
	}
	write(c)
}
