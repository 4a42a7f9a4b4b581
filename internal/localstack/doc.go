// Package localstack runs a real Kafka broker and a real ClickHouse server as
// child processes on 127.0.0.1, without Docker and without root: for
// "jobtrail up", for the demo and for tests.
//
// The servers come from package registries, in pinned versions: Kafka's jars by
// Maven (checked against pinned/jars.sha256), ClickHouse by npm as a shared
// library (checked against pinned/package-lock.json). They are kept in a cache
// folder that all stacks of a user share. Everything a stack writes is below
// its data folder:
//
//	kafka/       the broker's configuration and log segments
//	clickhouse/  the server's configuration and tables
//	logs/        what both servers log
//	*.json       which process supervises each server, while one does
//
// Data survives a stop, a restart and a kill -9 of either server. Messages are
// not forced to disk, so a power loss may cost the last seconds.
//
// Each server runs under a supervisor, which starts it again when it ends by
// itself: the ClickHouse library ends its process when a client fails to
// authenticate. Supervisors and the ClickHouse server are the running executable
// started again under other names; see Main. Servers of Start die with their process; those of Up
// outlive it until Down.
//
// The stack runs on linux-x64 with glibc; elsewhere Start and Up say so.
package localstack
