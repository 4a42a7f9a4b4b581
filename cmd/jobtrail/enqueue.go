package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/jobtrail/jobtrail/internal/connect"
	"github.com/jobtrail/jobtrail/internal/operate"
	"github.com/jobtrail/jobtrail/pkg/jobs"
	"github.com/jobtrail/jobtrail/pkg/retrytopics"
)

type enqueueCmd struct {
	Topic       string   `placeholder:"T" help:"Job topic."`
	Type        string   `placeholder:"TYPE" help:"Job type: which handler runs it. The topic's name when not given."`
	JobID       string   `placeholder:"ID" help:"The job's logical identity; a new one when not given."`
	OperationID string   `placeholder:"OP" help:"The customer action that caused the job."`
	Tenant      string   `placeholder:"TEN" help:"Whose job it is."`
	NotBefore   string   `placeholder:"T" help:"Earliest start: RFC 3339, unix ms or +10m."`
	Deadline    string   `placeholder:"T" help:"No attempt starts after it: RFC 3339, unix ms or +10m."`
	Key         *string  `placeholder:"K" help:"Record key, which decides the partition; the job id when not given."`
	ContentType string   `placeholder:"TYPE" help:"Handed to HTTP handlers."`
	Header      []string `sep:"none" placeholder:"K=V" help:"Further header, handed to the handler. May be repeated."`
	DataFile    string   `placeholder:"F" help:"File with the payload; - for standard input. No payload when not given."`
	NDJSON      string   `name:"ndjson" placeholder:"FILE" help:"Publish many jobs: a JSON object a line, with the same names and data or data_base64; - for standard input. Flags are the defaults of lines."`
	SkipBad     bool     `help:"With --ndjson: publish the good lines although there are bad ones."`
	timeoutFlag
	outputFlag
}

// Environment lists the variables that the verb reads.
func (c *enqueueCmd) Environment() any { return connect.Kafka{} }

// batchJobs is how many jobs are in flight at once.
const batchJobs = 10_000

// Run publishes one job, or those of a file.
func (c *enqueueCmd) Run(ctx context.Context, g *Globals) error {
	job, err := c.job(time.Now())
	if err != nil {
		return usageError(errors.Join(err, c.files()))
	}
	ping, cancel := c.bound(ctx)
	defer cancel()
	cl, err := g.reachKafka(ping)
	if err != nil {
		return err
	}
	cl.Close()
	e := operate.NewEnqueuer(g.Kafka)
	defer e.Close()
	if c.NDJSON != "" {
		return c.many(ctx, g, e, job)
	}
	if job.Value, err = c.data(g); err != nil {
		return err
	}
	if err := e.Check(ping, job); errors.Is(err, retrytopics.ErrMalformed) {
		return usageError(err)
	} else if err != nil {
		return cause(ping, err)
	}
	pubs, err := e.Publish(ping, []jobs.Job{job})
	if err != nil {
		return cause(ping, err)
	}
	return printPublications(g.Stdout, c.Output, pubs)
}

// job returns the job of the flags, without its payload.
func (c *enqueueCmd) job(now time.Time) (jobs.Job, error) {
	job := jobs.Job{Topic: c.Topic, Type: c.Type, ID: c.JobID, OperationID: c.OperationID, TenantID: c.Tenant, ContentType: c.ContentType}
	var errs []error
	for _, f := range []struct {
		name, text string
		into       *time.Time
	}{{"--not-before", c.NotBefore, &job.NotBefore}, {"--deadline", c.Deadline, &job.Deadline}} {
		if f.text == "" {
			continue
		}
		t, err := operate.ParseWhen(f.text, now)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s %q: %w", f.name, f.text, err))
		}
		*f.into = t
	}
	if c.Key != nil {
		job.Key = []byte(*c.Key)
	}
	for _, h := range c.Header {
		k, v, ok := strings.Cut(h, "=")
		if !ok {
			errs = append(errs, fmt.Errorf("--header %q: want name=value", h))
		}
		job.Headers = append(job.Headers, kgo.RecordHeader{Key: k, Value: []byte(v)})
	}
	if c.NDJSON == "" && c.Topic == "" {
		errs = append(errs, errors.New("--topic is needed"))
	}
	if c.NDJSON == "" && c.SkipBad {
		errs = append(errs, errors.New("--skip-bad goes with --ndjson"))
	}
	if c.NDJSON != "" && (c.JobID != "" || c.DataFile != "") {
		errs = append(errs, errors.New("--job-id and --data-file do not go with --ndjson: every line has its own"))
	}
	return job, errors.Join(errs...)
}

