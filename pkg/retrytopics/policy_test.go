package retrytopics

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/jobtrail/jobtrail/pkg/events"
)

const now = events.Time(1_800_000_000_000)

// attempt is an attempt id without jitter.
var attempt = uuid.UUID{15: 0}

func with(change func(*Policy)) Policy {
	p := DefaultPolicy()
	p.Jitter = 0
	if change != nil {
		change(&p)
	}
	return p
}

// TestNextFollowsThePolicy shows the effect of each field.
func TestNextFollowsThePolicy(t *testing.T) {
	transient := Failure{Class: events.ClassTransient}
	retryIn := func(d time.Duration) Route { return Route{Verdict: Retry, At: now.Add(d)} }
	exhausted := Route{Verdict: Dead, Reason: events.ReasonExhausted}
	late := Route{Verdict: Expired, Reason: events.ReasonDeadline}
	for _, c := range []struct {
		name   string
		change func(*Policy)
		used   uint32
		h      History
		f      Failure
		want   Route
	}{
		{"first failure", nil, 1, History{}, transient, retryIn(time.Second)},
		{"second failure", nil, 2, History{}, transient, retryIn(2 * time.Second)},
		{"fourth failure", nil, 4, History{}, transient, retryIn(8 * time.Second)},
		{"fifth failure", nil, 5, History{}, transient, exhausted},
		{"beyond the budget", nil, 6, History{}, transient, exhausted},
		{"max_attempts 1", func(p *Policy) { p.MaxAttempts = 1 }, 1, History{}, transient, exhausted},
		{"max_attempts 6", func(p *Policy) { p.MaxAttempts = 6 }, 5, History{}, transient, retryIn(16 * time.Second)},
		{"initial", func(p *Policy) { p.Initial = 3 * time.Second }, 2, History{}, transient, retryIn(6 * time.Second)},
		{"multiplier", func(p *Policy) { p.Multiplier = 3 }, 3, History{}, transient, retryIn(9 * time.Second)},
		{"multiplier 1", func(p *Policy) { p.Multiplier = 1 }, 4, History{}, transient, retryIn(time.Second)},
		{"max_interval", func(p *Policy) { p.MaxInterval = 3 * time.Second }, 4, History{}, transient, retryIn(3 * time.Second)},
		{"timeout class", nil, 1, History{}, Failure{Class: events.ClassTimeout}, retryIn(time.Second)},
		{"panic", nil, 1, History{}, Failure{Class: events.ClassPanic}, retryIn(time.Second)},
		{"permanent", nil, 1, History{}, Failure{Class: events.ClassPermanent}, Route{Verdict: Dead, Reason: events.ReasonPermanent}},
		{"malformed", nil, 1, History{}, Failure{Class: events.ClassMalformed}, Route{Verdict: Dead, Reason: events.ReasonPermanent}},
		{"permanent beyond the budget", nil, 9, History{}, Failure{Class: events.ClassPermanent}, Route{Verdict: Dead, Reason: events.ReasonPermanent}},
		{"retry after", nil, 1, History{}, Failure{Class: events.ClassThrottled, RetryAfter: 90 * time.Second}, retryIn(90 * time.Second)},
		{"retry after below the back-off", nil, 4, History{}, Failure{Class: events.ClassThrottled, RetryAfter: time.Second}, retryIn(8 * time.Second)},
		{"retry after is capped", func(p *Policy) { p.MaxInterval = time.Minute }, 1, History{}, Failure{RetryAfter: 24 * time.Hour}, retryIn(time.Minute)},
		{"retry after below zero", nil, 1, History{}, Failure{RetryAfter: -time.Hour}, retryIn(time.Second)},
		{"max_elapsed holds", func(p *Policy) { p.MaxElapsed = 10 * time.Second }, 1, History{OriginAt: now - 9000}, transient, retryIn(time.Second)},
		{"max_elapsed passed", func(p *Policy) { p.MaxElapsed = 10 * time.Second }, 1, History{OriginAt: now - 9001}, transient, exhausted},
		{"deadline of the job holds", nil, 1, History{Deadline: now + 1000}, transient, retryIn(time.Second)},
		{"deadline of the job passed", nil, 1, History{Deadline: now + 999}, transient, late},
		{"deadline of the policy", func(p *Policy) { p.Deadline = 5 * time.Second }, 1, History{OriginAt: now - 4500}, transient, late},
		{"the job's deadline before the policy's", func(p *Policy) { p.Deadline = time.Second }, 1, History{OriginAt: now - 4500, Deadline: now + 5000}, transient, retryIn(time.Second)},
		{"the budget before the deadline", nil, 5, History{Deadline: now}, transient, exhausted},
	} {
		c.h.AttemptID, c.h.BudgetUsed = attempt, c.used
		if c.h.OriginAt == 0 {
			c.h.OriginAt = now
		}
		if got := with(c.change).Next(c.h, c.f, now); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// TestUnknownOutcomesFollowThePolicy shows what follows an attempt whose side
// effect may have happened.
func TestUnknownOutcomesFollowThePolicy(t *testing.T) {
	park := func(p *Policy) { p.Idempotent = false }
	again := Route{Verdict: Retry, At: now}
	crashLoop := Route{Verdict: Dead, Reason: events.ReasonCrashLoop}
	for _, c := range []struct {
		name   string
		change func(*Policy)
		solo   uint32
		want   Route
	}{
		{"idempotent", nil, 0, again},
		{"one crash alone", nil, 1, again},
		{"two crashes alone", nil, 2, crashLoop},
		{"more", nil, 7, crashLoop},
		{"max_crashes 1", func(p *Policy) { p.MaxCrashes = 1 }, 1, crashLoop},
		{"max_crashes 3", func(p *Policy) { p.MaxCrashes = 3 }, 2, again},
		{"not idempotent", park, 0, Route{Verdict: Park, ParkReason: events.ParkAbandoned}},
		{"not idempotent, crash loop", park, 2, crashLoop},
	} {
		if got := with(c.change).AfterAbandonment(c.solo, now); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
	if got := with(nil).AfterInterruption(now); got != again {
		t.Errorf("interrupted: %+v", got)
	}
	if got := with(park).AfterInterruption(now); got != (Route{Verdict: Park, ParkReason: events.ParkInterrupted}) {
		t.Errorf("interrupted, not idempotent: %+v", got)
	}
}

// TestBackOffIsThatOfTheLibrary holds the intervals against a walk through
// cenkalti/backoff, and jitter against its bounds.
func TestBackOffIsThatOfTheLibrary(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := DefaultPolicy()
		p.Initial = time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "initial"))
		p.MaxInterval = p.Initial + time.Duration(rapid.Int64Range(0, int64(240*time.Hour)).Draw(t, "above"))
		p.Multiplier = rapid.Float64Range(1, 10).Draw(t, "multiplier")
		p.Jitter = rapid.Float64Range(0, 1).Draw(t, "jitter")
		if err := p.Validate(); err != nil {
			t.Fatal(err)
		}
		walk := backoff.NewExponentialBackOff(backoff.WithInitialInterval(p.Initial), backoff.WithMaxInterval(p.MaxInterval),
			backoff.WithMultiplier(p.Multiplier), backoff.WithRandomizationFactor(0), backoff.WithMaxElapsedTime(0))
		plain := p
		plain.Jitter = 0
		for n := 1; n <= rapid.IntRange(1, 60).Draw(t, "n"); n++ {
			want := walk.NextBackOff()
			id := uuid.UUID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "attempt"))
			if got := plain.Delay(n, id); got != want {
				t.Fatalf("delay %d is %v, the library says %v", n, got, want)
			}
			got := p.Delay(n, id)
			if most := want + time.Duration(float64(want)*p.Jitter) + 1; got < want || got > most {
				t.Fatalf("delay %d with jitter is %v, not in [%v, %v]", n, got, want, most)
			}
			if again := p.Delay(n, id); again != got {
				t.Fatalf("delay %d of one attempt is %v and %v", n, got, again)
			}
		}
	})
}

