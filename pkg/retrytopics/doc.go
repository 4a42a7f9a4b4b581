// Package retrytopics decides where a failed attempt goes next: the retry
// [Policy], the delay [Tiers], the headers that a record carries between
// topics, and the [Topology] of a worker group with its start-up checks.
//
// The package is pure: it has no clock and does no I/O; now is a parameter.
// All times are log time, the clock of the Kafka brokers.
//
// # Order and duplicates
//
// A hop keeps key, value and partition number of a record and every header of
// its producer. There is no order between records of different tiers.
package retrytopics
