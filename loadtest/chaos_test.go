//go:build chaos

package loadtest_test

import (
	"context"
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/jobtrail/jobtrail/internal/localstack"
	"github.com/jobtrail/jobtrail/internal/localstack/stacktest"
	"github.com/jobtrail/jobtrail/loadtest"
	"github.com/jobtrail/jobtrail/pkg/events"
	"github.com/jobtrail/jobtrail/pkg/jobs"
)

var (
	chaosSeed = flag.Uint64("seed", 0, "seed of the faults, their order and their times; 0 takes one by chance")
	chaosOnly = flag.String("only", "", "regular expression: the kinds of faults that are made")
	chaosTime = flag.Duration("faults", 3*time.Minute, "how long faults are made")
)

// TestChaosFaults has workers, projectors, the broker and ClickHouse fail in
// every way that it knows, in an order by chance and under load, and holds what
// is left against every promise. It prints when what happened.
func TestChaosFaults(t *testing.T) {
	seed := *chaosSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano() % 1e6)
	}
	stack := stacktest.Private(t, localstack.Config{})
	c := newChaos(t, stack, rand.New(rand.NewPCG(seed, 0)))
	c.note("seed %d", seed)
	t.Cleanup(func() {
		if t.Failed() {
			c.save(filepath.Join("..", ".cache", "chaos", fmt.Sprint(seed)))
		}
	})
	c.load()
	defer c.halt()
	c.probe("start")
	kinds := slices.DeleteFunc(c.faults(), func(f fault) bool { return !regexp.MustCompile(*chaosOnly).MatchString(f.name) })
	// Each kind once in an order by chance, then any; sometimes two at a time.
	order := c.r.Perm(len(kinds))
	for c.rounds = 0; c.rounds < len(kinds) || time.Since(c.begun) < *chaosTime; {
		var names []string
		var under sync.WaitGroup
		for range 1 + c.r.IntN(4)/3 {
			i := c.r.IntN(len(kinds))
			if c.rounds < len(order) {
				i = order[c.rounds]
			}
			c.rounds++
			kind := kinds[i]
			c.made[kind.name]++
			names = append(names, kind.name)
			under.Go(kind.prepare())
		}
		under.Wait()
		c.probe(strings.Join(names, ", "))
	}
	c.end(kinds)
}

// TestChaosHeldWhileAMillionPass is TestHeldWhileOthersPass at length.
func TestChaosHeldWhileAMillionPass(t *testing.T) {
	t.Parallel()
	defer within(t, t.Name())()
	heldWhileOthersPass(t, "", 1_000_000)
}

// TestChaosManyIDsAcrossARestart publishes all 200,000 again.
func TestChaosManyIDsAcrossARestart(t *testing.T) {
	t.Parallel()
	defer within(t, t.Name())()
	manyIDsAcrossARestart(t, "", 1)
}

// TestChaosManyWaitInATier has twice as many wait, within the same bounds.
func TestChaosManyWaitInATier(t *testing.T) {
	t.Parallel()
	defer within(t, t.Name())()
	manyWaitInATier(t, "", 200_000, "90s")
}

// chaos is a run of it.
type chaos struct {
	t      *testing.T
	g      *group
	w      *witness
	stack  *localstack.Stack
	r      *rand.Rand // the test's goroutine only
	begun  time.Time
	rounds int
	made   map[string]int
	probes int
	worst  time.Duration
	lines  []string // of the time line
	dumps  []string // of what was stuck

	mu sync.Mutex // guards lines and seats

	stopLoad   func() int
	workers    []*seat
	projectors []*seat
	seats      []*seat // all there ever were
}

// note prints a line of the time line.
func (c *chaos) note(format string, args ...any) {
	line := fmt.Sprintf("%s %7.1fs  %s", time.Now().UTC().Format("15:04:05.000"), time.Since(c.begun).Seconds(), fmt.Sprintf(format, args...))
	fmt.Println(line)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines = append(c.lines, line)
}

