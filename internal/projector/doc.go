// Package projector copies the evidence logs into ClickHouse, every record
// exactly once, as a pure function of the log.
//
// A reader per worker group is a member of a consumer group; every partition
// that it is assigned has two goroutines, one that turns records into the next
// batch and one that sends a batch at a time. In the order of the flow: fetch
// (read.go), decode and map (batch.go, row.go, columns.go), declare and commit
// (partition.go, intent.go), insert (insert.go), compare (readback.go), report
// how far it is (positions.go).
//
// What makes it exactly once: before a range is inserted it is declared in the
// metadata of the committed position, which the broker accepts only from the
// present owner; every error of an insert means "unknown", and the identical
// block goes again under the same deduplication token, by the same projector
// or by its successor, which finds the declaration; and what the store holds
// is compared with what was acknowledged when a partition is taken over or the
// server was away. Beyond that every table is a set or a lattice by its key, so
// a repeated row would change no answer.
//
// Order: the rows of a partition arrive in the order of the log.
package projector
