package projector

import (
	"encoding/binary"
	"strings"

	"github.com/ClickHouse/ch-go/proto"

	"github.com/jobtrail/jobtrail/clickhouse"
)

// columns is a block of rows of the table evidence in the form in which it is
// sent: whole columns, with own dictionaries for the LowCardinality ones. It
// can be sent any number of times.
type columns struct {
	rows  int
	bytes int // about what the block takes in memory
	input proto.Input
	// The first of input are lossless, the rest are made from them.
	lossless int

	operationID, jobID, errorMessage, note, duplicateOf, firstOperationID, rest stringColumn

	tenantID, workerGroup, jobType, originTopic, step, nextStep, cause, outcome, reason, action, actor, errorClass, errorType, tier, sourceTopic, worker, codeVersion dictColumn

	originTopicID, attemptID, commandID, logID                                      proto.ColUUID
	originOffset, basedOn, fingerprint, sourceOffset, offset                        proto.ColUInt64
	originAt, enqueuedAt, deadline, startedAt, finishedAt, dueAt, occurredAt, logAt timeColumn
	run, number, delivery, cohort, losses, soloLosses, minReader, partition         proto.ColUInt16
	version, generation                                                             proto.ColUInt32
	state, typ, expectedState, foundState                                           enumColumn
	late                                                                            proto.ColBool
	traceID                                                                         proto.ColFixedStr

	derived derivedColumns
}

// fixedRow is the size in bytes of the columns of fixed width, and of an empty
// string and a one-byte key in the others.
const fixedRow = 4*16 + 5*8 + 8*8 + 8*2 + 2*4 + 4 + 1 + 16 + 7 + 17

func newColumns() *columns {
	c := &columns{traceID: proto.ColFixedStr{Size: 16}}
	c.state.t, c.expectedState.t, c.foundState.t, c.typ.t = statesType, statesType, statesType, typesType
	c.input = proto.Input{
		{Name: "operation_id", Data: &c.operationID}, {Name: "tenant_id", Data: &c.tenantID}, {Name: "job_id", Data: &c.jobID}, {Name: "worker_group", Data: &c.workerGroup},
		{Name: "job_type", Data: &c.jobType}, {Name: "origin_topic", Data: &c.originTopic}, {Name: "origin_topic_id", Data: &c.originTopicID}, {Name: "origin_offset", Data: &c.originOffset},
		{Name: "origin_at", Data: &c.originAt}, {Name: "run", Data: &c.run}, {Name: "version", Data: &c.version}, {Name: "state", Data: &c.state}, {Name: "type", Data: &c.typ},
		{Name: "attempt_id", Data: &c.attemptID}, {Name: "number", Data: &c.number}, {Name: "delivery", Data: &c.delivery}, {Name: "step", Data: &c.step}, {Name: "next_step", Data: &c.nextStep},
		{Name: "cause", Data: &c.cause}, {Name: "outcome", Data: &c.outcome}, {Name: "reason", Data: &c.reason}, {Name: "action", Data: &c.action}, {Name: "actor", Data: &c.actor},
		{Name: "late", Data: &c.late}, {Name: "based_on", Data: &c.basedOn}, {Name: "error_class", Data: &c.errorClass}, {Name: "error_type", Data: &c.errorType},
		{Name: "error_message", Data: &c.errorMessage}, {Name: "fingerprint", Data: &c.fingerprint}, {Name: "note", Data: &c.note}, {Name: "enqueued_at", Data: &c.enqueuedAt},
		{Name: "deadline", Data: &c.deadline}, {Name: "started_at", Data: &c.startedAt}, {Name: "finished_at", Data: &c.finishedAt}, {Name: "due_at", Data: &c.dueAt}, {Name: "tier", Data: &c.tier},
		{Name: "cohort", Data: &c.cohort}, {Name: "losses", Data: &c.losses}, {Name: "solo_losses", Data: &c.soloLosses}, {Name: "expected_state", Data: &c.expectedState},
		{Name: "found_state", Data: &c.foundState}, {Name: "duplicate_of", Data: &c.duplicateOf}, {Name: "first_operation_id", Data: &c.firstOperationID}, {Name: "command_id", Data: &c.commandID},
		{Name: "occurred_at", Data: &c.occurredAt}, {Name: "log_at", Data: &c.logAt}, {Name: "trace_id", Data: &c.traceID}, {Name: "source_topic", Data: &c.sourceTopic},
		{Name: "source_offset", Data: &c.sourceOffset}, {Name: "worker", Data: &c.worker}, {Name: "generation", Data: &c.generation}, {Name: "code_version", Data: &c.codeVersion},
		{Name: "min_reader", Data: &c.minReader}, {Name: "log_id", Data: &c.logID}, {Name: "partition", Data: &c.partition}, {Name: "offset", Data: &c.offset}, {Name: "rest", Data: &c.rest},
	}
	c.lossless = len(c.input)
	c.input = append(c.input, c.derived.input()...)
	return c
}

