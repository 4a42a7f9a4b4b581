package events

import (
	"crypto/sha1"
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
	b := append(make([]byte, 0, 128), attemptSpace[:]...)
	b = append(b, group...)
	b = append(b, 0)
	b = append(b, topicID[:]...)
	b = binary.BigEndian.AppendUint32(b, uint32(partition))
	b = binary.BigEndian.AppendUint64(b, uint64(offset))
	b = binary.BigEndian.AppendUint32(b, delivery)
	return nameBased(b)
}

// IdempotencyKey returns the key a handler gets: UUIDv5 of group, tenant, job
// and step, the same for every attempt, publication and run.
func IdempotencyKey(group, tenantID, jobID, step string) uuid.UUID {
	b := append(make([]byte, 0, 256), idempotencySpace[:]...)
	for _, s := range []string{group, tenantID, jobID, step} {
		b = binary.BigEndian.AppendUint32(b, uint32(len(s)))
		b = append(b, s...)
	}
	return nameBased(b)
}

// nameBased returns the UUIDv5 of a name space with the name behind it (RFC
// 9562, 5.5), without allocating.
func nameBased(b []byte) (id uuid.UUID) {
	sum := sha1.Sum(b)
	copy(id[:], sum[:])
	id[6] = id[6]&0x0f | 0x50
	id[8] = id[8]&0x3f | 0x80
	return id
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
