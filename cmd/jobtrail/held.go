package main

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/jobtrail/jobtrail/internal/connect"
	"github.com/jobtrail/jobtrail/internal/operate"
	"github.com/jobtrail/jobtrail/pkg/events"
	"github.com/jobtrail/jobtrail/pkg/retrytopics"
)

// Embedded in dlq list and parked list.
type heldListFlags struct {
	Group     string `placeholder:"G" help:"Worker group; may be left out when there is one."`
	JobID     string `placeholder:"ID" help:"Only this job."`
	Type      string `placeholder:"TYPE" help:"Only this job type."`
	Tenant    string `placeholder:"TEN" help:"Only this tenant."`
	Operation string `placeholder:"OP" help:"Only this operation."`
	Reason    string `placeholder:"REASON" help:"Only this reason, such as exhausted, permanent or abandoned."`
	Since     string `placeholder:"T" help:"Only what was written since: RFC 3339, unix ms, or 24h for a day ago."`
	Limit     int    `default:"50" help:"At most so many, the newest (${default})."`
	Scan      int64  `default:"100000" help:"Look at no more records than this (${default})."`
	timeoutFlag
	outputFlag
}

// Environment lists the variables that the verb reads.
func (f *heldListFlags) Environment() any { return connect.Kafka{} }

func (f *heldListFlags) run(ctx context.Context, g *Globals, topicOf func(retrytopics.Topology) string) error {
	filter := operate.HeldFilter{JobID: f.JobID, Type: f.Type, TenantID: f.Tenant, OperationID: f.Operation, Reason: f.Reason, Limit: f.Limit, Scan: f.Scan}
	if f.Limit < 1 || f.Limit > 100_000 || f.Scan < 1 {
		return usageError(errors.New("--limit must be 1 to 100000, --scan at least 1"))
	}
	if f.Since != "" {
		since, err := operate.ParseSince(f.Since, time.Now())
		if err != nil {
			return usageError(fmt.Errorf("--since %q: %w", f.Since, err))
		}
		filter.Since = events.TimeOf(since)
	}
	ctx, cancel := f.bound(ctx)
	defer cancel()
	cl, topic, err := g.openHeld(ctx, f.Group, topicOf)
	if err != nil {
		return err
	}
	defer cl.Close()
	page, err := operate.ListHeld(ctx, cl, topic, filter)
	if err != nil {
		return cause(ctx, err)
	}
	if f.Output == "json" {
		records := make([]heldJSON, len(page.Records))
		for i, h := range page.Records {
			records[i] = g.heldOf(h)
		}
		return printJSON(g.Stdout, struct {
			Topic   string     `json:"topic"`
			Records []heldJSON `json:"records"`
			Scanned int64      `json:"scanned"`
			More    bool       `json:"more"`
		}{topic, records, page.Scanned, page.More})
	}
	return printHeldList(g, topic, page)
}

// openHeld opens a client and finds the topic of the group.
func (g *Globals) openHeld(ctx context.Context, group string, topicOf func(retrytopics.Topology) string) (*kgo.Client, string, error) {
	cl, err := g.reachKafka(ctx)
	if err != nil {
		return nil, "", err
	}
	found, err := operate.GroupOf(ctx, cl, group)
	if err != nil {
		cl.Close()
		if errors.Is(err, operate.ErrSeveralGroups) {
			return nil, "", usageError(err)
		}
		return nil, "", cause(ctx, err)
	}
	return cl, topicOf(found.Topology), nil
}

func printHeldList(g *Globals, topic string, page operate.HeldPage) error {
	if len(page.Records) == 0 {
		fmt.Fprintf(g.Stdout, "Nothing in %s, of %s looked at.\n", printable(topic), count(int(page.Scanned), "record"))
	} else {
		tab := newTable("AT (UTC)", "PLACE", "REASON", "N", "TYPE", "JOB")
		for _, h := range page.Records {
			reason := h.Reason()
			if h.StateErr != nil {
				reason = "?"
			}
			tab.add(h.At.Time().Format(time.DateTime), fmt.Sprintf("%d/%d", h.Record.Partition, h.Record.Offset), reason,
				strconv.Itoa(int(h.State.Number)), h.Meta.JobType, h.Meta.JobID)
		}
		if err := tab.print(g.Stdout); err != nil {
			return err
		}
	}
	if page.More {
		fmt.Fprintf(g.Stdout, "There may be older ones: %s looked at; --limit, --scan and --since set how many.\n", count(int(page.Scanned), "record"))
	}
	return nil
}

