package worker

import (
	"fmt"
	"strings"

	"github.com/jobtrail/jobtrail/pkg/retrytopics"
)

// malformed says which headers of the record cannot be used, and why. It names
// no value.
func (e *entry) malformed() string {
	var err error
	if e.lane.role == retrytopics.RoleRetry {
		_, err = retrytopics.State(e.rec.Headers)
	} else {
		_, err = retrytopics.Parse(e.rec.Headers, e.publication)
	}
	if err == nil {
		return ""
	}
	return strings.ReplaceAll(strings.ReplaceAll(err.Error(), retrytopics.ErrMalformed.Error()+" ", ""), "\n", "; ")
}

// untyped says why a worker has no handler for the record.
func (e *entry) untyped() string {
	near := ""
	for _, h := range e.rec.Headers {
		switch {
		case h.Key == retrytopics.HeaderJobType:
			return "no handler is configured for this type"
		case strings.EqualFold(h.Key, retrytopics.HeaderJobType):
			near = h.Key
		}
	}
	if near != "" {
		return fmt.Sprintf("there is no header %s (%s is another one: case counts), so the type is the topic's name", retrytopics.HeaderJobType, near)
	}
	return fmt.Sprintf("there is no header %s, so the type is the topic's name", retrytopics.HeaderJobType)
}