// save writes what a run that failed has left into a folder: the time line, the
// evidence in words, and what all processes said.
func (c *chaos) save(dir string) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		c.t.Error(err)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	put := func(name string, lines []string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
			c.t.Error(err)
		}
	}
	put("timeline.txt", c.lines)
	put("stuck.txt", c.dumps)
	for _, s := range c.seats {
		for i, p := range s.sat {
			put(fmt.Sprintf("%s-%d.log", strings.ReplaceAll(s.name, " ", "-"), i), strings.Split(string(p.log()), "\n"))
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	put("transactions.txt", c.transactions(ctx))
	d, err := loadtest.ReadDump(ctx, c.g.kafka, c.g.topo)
	if err != nil {
		c.t.Errorf("reading what is left: %v", err)
		return
	}
	var lines []string
	for _, r := range d.Evidence {
		e := r.Event
		lines = append(lines, fmt.Sprintf("%d/%d %s %v v%d %v %s of %v run %d by %s/%d %+v", r.Partition, r.Offset, r.At.Time().UTC().Format("15:04:05.000"), e.Type(), e.Version, e.State,
			e.JobID, e.Publication, e.Run, e.Worker, e.Generation, e.Body))
	}
	put("evidence.txt", lines)
	c.t.Logf("what is left is in %s", dir)
}

// transactions says what the broker knows of transactions, and what each evidence
// partition does: one that hangs stops every reader.
func (c *chaos) transactions(ctx context.Context) (lines []string) {
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	cl, err := kgo.NewClient(c.g.kafka...)
	if err != nil {
		return []string{err.Error()}
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	var set kadm.TopicsSet
	ends, err := adm.ListEndOffsets(ctx, c.g.topo.Evidence())
	add("ends %v (%v)", ends, err)
	stable, err := adm.ListCommittedOffsets(ctx, c.g.topo.Evidence())
	add("stable ends %v (%v)", stable, err)
	for p := range int32(c.g.partitions) {
		set.Add(c.g.topo.Evidence(), p)
	}
	described, err := adm.DescribeProducers(ctx, set)
	if err != nil {
		add("producers: %v", err)
	}
	for _, t := range described {
		for _, q := range t.Partitions {
			for _, pr := range q.ActiveProducers {
				add("partition %d: %+v", q.Partition, pr)
			}
		}
	}
	txns, err := adm.ListTransactions(ctx, nil, nil)
	if err != nil {
		add("transactions: %v", err)
	}
	for _, t := range txns {
		add("transaction %+v", t)
	}
	detail, err := adm.DescribeTransactions(ctx, txns.TransactionalIDs()...)
	if err != nil {
		add("transactions: %v", err)
	}
	for _, t := range detail {
		add("transaction %+v", t)
	}
	return lines
}

// seat holds a process, and starts another one when it ends.
type seat struct {
	c     *chaos
	name  string
	start func() *process
	relay *relay // of a worker

	mu     sync.Mutex
	p      *process
	sat    []*process    // all that ever sat there
	pause  time.Duration // before the next one is started
	closed bool
	gone   chan struct{}
}

func (c *chaos) seat(name string, start func(*seat) *process) *seat {
	s := &seat{c: c, name: name, gone: make(chan struct{})}
	s.start = func() *process {
		p := start(s)
		s.sat = append(s.sat, p)
		return p
	}
	s.p = s.start()
	c.mu.Lock()
	c.seats = append(c.seats, s)
	c.mu.Unlock()
	go s.keep()
	return s
}

func (s *seat) keep() {
	defer close(s.gone)
	for {
		<-s.now().done
		s.mu.Lock()
		pause, closed := s.pause, s.closed
		s.mu.Unlock()
		if closed {
			return
		}
		time.Sleep(pause) //nolint:forbidigo // how long nobody sits there
		s.mu.Lock()
		if !s.closed {
			s.p = s.start()
		}
		closed = s.closed
		s.mu.Unlock()
		if closed {
			return
		}
	}
}

func (s *seat) now() *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.p
}

// signal sends a signal; another process follows after a pause if it ends.
func (s *seat) signal(sig syscall.Signal, pause time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pause = pause
	_ = s.p.cmd.Process.Signal(sig) // it may just have ended
}

// close ends the process in order, for good.
func (s *seat) close() {
	s.mu.Lock()
	s.closed = true
	p := s.p
	s.mu.Unlock()
	select {
	case <-p.done:
	default:
		p.stop()
	}
	<-s.gone
}

const chaosTypes = `job: {http: {url: "URL"}}
once: {http: {url: "URL"}, idempotent: false}
killer: {exec: {argv: [sh, -c, "kill -9 $PPID"]}}
command: {exec: {argv: [sleep, "0.05"]}}
`

func newChaos(t *testing.T, stack *localstack.Stack, r *rand.Rand) *chaos {
	c := &chaos{t: t, stack: stack, r: r, begun: time.Now(), made: make(map[string]int)}
	c.g = newGroupOn(t, stack.Brokers(), 6)
	c.g.store = stack.ClickHouseAddr()
	c.w = newWitness(t, c.g)
	c.w.on("job", answerByChance)
	c.w.on("once", answerByChance)
	file := c.w.jobsFile(chaosTypes)
	for _, name := range []string{"a", "b", "c"} {
		c.workers = append(c.workers, c.seat("worker "+name, func(s *seat) *process {
			if s.relay == nil {
				s.relay = newRelay(t, c.g.brokers[0])
			}
			return c.g.worker(file, "KAFKA_BROKERS="+s.relay.addr)
		}))
	}
	for _, name := range []string{"a", "b"} {
		c.projectors = append(c.projectors, c.seat("projector "+name, func(*seat) *process { return c.g.projector() }))
	}
	return c
}

// answerByChance has some jobs be slow, fail once, twice or always.
func answerByChance(c *call) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(c.job))
	switch luck := h.Sum32() % 100; {
	case strings.HasPrefix(c.job, "probe"):
	case luck < 2:
		time.Sleep(2 * time.Second) //nolint:forbidigo // the job's own time
	case luck < 12 && c.number == "1", luck < 22 && (c.number == "1" || c.number == "2"), luck < 27:
		return 503
	case luck < 30:
		return 400
	default:
		time.Sleep(20 * time.Millisecond) //nolint:forbidigo // the job's own time
	}
	return 200
}