// TestJitterSpreads keeps a storm of retries apart: attempt ids are UUIDs of
// version 5, whose last bytes are evenly spread.
func TestJitterSpreads(t *testing.T) {
	p := DefaultPolicy()
	const n, buckets = 10_000, 10
	var count [buckets]int
	for i := range n {
		id := events.AttemptID("g", uuid.UUID{1}, 0, int64(i), 1)
		share := float64(p.Delay(1, id)-time.Second) / float64(200*time.Millisecond)
		if share < 0 || share >= 1 {
			t.Fatalf("the share of attempt %v is %v", id, share)
		}
		count[int(share*buckets)]++
	}
	for i, c := range count {
		if math.Abs(float64(c)-n/buckets) > n/buckets/4 {
			t.Errorf("%d of %d retries are in tenth %d", c, n, i)
		}
	}
}

func TestNextIsNeverEarly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := DefaultPolicy()
		p.MaxAttempts = 50
		p.MaxElapsed = time.Duration(rapid.Int64Range(0, int64(48*time.Hour)).Draw(t, "max_elapsed"))
		p.Deadline = time.Duration(rapid.Int64Range(0, int64(48*time.Hour)).Draw(t, "deadline"))
		h := History{AttemptID: uuid.UUID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "attempt")), BudgetUsed: rapid.Uint32Range(1, 60).Draw(t, "used"),
			OriginAt: now - events.Time(rapid.Int64Range(0, 48*3600*1000).Draw(t, "age"))}
		f := Failure{Class: events.ErrorClass(rapid.IntRange(1, 7).Draw(t, "class")), RetryAfter: time.Duration(rapid.Int64Range(0, int64(3*time.Hour)).Draw(t, "retry_after"))}
		r := p.Next(h, f, now)
		switch r.Verdict {
		case Retry:
			if r.At.Sub(now) < p.Delay(int(h.BudgetUsed), h.AttemptID) || r.At.Sub(now) < min(f.RetryAfter, p.MaxInterval) {
				t.Fatalf("the retry at %v is early", r.At.Sub(now))
			}
			if deadline := p.DeadlineOf(h); deadline != 0 && r.At > deadline || p.MaxElapsed > 0 && r.At > h.OriginAt.Add(p.MaxElapsed) {
				t.Fatalf("the retry at %v is too late", r.At.Sub(now))
			}
		case Dead, Expired:
			if r.Reason == 0 || r.At != 0 {
				t.Fatalf("%+v", r)
			}
		default:
			t.Fatalf("%+v", r)
		}
	})
}

