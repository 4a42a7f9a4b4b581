package operate

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jobtrail/jobtrail/pkg/events"
)

// parseTime parses RFC 3339 or milliseconds since the Unix epoch.
func parseTime(s string) (events.Time, error) {
	if ms, err := strconv.ParseInt(s, 10, 64); err == nil {
		if ms <= 0 || ms > 253402300799999 {
			return 0, fmt.Errorf("%d ms is outside 1970 to 9999", ms)
		}
		return events.Time(ms), nil
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil || t.UnixMilli() <= 0 {
		return 0, errors.New("want RFC 3339, such as 2026-01-31T15:04:05Z, or milliseconds since 1970")
	}
	return events.TimeOf(t), nil
}