// load publishes jobs of all kinds until stopLoad is called.
func (c *chaos) load() {
	const every, batch = 100 * time.Millisecond, 6
	enough, sent := make(chan struct{}), make(chan int, 1)
	r := rand.New(rand.NewPCG(c.r.Uint64(), 0))
	go func() {
		n := 0
		defer func() { sent <- n }()
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			var list []jobs.Job
			for range batch {
				job := jobs.Job{ID: fmt.Sprint("job-", n), Type: "job", OperationID: fmt.Sprint("op-", n/5), Value: []byte(fmt.Sprint("payload ", n))}
				switch luck := r.IntN(100); {
				case luck < 5:
					job.Type = "once"
				case luck < 8:
					job.Type = "command"
				case luck < 10:
					job.NotBefore = time.Now().Add(time.Duration(r.IntN(6000)) * time.Millisecond)
				case luck < 12:
					job.Deadline = time.Now().Add(time.Duration(r.IntN(6000)) * time.Millisecond)
				case luck < 14 && n > 0:
					job.ID = fmt.Sprint("job-", r.IntN(n)) // again
				case luck < 15:
					job.Type = "nobody"
				}
				list = append(list, job)
				n++
			}
			if _, err := c.g.pub.PublishAll(context.Background(), list); err != nil {
				c.t.Errorf("publishing: %v", err)
				return
			}
			select {
			case <-enough:
				return
			case <-tick.C:
			}
		}
	}()
	c.stopLoad = sync.OnceValue(func() int {
		close(enough)
		return <-sent
	})
}

// halt ends the load and every process, however far the run has come.
func (c *chaos) halt() {
	c.stopLoad()
	c.mu.Lock()
	seats := slices.Clone(c.seats)
	c.mu.Unlock()
	for _, s := range seats {
		s.mu.Lock()
		s.closed = true
		_ = s.p.cmd.Process.Kill()
		s.mu.Unlock()
		<-s.gone
	}
}

// recovery is how soon after a fault every partition must run jobs again.
const recovery = 60 * time.Second

// probe publishes jobs to all partitions and waits until they are run.
func (c *chaos) probe(what string) {
	c.probes++
	begun := time.Now()
	var ids []string
	var list []jobs.Job
	for i := range 24 {
		id := fmt.Sprint("probe-", c.probes, "-", i)
		ids = append(ids, id)
		list = append(list, jobs.Job{ID: id, Type: "job"})
	}
	c.g.publish(list...)
	for _, id := range ids {
		if !c.w.called(id, 1, time.Until(begun.Add(recovery))) {
			c.note("after %s: %s is not run after %v", what, id, recovery)
			c.stuck()
			c.t.FailNow()
		}
	}
	took := time.Since(begun)
	c.worst = max(c.worst, took)
	c.note("after %s: jobs run again within %v", what, took.Round(10*time.Millisecond))
}

