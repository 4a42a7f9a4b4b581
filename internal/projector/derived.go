//go:build !derivedcolumn

package projector

import "github.com/ClickHouse/ch-go/proto"

// derivedRevision counts the changes of the derived columns.
const derivedRevision = 0

// derivedColumns are columns of evidence that are made from the others. There
// are none. A program built with the tag derivedcolumn has one: the tests of a
// rebuild need a projector whose rows have a column more.
type derivedColumns struct{}

func (*derivedColumns) input() proto.Input { return nil }

func (*derivedColumns) add(*Row) {}
