package jobs_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/jobtrail/jobtrail/pkg/jobs"
	"github.com/jobtrail/jobtrail/pkg/retrytopics"
)

func TestCheckSendsNothing(t *testing.T) {
	cl := newClient(t, 1, kgo.ProducerBatchMaxBytes(4096))
	p := newPublisher(t, cl)
	if err := p.Check(jobs.Job{ID: "good", Value: make([]byte, 4000)}); err != nil {
		t.Errorf("got %v", err)
	}
	if err := p.Check(jobs.Job{ID: "bad\n"}); !errors.Is(err, retrytopics.ErrMalformed) {
		t.Errorf("got %v", err)
	}
	if err := p.Check(jobs.Job{ID: "large", Value: make([]byte, 4092)}); !errors.Is(err, kerr.MessageTooLarge) || !strings.Contains(err.Error(), "4108 bytes, the topic takes 4096") {
		t.Errorf("got %v", err)
	}
	if pub, err := p.Publish(bounded(t), jobs.Job{ID: "first"}); err != nil || pub.Offset != 0 {
		t.Errorf("got %+v, %v; want the first record of the topic", pub, err)
	}
}
