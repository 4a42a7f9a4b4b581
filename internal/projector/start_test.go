package projector

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// A partition is assigned that a broker does not know yet.
func TestLogStartOfAnUnknownPartition(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "g.evidence"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	p := &partition{r: &reader{shared: &shared{admin: kadm.NewClient(cl)}, topic: "g.evidence"}, number: 2}
	if _, err := p.logStart(t.Context()); err == nil || strings.Contains(err.Error(), "nil") || !strings.Contains(err.Error(), "do not know partition 2 of g.evidence yet") {
		t.Errorf("got %v", err)
	}
	p.number = 1
	if at, err := p.logStart(t.Context()); at != 0 || err != nil {
		t.Errorf("got %d, %v", at, err)
	}
}