// files returns what is wrong with the files that the flags name.
func (c *enqueueCmd) files() error {
	var errs []error
	for _, file := range []struct{ flag, name string }{{"--data-file", c.DataFile}, {"--ndjson", c.NDJSON}} {
		if file.name == "" || file.name == "-" {
			continue
		}
		if f, err := os.Open(file.name); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", file.flag, err))
		} else {
			_ = f.Close()
		}
	}
	return errors.Join(errs...)
}

func (c *enqueueCmd) data(g *Globals) ([]byte, error) {
	if c.DataFile == "" {
		return nil, nil
	}
	f, closeFile, err := openInput(g, c.DataFile)
	if err != nil {
		return nil, fmt.Errorf("--data-file: %w", err)
	}
	defer closeFile()
	data, err := io.ReadAll(io.LimitReader(f, operate.MaxJobLine+1))
	if err == nil && len(data) > operate.MaxJobLine {
		err = fmt.Errorf("more than %d bytes", operate.MaxJobLine)
	}
	if err == nil && len(data) == 0 && c.DataFile == "-" {
		err = errors.New("it is empty; leave --data-file out for a job without a payload")
	}
	if err != nil {
		return nil, fmt.Errorf("--data-file: reading %s: %w", c.DataFile, err)
	}
	return data, nil
}

// openInput opens a file, or standard input for "-".
func openInput(g *Globals, name string) (r io.Reader, closeFile func(), err error) {
	if name == "-" {
		return g.Stdin, func() {}, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, err
	}
	return f, func() { _ = f.Close() }, nil
}

// many reads the file twice: to check every line before the first is sent, and
// to send them. What cannot be read twice goes through a temporary file.
func (c *enqueueCmd) many(ctx context.Context, g *Globals, e *operate.Enqueuer, defaults jobs.Job) error {
	f, remove, err := openTwice(g, c.NDJSON)
	if err != nil {
		return fmt.Errorf("--ndjson: %w", err)
	}
	defer remove()
	now := time.Now()
	total, bad, err := c.checkLines(ctx, g, e, f, defaults, now)
	if err != nil {
		return err
	}
	if bad > 0 && !c.SkipBad {
		return fmt.Errorf("nothing was published: %d of %s bad; --skip-bad publishes the others", bad, linesAre(total))
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("--ndjson: reading %s again: %w", c.NDJSON, err)
	}
	published, failed, err := c.publishLines(ctx, g, e, f, defaults, now)
	fmt.Fprintf(g.Stderr, "published %s in %s\n", count(published, "job"), time.Since(now).Round(time.Millisecond))
	if err != nil {
		return err
	}
	if bad+failed > 0 {
		return fmt.Errorf("%d of %s not published: %d bad, %d failed", bad+failed, linesAre(total), bad, failed)
	}
	return nil
}

func linesAre(n int) string {
	if n == 1 {
		return "1 line is"
	}
	return fmt.Sprintf("%d lines are", n)
}

// maxReported is how many bad or failed lines are listed.
const maxReported = 20

