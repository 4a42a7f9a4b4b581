package evidence

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/google/uuid"
)

// Store answers questions. It is safe for concurrent use.
type Store struct {
	conn     driver.Conn
	database string
}

// New returns a Store that reads the views of database, which follow the live
// generation. It contacts nobody.
func New(conn driver.Conn, database string) *Store { return &Store{conn: conn, database: database} }

// NotMade reports whether err says that the store, or a part of it that was
// asked for, does not exist (yet).
func NotMade(err error) bool {
	const unknownTable, unknownDatabase = 60, 81
	e, ok := errors.AsType[*clickhouse.Exception](err)
	return ok && (e.Code == unknownTable || e.Code == unknownDatabase)
}

// NoOperation returns what a store answers that holds no event of an operation.
func NoOperation(operationID string, tenant *string) *Operation {
	o := &Operation{OperationID: operationID, Jobs: []Run{}}
	if tenant != nil {
		o.TenantID = *tenant
	}
	o.judge(nil)
	return o
}

// TenantsError says that an id is known of several tenants, so the question
// must name one.
type TenantsError struct {
	What, ID string
	Tenants  []string
}

// Error implements error.
func (e *TenantsError) Error() string {
	named := make([]string, len(e.Tenants))
	for i, t := range e.Tenants {
		named[i] = fmt.Sprintf("%q", t)
	}
	return fmt.Sprintf("%s %s is known of %d tenants; name one of %s", e.What, e.ID, len(e.Tenants), strings.Join(named, ", "))
}

// Operation answers what happened to an operation. tenant nil asks of all
// tenants: a *TenantsError when there are several. An operation without
// evidence has the verdict Unknown.
func (s *Store) Operation(ctx context.Context, operationID string, tenant *string) (*Operation, error) {
	// First, so that nothing is said to be complete that was not read.
	positions, err := s.Positions(ctx)
	if err != nil {
		return nil, err
	}
	where, args := "operation_id = ?", []any{operationID}
	if tenant != nil {
		where, args = where+" AND tenant_id = ?", append(args, *tenant)
	}
	es, err := s.events(ctx, where, args...)
	if err != nil {
		return nil, err
	}
	if err := oneTenant("operation", operationID, es); err != nil {
		return nil, err
	}
	o := &Operation{OperationID: operationID, Jobs: fold(es), read: placesOf(es)}
	if tenant != nil {
		o.TenantID = *tenant
	} else if len(es) > 0 {
		o.TenantID = es[0].TenantID
	}
	if o.Jobs == nil {
		o.Jobs = []Run{}
	}
	elsewhere, err := s.elsewhere(ctx, o.Jobs)
	if err != nil {
		return nil, err
	}
	o.judge(elsewhere)
	o.CompleteUpTo = CompleteUpTo(positions, o.Groups)
	return o, nil
}

func oneTenant(what, id string, es []event) error {
	var tenants []string
	for i := range es {
		if t := es[i].TenantID; !slices.Contains(tenants, t) {
			tenants = append(tenants, t)
		}
	}
	if len(tenants) < 2 {
		return nil
	}
	slices.Sort(tenants)
	return &TenantsError{What: what, ID: id, Tenants: tenants}
}

// elsewhere returns the deciding run of each job that these runs only hold
// duplicates of, from the operation of its first publication.
func (s *Store) elsewhere(ctx context.Context, runs []Run) (map[job]Run, error) {
	ran := map[job]bool{}
	for i := range runs {
		if runs[i].Run > 0 {
			ran[runs[i].origin.job] = true
		}
	}
	found := map[job]Run{}
	for i := range runs {
		r := &runs[i]
		j := r.origin.job
		if ran[j] || r.DuplicateOf == "" || r.FirstOp == r.OperationID {
			continue
		}
		ran[j] = true
		es, err := s.events(ctx, "operation_id = ? AND tenant_id = ? AND job_id = ? AND worker_group = ?", r.FirstOp, j.tenant, j.id, j.group)
		if err != nil {
			return nil, err
		}
		if d := deciding(fold(es), nil); len(d) > 0 {
			found[j] = d[0]
		}
	}
	return found, nil
}

// Job is the answer to what happened to a job, over all its publications and
// operations.
type Job struct {
	JobID        string     `json:"job_id"`
	TenantID     string     `json:"tenant_id"`
	WorkerGroup  string     `json:"group"`
	Verdict      Verdict    `json:"verdict"`
	Sentence     string     `json:"sentence"`
	CompleteUpTo *time.Time `json:"complete_up_to"`
	Operations   []string   `json:"operations"`
	Runs         []JobRun   `json:"runs"`

	read places
}

// JobRun is a run with its history.
type JobRun struct {
	Run
	OperationID string       `json:"operation_id"`
	TraceID     string       `json:"trace_id"`
	OriginAt    time.Time    `json:"origin_at"`
	DuplicateOf string       `json:"duplicate_of"`
	Missing     []string     `json:"missing"`
	History     []Transition `json:"history"`
}

