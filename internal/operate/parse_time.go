package operate

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jobtrail/jobtrail/pkg/events"
)

// ParseWhen parses a point in time: RFC 3339, milliseconds since the Unix epoch,
// or what lies ahead of now or behind it, such as +10m or -24h.
func ParseWhen(s string, now time.Time) (time.Time, error) {
	if strings.HasPrefix(s, "+") || strings.HasPrefix(s, "-") {
		if d, err := time.ParseDuration(s); err == nil {
			return now.Add(d), nil
		}
	}
	if ms, err := strconv.ParseInt(s, 10, 64); err == nil {
		if ms <= 0 || ms > 253402300799999 {
			return time.Time{}, fmt.Errorf("%d ms is outside 1970 to 9999", ms)
		}
		return time.UnixMilli(ms).UTC(), nil
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil || t.UnixMilli() <= 0 {
		return time.Time{}, errors.New("want RFC 3339 (2026-01-31T15:04:05Z), milliseconds since 1970, or a time from now (+10m)")
	}
	return t, nil
}

// ParseSince parses a point in the past: RFC 3339, milliseconds since the Unix
// epoch, or how long ago, such as 24h.
func ParseSince(s string, now time.Time) (time.Time, error) {
	if d, err := time.ParseDuration(s); err == nil && d >= 0 && !strings.HasPrefix(s, "+") {
		return now.Add(-d), nil
	}
	t, err := ParseWhen(s, now)
	if err != nil || strings.HasPrefix(s, "+") || strings.HasPrefix(s, "-") {
		return time.Time{}, errors.New("want RFC 3339 (2026-01-31T15:04:05Z), milliseconds since 1970, or how long ago (24h)")
	}
	return t, nil
}

// parseTime is ParseWhen for times of the brokers' clock.
func parseTime(s string) (events.Time, error) {
	if strings.HasPrefix(s, "+") || strings.HasPrefix(s, "-") {
		return 0, errors.New("want RFC 3339 (2026-01-31T15:04:05Z) or milliseconds since 1970")
	}
	t, err := ParseWhen(s, time.Time{})
	return events.TimeOf(t), err
}