func (c *enqueueCmd) checkLines(ctx context.Context, g *Globals, e *operate.Enqueuer, f io.Reader, defaults jobs.Job, now time.Time) (total, bad int, err error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	for line := range operate.ReadJobs(f, defaults, now) {
		total++
		err := line.Err
		if err == nil {
			err = e.Check(ctx, line.Job)
		}
		if ctx.Err() != nil {
			return total, bad, fmt.Errorf("checking line %d: %w", line.Number, context.Cause(ctx))
		}
		if err == nil {
			continue
		}
		bad++
		if bad <= maxReported {
			fmt.Fprintf(g.Stderr, "line %d: %s\n", line.Number, g.oneLine(err))
		}
	}
	if bad > maxReported {
		fmt.Fprintf(g.Stderr, "… and %s more\n", count(bad-maxReported, "bad line"))
	}
	return total, bad, nil
}

func (c *enqueueCmd) publishLines(ctx context.Context, g *Globals, e *operate.Enqueuer, f io.Reader, defaults jobs.Job, now time.Time) (published, failed int, err error) {
	batch, numbers := make([]jobs.Job, 0, batchJobs), make([]int, 0, batchJobs)
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		bounded, cancel := c.bound(ctx)
		defer cancel()
		pubs, err := e.Publish(bounded, batch)
		failures := operate.FailedJobs(err)
		done := pubs[:0]
		for i, pub := range pubs {
			why, ok := failures[i]
			if !ok {
				done = append(done, pub)
				continue
			}
			failed++
			if failed <= maxReported {
				fate := "may or may not be published"
				if answer := (*kerr.Error)(nil); errors.As(why, &answer) && !answer.Retriable {
					fate = "is refused"
				}
				fmt.Fprintf(g.Stderr, "line %d: job %s %s: %s\n", numbers[i], printable(pub.JobID), fate, g.oneLine(cause(bounded, why)))
			}
		}
		published += len(done)
		last := numbers[len(numbers)-1]
		batch, numbers = batch[:0], numbers[:0]
		if err := printPublications(g.Stdout, c.Output, done); err != nil {
			return err
		}
		if bounded.Err() != nil {
			return fmt.Errorf("publishing: %w; the lines after %d were not tried", context.Cause(bounded), last)
		}
		return nil
	}
	for line := range operate.ReadJobs(f, defaults, now) {
		if line.Err != nil {
			continue // reported by checkLines
		}
		if e.Check(ctx, line.Job) != nil {
			continue
		}
		batch, numbers = append(batch, line.Job), append(numbers, line.Number)
		if len(batch) == batchJobs {
			if err := flush(); err != nil {
				return published, failed, err
			}
		}
	}
	return published, failed, flush()
}

// openTwice opens a file that can be read again from its start.
func openTwice(g *Globals, name string) (io.ReadSeeker, func(), error) {
	in, closeIn, err := openInput(g, name)
	if err != nil {
		return nil, nil, err
	}
	if f, ok := in.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			return f, closeIn, nil
		}
	}
	defer closeIn()
	spool, err := os.CreateTemp("", "jobtrail-enqueue-")
	if err != nil {
		return nil, nil, err
	}
	remove := func() {
		_ = spool.Close()
		_ = os.Remove(spool.Name())
	}
	_, err = io.Copy(spool, in)
	if err == nil {
		_, err = spool.Seek(0, io.SeekStart)
	}
	if err != nil {
		remove()
		return nil, nil, fmt.Errorf("reading %s: %w", name, err)
	}
	return spool, remove, nil
}

// printPublications writes one line a job: a table's row or a JSON object.
func printPublications(w io.Writer, output string, pubs []jobs.Publication) error {
	var b bytes.Buffer
	for _, p := range pubs {
		if output != "json" {
			fmt.Fprintf(&b, "%-36s  %s/%d/%d\n", printable(p.JobID), printable(p.Topic), p.Partition, p.Offset)
			continue
		}
		line, err := json.Marshal(struct {
			JobID     string `json:"job_id"`
			Topic     string `json:"topic"`
			Partition int32  `json:"partition"`
			Offset    int64  `json:"offset"`
		}{p.JobID, p.Topic, p.Partition, p.Offset})
		if err != nil {
			return err
		}
		b.Write(append(line, '\n'))
	}
	_, err := w.Write(b.Bytes())
	return err
}