func TestValidateNamesEveryProblem(t *testing.T) {
	if err := DefaultPolicy().Validate(); err != nil {
		t.Errorf("the default policy: %v", err)
	}
	err := Policy{MaxAttempts: -1, Initial: -1, MaxInterval: -2, Multiplier: 0.5, Jitter: 2, MaxElapsed: -1, Timeout: -1, Deadline: -1, OnDuplicate: "maybe"}.Validate()
	for _, want := range []string{"max_attempts is -1", "initial is -1ns", "multiplier is 0.5", "max_interval -2ns is below initial -1ns", "jitter is 2", "max_elapsed is -1ns",
		"max_crashes is 0", "timeout is -1ns", "deadline is -1ns", `on_duplicate is "maybe"`} {
		if !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	for name, change := range map[string]func(*Policy){
		"jitter":     func(p *Policy) { p.Jitter = math.NaN() },
		"multiplier": func(p *Policy) { p.Multiplier = math.NaN() },
	} {
		if err := with(change).Validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s is not a number: %v", name, err)
		}
	}
}

func BenchmarkNext(b *testing.B) {
	p := DefaultPolicy()
	h := History{AttemptID: uuid.UUID{1}, BudgetUsed: 3, OriginAt: now}
	b.ReportAllocs()
	for b.Loop() {
		p.Next(h, Failure{Class: events.ClassTransient}, now)
	}
}
