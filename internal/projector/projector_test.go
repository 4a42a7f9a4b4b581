package projector_test

import (
	"testing"

	"github.com/jobtrail/jobtrail/internal/localstack/stacktest"
	"github.com/jobtrail/jobtrail/internal/projector/projectortest"
)

func TestMain(m *testing.M) { stacktest.Main(m) }

func TestEventsArrive(t *testing.T) {
	w := projectortest.New(t, 2)
	p := w.Project(nil)
	h := projectortest.NewHistory(t, w.Group, "acme", "op-1", "job-1", "charge", 1, 7).Good()
	w.WriteEvents(1, h.Events...)
	w.Eventually("the rows are there", func() bool { return w.Count("SELECT count() FROM DB.evidence") == 3 })
	w.Eventually("the position is told", func() bool { return w.Count("SELECT count() FROM DB.v_positions WHERE position = 3") == 1 })
	p.Stop()
	if n := w.Count("SELECT count() FROM DB.v_jobs WHERE version = 3 AND state = 'succeeded' AND complete"); n != 1 {
		t.Errorf("%d jobs are complete, want 1", n)
	}
	if n := w.Count("SELECT countIf(rest != '') FROM DB.evidence"); n != 0 {
		t.Errorf("%d rows have a rest", n)
	}
}
