package localstack

import (
	"fmt"
	"os"
)

// childName is argv[0] of a ClickHouse child: it tells Main, and people who
// look at ps, what the process is.
const childName = "jobtrail-clickhouse-server"

// Main turns the process into a ClickHouse server if it was started as one by
// this package, and returns at once otherwise. A program that starts a stack
// calls it first thing in main, a test in TestMain (stacktest.Main does).
//
// The server is code in a shared library without a main of its own, and it
// must be a process of its own, so that it can be killed and can outlive its
// parent. Starting the same executable again needs no second one.
func Main() {
	if len(os.Args) != 4 || os.Args[0] != childName {
		return
	}
	if err := runClickHouse(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintf(os.Stderr, "clickhouse: %v\n", err)
		os.Exit(1)
	}
	os.Exit(0)
}
