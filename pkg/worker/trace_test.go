package worker

import (
	"testing"

	"github.com/jobtrail/jobtrail/pkg/events"
)

// TestTraceContextOfJob says which trace context a handler is given where nobody
// records spans: the producer's, or a derived one that names the trace of the
// evidence.
func TestTraceContextOfJob(t *testing.T) {
	const good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	place := events.Publication{Topic: "j", Partition: 1, Offset: 7}
	for _, c := range []struct {
		name, parent, state string
		kept                bool
	}{
		{"none", "", "", false},
		{"good", good, "a=b", true},
		{"without a parent id", "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01", "a=b", false},
		{"no hex", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b716920333x-01", "", false},
		{"words", "from the shop", "a=b", false},
	} {
		e := &entry{traceID: traceID(c.parent, place)}
		e.meta.TraceParent, e.meta.TraceState = c.parent, c.state
		var job Job
		if _, span := (spans{}).start(t.Context(), e, &job); span != nil {
			t.Errorf("%s: a span is made", c.name)
		}
		want, state := c.parent, c.state
		if !c.kept {
			want, state = derivedParent(e.traceID), ""
		}
		if job.TraceParent != want || job.TraceState != state {
			t.Errorf("%s: got %q and %q, want %q and %q", c.name, job.TraceParent, job.TraceState, want, state)
		}
		if got := traceID(job.TraceParent, place); got != e.traceID {
			t.Errorf("%s: the trace is %x, the evidence says %x", c.name, got, e.traceID)
		}
	}
}
