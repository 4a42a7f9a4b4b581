package events

import (
	"encoding/binary"
	"strconv"

	"github.com/google/uuid"
)

// Name spaces of the derived ids (RFC 9562, version 5).
var (
	attemptSpace     = uuid.NewSHA1(uuid.NameSpaceURL, []byte("https://jobtrail.dev/attempt"))
	idempotencySpace = uuid.NewSHA1(uuid.NameSpaceURL, []byte("https://jobtrail.dev/idempotency-key"))
)

// AttemptID returns the id of one execution: UUIDv5 of the group, the topic id,
// partition and offset of the record that carried it, and the delivery of that
// record, from 1. It depends on nothing else, so whoever reads the record again
// arrives at the same id.
func AttemptID(group string, topicID uuid.UUID, partition int32, offset int64, delivery uint32) uuid.UUID {
	b := make([]byte, 0, 128)
	b = append(b, group...)
	b = append(b, 0)
	b = append(b, topicID[:]...)
	b = binary.BigEndian.AppendUint32(b, uint32(partition))
	b = binary.BigEndian.AppendUint64(b, uint64(offset))
	b = binary.BigEndian.AppendUint32(b, delivery)
	return uuid.NewSHA1(attemptSpace, b)
}

// IdempotencyKey returns the key a handler gets: UUIDv5 of group, tenant, job
// and step, the same for every attempt, publication and run.
func IdempotencyKey(group, tenantID, jobID, step string) uuid.UUID {
	b := make([]byte, 0, 256)
	for _, s := range []string{group, tenantID, jobID, step} {
		b = binary.BigEndian.AppendUint32(b, uint32(len(s)))
		b = append(b, s...)
	}
	return uuid.NewSHA1(idempotencySpace, b)
}

// DefaultJobID returns the id of a job whose producer gave none:
// "<topic id>/<partition>/<offset>".
func (p Publication) DefaultJobID() string {
	return p.TopicID.String() + "/" + strconv.Itoa(int(p.Partition)) + "/" + strconv.FormatInt(p.Offset, 10)
}

// String returns "topic/partition/offset".
func (p Publication) String() string {
	return p.Topic + "/" + strconv.Itoa(int(p.Partition)) + "/" + strconv.FormatInt(p.Offset, 10)
}
