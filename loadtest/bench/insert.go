package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	driver "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/jobtrail/jobtrail/internal/projector"
	"github.com/jobtrail/jobtrail/pkg/events"
)

// insertRows is how many rows a batch of the bare insert has.
const insertRows = 100_000

// runInsert measures a bare insert: batches of rows that lie ready in memory,
// column by column, into the table evidence alone, by clickhouse-go.
func runInsert(ctx context.Context, s settings) (took time.Duration, err error) {
	st, err := openStore(ctx, s, false)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, st.close()) }()
	batches, err := readBatches(ctx, s)
	if err != nil {
		return 0, err
	}
	insert := "INSERT INTO " + st.database() + ".evidence (" + strings.Join(projector.LosslessColumns(), ", ") + ")"
	// As the projector does: a cluster of months is still one insert.
	ctx = driver.Context(ctx, driver.WithSettings(driver.Settings{"async_insert": 0, "max_partitions_per_insert_block": 0}))
	begun := time.Now()
	for _, columns := range batches {
		if err := insertColumns(ctx, st.conn, insert, columns); err != nil {
			return 0, err
		}
	}
	took = time.Since(begun)
	return took, st.await(ctx, s.Jobs, nil)
}

func insertColumns(ctx context.Context, conn driver.Conn, insert string, columns []any) error {
	batch, err := conn.PrepareBatch(ctx, insert)
	if err != nil {
		return err
	}
	defer batch.Close()
	for i, values := range columns {
		if err := batch.Column(i).Append(values); err != nil {
			return fmt.Errorf("appending column %s: %w", projector.LosslessColumns()[i], err)
		}
	}
	return batch.Send()
}

