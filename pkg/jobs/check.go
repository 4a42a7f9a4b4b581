package jobs

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Check returns what Publish would refuse without asking the brokers: every
// field that cannot be used (the error wraps retrytopics.ErrMalformed) and a job
// that is larger than the client's largest batch (kerr.MessageTooLarge). It
// sends nothing.
func (p *Publisher) Check(job Job) error {
	rec, _, err := p.record(context.Background(), job)
	if err != nil {
		return err
	}
	size := len(rec.Key) + len(rec.Value)
	for _, h := range rec.Headers {
		size += len(h.Key) + len(h.Value)
	}
	if limit, ok := p.client.OptValue(kgo.ProducerBatchMaxBytes).(int32); ok && size > int(limit) {
		return fmt.Errorf("key, value and headers have %d bytes, the topic takes %d: %w", size, limit, kerr.MessageTooLarge)
	}
	return nil
}
