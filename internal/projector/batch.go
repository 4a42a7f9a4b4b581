package projector

import (
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/jobtrail/jobtrail/pkg/events"
	"github.com/jobtrail/jobtrail/pkg/sanitize"
)

// batch is a range of one partition on its way to the store.
type batch struct {
	span
	next   int64 // position after it, transaction markers included
	cols   *columns
	poison []poison
	opened time.Time
	rev    string

	minOrigin, maxOrigin, minLog, maxLog int64
}

// poison is a record that is no event.
type poison struct {
	offset, at int64
	reason     sanitize.Text
	key, value []byte
}

func (p *poison) size() int { return len(p.key) + len(p.value) + len(p.reason.String()) + 64 }

// encoder turns records into batches. One goroutine uses it.
type encoder struct {
	log       uuid.UUID
	partition uint16
	decoder   events.Decoder
	mapper    mapper
	clean     *sanitize.Sanitizer
	event     events.Event
	row       Row
}

// add appends a record to b and returns by how many bytes b grew.
func (c *encoder) add(b *batch, rec *kgo.Record) int {
	b.Last, b.next = rec.Offset, rec.Offset+1
	at := rec.Timestamp.UnixMilli()
	if b.Rows+b.Poison == 0 {
		b.minLog = at
	}
	b.maxLog = max(b.maxLog, at)
	if err := c.decode(rec); err != nil {
		p := poison{offset: rec.Offset, at: min(max(at, 0), maxMillis), reason: c.clean.Error(err), key: rec.Key, value: rec.Value}
		b.poison = append(b.poison, p)
		b.Poison++
		return p.size()
	}
	c.mapper.fill(&c.row, &c.event, Place{LogID: c.log, Partition: c.partition, Offset: rec.Offset, At: at}, rec.Value)
	if b.Rows == 0 || c.row.OriginAt < b.minOrigin {
		b.minOrigin = c.row.OriginAt
	}
	b.maxOrigin = max(b.maxOrigin, c.row.OriginAt)
	b.Rows++
	before := b.cols.bytes
	b.cols.add(&c.row)
	return b.cols.bytes - before
}

var (
	errNoValue = errors.New("the record has no value")
	errNoGroup = errors.New("the event names no worker group")
)

// decode returns why the record is no event, nil when it is one.
func (c *encoder) decode(rec *kgo.Record) error {
	if len(rec.Value) == 0 {
		return errNoValue
	}
	if err := c.decoder.Decode(rec.Value, &c.event); err != nil {
		return err
	}
	if c.event.Group == "" {
		return errNoGroup
	}
	return nil
}