// readBatches reads the log into batches of columns, each a slice.
func readBatches(ctx context.Context, s settings) ([][]any, error) {
	log, err := logID(ctx, s)
	if err != nil {
		return nil, err
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.Brokers), kgo.ConsumeTopics(s.topology().Evidence()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	var decoder events.Decoder
	var batches [][]any
	var columns []column
	flush := func() {
		values := make([]any, len(columns))
		for i, c := range columns {
			values[i] = c.values()
		}
		batches = append(batches, values)
	}
	for n := 0; n < s.Jobs; {
		fetches := cl.PollFetches(ctx)
		if err := errors.Join(ctx.Err(), fetches.Err()); err != nil {
			return nil, err
		}
		for _, rec := range fetches.Records() {
			if n%insertRows == 0 {
				if n > 0 {
					flush()
				}
				if columns, err = newColumns(); err != nil {
					return nil, err
				}
			}
			n++
			var e events.Event
			if err := decoder.Decode(rec.Value, &e); err != nil {
				return nil, err
			}
			row := projector.RowOf(&e, projector.Place{LogID: log, Partition: uint16(rec.Partition), Offset: rec.Offset, At: rec.Timestamp.UnixMilli()}, rec.Value)
			for _, c := range columns {
				c.add(&row)
			}
		}
	}
	flush()
	return batches, nil
}

// column collects a column's values.
type column struct {
	add    func(*projector.Row)
	values func() any
}

func of[T any](get func(*projector.Row) T) func() column {
	return func() column {
		values := make([]T, 0, insertRows)
		return column{func(r *projector.Row) { values = append(values, get(r)) }, func() any { return values }}
	}
}

// newColumns returns an empty column for each of evidence.
func newColumns() ([]column, error) {
	var columns []column
	for _, name := range projector.LosslessColumns() {
		c := columnsOf[name]
		if c == nil {
			return nil, fmt.Errorf("evidence has a column %s that the bare insert does not know", name)
		}
		columns = append(columns, c())
	}
	return columns, nil
}

type row = projector.Row

var columnsOf = map[string]func() column{
	"operation_id":       of(func(r *row) string { return r.OperationID }),
	"tenant_id":          of(func(r *row) string { return r.TenantID }),
	"job_id":             of(func(r *row) string { return r.JobID }),
	"worker_group":       of(func(r *row) string { return r.WorkerGroup }),
	"job_type":           of(func(r *row) string { return r.JobType }),
	"origin_topic":       of(func(r *row) string { return r.OriginTopic }),
	"origin_topic_id":    of(func(r *row) uuid.UUID { return r.OriginTopicID }),
	"origin_offset":      of(func(r *row) uint64 { return r.OriginOffset }),
	"origin_at":          of(func(r *row) int64 { return r.OriginAt }),
	"run":                of(func(r *row) uint16 { return r.Run }),
	"version":            of(func(r *row) uint32 { return r.Version }),
	"state":              of(func(r *row) int8 { return int8(r.State) }),
	"type":               of(func(r *row) int8 { return int8(r.Type) }),
	"attempt_id":         of(func(r *row) uuid.UUID { return r.AttemptID }),
	"number":             of(func(r *row) uint16 { return r.Number }),
	"delivery":           of(func(r *row) uint16 { return r.Delivery }),
	"step":               of(func(r *row) string { return r.Step }),
	"next_step":          of(func(r *row) string { return r.NextStep }),
	"cause":              of(func(r *row) string { return r.Cause }),
	"outcome":            of(func(r *row) string { return r.Outcome }),
	"reason":             of(func(r *row) string { return r.Reason }),
	"action":             of(func(r *row) string { return r.Action }),
	"actor":              of(func(r *row) string { return r.Actor }),
	"late":               of(func(r *row) bool { return r.Late }),
	"based_on":           of(func(r *row) uint64 { return r.BasedOn }),
	"error_class":        of(func(r *row) string { return r.ErrorClass }),
	"error_type":         of(func(r *row) string { return r.ErrorType }),
	"error_message":      of(func(r *row) string { return r.ErrorMessage }),
	"fingerprint":        of(func(r *row) uint64 { return r.Fingerprint }),
	"note":               of(func(r *row) string { return r.Note }),
	"enqueued_at":        of(func(r *row) int64 { return r.EnqueuedAt }),
	"deadline":           of(func(r *row) int64 { return r.Deadline }),
	"started_at":         of(func(r *row) int64 { return r.StartedAt }),
	"finished_at":        of(func(r *row) int64 { return r.FinishedAt }),
	"due_at":             of(func(r *row) int64 { return r.DueAt }),
	"tier":               of(func(r *row) string { return r.Tier }),
	"cohort":             of(func(r *row) uint16 { return r.Cohort }),
	"losses":             of(func(r *row) uint16 { return r.Losses }),
	"solo_losses":        of(func(r *row) uint16 { return r.SoloLosses }),
	"expected_state":     of(func(r *row) int8 { return int8(r.ExpectedState) }),
	"found_state":        of(func(r *row) int8 { return int8(r.FoundState) }),
	"duplicate_of":       of(func(r *row) string { return r.DuplicateOf }),
	"first_operation_id": of(func(r *row) string { return r.FirstOperationID }),
	"command_id":         of(func(r *row) uuid.UUID { return r.CommandID }),
	"occurred_at":        of(func(r *row) int64 { return r.OccurredAt }),
	"log_at":             of(func(r *row) int64 { return r.LogAt }),
	"trace_id":           of(func(r *row) []byte { return append([]byte(nil), r.TraceID[:]...) }),
	"source_topic":       of(func(r *row) string { return r.SourceTopic }),
	"source_offset":      of(func(r *row) uint64 { return r.SourceOffset }),
	"worker":             of(func(r *row) string { return r.Worker }),
	"generation":         of(func(r *row) uint32 { return r.Generation }),
	"code_version":       of(func(r *row) string { return r.CodeVersion }),
	"min_reader":         of(func(r *row) uint16 { return r.MinReader }),
	"log_id":             of(func(r *row) uuid.UUID { return r.LogID }),
	"partition":          of(func(r *row) uint16 { return r.Partition }),
	"offset":             of(func(r *row) uint64 { return r.Offset }),
	"rest":               of(func(r *row) []byte { return r.Rest }),
}
