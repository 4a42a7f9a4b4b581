package events

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// ErrMalformed is wrapped by every decoding error.
var ErrMalformed = errors.New("malformed protobuf")

// Append appends the encoding of e, the protobuf message
// jobtrail.events.v1.Event, to b and returns the longer slice. Fields are in
// the order of their numbers, so equal events have equal bytes.
func Append(b []byte, e *Event) []byte {
	var enc Encoder
	return enc.Append(b, e)
}

// An Encoder encodes events without an allocation; Append is the same for a
// single event. It is not safe for concurrent use. The zero Encoder is ready.
type Encoder struct{ c coder }

// Append appends the encoding of e to b and returns the longer slice.
func (enc *Encoder) Append(b []byte, e *Event) []byte {
	enc.c.out = b
	enc.c.body(e)
	b, enc.c.out = enc.c.out, nil
	return b
}

// A Decoder decodes events. It remembers strings that recur, such as names of
// groups and topics, so keep one a goroutine; it is not safe for concurrent
// use. The zero Decoder is ready.
type Decoder struct{ c coder }

// Decode fills e from b, one encoded Event, and keeps what this build does not
// know in e.Unknown. It does not keep b. An error wraps ErrMalformed.
func (d *Decoder) Decode(b []byte, e *Event) error {
	c := &d.c
	if c.intern == nil || len(c.intern) >= maxInterned {
		c.intern = make(map[string]string)
	}
	*e = Event{}
	c.decoding = true
	c.decode(e, b)
	err := c.err
	*c = coder{intern: c.intern, spill: c.spill[:0]}
	if err != nil {
		return fmt.Errorf("decoding event of %d bytes: %w: %w", len(b), ErrMalformed, err)
	}
	return nil
}

// Decode is Decoder.Decode for a single event.
func Decode(b []byte) (*Event, error) {
	var d Decoder
	e := new(Event)
	if err := d.Decode(b, e); err != nil {
		return nil, err
	}
	return e, nil
}

// Append appends the encoding of h to b.
func (h *HopState) Append(b []byte) []byte {
	c := coder{out: b}
	c.body(h)
	return c.out
}

// Decode fills h from b. An error wraps ErrMalformed.
func (h *HopState) Decode(b []byte) error {
	*h = HopState{}
	c := coder{decoding: true}
	c.decode(h, b)
	if c.err != nil {
		return fmt.Errorf("decoding hop state of %d bytes: %w: %w", len(b), ErrMalformed, c.err)
	}
	return nil
}

func (e *Event) rest() *[]byte { return &e.Unknown }

func (e *Event) fields(c *coder) {
	number(c, 1, &e.MinReader)
	number(c, 2, &e.OccurredAt)
	c.name(3, &e.Group)
	c.name(4, &e.TenantID)
	c.text(5, &e.JobID)
	c.name(6, &e.JobType)
	c.text(7, &e.OperationID)
	embedded(c, 8, &e.Publication)
	number(c, 9, &e.Run)
	number(c, 10, &e.Version)
	number(c, 11, &e.State)
	number(c, 12, &e.Number)
	number(c, 13, &e.OriginAt)
	id(c, 14, &e.TraceID)
	embedded(c, 15, &e.Source)
	c.name(16, &e.Worker)
	number(c, 17, &e.Generation)
	c.name(18, &e.CodeVersion)
	const bodies protowire.Number = 32
	switch {
	case !c.decoding:
		if e.Body != nil {
			c.encode(bodies+protowire.Number(e.Body.Type()), e.Body)
		}
	case c.num > bodies && c.typ == protowire.BytesType:
		t := Type(c.num - bodies)
		if body := newBody(t); body != nil && protowire.Number(t)+bodies == c.num {
			if e.Body != nil && e.Body.Type() == t {
				body = e.Body // a second occurrence is merged, as protobuf says
			}
			b, _ := c.bytesOf(c.num)
			c.decode(body, b)
			e.Body = body
		}
	}
}

func (p *Publication) fields(c *coder) {
	id(c, 1, &p.TopicID)
	c.name(2, &p.Topic)
	number(c, 3, &p.Partition)
	number(c, 4, &p.Offset)
}

