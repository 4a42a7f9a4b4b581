//go:build derivedcolumn

package projector

import "github.com/ClickHouse/ch-go/proto"

const derivedRevision = 1

// derivedColumns is the example of a projector that was changed to write a
// column more.
type derivedColumns struct{ logHour proto.ColUInt32 }

func (d *derivedColumns) input() proto.Input {
	return proto.Input{{Name: "log_hour", Data: &d.logHour}}
}

func (d *derivedColumns) add(r *Row) { d.logHour = append(d.logHour, uint32(r.LogAt/3_600_000)) }
