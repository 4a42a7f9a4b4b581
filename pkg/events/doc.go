// Package events holds the words on jobtrail's evidence log: the event types
// with their codec ([Append], [Decoder]), the identities ([AttemptID],
// [IdempotencyKey]), and the state machine of a job ([Job.Apply]), the one
// place that says which event may follow which.
//
// The package is pure: no clock, no I/O, no goroutine, no global that changes.
//
// # Order and duplicates
//
// All events of a job are in one partition of the log, in order. The events of
// a run that change its state carry the versions 1, 2, 3 … without a hole, with
// the state after each; facts carry version 0. An event's own identity is its
// place in the log. A late fact may stand in the log more than once.
//
// # Versions of the schema
//
// 1: first release. events.proto is the schema; every released version has
// golden events under testdata that are decoded for ever.
package events

// SchemaVersion is the version of events.proto that this build reads and
// writes. An event whose MinReader is above it must not be acted upon.
const SchemaVersion = 1