// LosslessColumns returns the names of the columns of evidence that hold all
// that an event says. Columns that are made from these are left out.
func LosslessColumns() []string {
	c := newColumns()
	names := make([]string, c.lossless)
	for i := range names {
		names[i] = c.input[i].Name
	}
	return names
}

// columnNames is the column list of an INSERT into evidence.
var columnNames = func() string {
	var names []string
	for _, in := range newColumns().input {
		names = append(names, in.Name)
	}
	return strings.Join(names, ", ")
}()

// add appends a row.
func (c *columns) add(r *Row) {
	c.rows++
	c.bytes += fixedRow + len(r.OperationID) + len(r.JobID) + len(r.ErrorMessage) + len(r.Note) + len(r.DuplicateOf) + len(r.FirstOperationID) + len(r.Rest)
	c.operationID.add(r.OperationID)
	c.tenantID.add(r.TenantID)
	c.jobID.add(r.JobID)
	c.workerGroup.add(r.WorkerGroup)
	c.jobType.add(r.JobType)
	c.originTopic.add(r.OriginTopic)
	c.originTopicID = append(c.originTopicID, r.OriginTopicID)
	c.originOffset = append(c.originOffset, r.OriginOffset)
	c.originAt.add(r.OriginAt)
	c.run = append(c.run, r.Run)
	c.version = append(c.version, r.Version)
	c.state.add(uint8(r.State))
	c.typ.add(uint8(r.Type))
	c.attemptID = append(c.attemptID, r.AttemptID)
	c.number = append(c.number, r.Number)
	c.delivery = append(c.delivery, r.Delivery)
	c.step.add(r.Step)
	c.nextStep.add(r.NextStep)
	c.cause.add(r.Cause)
	c.outcome.add(r.Outcome)
	c.reason.add(r.Reason)
	c.action.add(r.Action)
	c.actor.add(r.Actor)
	c.late = append(c.late, r.Late)
	c.basedOn = append(c.basedOn, r.BasedOn)
	c.errorClass.add(r.ErrorClass)
	c.errorType.add(r.ErrorType)
	c.errorMessage.add(r.ErrorMessage)
	c.fingerprint = append(c.fingerprint, r.Fingerprint)
	c.note.add(r.Note)
	c.enqueuedAt.add(r.EnqueuedAt)
	c.deadline.add(r.Deadline)
	c.startedAt.add(r.StartedAt)
	c.finishedAt.add(r.FinishedAt)
	c.dueAt.add(r.DueAt)
	c.tier.add(r.Tier)
	c.cohort = append(c.cohort, r.Cohort)
	c.losses = append(c.losses, r.Losses)
	c.soloLosses = append(c.soloLosses, r.SoloLosses)
	c.expectedState.add(uint8(r.ExpectedState))
	c.foundState.add(uint8(r.FoundState))
	c.duplicateOf.add(r.DuplicateOf)
	c.firstOperationID.add(r.FirstOperationID)
	c.commandID = append(c.commandID, r.CommandID)
	c.occurredAt.add(r.OccurredAt)
	c.logAt.add(r.LogAt)
	c.traceID.Buf = append(c.traceID.Buf, r.TraceID[:]...)
	c.sourceTopic.add(r.SourceTopic)
	c.sourceOffset = append(c.sourceOffset, r.SourceOffset)
	c.worker.add(r.Worker)
	c.generation = append(c.generation, r.Generation)
	c.codeVersion.add(r.CodeVersion)
	c.minReader = append(c.minReader, r.MinReader)
	c.logID = append(c.logID, r.LogID)
	c.partition = append(c.partition, r.Partition)
	c.offset = append(c.offset, r.Offset)
	c.rest.addBytes(r.Rest)
	c.derived.add(r)
}

// reset empties the block and keeps its memory.
func (c *columns) reset() {
	for _, in := range c.input {
		in.Data.(interface{ Reset() }).Reset()
	}
	c.rows, c.bytes = 0, 0
}

// stringColumn is a String column in its wire form.
type stringColumn struct {
	buf  []byte
	rows int
}

