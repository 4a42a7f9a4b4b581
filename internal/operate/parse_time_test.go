package operate

import (
	"testing"
	"time"
)

func TestParseWhenAndSince(t *testing.T) {
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct{ text, when, since string }{
		{"2026-01-31T15:04:05Z", "2026-01-31T15:04:05Z", "2026-01-31T15:04:05Z"},
		{"1769871845000", "2026-01-31T15:04:05Z", "2026-01-31T15:04:05Z"},
		{"+10m", "2026-01-31T12:10:00Z", ""},
		{"-10m", "2026-01-31T11:50:00Z", ""},
		{"24h", "", "2026-01-30T12:00:00Z"},
		{"0s", "", "2026-01-31T12:00:00Z"},
		{"", "", ""}, {"soon", "", ""}, {"0", "", "2026-01-31T12:00:00Z"}, {"-1", "", ""}, {"253402300800000", "", ""}, {"1960-01-01T00:00:00Z", "", ""},
	} {
		when, err := ParseWhen(tt.text, now)
		if (err == nil) != (tt.when != "") || err == nil && when.Format(time.RFC3339) != tt.when {
			t.Errorf("when %q: got %v, %v; want %q", tt.text, when, err, tt.when)
		}
		since, err := ParseSince(tt.text, now)
		if (err == nil) != (tt.since != "") || err == nil && since.Format(time.RFC3339) != tt.since {
			t.Errorf("since %q: got %v, %v; want %q", tt.text, since, err, tt.since)
		}
	}
}