// Job answers what happened to a job; tenant and group nil ask of all. It
// returns one answer per group that knows the id, none when no group does, and
// a *TenantsError when several tenants do.
func (s *Store) Job(ctx context.Context, jobID string, tenant, group *string) ([]Job, error) {
	positions, err := s.Positions(ctx)
	if err != nil {
		return nil, err
	}
	where, args := "job_id = ?", []any{jobID}
	if tenant != nil {
		where, args = where+" AND tenant_id = ?", append(args, *tenant)
	}
	if group != nil {
		where, args = where+" AND worker_group = ?", append(args, *group)
	}
	rows, err := s.conn.Query(ctx, fmt.Sprintf("SELECT DISTINCT operation_id, toYYYYMM(origin_at) FROM %s.jobs WHERE %s", s.database, where), args...)
	if err != nil {
		return nil, fmt.Errorf("looking up job %s: %w", jobID, err)
	}
	defer rows.Close()
	var operations []string
	var months []uint32
	for rows.Next() {
		var op string
		var month uint32
		if err := rows.Scan(&op, &month); err != nil {
			return nil, fmt.Errorf("looking up job %s: %w", jobID, err)
		}
		if !slices.Contains(operations, op) {
			operations = append(operations, op)
		}
		if !slices.Contains(months, month) {
			months = append(months, month)
		}
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("looking up job %s: %w", jobID, err)
	}
	if len(operations) == 0 {
		return nil, nil
	}
	slices.Sort(operations)
	es, err := s.events(ctx, where+" AND operation_id IN (?) AND toYYYYMM(origin_at) IN (?)", append(args, operations, months)...)
	if err != nil {
		return nil, err
	}
	if err := oneTenant("job", jobID, es); err != nil {
		return nil, err
	}
	var jobs []Job
	byGroup, read := map[string][]Run{}, placesOf(es)
	for _, r := range fold(es) {
		byGroup[r.WorkerGroup] = append(byGroup[r.WorkerGroup], r)
	}
	for _, g := range sortedKeys(byGroup) {
		runs := byGroup[g]
		as := Operation{OperationID: operations[0], Jobs: runs}
		as.judge(nil)
		j := Job{JobID: jobID, TenantID: runs[0].TenantID, WorkerGroup: g, Verdict: as.Verdict, Sentence: as.Sentence, Operations: operations, read: read}
		for _, r := range runs {
			jr := JobRun{Run: r, OperationID: r.OperationID, TraceID: r.TraceID, OriginAt: r.OriginAt, DuplicateOf: r.DuplicateOf, Missing: r.Missing, History: r.History}
			if jr.Missing == nil {
				jr.Missing = []string{}
			}
			if jr.History == nil {
				jr.History = []Transition{}
			}
			j.Runs = append(j.Runs, jr)
		}
		j.CompleteUpTo = CompleteUpTo(positions, []string{g})
		jobs = append(jobs, j)
	}
	return jobs, nil
}

// ListedJob is a line of a list of jobs: the last run of a publication.
type ListedJob struct {
	JobID          string    `json:"job_id"`
	TenantID       string    `json:"tenant_id"`
	WorkerGroup    string    `json:"group"`
	JobType        string    `json:"job_type"`
	OperationID    string    `json:"operation_id"`
	Publication    string    `json:"publication"`
	Run            int       `json:"run"`
	State          string    `json:"state"`
	Attempts       int       `json:"attempts"`
	Complete       *bool     `json:"complete"` // nil: not known beyond 64 versions
	FirstAt        time.Time `json:"first_at"`
	LastAt         time.Time `json:"last_at"`
	LastErrorClass string    `json:"last_error_class"`
}

// Filter selects jobs; zero fields select all.
type Filter struct {
	Group, Type, State string
	Tenant             *string
	// Since selects runs whose last event was appended at or after it.
	Since time.Time
	// Limit is the most lines; default 100.
	Limit int
}