// Embedded in dlq show and parked show.
type heldShowFlags struct {
	ID      string `arg:"" name:"place|job-id" help:"PARTITION/OFFSET as list shows it, or a job id, of which the newest record is shown."`
	Group   string `placeholder:"G" help:"Worker group; may be left out when there is one."`
	Tenant  string `placeholder:"TEN" help:"With a job id: of this tenant."`
	Payload bool   `help:"Write the payload's bytes, and nothing else, to standard output; with -o json, add it in base64."`
	Headers bool   `help:"Show the values of the producer's own headers and the record key, too: as the payload, they may hold anything."`
	Scan    int64  `default:"100000" help:"With a job id: look at no more records than this (${default})."`
	timeoutFlag
	outputFlag
}

// Environment lists the variables that the verb reads.
func (f *heldShowFlags) Environment() any { return connect.Kafka{} }

var placePattern = regexp.MustCompile(`^(\d{1,10})/(\d{1,19})$`)

func (f *heldShowFlags) run(ctx context.Context, g *Globals, topicOf func(retrytopics.Topology) string) error {
	ctx, cancel := f.bound(ctx)
	defer cancel()
	cl, topic, err := g.openHeld(ctx, f.Group, topicOf)
	if err != nil {
		return err
	}
	defer cl.Close()
	partition, offset, older, err := f.find(ctx, cl, topic)
	if err != nil {
		return cause(ctx, err)
	}
	held, err := operate.ReadHeld(ctx, cl, topic, partition, offset)
	if err != nil {
		return cause(ctx, err)
	}
	if older > 0 {
		fmt.Fprintf(g.Stderr, "The job has %s; list --job-id shows them.\n", count(older, "older record"))
	}
	switch {
	case f.Output == "json":
		out := g.heldOf(held)
		out.Headers = f.headersOf(g, held)
		out.Key = encode(held.Record.Key, f.showsKey(held))
		sum := sha256.Sum256(held.Record.Value)
		digest := hex.EncodeToString(sum[:])
		out.ValueSHA256 = &digest
		if f.Payload && held.Record.Value != nil {
			payload := base64.StdEncoding.EncodeToString(held.Record.Value)
			out.Payload = &payload
		}
		return printJSON(g.Stdout, out)
	case f.Payload:
		_, err := g.Stdout.Write(held.Record.Value)
		return err
	}
	return f.print(g, held)
}

// described are the headers whose meaning jobtrail knows.
var described = []string{retrytopics.HeaderTraceParent, retrytopics.HeaderTraceState, retrytopics.HeaderNotBefore, retrytopics.HeaderDeadline, retrytopics.HeaderContentType}

// header returns the value of a header to show, or that it is not to be shown:
// a producer may have put into its own ones what it puts into the payload.
func (f *heldShowFlags) header(g *Globals, held *operate.Held, h kgo.RecordHeader) (value []byte, shown bool) {
	isID := slices.Contains([]string{retrytopics.HeaderJobID, retrytopics.HeaderJobType, retrytopics.HeaderOperationID, retrytopics.HeaderTenantID}, h.Key)
	switch {
	case f.Headers, retrytopics.Ours(h.Key), isID && held.Malformed == nil:
		return h.Value, true
	case isID, slices.Contains(described, h.Key):
		return []byte(g.clean().Clean(string(h.Value)).String()), true
	}
	return h.Value, false
}

// showsKey reports whether the record's key is to be shown.
func (f *heldShowFlags) showsKey(held *operate.Held) bool {
	return f.Headers || string(held.Record.Key) == held.Meta.JobID
}

