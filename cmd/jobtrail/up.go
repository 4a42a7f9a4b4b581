package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jobtrail/jobtrail/internal/localstack"
)

type upCmd struct {
	Data               string `required:"" placeholder:"DIR" help:"Folder for the servers' data, made if need be."`
	KafkaPort          int    `placeholder:"N" default:"9092" help:"Port of the Kafka broker (${default}; 0: a free one)."`
	ClickhousePort     int    `name:"clickhouse-port" placeholder:"N" default:"9000" help:"Port of ClickHouse's native protocol (${default}; 0: a free one)."`
	ClickhouseHTTPPort int    `name:"clickhouse-http-port" placeholder:"N" default:"8123" help:"Port of ClickHouse's HTTP interface (${default}; 0: a free one)."`
}

// upEnvironment is what up and down read from the environment.
type upEnvironment struct {
	Cache string `env:"JOBTRAIL_CACHE_DIR" doc:"Folder for the servers' programs, fetched once; jobtrail in the user's cache folder when not set."`
}

func (upCmd) Help() string {
	return `Starts a real Kafka broker and a real ClickHouse server on 127.0.0.1, without Docker, and returns when both
answer queries. They go on running until "jobtrail down"; their data stays. Where they answer is printed as
KAFKA_BROKERS=… and CLICKHOUSE_ADDR=… lines, the names that every command reads. Their programs are fetched once,
with Maven and npm; Java 17 or newer is needed. Runs on linux-x64.`
}

func (upCmd) Environment() any { return upEnvironment{} }

// Run starts what does not run yet.
func (c upCmd) Run(ctx context.Context, g *Globals) error {
	for _, port := range []int{c.KafkaPort, c.ClickhousePort, c.ClickhouseHTTPPort} {
		if port < 0 || port > 65535 {
			return usageError(fmt.Errorf("%d is not a port", port))
		}
	}
	cache, err := localstack.CacheDir(g.Environ)
	if err != nil {
		return usageError(err)
	}
	addrs, err := localstack.Up(ctx, localstack.Config{
		Dir: c.Data, Cache: cache, Progress: g.Stderr,
		KafkaPort: c.KafkaPort, ClickHousePort: c.ClickhousePort, ClickHouseHTTPPort: c.ClickhouseHTTPPort,
	})
	if taken, ok := errors.AsType[*localstack.PortTakenError](err); ok {
		return fmt.Errorf("%w\nport %d can be changed: --kafka-port, --clickhouse-port, --clickhouse-http-port", err, taken.Port)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(g.Stdout, "KAFKA_BROKERS=%s\nCLICKHOUSE_ADDR=%s\n", addrs.Kafka, addrs.ClickHouse)
	return err
}