// stuck notes what workers wait for when jobs are not run.
func (c *chaos) stuck() {
	for _, s := range c.workers {
		p := s.now()
		c.dumps = append(c.dumps, s.name, string(p.get("/debug/pprof/goroutine?debug=2")), string(p.get("/metrics")))
	}
	cl, err := kgo.NewClient(c.g.kafka...)
	if err != nil {
		c.t.Error(err)
		return
	}
	defer cl.Close()
	req := kmsg.NewPtrOffsetFetchRequest()
	req.RequireStable = true
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = c.g.topo.Group
	req.Groups = append(req.Groups, g)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	resp, err := req.RequestWith(ctx, cl)
	c.dumps = append(c.dumps, fmt.Sprintf("stable commits: %+v (%v)", resp, err))
	groups, err := kadm.NewClient(cl).DescribeConsumerGroups(ctx, c.g.topo.Group)
	c.dumps = append(c.dumps, fmt.Sprintf("members: %+v (%v)", groups, err))
}

// fault is a kind of fault. prepare takes what is left to chance and returns the
// fault, which returns when it is over.
type fault struct {
	name    string
	prepare func() func()
}

func (c *chaos) faults() []fault {
	seconds := func(from, to int) time.Duration {
		return time.Duration(from*1000+c.r.IntN((to-from)*1000)) * time.Millisecond
	}
	worker := func() *seat { return c.workers[c.r.IntN(len(c.workers))] }
	projector := func() *seat { return c.projectors[c.r.IntN(len(c.projectors))] }
	last := func(d time.Duration) { time.Sleep(d) } //nolint:forbidigo // how long a fault lasts
	server := func(what string, err error) {
		if err != nil {
			c.t.Errorf("%s: %v", what, err)
		}
	}
	return []fault{
		{"a worker killed", func() func() {
			s, d := worker(), seconds(0, 3)
			return func() { c.note("kill -9 of %s, %v away", s.name, d); s.signal(syscall.SIGKILL, d); last(d) }
		}},
		{"all workers killed", func() func() {
			d := seconds(0, 2)
			return func() {
				c.note("kill -9 of all workers, %v away", d)
				for _, s := range c.workers {
					s.signal(syscall.SIGKILL, d)
				}
				last(d)
			}
		}},
		{"a worker terminated", func() func() {
			s := worker()
			return func() { c.note("SIGTERM to %s", s.name); s.signal(syscall.SIGTERM, 0); last(time.Second) }
		}},
		{"a worker stalled past its session", func() func() {
			s, d := worker(), seconds(4, 9)
			return func() {
				c.note("SIGSTOP of %s for %v", s.name, d)
				s.signal(syscall.SIGSTOP, 0)
				last(d)
				s.signal(syscall.SIGCONT, 0)
			}
		}},
		{"a worker stalled within its session", func() func() {
			s, d := worker(), seconds(1, 3)
			return func() {
				c.note("SIGSTOP of %s for %v", s.name, d)
				s.signal(syscall.SIGSTOP, 0)
				last(d)
				s.signal(syscall.SIGCONT, 0)
			}
		}},
		{"workers come and go", func() func() {
			n := 2 + c.r.IntN(3)
			return func() {
				c.note("%d workers more, one after the other for 3 s each", n)
				for i := range n {
					extra := c.seat(fmt.Sprint("worker x", i), func(*seat) *process { return c.g.worker(c.w.jobsFile(chaosTypes)) })
					last(3 * time.Second)
					extra.close()
				}
			}
		}},
		{"a worker cut off from the broker", func() func() {
			s, d := worker(), seconds(1, 8)
			return func() {
				c.note("what %s says is kept for %v, then its connections are cut", s.name, d)
				release := s.relay.hold()
				last(d)
				s.relay.sever()
				release()
			}
		}},
		{"a worker heard late", func() func() {
			s, d := worker(), seconds(1, 8)
			return func() {
				c.note("what %s says reaches the broker %v late", s.name, d)
				release := s.relay.hold()
				last(d)
				release()
			}
		}},
		{"connections cut", func() func() {
			return func() {
				c.note("all connections of workers are cut, ten times")
				for range 10 {
					for _, s := range c.workers {
						s.relay.sever()
					}
					last(200 * time.Millisecond)
				}
			}
		}},
		{"the answer to an end of transaction lost", func() func() { s := worker(); return func() { c.loseEnd(s, answers, false) } }},
		{"an end of transaction lost", func() func() { s := worker(); return func() { c.loseEnd(s, requests, false) } }},
		{"a worker killed at the end of a transaction", func() func() {
			s, what := worker(), []loss{answers, requests}[c.r.IntN(2)]
			return func() { c.loseEnd(s, what, true) }
		}},
		{"a hung transaction", func() func() {
			p, s := int32(c.r.IntN(c.g.partitions)), worker()
			return func() { c.hang(p); c.note("kill -9 of %s", s.name); s.signal(syscall.SIGKILL, 0); last(time.Second) }
		}},
		{"a job that kills its worker", func() func() {
			id := fmt.Sprint("killer-", c.r.IntN(1e6))
			return func() {
				c.note("%s is published", id)
				c.g.publish(jobs.Job{ID: id, Type: "killer"})
				last(5 * time.Second)
			}
		}},
		{"bad records", func() func() { return c.badRecords }},
		{"a projector killed", func() func() {
			s, d := projector(), seconds(0, 3)
			return func() { c.note("kill -9 of %s, %v away", s.name, d); s.signal(syscall.SIGKILL, d); last(d) }
		}},
		{"a projector stalled", func() func() {
			s, d := projector(), seconds(2, 9)
			return func() {
				c.note("SIGSTOP of %s for %v", s.name, d)
				s.signal(syscall.SIGSTOP, 0)
				last(d)
				s.signal(syscall.SIGCONT, 0)
			}
		}},
		{"the broker killed", func() func() {
			d := seconds(0, 5)
			return func() {
				// A broker of Kafka 4.3.1 that is killed while it writes the markers of a
				// transaction may lose track of it: see docs/guarantees.md. So none is ended
				// in that moment; those under way stay open.
				var release []func()
				for _, s := range c.workers {
					release = append(release, s.relay.hold(kmsg.EndTxn))
				}
				last(300 * time.Millisecond)
				c.note("kill -9 of the broker, %v away", d)
				server("killing the broker", c.stack.Kafka.Kill())
				for _, release := range release {
					release()
				}
				last(d)
				server("starting the broker", c.stack.Kafka.Restart(context.Background()))
				c.note("the broker is back")
			}
		}},
		{"the broker stalled", func() func() {
			d := seconds(1, 6)
			return func() {
				c.note("the broker pauses for %v", d)
				server("pausing the broker", c.stack.Kafka.Pause())
				last(d)
				server("continuing the broker", c.stack.Kafka.Continue())
			}
		}},
		{"ClickHouse killed", func() func() {
			d := seconds(0, 8)
			return func() {
				c.note("kill -9 of ClickHouse, %v away", d)
				server("killing ClickHouse", c.stack.ClickHouse.Kill())
				last(d)
				server("starting ClickHouse", c.stack.ClickHouse.Restart(context.Background()))
			}
		}},
		{"ClickHouse stalled", func() func() {
			d := seconds(1, 6)
			return func() {
				c.note("ClickHouse pauses for %v", d)
				server("pausing ClickHouse", c.stack.ClickHouse.Pause())
				last(d)
				server("continuing ClickHouse", c.stack.ClickHouse.Continue())
			}
		}},
	}
}

