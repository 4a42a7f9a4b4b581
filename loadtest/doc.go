// Package loadtest proves the worker: it dumps what a run left on the topics,
// and an oracle holds the dump against what was published and what a witness
// outside the worker saw. Its tests run load and faults against real servers.
package loadtest