func (s *Source) fields(c *coder) {
	c.name(1, &s.Topic)
	number(c, 2, &s.Partition)
	number(c, 3, &s.Offset)
}

func (x *Error) fields(c *coder) {
	number(c, 1, &x.Class)
	c.name(2, &x.Type)
	c.sanitised(3, &x.Message)
	c.fixed64(4, &x.Fingerprint)
}

func (n *Next) fields(c *coder) {
	number(c, 1, &n.RetryAt)
	c.name(2, &n.Tier)
}

func (b *AttemptStarted) fields(c *coder) {
	id(c, 1, &b.AttemptID)
	c.name(2, &b.Step)
	number(c, 3, &b.Cause)
	number(c, 4, &b.Cohort)
	number(c, 5, &b.EnqueuedAt)
	number(c, 6, &b.Deadline)
	id(c, 7, &b.IdempotencyKey)
	number(c, 8, &b.Delivery)
}

func (b *AttemptFinished) fields(c *coder) {
	id(c, 1, &b.AttemptID)
	number(c, 2, &b.Outcome)
	embedded(c, 3, &b.Error)
	number(c, 4, &b.StartedAt)
	number(c, 5, &b.FinishedAt)
	embedded(c, 6, &b.Next)
	c.flag(7, &b.Late)
	number(c, 8, &b.AdoptedFrom)
	number(c, 9, &b.Delivery)
}

func (b *AttemptAbandoned) fields(c *coder) {
	id(c, 1, &b.AttemptID)
	number(c, 2, &b.Cause)
	number(c, 3, &b.Losses)
	number(c, 4, &b.SoloLosses)
	c.name(5, &b.Detector)
	number(c, 6, &b.BasedOn)
	number(c, 7, &b.Delivery)
}

func (b *StepCompleted) fields(c *coder) {
	c.name(1, &b.Step)
	c.name(2, &b.NextStep)
}

func (b *JobDeferred) fields(c *coder) {
	number(c, 1, &b.Reason)
	number(c, 2, &b.Until)
	c.name(3, &b.Tier)
}

func (b *JobParked) fields(c *coder) { number(c, 1, &b.Reason) }

func (b *JobResolved) fields(c *coder) {
	number(c, 1, &b.Verb)
	c.name(2, &b.Actor)
	c.sanitised(3, &b.Reason)
	id(c, 4, &b.CommandID)
}

func (b *JobTerminal) fields(c *coder) {
	number(c, 1, &b.Outcome)
	number(c, 2, &b.Reason)
	number(c, 3, &b.Attempts)
	c.bytes(4, &b.ValueSHA256)
	number(c, 5, &b.ValueSize)
	c.sanitised(6, &b.Detail)
}

func (b *JobRedriven) fields(c *coder) {
	id(c, 1, &b.RedriveID)
	c.name(2, &b.Actor)
}

func (b *DuplicateSeen) fields(c *coder) {
	embedded(c, 1, &b.First)
	c.text(2, &b.FirstOperationID)
	number(c, 3, &b.FirstState)
	number(c, 4, &b.Action)
}

func (b *TransitionRejected) fields(c *coder) {
	c.name(1, &b.What)
	number(c, 2, &b.Expected)
	number(c, 3, &b.Found)
	c.sanitised(4, &b.Detail)
	id(c, 5, &b.CommandID)
}

func (b *Checkpoint) fields(c *coder) {
	id(c, 1, &b.ID)
	number(c, 2, &b.Part)
	number(c, 3, &b.Parts)
	bare(c, 4, &b.Committed, &b.committedRest)
	repeated(c, 5, &b.Open)
	repeated(c, 6, &b.Finished)
	list(c, 7, &b.DedupPages)
	repeated(c, 8, &b.Marks)
}

