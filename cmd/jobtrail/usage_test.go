package main

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/jobtrail/jobtrail/internal/projector/projectortest"
	"github.com/jobtrail/jobtrail/pkg/events"
	"github.com/jobtrail/jobtrail/pkg/sanitize"
)

func TestUsageIsSaidAsItIs(t *testing.T) {
	fake, cl, _ := fakeKafka(t)
	if _, err := kadm.NewClient(cl).CreateTopic(t.Context(), 1, 1, nil, "t"); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		code    int
		environ []string
		args    string
		want    []string
		not     []string
	}{
		// A negative value is a value.
		{exitUsage, nil, "job list --limit -1", []string{"jobtrail job list: --limit: -1 is not positive"}, []string{`--limit="-1"`}},
		{exitUsage, nil, "job list --since -1h", []string{"how long ago (24h)"}, []string{"expected string value"}},
		{exitUsage, nil, "job list --since soon", []string{"how long ago (24h)"}, []string{"(+10m)"}},
		{exitUsage, nil, "dlq list --limit -1 --since 24h", []string{"--limit must be 1"}, []string{`try`}},
		// The prefix names the verb, not its arguments.
		{exitUsage, nil, "op show order-7", []string{"jobtrail op show: "}, []string{"<op>"}},
		// A malformed id is the caller's mistake.
		{exitUsage, fake, "enqueue --topic t --type x --job-id a\tb", []string{"job-id"}, nil},
	} {
		_, stderr := must(t, tt.code, tt.environ, strings.Split(tt.args, " ")...)
		for _, want := range tt.want {
			if !strings.Contains(stderr, want) {
				t.Errorf("%s: no %q in %s", tt.args, want, stderr)
			}
		}
		for _, not := range tt.not {
			if strings.Contains(stderr, not) {
				t.Errorf("%s: %q in %s", tt.args, not, stderr)
			}
		}
	}
	// An age as the page says it gets as far as the missing address.
	if _, stderr := must(t, exitUsage, nil, "job", "list", "--since", "24h"); !strings.Contains(stderr, "CLICKHOUSE_ADDR") {
		t.Error(stderr)
	}
	// What a verb can do without is not required.
	for verb, name := range map[string]string{"op show": "KAFKA_BROKERS", "job show": "KAFKA_BROKERS", "doctor": "CLICKHOUSE_ADDR"} {
		stdout, _ := must(t, 0, nil, append(strings.Split(verb, " "), "--help")...)
		found := false
		for line := range strings.Lines(stdout) {
			if strings.HasPrefix(strings.TrimSpace(line), name+" ") {
				found = true
				if strings.Contains(line, "required") || !strings.Contains(line, "when not set") {
					t.Errorf("%s --help: %s", verb, line)
				}
			}
		}
		if !found {
			t.Errorf("%s --help does not list %s", verb, name)
		}
	}
	if stdout, _ := must(t, 0, nil, "op", "show", "--help"); !strings.Contains(stdout, "required") {
		t.Error("the address of the store is not required any more")
	}
}

// TestDoctorSeesUnknownTypes: workers whose handlers differ dead-letter each
// other's jobs.
func TestDoctorSeesUnknownTypes(t *testing.T) {
	w := projectortest.New(t, 1)
	w.Project(nil)
	environ := []string{"CLICKHOUSE_ADDR=" + w.Addr, "CLICKHOUSE_DATABASE=" + w.Layout.Database, "KAFKA_BROKERS=" + strings.Join(w.Brokers, ",")}
	total := 0
	for i := range 3 {
		h := projectortest.NewHistory(t, w.Group, "acme", "op", "job-"+string(rune('a'+i)), "thumbnial", 0, int64(i))
		h.Terminal(events.TerminalFailed, events.ReasonUnknownType)
		h.Events[0].Body.(*events.JobTerminal).Detail = sanitize.Clean("no handler is configured for this type")
		w.WriteEvents(0, h.Events...)
		total += len(h.Events)
	}
	w.Arrived(total)
	w.Eventually("the time line has them", func() bool { return w.Count("SELECT count() FROM DB.timeline") == uint64(total) })
	got := finding(doctor(t, exitFailed, environ, w.Group), "types")
	if want := "warn " + w.Group + `: 3 jobs of type "thumbnial" went to the dead-letter topic within the last hour, since a worker had no handler for it` + "\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := finding(doctor(t, exitFailed, environ, "another"), "types"); !strings.HasPrefix(got, "ok ") {
		t.Errorf("of another group: %q", got)
	}
}
