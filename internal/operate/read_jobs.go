package operate

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/jobtrail/jobtrail/pkg/jobs"
)

// MaxJobLine is the longest line of a file of jobs, in bytes.
const MaxJobLine = 64 << 20

// JobLine is a line of a file of jobs.
type JobLine struct {
	// Number counts the lines from 1, blank ones included.
	Number int
	Job    jobs.Job
	// Err says why the line is no job; Job is not to be used then.
	Err error
}

// ReadJobs reads jobs, one JSON object a line, until r ends; an error of r is
// the Err of the last line. A line takes what it does not say from defaults;
// times that are relative count from now. Fields are topic, type, job-id,
// operation-id, tenant, not-before, deadline, content-type, key, header (an
// object of strings), and data (a string) or data_base64; job_id does for
// job-id, and so on. A field that is null counts as not there.
func ReadJobs(r io.Reader, defaults jobs.Job, now time.Time) iter.Seq[JobLine] {
	return func(yield func(JobLine) bool) {
		lines := bufio.NewReaderSize(r, 256<<10)
		for n := 1; ; n++ {
			line, err := readLine(lines)
			if n == 1 {
				line = bytes.TrimPrefix(line, []byte("\uFEFF"))
			}
			line = bytes.TrimSpace(line)
			switch {
			case err != nil && !errors.Is(err, io.EOF):
				yield(JobLine{Number: n, Err: fmt.Errorf("reading: %w", err)})
				return
			case len(line) > 0:
				job, bad := parseJob(line, defaults, now)
				if !yield(JobLine{n, job, bad}) {
					return
				}
			}
			if errors.Is(err, io.EOF) {
				return
			}
		}
	}
}

// readLine returns a line that is its own, without a limit on its length but
// MaxJobLine.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > MaxJobLine {
			return nil, fmt.Errorf("the line is longer than %d bytes", MaxJobLine)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

func parseJob(line []byte, defaults jobs.Job, now time.Time) (jobs.Job, error) {
	job := defaults
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(line, &fields); err != nil {
		return job, fmt.Errorf("it is no JSON object: %w", err)
	}
	var errs []error
	seen := map[string]bool{}
	for name, raw := range fields {
		if string(raw) == "null" {
			continue
		}
		canonical := name
		if name != "data_base64" {
			canonical = strings.ReplaceAll(name, "_", "-")
		}
		if seen[canonical] {
			errs = append(errs, fmt.Errorf("%s: it is there twice", canonical))
			continue
		}
		seen[canonical] = true
		if err := setField(&job, canonical, raw, now); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	if seen["data"] && seen["data_base64"] {
		errs = append(errs, errors.New("data and data_base64: only one is possible"))
	}
	// Maps have no order, messages should.
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return job, errors.Join(errs...)
}

// jobFields are the names of a line's fields.
var jobFields = []string{"topic", "type", "job-id", "operation-id", "tenant", "not-before", "deadline", "content-type", "key", "header", "headers", "data", "data_base64"}

func setField(job *jobs.Job, name string, raw json.RawMessage, now time.Time) error {
	if !slices.Contains(jobFields, name) {
		return fmt.Errorf("there is no such field, but %s", strings.Join(jobFields, ", "))
	}
	if name == "header" || name == "headers" {
		var headers map[string]string
		if err := json.Unmarshal(raw, &headers); err != nil {
			return errors.New("want an object of strings")
		}
		job.Headers = slices.Clone(job.Headers)
		for k, v := range headers {
			job.Headers = append(job.Headers, kgo.RecordHeader{Key: k, Value: []byte(v)})
		}
		slices.SortStableFunc(job.Headers, func(a, b kgo.RecordHeader) int { return strings.Compare(a.Key, b.Key) })
		return nil
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		// Times may be a number of milliseconds.
		var n json.Number
		if name != "not-before" && name != "deadline" || json.Unmarshal(raw, &n) != nil {
			return errors.New("want a string")
		}
		s = n.String()
	}
	var err error
	switch name {
	case "topic":
		job.Topic = s
	case "type":
		job.Type = s
	case "job-id":
		job.ID = s
	case "operation-id":
		job.OperationID = s
	case "tenant":
		job.TenantID = s
	case "content-type":
		job.ContentType = s
	case "key":
		job.Key = []byte(s)
	case "not-before":
		job.NotBefore, err = ParseWhen(s, now)
	case "deadline":
		job.Deadline, err = ParseWhen(s, now)
	case "data":
		job.Value = []byte(s)
	case "data_base64":
		job.Value, err = base64.StdEncoding.DecodeString(s)
	}
	return err
}
