// Package operate is what an operator does with a worker group through Kafka,
// shared by the command line: plan and make its topics, publish
// jobs, count what waits, read what is dead or parked, and diagnose the group.
//
// Reading changes nothing. What changes a group is a plan first: ApplyTopics
// does what the Plan says and nothing else, and a Plan that names something it
// may not do is refused as a whole. Only a group without members is given start
// offsets, since the offsets of a running group belong to its workers.
//
// Functions take a client and a context; every call ends when the context does.
// They may be called concurrently.
package operate
