package jobsfile

import (
	"cmp"
	"net/textproto"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/jobtrail/jobtrail/pkg/retrytopics"
)

// File is what a jobs file says, with its defaults filled in.
type File struct {
	Topics      []string
	Tiers       retrytopics.Tiers
	Concurrency int
	// UnknownTypes is "dlq" or "skip".
	UnknownTypes string
	DedupWindow  time.Duration
	DedupMax     int
	// Types are in the order of the file.
	Types []Type
	// Secrets are the values of the variables that the file names.
	Secrets []string
}

// Type is a job type. Either HTTP or Exec is set.
type Type struct {
	Name   string
	Policy retrytopics.Policy
	// Concurrency is 0 when the type has no limit of its own.
	Concurrency int
	HTTP        *HTTP
	Exec        *Exec
}

// Load reads a jobs file. name is what messages call it; lookup returns the
// environment variables that the file may name; find says why a command cannot
// be run, nil when it can. The error is a [Problems] with every mistake of the
// file; no message holds the value of a variable, unless one of find's does.
func Load(name string, data []byte, lookup func(string) (string, bool), find func(*Exec) error) (*File, error) {
	r := &report{file: name, at: make(map[string]position), bad: make(map[string]bool)}
	root, secrets := parse(data, lookup, r)
	if root == nil {
		return nil, r.err()
	}
	var doc document
	fill(reflect.ValueOf(&doc).Elem())
	decoder{r}.decode(root, "", reflect.ValueOf(&doc).Elem(), "")
	c := checker{r, find}
	c.topics(doc)
	f := &File{
		Topics: doc.Topics, Tiers: doc.Tiers, Concurrency: doc.Concurrency, UnknownTypes: doc.UnknownTypes,
		DedupWindow: doc.Dedup.Window, DedupMax: doc.Dedup.MaxIDs, Secrets: secrets,
	}
	for name, j := range doc.Types {
		f.Types = append(f.Types, c.job(join("types", name), name, doc.Defaults, j))
	}
	slices.SortFunc(f.Types, func(a, b Type) int {
		pa, pb := r.at[join("types", a.Name)], r.at[join("types", b.Name)]
		return cmp.Or(cmp.Compare(pa.line, pb.line), cmp.Compare(pa.column, pb.column))
	})
	if err := r.err(); err != nil {
		return nil, err
	}
	return f, nil
}

// A checker reports what single values do not show.
type checker struct {
	*report
	find func(*Exec) error
}

func (c checker) topics(doc document) {
	for i, topic := range doc.Topics {
		if topic != "" && slices.Contains(doc.Topics[:i], topic) {
			c.add(item("topics", i), "the topic is there twice")
		}
	}
	if !c.within("tiers") {
		if err := retrytopics.Tiers(doc.Tiers).Validate(); err != nil {
			c.add("tiers", "%v", err)
		}
	}
}

// within reports whether the value of the key, or one in it, is bad.
func (c checker) within(key string) bool {
	for bad := range c.bad {
		if bad == key || strings.HasPrefix(bad, key+".") || strings.HasPrefix(bad, key+"[") {
			return true
		}
	}
	return false
}

func (c checker) job(key, name string, defaults settings, j job) Type {
	t := Type{Name: name, Policy: retrytopics.DefaultPolicy(), Concurrency: j.Concurrency, HTTP: j.HTTP, Exec: j.Exec}
	defaults.apply(&t.Policy)
	j.apply(&t.Policy)
	c.policy(key, t.Policy)
	switch {
	case c.bad[key]:
	case j.HTTP == nil && j.Exec == nil:
		c.add(key, "what runs the job is missing: %s", strings.Join(handlers, " or "))
	case j.HTTP != nil && j.Exec != nil:
		c.add(key, "only one of %s can run the job", strings.Join(handlers, " and "))
	}
	if j.HTTP != nil {
		c.http(key+".http", j.HTTP)
	}
	if j.Exec != nil {
		c.exec(key+".exec", j.Exec)
	}
	return t
}

// apply overwrites what is set.
func (s settings) apply(p *retrytopics.Policy) {
	set(&p.MaxAttempts, s.Retry.MaxAttempts)
	set(&p.Initial, s.Retry.Initial)
	set(&p.Multiplier, s.Retry.Multiplier)
	set(&p.MaxInterval, s.Retry.MaxInterval)
	set(&p.Jitter, s.Retry.Jitter)
	set(&p.MaxElapsed, s.Retry.MaxElapsed)
	set(&p.Timeout, s.Timeout)
	set(&p.Deadline, s.Deadline)
	set(&p.Idempotent, s.Idempotent)
	set(&p.MaxCrashes, s.MaxCrashes)
	set(&p.PayloadClass, s.PayloadClass)
	if s.OnDuplicate != nil {
		p.OnDuplicate = retrytopics.OnDuplicate(*s.OnDuplicate)
	}
}

func set[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

// policy reports what is wrong with the merged policy of a type, at the most
// special of the values that it comes from.
func (c checker) policy(key string, p retrytopics.Policy) {
	if c.within(key) || c.within("defaults") {
		return
	}
	if p.MaxInterval < p.Initial {
		for _, k := range []string{key + ".retry.max_interval", key + ".retry.initial", "defaults.retry.max_interval", "defaults.retry.initial"} {
			if _, ok := c.at[k]; ok {
				c.add(k, "max_interval %v is below initial %v", p.MaxInterval, p.Initial)
				return
			}
		}
	}
	if err := p.Validate(); err != nil {
		c.add(key, "%v", err)
	}
}

// ownHeaders are set by the worker or by the protocol.
var ownHeaders = []string{
	"Idempotency-Key", "Traceparent", "Tracestate", "Content-Length", "Transfer-Encoding", "Connection", "Upgrade", "Trailer", "Te", "Expect",
}

func (c checker) http(key string, h *HTTP) {
	if k := key + ".url"; !c.bad[k] {
		u, err := url.Parse(h.URL)
		switch {
		// An error of url.Parse quotes the URL, and with it variables.
		case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "", u.Opaque != "":
			c.add(k, "want an absolute URL such as https://host/path")
		case u.Fragment != "":
			c.add(k, "a fragment (#) is never sent")
		}
	}
	seen := make(map[string]string)
	for _, name := range sorted(h.Headers) {
		k := join(key+".headers", name)
		canonical := textproto.CanonicalMIMEHeaderKey(name)
		switch {
		case slices.Contains(ownHeaders, canonical), strings.HasPrefix(canonical, "Jobtrail-"):
			c.add(k, "the header is set by the worker")
		case seen[canonical] != "":
			c.add(k, "the header is there twice, as %s and %s", seen[canonical], name)
		}
		seen[canonical] = name
	}
}

func (c checker) exec(key string, e *Exec) {
	if k := key + ".argv[0]"; len(e.Argv) > 0 && !c.bad[k] {
		if e.Argv[0] == "" {
			c.add(k, "the command's name must not be empty")
		} else if err := c.find(e); err != nil && !c.bad[key+".dir"] {
			c.add(k, "%v", err)
		}
	}
	for _, name := range sorted(e.Env) {
		if strings.HasPrefix(name, "JOBTRAIL_") || name == "TRACEPARENT" || name == "TRACESTATE" {
			c.add(join(key+".env", name), "the variable is set by the worker")
		}
	}
}

func sorted(m map[string]string) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
