// Package jobs publishes jobs from Go. Any other Kafka producer can do the
// same: a job is a record whose headers say what it is; see docs/wire-format.md.
//
// # Order and duplicates
//
// A job's key is its id unless the producer gives another, and the client
// partitions by the key, so what is published twice under one id lands in one
// partition, where workers recognise it as a duplicate. Publishing again after
// an error is safe under the same id, and only then: without an id every call
// publishes a new job.
//
// Jobs of one key are appended in the order in which they are published; they
// are not run in that order.
package jobs
