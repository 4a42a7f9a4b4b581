package retrytopics

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// travel follows a record through the tiers: by the largest tier within what is
// left, until the rest is short enough to wait in memory. It returns the hops and
// what is left then.
func travel(tiers Tiers, wait time.Duration) (hops int, left time.Duration) {
	for left = wait; ; {
		tier := tiers.For(left)
		hops++
		left -= tier
		if left <= Slack(tier) || hops > 1000 {
			return hops, left
		}
	}
}

func TestTiersAreNeverEarly(t *testing.T) {
	most := 0
	rapid.Check(t, func(t *rapid.T) {
		wait := time.Duration(rapid.Int64Range(0, int64(12*time.Hour)).Draw(t, "wait"))
		hops, left := travel(DefaultTiers(), wait)
		if left < 0 {
			t.Fatalf("after %v a record has left its tiers %v early", wait, -left)
		}
		if left > 30*time.Second {
			t.Fatalf("%v of %v is to be waited out in memory", left, wait)
		}
		most = max(most, hops)
	})
	// Just below 12 h: 6 h, five times 1 h, five times 10 m, four times 2 m, three
	// times 30 s, three times 8 s, 4 s and 1 s.
	if hops, _ := travel(DefaultTiers(), 12*time.Hour-1); hops != 23 {
		t.Errorf("the longest wait took %d hops, wanted 23", hops)
	}
	if most > 23 {
		t.Errorf("a wait took %d hops", most)
	}
	t.Logf("at most %d hops", most)
}

// TestMostRetriesAreOneHop holds the tiers against the default policy: none of
// its retries needs a second hop, and no wait that exceeds its tier by up to the
// slack does.
func TestMostRetriesAreOneHop(t *testing.T) {
	p := DefaultPolicy()
	rapid.Check(t, func(t *rapid.T) {
		id := [16]byte(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "attempt"))
		for n := 1; n < p.MaxAttempts; n++ {
			if hops, _ := travel(DefaultTiers(), p.Delay(n, id)); hops != 1 {
				t.Fatalf("retry %d after %v takes %d hops", n, p.Delay(n, id), hops)
			}
		}
	})
	tiers := DefaultTiers()
	for i, tier := range tiers {
		for _, more := range []time.Duration{0, 1, Slack(tier)} {
			if i+1 < len(tiers) && tier+more >= tiers[i+1] {
				continue
			}
			if hops, left := travel(tiers, tier+more); hops != 1 || left != more {
				t.Errorf("a wait of %v takes %d hops and leaves %v", tier+more, hops, left)
			}
		}
		if hops, _ := travel(tiers, tier+Slack(tier)+1); hops < 2 && (i+1 == len(tiers) || tier+Slack(tier)+1 < tiers[i+1]) {
			t.Errorf("a wait beyond the slack of %v takes %d hops", tier, hops)
		}
	}
}

func TestTierOfAWait(t *testing.T) {
	tiers := DefaultTiers()
	for wait, want := range map[time.Duration]time.Duration{
		-time.Hour: 0, 0: 0, 999 * time.Millisecond: 0, time.Second: time.Second, 1999 * time.Millisecond: time.Second,
		29 * time.Second: 8 * time.Second, 30 * time.Second: 30 * time.Second, 59 * time.Minute: 10 * time.Minute, 1000 * time.Hour: 6 * time.Hour,
	} {
		if got := tiers.For(wait); got != want {
			t.Errorf("a wait of %v goes to %v, want %v", wait, got, want)
		}
	}
	for tier, want := range map[time.Duration]time.Duration{0: time.Second, time.Second: time.Second, 8 * time.Second: 2 * time.Second, 2 * time.Minute: 30 * time.Second,
		time.Hour: 30 * time.Second} {
		if got := Slack(tier); got != want {
			t.Errorf("the slack of %v is %v, want %v", tier, got, want)
		}
	}
	if got := Due(now, 2*time.Second); got != now+2000 {
		t.Errorf("due at %d", got)
	}
}

func TestTierNames(t *testing.T) {
	if got := DefaultTiers().String(); got != "0s 1s 2s 4s 8s 30s 2m 10m 1h 6h" {
		t.Errorf("the tiers are %s", got)
	}
	for d, want := range map[time.Duration]string{90 * time.Second: "1m30s", 90 * time.Minute: "1h30m", time.Hour + 5*time.Second: "1h0m5s", 10 * time.Second: "10s",
		100 * time.Minute: "1h40m", 20 * time.Hour: "20h"} {
		if got := TierName(d); got != want {
			t.Errorf("%v is named %s, want %s", d, got, want)
		}
		if back, err := time.ParseDuration(want); err != nil || back != d {
			t.Errorf("%s is read as %v, %v", want, back, err)
		}
	}
	got, err := ParseTiers("0s, 1s 2m,1h30m")
	if err != nil || got.String() != "0s 1s 2m 1h30m" {
		t.Errorf("%v, %v", got, err)
	}
	for text, why := range map[string]string{"": "first tier must be 0s", "1s 2s": "first tier must be 0s", "0s 2s 1s": "must grow", "0s 1s 1s": "must grow",
		"0s 500ms": "no whole number of seconds", "0s x": `tier "x"`} {
		if _, err := ParseTiers(text); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