// hidden says how much is not shown.
func hidden(b []byte) string { return fmt.Sprintf("%d bytes (--headers shows them)", len(b)) }

// find returns the place of the record to show, and how many older ones of the
// job there are.
func (f *heldShowFlags) find(ctx context.Context, cl *kgo.Client, topic string) (partition int32, offset int64, older int, err error) {
	if m := placePattern.FindStringSubmatch(f.ID); m != nil {
		p, perr := strconv.ParseInt(m[1], 10, 32)
		o, oerr := strconv.ParseInt(m[2], 10, 64)
		if err := errors.Join(perr, oerr); err != nil {
			return 0, 0, 0, usageError(err)
		}
		return int32(p), o, 0, nil
	}
	page, err := operate.ListHeld(ctx, cl, topic, operate.HeldFilter{JobID: f.ID, TenantID: f.Tenant, Limit: 1000, Scan: f.Scan})
	if err != nil {
		return 0, 0, 0, err
	}
	if len(page.Records) == 0 {
		return 0, 0, 0, fmt.Errorf("no record of job %q among %s of topic %s that were looked at (--scan)", f.ID, count(int(page.Scanned), "record"), topic)
	}
	tenants := map[string]bool{}
	for _, h := range page.Records {
		tenants[h.Meta.TenantID] = true
	}
	if len(tenants) > 1 {
		return 0, 0, 0, usageError(fmt.Errorf("job id %q is there of %d tenants; say --tenant: %q", f.ID, len(tenants), sortedKeys(tenants)))
	}
	r := page.Records[0].Record
	return r.Partition, r.Offset, len(page.Records) - 1, nil
}

func (f *heldShowFlags) print(g *Globals, h *operate.Held) error {
	r, s := h.Record, &h.State
	tab := &table{}
	line := func(name, value string) { tab.add(name, value) }
	line("place", fmt.Sprintf("%s/%d/%d", r.Topic, r.Partition, r.Offset))
	line("written", string(retrytopics.FormatTime(h.At)))
	line("job", h.Meta.JobID)
	line("type", h.Meta.JobType)
	line("tenant", h.Meta.TenantID)
	line("operation", h.Meta.OperationID)
	if h.StateErr != nil {
		line("state", "unknown: "+g.oneLine(h.StateErr))
	} else {
		line("state", s.State.String())
		line("reason", h.Reason())
		line("error class", s.ErrorClass.String())
		line("run", strconv.Itoa(int(s.Run)))
		line("version", strconv.Itoa(int(s.Version)))
		line("attempts", fmt.Sprintf("%d (%d of the step's budget, %d lost with their worker, %d of them alone)", s.Number, s.BudgetUsed, s.Losses, s.SoloLosses))
		line("last attempt", idText(s.AttemptID))
		line("step", s.Step)
		line("step output", strconv.Itoa(len(s.StepOutput))+" bytes")
		line("published", s.Origin.String()+" at "+string(retrytopics.FormatTime(s.OriginAt)))
	}
	if h.Malformed != nil {
		line("malformed", g.oneLine(h.Malformed))
	}
	if r.Key == nil || f.showsKey(h) {
		line("key", text(r.Key))
	} else {
		line("key", hidden(r.Key))
	}
	if h.Size < 0 {
		line("value", "null")
	} else {
		sum := sha256.Sum256(r.Value)
		line("value", fmt.Sprintf("%d bytes, sha256 %s", h.Size, hex.EncodeToString(sum[:])))
	}
	for _, x := range r.Headers {
		if x.Key == retrytopics.HeaderState {
			continue
		}
		if value, shown := f.header(g, h, x); shown {
			line("header "+x.Key, text(value))
		} else {
			line("header "+x.Key, hidden(value))
		}
	}
	return tab.print(g.Stdout)
}

// text returns bytes as text; what is no UTF-8 as its length.
func text(b []byte) string {
	if !utf8.Valid(b) {
		return fmt.Sprintf("%d bytes, no text", len(b))
	}
	return string(b)
}