func (c *stringColumn) add(s string) {
	c.buf = append(binary.AppendUvarint(c.buf, uint64(len(s))), s...)
	c.rows++
}

func (c *stringColumn) addBytes(b []byte) {
	c.buf = append(binary.AppendUvarint(c.buf, uint64(len(b))), b...)
	c.rows++
}

func (c *stringColumn) Type() proto.ColumnType       { return proto.ColumnTypeString }
func (c *stringColumn) Rows() int                    { return c.rows }
func (c *stringColumn) Reset()                       { c.buf, c.rows = c.buf[:0], 0 }
func (c *stringColumn) EncodeColumn(b *proto.Buffer) { b.Buf = append(b.Buf, c.buf...) }
func (c *stringColumn) WriteColumn(w *proto.Writer)  { w.ChainWrite(c.buf) }

// timeColumn is a DateTime64(3, 'UTC') column of milliseconds.
type timeColumn struct{ proto.ColInt64 }

func (c *timeColumn) add(ms int64)           { c.ColInt64 = append(c.ColInt64, ms) }
func (c *timeColumn) Type() proto.ColumnType { return "DateTime64(3, 'UTC')" }

var (
	statesType = proto.ColumnType(clickhouse.Layout{}.States())
	typesType  = proto.ColumnType(clickhouse.Layout{}.Types())
)

// enumColumn is an Enum8 column of type t.
type enumColumn struct {
	proto.ColInt8
	t proto.ColumnType
}

func (c *enumColumn) add(v uint8)            { c.ColInt8 = append(c.ColInt8, int8(v)) }
func (c *enumColumn) Type() proto.ColumnType { return c.t }

// dictColumn is a LowCardinality(String) column. Values that recur are
// recognised by the string that was added before, then by a map.
type dictColumn struct {
	raw  proto.ColLowCardinalityRaw
	dict stringColumn
	ids  map[string]int
	last string
	id   int
}

func (c *dictColumn) add(s string) {
	if s != c.last || c.dict.rows == 0 {
		c.last, c.id = s, c.lookup(s)
	}
	c.raw.AppendKey(c.id)
}

func (c *dictColumn) lookup(s string) int {
	if id, ok := c.ids[s]; ok {
		return id
	}
	if c.ids == nil {
		c.ids = make(map[string]int)
		c.raw.Key = proto.KeyUInt8
	}
	id := c.dict.rows
	c.ids[s] = id
	c.dict.add(s)
	switch id {
	case 1 << 8:
		for _, k := range c.raw.Keys8 {
			c.raw.Keys16 = append(c.raw.Keys16, uint16(k))
		}
		c.raw.Key = proto.KeyUInt16
	case 1 << 16:
		for _, k := range c.raw.Keys16 {
			c.raw.Keys32 = append(c.raw.Keys32, uint32(k))
		}
		c.raw.Key = proto.KeyUInt32
	}
	return id
}

func (c *dictColumn) Type() proto.ColumnType { return "LowCardinality(String)" }
func (c *dictColumn) Rows() int              { return c.raw.Rows() }

func (c *dictColumn) Reset() {
	c.dict.Reset()
	c.raw.Keys8, c.raw.Keys16, c.raw.Keys32 = c.raw.Keys8[:0], c.raw.Keys16[:0], c.raw.Keys32[:0]
	c.raw.Key = proto.KeyUInt8
	clear(c.ids)
	c.last, c.id = "", 0
}

func (c *dictColumn) EncodeState(b *proto.Buffer) { b.PutInt64(1) } // shared dictionaries with additional keys

func (c *dictColumn) EncodeColumn(b *proto.Buffer) {
	if c.Rows() == 0 {
		return
	}
	c.head(b)
	c.dict.EncodeColumn(b)
	c.middle(b)
	c.raw.Keys().EncodeColumn(b)
}

func (c *dictColumn) WriteColumn(w *proto.Writer) {
	if c.Rows() == 0 {
		return
	}
	w.ChainBuffer(c.head)
	c.dict.WriteColumn(w)
	w.ChainBuffer(c.middle)
	c.raw.Keys().WriteColumn(w)
}

func (c *dictColumn) head(b *proto.Buffer) {
	const hasAdditionalKeys, needUpdateDictionary = 1 << 9, 1 << 10
	b.PutInt64(hasAdditionalKeys | needUpdateDictionary | int64(c.raw.Key))
	b.PutInt64(int64(c.dict.rows))
}

func (c *dictColumn) middle(b *proto.Buffer) { b.PutInt64(int64(c.Rows())) }