func (o *OpenEntry) fields(c *coder) {
	c.name(1, &o.TenantID)
	c.text(2, &o.JobID)
	c.name(3, &o.JobType)
	c.text(4, &o.OperationID)
	embedded(c, 5, &o.Publication)
	number(c, 6, &o.Run)
	number(c, 7, &o.Version)
	number(c, 8, &o.State)
	number(c, 9, &o.Number)
	c.name(10, &o.Step)
	number(c, 11, &o.OriginAt)
	embedded(c, 12, &o.Source)
	number(c, 13, &o.Delivery)
	number(c, 14, &o.BudgetUsed)
	number(c, 15, &o.Losses)
	number(c, 16, &o.SoloLosses)
	number(c, 17, &o.Cohort)
	id(c, 18, &o.AttemptID)
	c.name(19, &o.Worker)
	number(c, 20, &o.StartedOffset)
	number(c, 21, &o.StartedAt)
	pointed(c, 22, &o.Late)
	number(c, 23, &o.LateOffset)
	c.flag(24, &o.NotStarted)
}

func (r *OffsetRange) fields(c *coder) {
	c.name(1, &r.Topic)
	number(c, 2, &r.First)
	number(c, 3, &r.Last)
}

func (m *Mark) fields(c *coder) {
	embedded(c, 1, &m.Publication)
	number(c, 2, &m.Run)
	number(c, 3, &m.State)
	c.name(4, &m.Actor)
	id(c, 5, &m.CommandID)
}

func (b *DedupPage) fields(c *coder) {
	fixed(c, 1, &b.Job)
	fixed(c, 2, &b.JobType)
	list(c, 3, &b.Topic)
	list(c, 4, &b.Offset)
	list(c, 5, &b.State)
	fixed(c, 6, &b.LastAt)
	bare(c, 7, &b.Topics, &b.topicsRest)
}

func (b *GroupEvent) fields(c *coder) {
	c.name(1, &b.Kind)
	repeated(c, 2, &b.Fields)
}

func (f *GroupField) fields(c *coder) {
	c.name(1, &f.Name)
	c.sanitised(2, &f.Value)
}

func (h *HopState) fields(c *coder) {
	number(c, 1, &h.Format)
	number(c, 2, &h.Run)
	number(c, 3, &h.Version)
	number(c, 4, &h.Number)
	number(c, 5, &h.BudgetUsed)
	number(c, 6, &h.Losses)
	number(c, 7, &h.SoloLosses)
	c.text(8, &h.Step)
	c.bytes(9, &h.StepOutput)
	number(c, 10, &h.NotBefore)
	embedded(c, 11, &h.Origin)
	number(c, 12, &h.OriginAt)
	number(c, 13, &h.ErrorClass)
	id(c, 14, &h.AttemptID)
	number(c, 15, &h.Cause)
	number(c, 16, &h.Reason)
	number(c, 17, &h.ParkReason)
	number(c, 18, &h.State)
}

func (b *AttemptStarted) rest() *[]byte     { return &b.unknown }
func (b *AttemptFinished) rest() *[]byte    { return &b.unknown }
func (b *AttemptAbandoned) rest() *[]byte   { return &b.unknown }
func (b *StepCompleted) rest() *[]byte      { return &b.unknown }
func (b *JobDeferred) rest() *[]byte        { return &b.unknown }
func (b *JobParked) rest() *[]byte          { return &b.unknown }
func (b *JobResolved) rest() *[]byte        { return &b.unknown }
func (b *JobTerminal) rest() *[]byte        { return &b.unknown }
func (b *JobRedriven) rest() *[]byte        { return &b.unknown }
func (b *DuplicateSeen) rest() *[]byte      { return &b.unknown }
func (b *TransitionRejected) rest() *[]byte { return &b.unknown }
func (b *Checkpoint) rest() *[]byte         { return &b.unknown }
func (b *GroupEvent) rest() *[]byte         { return &b.unknown }
func (b *DedupPage) rest() *[]byte          { return &b.unknown }
func (o *OpenEntry) rest() *[]byte          { return &o.unknown }
func (r *OffsetRange) rest() *[]byte        { return &r.unknown }
func (m *Mark) rest() *[]byte               { return &m.unknown }
func (f *GroupField) rest() *[]byte         { return &f.unknown }
func (h *HopState) rest() *[]byte           { return &h.unknown }
