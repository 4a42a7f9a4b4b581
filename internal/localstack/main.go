package localstack

import (
	"fmt"
	"os"
)

// childName and supervisorName are argv[0] of a ClickHouse child and of a
// supervisor: they tell Main, and people who look at ps, what the process is.
const (
	childName      = "jobtrail-clickhouse-server"
	supervisorName = "jobtrail-supervisor"
)

// supervisorMark begins, after the time, what a supervisor writes to the
// server's log.
const supervisorMark = "supervisor: "

// Main turns the process into a ClickHouse server or a supervisor if it was
// started as one by this package, and returns at once otherwise. A program that starts a stack
// calls it first thing in main, a test in TestMain (stacktest.Main does).
//
// The server is code in a shared library without a main of its own, and it
// must be a process of its own, so that it can be killed and can outlive its
// parent. Starting the same executable again needs no second one.
func Main() {
	switch {
	case len(os.Args) == 4 && os.Args[0] == childName:
		if err := runClickHouse(os.Args[1], os.Args[2], os.Args[3]); err != nil {
			fmt.Fprintf(os.Stderr, "clickhouse: %v\n", err)
			os.Exit(1)
		}
	case len(os.Args) > 4 && os.Args[0] == supervisorName:
		if err := runSupervisor(os.Args[1:]); err != nil {
			os.Exit(1) // why is in the server's log
		}
	default:
		return
	}
	os.Exit(0)
}
