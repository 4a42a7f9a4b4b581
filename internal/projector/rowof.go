package projector

import "github.com/jobtrail/jobtrail/pkg/events"

// RowOf returns the row of e, whose record held value, as the projector writes
// it.
func RowOf(e *events.Event, at Place, value []byte) Row {
	var m mapper
	var r Row
	m.fill(&r, e, at, value)
	return r
}