// loseEnd loses an end of transaction of a worker, and may kill it then.
func (c *chaos) loseEnd(s *seat, what loss, kill bool) {
	hit, over := s.relay.lose(what)
	defer s.relay.lose(nothing)
	select {
	case <-hit:
		c.note("an end of transaction of %s is lost (%v), kill %v", s.name, what, kill)
	case <-time.After(20 * time.Second):
		c.note("%s ended no transaction that could be lost", s.name)
		return
	}
	if kill {
		s.signal(syscall.SIGKILL, 0)
		return
	}
	select {
	case <-over:
	case <-time.After(20 * time.Second):
		c.note("%s has not asked for its producer id again", s.name)
	}
}

// hang leaves a transaction open on an evidence partition. Who takes over the
// partition fences it; where its owner lives on, the brokers abort it in time.
func (c *chaos) hang(p int32) {
	dead, err := kgo.NewClient(append(c.g.kafka, kgo.TransactionalID(fmt.Sprintf("%s/dead/%d", c.g.topo.Group, time.Now().UnixNano())), kgo.TransactionTimeout(10*time.Second),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		c.t.Error(err)
		return
	}
	defer dead.Close()
	if err := dead.BeginTransaction(); err != nil {
		c.t.Error(err)
		return
	}
	e := events.Event{Group: c.g.topo.Group, Body: &events.GroupEvent{Kind: "never"}}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := dead.ProduceSync(ctx, &kgo.Record{Topic: c.g.topo.Evidence(), Partition: p, Value: events.Append(nil, &e)}).FirstErr(); err != nil {
		c.note("no transaction hangs: %v", err) // the broker is away
		return
	}
	c.note("a transaction hangs on evidence partition %d", p)
}

// badRecords publishes what no producer should.
func (c *chaos) badRecords() {
	topic := c.g.topo.Jobs[0]
	header := func(kv ...string) (hs []kgo.RecordHeader) {
		for i := 0; i < len(kv); i += 2 {
			hs = append(hs, kgo.RecordHeader{Key: kv[i], Value: []byte(kv[i+1])})
		}
		return hs
	}
	cl, err := kgo.NewClient(c.g.kafka...)
	if err != nil {
		c.t.Error(err)
		return
	}
	defer cl.Close()
	c.note("records that no producer should publish")
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	if err := cl.ProduceSync(ctx,
		&kgo.Record{Topic: topic, Value: []byte("no header at all")},
		&kgo.Record{Topic: topic, Headers: header("job-type", "job", "job-id", "a\x00b")},
		&kgo.Record{Topic: topic, Headers: header("job-type", "job", "not-before", "tomorrow")},
		&kgo.Record{Topic: topic, Headers: header("job-type", "job", "jobtrail-state", "forged")},
		&kgo.Record{Topic: c.g.topo.Retry(time.Second), Value: []byte("stray"), Headers: header("job-type", "job")},
		&kgo.Record{Topic: c.g.topo.Commands(), Value: []byte("no command")},
	).FirstErr(); err != nil {
		c.t.Errorf("publishing bad records: %v", err)
	}
}

// end lets everything come to rest and judges what is left.
func (c *chaos) end(kinds []fault) {
	sent := c.stopLoad()
	c.note("the load ends: %d jobs", sent)
	begun := time.Now()
	c.g.until(2*time.Minute, "end of all jobs", atRest(c.published()))
	c.note("all jobs had ended after %v", time.Since(begun).Round(10*time.Millisecond))
	for _, s := range slices.Concat(c.workers, c.projectors) {
		s.close()
	}
	s := c.g.check()
	states := make(map[string]int)
	abandoned := 0
	for _, r := range s.Runs {
		states[r.Job.State.String()]++
		if strings.HasPrefix(r.JobID, "killer") && r.Reason != events.ReasonCrashLoop {
			c.t.Errorf("%s ended as %v (%v)", r.JobID, r.Job.State, r.Reason)
		}
		if r.Reason == events.ReasonCrashLoop && r.JobType != "killer" {
			c.t.Errorf("%s ended as a crash loop", r.JobID)
		}
		for _, e := range r.Ended {
			if _, ok := e.Event.Body.(*events.AttemptAbandoned); ok {
				abandoned++
			}
		}
	}
	c.note("%d runs (%v), %d duplicates, %d attempts, %d abandoned, %d side effects; %d faults, recovered within %v at worst", len(s.Runs), states, len(s.Duplicates),
		len(s.Attempts), abandoned, c.w.total(), c.rounds, c.worst.Round(10*time.Millisecond))
	for _, f := range kinds {
		if c.made[f.name] == 0 {
			c.t.Errorf("%s: that was never made", f.name)
		}
		c.note("%3d times %s", c.made[f.name], f.name)
	}
	if states["succeeded"] < sent/2 || abandoned == 0 && *chaosOnly == "" {
		c.t.Errorf("%d of %d jobs succeeded and %d attempts were abandoned: that proves little", states["succeeded"], sent, abandoned)
	}
}

// published returns how many records the job topics hold.
func (c *chaos) published() (n int64) {
	cl, err := kgo.NewClient(c.g.kafka...)
	if err != nil {
		c.t.Fatal(err)
	}
	defer cl.Close()
	ends, err := kadm.NewClient(cl).ListEndOffsets(context.Background(), c.g.topo.Jobs...)
	if err != nil {
		c.t.Fatal(err)
	}
	ends.Each(func(o kadm.ListedOffset) { n += o.Offset })
	return n
}

// atRest holds when n publications have a run that has ended or waits for a
// decision, or are rejected duplicates, and no run is open.
func atRest(n int64) func(*loadtest.Story) bool {
	return func(s *loadtest.Story) bool {
		seen := make(map[events.Publication]bool)
		for key, r := range s.Runs {
			if r.Job.State.Open() && r.Job.State != events.StateParked {
				return false
			}
			if !strings.Contains(key.Publication.Topic, ".") { // not a topic of the group's own
				seen[key.Publication] = true
			}
		}
		for p := range s.Duplicates {
			seen[p] = true
		}
		return int64(len(seen)) == n
	}
}