// Jobs lists runs, the one with the latest event first.
func (s *Store) Jobs(ctx context.Context, f Filter) ([]ListedJob, error) {
	where, args := []string{"1"}, []any{}
	add := func(cond string, arg any) { where, args = append(where, cond), append(args, arg) }
	if f.Group != "" {
		add("worker_group = ?", f.Group)
	}
	if f.Type != "" {
		add("job_type = ?", f.Type)
	}
	if f.State != "" {
		add("state = ?", f.State)
	}
	if f.Tenant != nil {
		add("tenant_id = ?", *f.Tenant)
	}
	if !f.Since.IsZero() {
		add("last_at >= fromUnixTimestamp64Milli(?)", f.Since.UnixMilli())
	}
	if f.Limit <= 0 {
		f.Limit = 100
	}
	rows, err := s.conn.Query(ctx, fmt.Sprintf(`SELECT job_id, tenant_id, worker_group, job_type, operation_id, origin_topic, partition, origin_offset, run, toString(state), attempts, complete, first_at, last_at, last_error_class
FROM %s.v_jobs WHERE %s ORDER BY last_at DESC, job_id, run LIMIT %d`, s.database, strings.Join(where, " AND "), f.Limit), args...)
	if err != nil {
		return nil, fmt.Errorf("listing jobs: %w", err)
	}
	defer rows.Close()
	jobs := []ListedJob{}
	for rows.Next() {
		var j ListedJob
		var topic string
		var partition, run uint16
		var offset uint64
		var attempts uint32
		var complete *uint8
		if err := rows.Scan(&j.JobID, &j.TenantID, &j.WorkerGroup, &j.JobType, &j.OperationID, &topic, &partition, &offset, &run, &j.State, &attempts, &complete, &j.FirstAt, &j.LastAt, &j.LastErrorClass); err != nil {
			return nil, fmt.Errorf("listing jobs: %w", err)
		}
		j.Publication, j.Run, j.Attempts = fmt.Sprintf("%s/%d/%d", topic, partition, offset), int(run), int(attempts)
		if complete != nil {
			whole := *complete == 1
			j.Complete = &whole
		}
		jobs = append(jobs, j)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("listing jobs: %w", err)
	}
	return jobs, nil
}

// Attempt finds where an attempt is; nil when the store does not know it.
func (s *Store) Attempt(ctx context.Context, id uuid.UUID) (*AttemptPlace, error) {
	rows, err := s.conn.Query(ctx, fmt.Sprintf("SELECT operation_id, tenant_id, job_id FROM %s.attempt_ids WHERE attempt_id = ? LIMIT 1", s.database), id)
	if err != nil {
		return nil, fmt.Errorf("looking up attempt %s: %w", id, err)
	}
	defer rows.Close()
	if !rows.Next() {
		return nil, rows.Err()
	}
	p := &AttemptPlace{}
	if err := rows.Scan(&p.OperationID, &p.TenantID, &p.JobID); err != nil {
		return nil, fmt.Errorf("looking up attempt %s: %w", id, err)
	}
	return p, rows.Err()
}

// AttemptPlace is whose attempt it is.
type AttemptPlace struct{ OperationID, TenantID, JobID string }

// Position is how far the store is in a partition of a log.
type Position struct {
	Group     string
	LogID     uuid.UUID
	Partition int32
	// Offset: every event before it is in the store.
	Offset int64
	// CompleteUpTo: every event appended before it is in the store.
	CompleteUpTo time.Time
}

// Positions returns how far the store is in every log. What is read of the
// store afterwards holds at least as much.
func (s *Store) Positions(ctx context.Context) ([]Position, error) {
	// A log that was made anew under its name replaced the older one.
	rows, err := s.conn.Query(ctx, fmt.Sprintf(`SELECT worker_group, log_id, partition, position, complete_up_to FROM %[1]s.v_positions
WHERE (log_topic, log_id) IN (SELECT log_topic, argMax(log_id, written_at) FROM %[1]s.v_positions GROUP BY log_topic)`, s.database))
	if err != nil {
		return nil, fmt.Errorf("reading the projector's positions: %w", err)
	}
	defer rows.Close()
	var found []Position
	for rows.Next() {
		var p Position
		var partition uint16
		var offset uint64
		if err := rows.Scan(&p.Group, &p.LogID, &partition, &offset, &p.CompleteUpTo); err != nil {
			return nil, fmt.Errorf("reading the projector's positions: %w", err)
		}
		p.Partition, p.Offset = int32(partition), int64(offset)
		found = append(found, p)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("reading the projector's positions: %w", err)
	}
	return found, nil
}

// CompleteUpTo returns the time up to which every event of the groups' logs is
// in a store of these positions, of all groups when none is named; nil when it
// is not known of one of them.
func CompleteUpTo(positions []Position, groups []string) *time.Time {
	var upTo *time.Time
	known := map[string]bool{}
	for i := range positions {
		p := &positions[i]
		if len(groups) > 0 && !slices.Contains(groups, p.Group) {
			continue
		}
		known[p.Group] = true
		if upTo == nil || p.CompleteUpTo.Before(*upTo) {
			upTo = &p.CompleteUpTo
		}
	}
	for _, g := range groups {
		if !known[g] {
			return nil
		}
	}
	return upTo
}

// Groups returns the worker groups whose logs are projected.
func (s *Store) Groups(ctx context.Context) ([]string, error) {
	rows, err := s.conn.Query(ctx, fmt.Sprintf("SELECT DISTINCT worker_group FROM %s.v_positions ORDER BY worker_group", s.database))
	if err != nil {
		return nil, fmt.Errorf("reading the projector's positions: %w", err)
	}
	defer rows.Close()
	var groups []string
	for rows.Next() {
		var g string
		if err := rows.Scan(&g); err != nil {
			return nil, fmt.Errorf("reading the projector's positions: %w", err)
		}
		groups = append(groups, g)
	}
	return groups, rows.Err()
}

func sortedKeys[V any](m map[string]V) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
