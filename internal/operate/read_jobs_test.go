package operate

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/jobtrail/jobtrail/pkg/jobs"
)

func TestReadJobs(t *testing.T) {
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct{ name, line, want string }{
		{"defaults", `{}`, `{T:t Type:d ID: Op: Ten: NB: DL: CT: Key:- Val:- H:[a=1]}`},
		{"all", `{"topic":"u","type":"x","job-id":"j","operation-id":"o","tenant":"n","not-before":"+10m","deadline":1769871845000,"content-type":"c","key":"k","header":{"z":"2","b":"3"},"data":"v"}`,
			`{T:u Type:x ID:j Op:o Ten:n NB:2026-01-31T12:10:00Z DL:2026-01-31T15:04:05Z CT:c Key:"k" Val:"v" H:[a=1 b=3 z=2]}`},
		{"underscores", `{"job_id":"j","operation_id":"o","data_base64":"/w=="}`, `{T:t Type:d ID:j Op:o Ten: NB: DL: CT: Key:- Val:"\xff" H:[a=1]}`},
		{"null is not there, empty is empty", `{"job-id":null,"data":"","key":""}`, `{T:t Type:d ID: Op: Ten: NB: DL: CT: Key:"" Val:"" H:[a=1]}`},
		{"no object", `[1]`, `error: it is no JSON object: json: cannot unmarshal array`},
		{"no JSON", `{"a":`, `error: it is no JSON object: unexpected end of JSON input`},
		{"two values", `{} {}`, `error: it is no JSON object: invalid character '{' after top-level value`},
		{"both spellings", `{"job_id":"a","job-id":"b"}`, `error: job-id: it is there twice`},
		{"unknown", `{"jobid":"a"}`, `error: jobid: there is no such field, but topic, type,`},
		{"no string", `{"data":{"a":1}}`, `error: data: want a string`},
		{"bad base64", `{"data_base64":"%"}`, `error: data_base64: illegal base64 data`},
		{"bad time", `{"not-before":"soon"}`, `error: not-before: want RFC 3339`},
		{"bad headers", `{"headers":{"a":1}}`, `error: headers: want an object of strings`},
		{"both data", `{"data":"a","data_base64":"YQ=="}`, `error: data and data_base64: only one`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var defaults jobs.Job
			defaults.Topic, defaults.Type = "t", "d"
			defaults.Headers = append(defaults.Headers, header("a", "1"))
			var got []string
			for line := range ReadJobs(strings.NewReader("\uFEFF\r\n \n"+tt.line+"\r\n"), defaults, now) {
				if line.Number != 3 {
					t.Errorf("line %d, want 3", line.Number)
				}
				got = append(got, describe(line))
			}
			if len(got) != 1 || !strings.HasPrefix(got[0], tt.want) {
				t.Errorf("got  %q\nwant %s", got, tt.want)
			}
		})
	}
}

func describe(line JobLine) string {
	if line.Err != nil {
		return "error: " + line.Err.Error()
	}
	j := line.Job
	when := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return t.Format(time.RFC3339)
	}
	text := func(b []byte) string {
		if b == nil {
			return "-"
		}
		return fmt.Sprintf("%q", b)
	}
	var hs []string
	for _, h := range j.Headers {
		hs = append(hs, h.Key+"="+string(h.Value))
	}
	return fmt.Sprintf("{T:%s Type:%s ID:%s Op:%s Ten:%s NB:%s DL:%s CT:%s Key:%s Val:%s H:%v}", j.Topic, j.Type, j.ID, j.OperationID, j.TenantID,
		when(j.NotBefore), when(j.Deadline), j.ContentType, text(j.Key), text(j.Value), hs)
}

func TestReadJobsEndsWithTheReader(t *testing.T) {
	broken := errors.New("broken")
	var got []JobLine
	for line := range ReadJobs(iotest.TimeoutReader(strings.NewReader(strings.Repeat("{}\n", 200_000))), jobs.Job{}, time.Now()) {
		got = append(got, line)
	}
	last := got[len(got)-1]
	if !errors.Is(last.Err, iotest.ErrTimeout) || len(got) < 2 || got[0].Err != nil {
		t.Errorf("%d lines, the last %+v", len(got), last)
	}
	for line := range ReadJobs(iotest.ErrReader(broken), jobs.Job{}, time.Now()) {
		if !errors.Is(line.Err, broken) {
			t.Errorf("got %+v", line)
		}
	}
	n := 0
	for line := range ReadJobs(strings.NewReader("{}\n{\"data\":\""+strings.Repeat("x", MaxJobLine)+"\"}\n{}"), jobs.Job{}, time.Now()) {
		if n++; n == 2 && (line.Err == nil || !strings.Contains(line.Err.Error(), "longer than")) {
			t.Errorf("got %v", line.Err)
		}
	}
	if n != 2 {
		t.Errorf("%d lines", n)
	}
}

func header(key, value string) kgo.RecordHeader {
	return kgo.RecordHeader{Key: key, Value: []byte(value)}
}
