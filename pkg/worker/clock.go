package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jobtrail/jobtrail/pkg/events"
)

// Bounds of the difference between the own clock and the log's.
const (
	skewWarn = time.Second
	skewStop = 30 * time.Second
	// skewEvery is how often the difference is measured while there is work.
	skewEvery = 5 * time.Second
	// clockAgain is after how long without any measurement another is tried.
	clockAgain = 500 * time.Millisecond
	// skewKept is how many measurements count.
	skewKept = 12
)

// clock gives log time: the own clock, corrected by what the brokers' append
// times say. The correction is a lower bound, so log time is never ahead of the
// brokers' clock and nothing starts early. Its methods may be called
// concurrently.
type clock struct {
	mu       sync.Mutex
	lows     []time.Duration // brokers' clock minus own, lower bounds, newest last
	skew     time.Duration
	measured time.Time
	known    bool
}

func (c *clock) now() events.Time { return c.at(time.Now()) }

func (c *clock) at(t time.Time) events.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return events.Time(t.Add(c.skew).UnixMilli())
}

// due reports whether it is time to measure.
func (c *clock) due() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.known || time.Since(c.measured) > skewEvery
}

// state returns the difference and whether it was measured yet.
func (c *clock) state() (time.Duration, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.skew, c.known
}

// take takes a measurement: a record that was in the log by the time answered
// has the append time appended.
func (c *clock) take(appended events.Time, answered time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lows = append(c.lows, appended.Time().Sub(answered))
	if len(c.lows) > skewKept {
		c.lows = c.lows[1:]
	}
	c.skew = c.lows[0]
	for _, d := range c.lows {
		c.skew = max(c.skew, d)
	}
	c.measured, c.known = time.Now(), true
}

// measureClock asks the brokers for the append time of the newest record of an
// evidence partition, right after the tick that began at the given time wrote
// one. What lies between that time and the answer is how far off it may be.
func (w *Worker) measureClock(ctx context.Context, partition int32, begun time.Time) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	topic := w.topo.Evidence()
	offsets, err := w.admin.ListMaxTimestampOffsets(ctx, topic)
	answered := time.Now()
	newest, ok := offsets.Lookup(topic, partition)
	switch {
	case err == nil && !ok:
		err = errors.New("the brokers do not answer for the partition")
	case err == nil:
		err = newest.Err
	}
	if err == nil && newest.Timestamp <= 0 {
		err = fmt.Errorf("the newest record has the time %d", newest.Timestamp)
	}
	if err != nil {
		w.deps.Log.Warn("measuring the clock", "topic", topic, "partition", partition, "err", w.deps.Sanitizer.Error(err))
		return
	}
	w.clock.take(events.Time(newest.Timestamp), answered)
	skew, _ := w.clock.state()
	w.metrics.skew.Set(skew.Seconds())
	unsure := answered.Sub(begun)
	hold := skew.Abs() > skewStop+unsure
	switch {
	case hold:
		w.deps.Log.Error("the clock differs too much from the brokers' clock: no job is started", "skew", skew)
	case skew.Abs() > skewWarn+unsure:
		w.deps.Log.Warn("the clock differs from the brokers' clock", "skew", skew)
	}
	w.mu.Lock()
	w.l.hold = hold
	w.mu.Unlock()
	w.wake()
}
