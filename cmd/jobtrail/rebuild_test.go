package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	driver "github.com/ClickHouse/clickhouse-go/v2"

	"github.com/jobtrail/jobtrail/internal/projector/projectortest"
	"github.com/jobtrail/jobtrail/internal/rebuild"
)

func TestRebuild(t *testing.T) {
	w := projectortest.New(t, 2)
	w.Project(nil)
	for i := range int32(20) {
		w.WriteEvents(i%2, projectortest.NewHistory(t, w.Group, "acme", fmt.Sprint("op-", i/3), fmt.Sprint("job-", i), "charge", i%2, int64(i)).Good().Events...)
	}
	w.Arrived(60)
	a, b := w.Layout.Database+"_a", w.Layout.Database+"_b"
	environ := []string{"KAFKA_BROKERS=" + strings.Join(w.Brokers, ","), "CLICKHOUSE_ADDR=" + w.Addr, "CLICKHOUSE_DATABASE=" + w.Layout.Database}
	contains := func(text string, wants ...string) {
		t.Helper()
		for _, want := range wants {
			if !strings.Contains(text, want) {
				t.Errorf("no %q in\n%s", want, text)
			}
		}
	}
	report := func(code int, args ...string) (rep rebuild.Report) {
		t.Helper()
		out, _ := must(t, code, environ, append(append([]string{"rebuild"}, args...), "-o", "json")...)
		if err := json.Unmarshal([]byte(out), &rep); err != nil {
			t.Fatalf("%v in %s", err, out)
		}
		return rep
	}
	change := func(statement string) {
		t.Helper()
		if err := w.Conn.Exec(driver.Context(t.Context(), driver.WithSettings(driver.Settings{"mutations_sync": 2})), statement); err != nil {
			t.Fatal(err)
		}
	}

	_, errs := must(t, exitFailed, environ, "rebuild", "rollback")
	contains(errs, "there is nothing to roll back to")
	out, _ := must(t, 0, environ, "rebuild", "status")
	contains(out, a+" is live.")

	change("ALTER TABLE " + a + ".evidence UPDATE error_class = 'odd' WHERE partition = 0 AND offset = 4")
	out, errs = must(t, exitDiffers, environ, "rebuild")
	contains(out, "partition 0, offset 4: differs in ErrorClass", b+" differs from "+a+", which stays live.")
	contains(errs, "filling "+b, "comparing "+b, b+" differs from "+a+" in 1 places; it was not made live")
	if rep := report(exitDiffers); rep.Phase != "differs" || rep.Live != a || len(rep.Found) != 1 || *rep.Found[0].Offset != 4 || !rep.Resumed {
		t.Errorf("the report: %+v", rep)
	}
	change("ALTER TABLE " + a + ".evidence UPDATE error_class = '' WHERE partition = 0 AND offset = 4")
	if rep := report(0, "--no-flip"); rep.Phase != "equal" || rep.Live != a || rep.Compared != 60 || len(rep.Partitions) != 2 || rep.Found == nil {
		t.Errorf("the report: %+v", rep)
	}
	out, _ = must(t, 0, environ, "rebuild")
	contains(out, b+" is live since", a+" is kept until", "jobtrail rebuild rollback", "COMPARED BEFORE", "v_jobs")
	_, errs = must(t, exitRefused, environ, "rebuild")
	contains(errs, a+" is kept until", "--discard-kept")
	_, errs = must(t, exitRefused, environ, "rebuild", "drop")
	contains(errs, a+" is kept until")
	out, _ = must(t, 0, environ, "rebuild", "status")
	contains(out, b+" is live.", a+" is kept until", `The last rebuild, of `+b+`, began`, `reached "flipped"`)
	if rep := report(0, "rollback", "--keep", "0s"); rep.Phase != "flipped" || rep.Live != a || !rep.TakenOver {
		t.Errorf("the report: %+v", rep)
	}
	out, _ = must(t, 0, environ, "rebuild", "drop")
	contains(out, b+" is empty; "+a+" is live.")
	_, errs = must(t, exitUsage, nil, "rebuild", "run")
	contains(errs, "CLICKHOUSE_ADDR")
}

func TestRebuildProgress(t *testing.T) {
	var out bytes.Buffer
	now := time.Unix(0, 0)
	l := &progressLines{w: &out, now: func() time.Time { return now }}
	for _, p := range []rebuild.Progress{
		{Phase: "emptying", Database: "x_b"},
		{Phase: "filling", Database: "x_b"},
		{Phase: "filling", Database: "x_b", Done: 1, Total: 100},
		{Phase: "filling", Database: "x_b", Done: 25, Total: 100, PerSecond: 25},
		{Phase: "filling", Database: "x_b", Done: 50, Text: "copying\x1b"},
		{Phase: "comparing", Database: "x_b", Text: "evidence"},
	} {
		l.show(p)
		now = now.Add(1100 * time.Millisecond)
	}
	want := "emptying x_b\nfilling x_b\nfilling x_b: 25 of 100 offsets, 25 %, 25/s, 3s left\nfilling x_b: 50 events: copying\\x1b\ncomparing x_b: evidence\n"
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}