func idText(id uuid.UUID) string {
	if id == uuid.Nil {
		return ""
	}
	return id.String()
}

// encoded is bytes in JSON: text where it is UTF-8, base64 otherwise, and how
// many there are where they are not shown.
type encoded struct {
	Text   *string `json:"text,omitempty"`
	Base64 *string `json:"base64,omitempty"`
	Size   *int    `json:"size,omitempty"`
}

func encode(b []byte, shown bool) *encoded {
	if b == nil {
		return nil
	}
	if !shown {
		size := len(b)
		return &encoded{Size: &size}
	}
	s := string(b)
	if utf8.Valid(b) {
		return &encoded{Text: &s}
	}
	s = base64.StdEncoding.EncodeToString(b)
	return &encoded{Base64: &s}
}

type headerJSON struct {
	Key   string   `json:"key"`
	Value *encoded `json:"value"`
}

// headersOf returns the headers without the state, which is given decoded.
func (f *heldShowFlags) headersOf(g *Globals, held *operate.Held) []headerJSON {
	all := []headerJSON{}
	for _, h := range held.Record.Headers {
		if h.Key != retrytopics.HeaderState {
			value, shown := f.header(g, held, h)
			all = append(all, headerJSON{h.Key, encode(value, shown)})
		}
	}
	return all
}

type heldJSON struct {
	Topic       string     `json:"topic"`
	Partition   int32      `json:"partition"`
	Offset      int64      `json:"offset"`
	At          *string    `json:"at"`
	JobID       string     `json:"job_id"`
	JobType     string     `json:"job_type"`
	TenantID    string     `json:"tenant_id"`
	OperationID string     `json:"operation_id"`
	Reason      string     `json:"reason"`
	Size        *int       `json:"size"` // null for a null value
	Malformed   *string    `json:"malformed"`
	StateError  *string    `json:"state_error"`
	State       *stateJSON `json:"state"`

	// Only shown of a single record.
	Key         *encoded     `json:"key,omitempty"`
	Headers     []headerJSON `json:"headers,omitempty"`
	ValueSHA256 *string      `json:"value_sha256,omitempty"`
	Payload     *string      `json:"payload_base64,omitempty"`
}

type stateJSON struct {
	State      string  `json:"state"`
	Run        uint32  `json:"run"`
	Version    uint32  `json:"version"`
	Attempts   uint32  `json:"attempts"`
	BudgetUsed uint32  `json:"budget_used"`
	Losses     uint32  `json:"losses"`
	SoloLosses uint32  `json:"solo_losses"`
	Step       string  `json:"step"`
	ErrorClass string  `json:"error_class"`
	AttemptID  *string `json:"attempt_id"`
	Origin     string  `json:"origin"`
	OriginAt   *string `json:"origin_at"`
	NotBefore  *string `json:"not_before"`
}

func (g *Globals) heldOf(h *operate.Held) heldJSON {
	out := heldJSON{Topic: h.Record.Topic, Partition: h.Record.Partition, Offset: h.Record.Offset, At: timeOf(h.At), JobID: h.Meta.JobID, JobType: h.Meta.JobType,
		TenantID: h.Meta.TenantID, OperationID: h.Meta.OperationID, Reason: h.Reason()}
	if h.Size >= 0 {
		out.Size = &h.Size
	}
	out.Malformed, out.StateError = g.errorText(h.Malformed), g.errorText(h.StateErr)
	if h.StateErr == nil {
		s := &h.State
		out.State = &stateJSON{s.State.String(), s.Run, s.Version, s.Number, s.BudgetUsed, s.Losses, s.SoloLosses, s.Step, s.ErrorClass.String(), nil, s.Origin.String(), timeOf(s.OriginAt), timeOf(s.NotBefore)}
		if s.AttemptID != uuid.Nil {
			id := s.AttemptID.String()
			out.State.AttemptID = &id
		}
	}
	return out
}

func (g *Globals) errorText(err error) *string {
	if err == nil {
		return nil
	}
	s := g.oneLine(err)
	return &s
}
