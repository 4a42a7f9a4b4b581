package worker

import (
	"fmt"
	"strconv"
	"strings"
)

// commitMetadata is what a commit of the worker says besides the offset:
// "v1;replayFrom;tickID". The zero value stands for a commit without metadata,
// by which a group begins.
type commitMetadata struct {
	ok         bool
	replayFrom int64
	tickID     string
}

func (m commitMetadata) String() string {
	return "v1;" + strconv.FormatInt(m.replayFrom, 10) + ";" + m.tickID
}

// parseMetadata reads the metadata of a commit. Text that this build does not
// understand is an error, never "nothing": replaying too little would run jobs
// again.
func parseMetadata(s string) (commitMetadata, error) {
	if s == "" {
		return commitMetadata{}, nil
	}
	f := strings.Split(s, ";")
	if len(f) < 3 || f[0] != "v1" {
		return commitMetadata{}, fmt.Errorf("reading commit metadata %.64q: it is not of the form v1;replayFrom;tickID", s)
	}
	from, err := strconv.ParseInt(f[1], 10, 64)
	if err != nil || from < 0 {
		return commitMetadata{}, fmt.Errorf("reading commit metadata %.64q: %q is no offset", s, f[1])
	}
	return commitMetadata{ok: true, replayFrom: from, tickID: f[2]}, nil
}
