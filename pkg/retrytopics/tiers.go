package retrytopics

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jobtrail/jobtrail/pkg/events"
)

// Tiers are the delays of the group's retry topics, in growing order, the
// first of them 0.
type Tiers []time.Duration

// DefaultTiers returns the tiers of a group that configures none.
func DefaultTiers() Tiers {
	return Tiers{0, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, time.Hour, 6 * time.Hour}
}

// ParseTiers parses names such as "0s 1s 2m 1h", separated by blanks or commas.
func ParseTiers(s string) (Tiers, error) {
	var tiers Tiers
	for _, f := range strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' }) {
		d, err := time.ParseDuration(f)
		if err != nil {
			return nil, fmt.Errorf("parsing tier %q: %w", f, err)
		}
		tiers = append(tiers, d)
	}
	return tiers, tiers.Validate()
}

// Validate returns what is wrong with the tiers, nil when they are sound.
func (t Tiers) Validate() error {
	switch {
	case len(t) == 0 || t[0] != 0:
		return errors.New("the first tier must be 0s, for hops without a delay")
	case !slices.IsSorted(t) || len(slices.Compact(slices.Clone(t))) != len(t):
		return fmt.Errorf("the tiers %s must grow", t)
	}
	for _, d := range t {
		if d%time.Second != 0 {
			return fmt.Errorf("tier %v is no whole number of seconds", d)
		}
	}
	return nil
}

// String returns the names of the tiers, separated by blanks.
func (t Tiers) String() string {
	names := make([]string, len(t))
	for i, d := range t {
		names[i] = TierName(d)
	}
	return strings.Join(names, " ")
}

// TierName returns the name of a tier: "0s", "30s", "2m", "1h", "1h30m".
func TierName(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	return s
}

// For returns the tier of a record that waits for the given time: the largest
// that is not longer.
func (t Tiers) For(wait time.Duration) time.Duration {
	tier := t[0]
	for _, d := range t {
		if d <= wait {
			tier = d
		}
	}
	return tier
}

// Slack returns how long a record that comes out of a tier, or straight from
// its producer (tier 0), is held in memory rather than sent through another
// tier: a quarter of the tier, at least 1 s and at most 30 s.
func Slack(tier time.Duration) time.Duration {
	return min(max(tier/4, time.Second), 30*time.Second)
}

// Due returns the earliest time at which a record of the tier may leave it.
func Due(appended events.Time, tier time.Duration) events.Time { return appended.Add(tier) }
