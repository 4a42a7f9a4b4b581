// Command bench measures how fast jobtrail is, each time beside something that
// does less: ratios of one run, for the machine may be anything. See
// docs/performance.md for what is measured and why.
//
//	bench [-rounds 5] [-only worker,projector,memory,latency] [-json FILE]
//
// It works on the servers that KAFKA_BROKERS and CLICKHOUSE_ADDR name, and ends
// with exit code 1 where something is below its gate.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) > 0 {
		if side, ok := sides[args[0]]; ok {
			var s settings
			flags := flag.NewFlagSet(args[0], flag.ExitOnError)
			s.flags(flags)
			if err := flags.Parse(args[1:]); err != nil {
				return err
			}
			return measure(ctx, side, s)
		}
	}
	return compare(ctx, args)
}
