package operate

import (
	"context"
	"fmt"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/jobtrail/jobtrail/pkg/events"
	"github.com/jobtrail/jobtrail/pkg/sanitize"
)

// Status says how bad a Finding is.
type Status string

// The statuses.
const (
	OK Status = "ok"
	// Warn is what works, but costs time, safety or sight.
	Warn Status = "warn"
	// Fail is what does not work, or loses or hides something.
	Fail Status = "fail"
)

// Finding is the result of one check.
type Finding struct {
	// Check is the name of the check.
	Check string `json:"check"`
	// About is what was checked: a group, a topic, a broker; empty for the
	// cluster as a whole.
	About  string `json:"about"`
	Status Status `json:"status"`
	// Found is what was found.
	Found sanitize.Text `json:"found"`
	// Do is what to do about it; empty when Status is OK.
	Do string `json:"do"`
}

// Diagnosis is what Diagnose works with.
type Diagnosis struct {
	Kafka *kgo.Client
	// Store is a connection that names no database; nil leaves the store out.
	Store driver.Conn
	// Database is the store's database.
	Database string
	// Group is the worker group to look at; all when empty.
	Group string
	// Now returns this machine's time.
	Now func() events.Time
	// Sanitizer cleans what is found; nil means one without configuration.
	Sanitizer *sanitize.Sanitizer
}

// report collects findings.
type report struct {
	findings []Finding
	clean    *sanitize.Sanitizer
}

func (r *report) add(status Status, check, about, do, found string, args ...any) {
	r.findings = append(r.findings, Finding{Check: check, About: about, Status: status, Found: r.clean.Clean(fmt.Sprintf(found, args...)), Do: do})
}

// unknown reports that something could not be checked.
func (r *report) unknown(check, about string, err error) {
	r.add(Warn, check, about, "make the check possible, or look by hand", "could not be checked: %s", r.clean.Error(err))
}

// Diagnose checks the servers, the topics and the worker groups. It changes and
// writes nothing. What cannot be checked is a finding, too.
func Diagnose(ctx context.Context, d Diagnosis) []Finding {
	if d.Sanitizer == nil {
		d.Sanitizer = sanitize.New(sanitize.Config{})
	}
	r := &report{clean: d.Sanitizer}
	adm := kadm.NewClient(d.Kafka)
	if d.brokers(ctx, adm, r) {
		d.groups(ctx, adm, r)
	}
	d.store(ctx, r)
	return r.findings
}

// Failed reports whether any finding is a Fail.
func Failed(findings []Finding) bool {
	for _, f := range findings {
		if f.Status == Fail {
			return true
		}
	}
	return false
}
