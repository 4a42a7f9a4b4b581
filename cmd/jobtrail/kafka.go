package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/jobtrail/jobtrail/internal/connect"
)

// reachKafka opens a client and makes sure that a broker answers within 10 s,
// so that a wrong address is said at once and not at the end of a timeout. The
// caller closes it.
func (g *Globals) reachKafka(ctx context.Context) (*kgo.Client, error) {
	cl, err := g.Kafka()
	if err != nil {
		return nil, err
	}
	ping, cancel := context.WithTimeoutCause(ctx, 10*time.Second, errors.New("no answer within 10s"))
	defer cancel()
	if err := cl.Ping(ping); err != nil {
		cl.Close()
		var conf connect.Kafka
		_ = g.parse(&conf) // opening the client has read it already
		return nil, fmt.Errorf("no Kafka broker answers at KAFKA_BROKERS=%s: %w", strings.Join(conf.Brokers, ","), cause(ping, err))
	}
	return cl, nil
}

// cause adds to an error why its context ended, where that is what it says.
func cause(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil || !errors.Is(err, ctx.Err()) {
		return err
	}
	if why := context.Cause(ctx); why != nil && !errors.Is(err, why) {
		return fmt.Errorf("%w (%w)", err, why)
	}
	return err
}
