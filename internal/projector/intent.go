package projector

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/google/uuid"
)

// mappingRevision counts the changes of what rows an event becomes. It is part
// of every token, so that rows of another mapping are not taken for a repeat.
const mappingRevision = 2 + derivedRevision

// MappingRevision counts the changes of what rows an event becomes. A rebuild
// that an older projector began is not continued under another revision.
func MappingRevision() int { return mappingRevision }

// rev is the revision under which a range is inserted: of the mapping, and how
// often the partition was rewound because the server had lost rows.
type rev struct{ mapping, rewinds int }

func (r rev) String() string { return strconv.Itoa(r.mapping) + "." + strconv.Itoa(r.rewinds) }

func parseRev(s string) (rev, error) {
	mapping, rewinds, ok := strings.Cut(s, ".")
	m, err1 := strconv.Atoi(mapping)
	n, err2 := strconv.Atoi(rewinds)
	if !ok || err1 != nil || err2 != nil {
		return rev{}, fmt.Errorf("revision %q is not mapping.rewinds", s)
	}
	return rev{m, n}, nil
}

// note is the metadata of a committed position: what the projector was doing
// there. It is written before an insert as a declaration of exactly what is
// sent, so that a successor sends exactly that again.
type note struct {
	Version int       `json:"v"`
	Log     uuid.UUID `json:"log"`
	Rev     string    `json:"rev"`
	// Intent is the range that is being inserted; nil when none is.
	Intent *span `json:"intent,omitempty"`
	// Done is the range before the position; nil at the log's beginning.
	Done *span `json:"done,omitempty"`
	// Rewound is the position that the last rewind went back to, plus one.
	Rewound int64 `json:"rewound,omitempty"`
}

// span is a range of a partition of the log: of the offsets from First to Last
// Rows records became rows of evidence and Poison rows of quarantine; the rest
// are holes, such as transaction markers leave.
type span struct {
	First  int64 `json:"first"`
	Last   int64 `json:"last"`
	Rows   int   `json:"rows"`
	Poison int   `json:"poison,omitempty"`
}

func (n note) encode() string {
	n.Version = 1
	b, err := json.Marshal(n)
	if err != nil {
		panic(err) // a struct of plain fields always encodes
	}
	return string(b)
}

// decodeNote reads metadata. Metadata that the projector did not write, such as
// the empty one of a position set by hand, is a note without content.
func decodeNote(s string) (note, error) {
	var n note
	if s == "" || s[0] != '{' {
		return note{}, nil
	}
	if err := json.Unmarshal([]byte(s), &n); err != nil {
		return note{}, fmt.Errorf("reading the metadata of the committed position: %w", err)
	}
	if n.Version != 1 {
		return note{}, fmt.Errorf("the committed position was written by a newer projector (metadata version %d)", n.Version)
	}
	return n, nil
}

// token is the deduplication token of a range: equal for, and only for, the
// same rows.
func token(log uuid.UUID, partition int32, s span, r string) string {
	return fmt.Sprintf("%s|%d|%d-%d|%s", log, partition, s.First, s.Last, r)
}
