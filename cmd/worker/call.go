package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jobtrail/jobtrail/internal/jobsfile"
	"github.com/jobtrail/jobtrail/pkg/events"
	"github.com/jobtrail/jobtrail/pkg/retrytopics"
	"github.com/jobtrail/jobtrail/pkg/worker"
)

const (
	connectTimeout = 10 * time.Second
	idleTimeout    = 90 * time.Second
	maxHeaderBytes = 64 << 10
	// A response body is read to its end, within these bounds, only so that the
	// connection can be used again.
	maxDrainBytes = 256 << 10
	maxDrainTime  = time.Second
	// maxRetryAfter keeps absurd values within a Duration; the policy's
	// max_interval is what caps them.
	maxRetryAfter = 365 * 24 * time.Hour
)

// A caller runs jobs as POST requests.
type caller struct {
	url    string
	host   string // overrides that of url; may be empty
	header http.Header
	client *http.Client
}

// newCaller returns a caller that keeps as many connections as jobs of the type
// can run at once.
func newCaller(conf *jobsfile.HTTP, concurrency int) *caller {
	c := &caller{url: conf.URL, header: make(http.Header)}
	for name, v := range conf.Headers {
		if strings.EqualFold(name, "Host") {
			c.host = v
			continue
		}
		c.header.Set(name, v)
	}
	c.client = &http.Client{
		Transport: &http.Transport{
			DialContext:            (&net.Dialer{Timeout: connectTimeout}).DialContext,
			TLSHandshakeTimeout:    connectTimeout,
			ForceAttemptHTTP2:      true,
			DisableCompression:     true,
			MaxIdleConnsPerHost:    concurrency,
			IdleConnTimeout:        idleTimeout,
			MaxResponseHeaderBytes: maxHeaderBytes,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c
}

// Handle implements worker.Handler.
func (c *caller) Handle(ctx context.Context, job *worker.Job) error {
	call, cancel := context.WithCancel(ctx)
	defer cancel()
	req, err := http.NewRequestWithContext(call, http.MethodPost, c.url, bytes.NewReader(job.Value))
	if err != nil {
		return worker.Permanent(errors.New("the request cannot be made of the configured URL"))
	}
	req.Host = c.host
	req.Header = c.header.Clone()
	describe(req.Header, job)
	resp, err := c.client.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("waiting for the answer: %w", context.Cause(ctx))
		}
		return brokenCall(err)
	}
	defer resp.Body.Close()
	outcome := judge(resp, time.Now())
	// The outcome is known; a slow body must not hold it up.
	stop := time.AfterFunc(maxDrainTime, cancel)
	defer stop.Stop()
	_, _ = io.CopyN(io.Discard, resp.Body, maxDrainBytes)
	return outcome
}

// describe sets the headers that tell the endpoint about the job.
func describe(h http.Header, job *worker.Job) {
	set := func(name, v string) {
		if v != "" {
			h.Set(name, v)
		}
	}
	set("Jobtrail-Job-Id", job.ID)
	set("Jobtrail-Job-Type", job.Type)
	set("Jobtrail-Attempt-Id", job.AttemptID.String())
	set("Jobtrail-Attempt", strconv.Itoa(job.Attempt))
	set("Jobtrail-Operation-Id", job.OperationID)
	set("Jobtrail-Tenant-Id", job.TenantID)
	set("Jobtrail-Step", job.Step)
	set("Jobtrail-Deadline", deadlineText(job.Deadline))
	set("Traceparent", job.TraceParent)
	set("Tracestate", job.TraceState)
	if h.Get("Content-Type") == "" {
		set("Content-Type", job.ContentType)
	}
	if h.Get("User-Agent") == "" {
		set("User-Agent", "jobtrail-worker")
	}
	// Under its canonical name this header makes net/http send a POST a second
	// time when a connection breaks after the request was written: a side effect
	// without an attempt of its own. Header names have no case, but net/http looks
	// for this one by its exact key.
	h["idempotency-key"] = []string{job.IdempotencyKey.String()}
}

// deadlineText is empty when there is no deadline.
func deadlineText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return string(retrytopics.FormatTime(events.TimeOf(t)))
}

// judge says what a response means. Its body has no say.
func judge(resp *http.Response, now time.Time) error {
	// Not cut here: half a secret would not be recognised as one.
	line := resp.Proto + " " + resp.Status
	e := &worker.Error{Class: events.ClassTransient, Type: "http_" + strconv.Itoa(resp.StatusCode), Err: errors.New(line)}
	code := resp.StatusCode
	switch {
	case code >= 200 && code <= 299:
		return nil
	case code == http.StatusRequestTimeout, code == http.StatusGatewayTimeout:
		e.Class = events.ClassTimeout
	case code == http.StatusTooManyRequests:
		e.Class = events.ClassThrottled
	case code == http.StatusTooEarly, code >= 500:
	default:
		e.Class = events.ClassPermanent
		return e
	}
	if e.RetryAfter = retryAfter(resp.Header, now); e.RetryAfter > 0 && code == http.StatusServiceUnavailable {
		e.Class = events.ClassThrottled
	}
	return e
}

// retryAfter reads the Retry-After header, which holds seconds or a date; 0
// when there is none that can be read. A date is taken relative to the server's
// own clock where the response tells it.
func retryAfter(h http.Header, now time.Time) time.Duration {
	v := strings.TrimSpace(h.Get("Retry-After"))
	if v == "" {
		return 0
	}
	if digits := strings.Trim(v, "0123456789"); digits == "" {
		s, err := strconv.ParseInt(v, 10, 64)
		if err != nil || s > int64(maxRetryAfter/time.Second) {
			return maxRetryAfter
		}
		return time.Duration(s) * time.Second
	}
	at, err := http.ParseTime(v)
	if err != nil {
		return 0
	}
	if sent, err := http.ParseTime(h.Get("Date")); err == nil {
		now = sent
	}
	return min(max(at.Sub(now), 0), maxRetryAfter)
}

// brokenCall says what a request means that got no response. Texts that may
// hold the URL or bytes of the peer are not passed on.
func brokenCall(err error) error {
	if ue, ok := errors.AsType[*url.Error](err); ok {
		err = ue.Err
	}
	broken := func(class events.ErrorClass, name string, err error) error {
		return &worker.Error{Class: class, Type: name, Err: err}
	}
	_, isOp := errors.AsType[*net.OpError](err)
	_, isDNS := errors.AsType[*net.DNSError](err)
	_, isCert := errors.AsType[*tls.CertificateVerificationError](err)
	_, isAlert := errors.AsType[tls.AlertError](err)
	_, isRecord := errors.AsType[tls.RecordHeaderError](err)
	timeout, isNet := errors.AsType[net.Error](err)
	switch {
	case isDNS:
		return broken(events.ClassTransient, "net_dns", err)
	case isCert:
		return broken(events.ClassTransient, "net_tls", err)
	case isAlert, isRecord:
		return broken(events.ClassTransient, "net_tls", errors.New("the TLS handshake failed"))
	case isNet && timeout.Timeout():
		return broken(events.ClassTimeout, "net_timeout", errors.New("the connection timed out"))
	case errors.Is(err, syscall.ECONNREFUSED):
		return broken(events.ClassTransient, "net_refused", err)
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return broken(events.ClassTransient, "net_reset", errors.New("the connection was reset"))
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return broken(events.ClassTransient, "net_closed", errors.New("the connection was closed before the answer"))
	case isOp:
		return broken(events.ClassTransient, "net_error", err)
	}
	return broken(events.ClassTransient, "net_protocol", errors.New("the connection broke, or the answer was not valid HTTP"))
}
