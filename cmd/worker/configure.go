package main

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/jobtrail/jobtrail/internal/connect"
	"github.com/jobtrail/jobtrail/internal/jobsfile"
	"github.com/jobtrail/jobtrail/internal/redact"
	"github.com/jobtrail/jobtrail/pkg/retrytopics"
	"github.com/jobtrail/jobtrail/pkg/sanitize"
	"github.com/jobtrail/jobtrail/pkg/worker"
)

// config is every variable that the worker reads.
type config struct {
	Kafka   connect.Kafka
	Worker  variables
	Tracing tracing
}

type variables struct {
	Group     string        `env:"JOBTRAIL_GROUP,required" doc:"Worker group: the consumer group, and the prefix of its topics."`
	JobsFile  string        `env:"JOBTRAIL_JOBS_FILE" envDefault:"jobs.yaml" doc:"File with the job types; see docs/jobs-file.md."`
	AdminAddr string        `env:"JOBTRAIL_ADMIN_ADDR" envDefault:"127.0.0.1:8081" doc:"Where /livez, /readyz, /metrics and /debug/pprof/ are served, without credentials. Port 0 takes a free one."`
	Slot      string        `env:"JOBTRAIL_SLOT" doc:"Stable name of this worker among the live ones of the group, for its transactional ids. A new one at every start when not set."`
	Grace     time.Duration `env:"JOBTRAIL_GRACE" envDefault:"25s" doc:"How long a shutdown waits for running jobs."`
	Log       string        `env:"JOBTRAIL_LOG" envDefault:"json" doc:"Format of the log on stderr: json or text."`
	LogLevel  string        `env:"JOBTRAIL_LOG_LEVEL" envDefault:"info" doc:"Least level that is logged: debug, info, warn or error."`
}

// Validate implements connect.Validator.
func (v variables) Validate() error {
	var problems []error
	bad := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if err := (retrytopics.Topology{Group: v.Group, Jobs: []string{"any"}, Tiers: retrytopics.DefaultTiers()}).Validate(); err != nil {
		bad("JOBTRAIL_GROUP: %w", err)
	}
	if _, _, err := net.SplitHostPort(v.AdminAddr); err != nil {
		bad("JOBTRAIL_ADMIN_ADDR: %q is not host:port", v.AdminAddr)
	}
	if v.Grace <= 0 {
		bad("JOBTRAIL_GRACE: %v is not positive", v.Grace)
	}
	if v.Log != "json" && v.Log != "text" {
		bad("JOBTRAIL_LOG: %q is neither json nor text", v.Log)
	}
	if _, ok := logLevels[v.LogLevel]; !ok {
		bad("JOBTRAIL_LOG_LEVEL: %q is none of debug, info, warn, error", v.LogLevel)
	}
	return errors.Join(problems...)
}

// tracing is what the worker itself looks at of OpenTelemetry's variables, and
// those that its SDK reads by itself from the process.
type tracing struct {
	Endpoint       string         `env:"OTEL_EXPORTER_OTLP_ENDPOINT" doc:"Base URL of an OTLP/HTTP receiver; /v1/traces is appended. No traces are sent when not set."`
	TracesEndpoint string         `env:"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT" doc:"Full URL for traces, instead of the base URL."`
	Protocol       string         `env:"OTEL_EXPORTER_OTLP_PROTOCOL" envDefault:"http/protobuf" doc:"Only http/protobuf is supported."`
	Headers        connect.Secret `env:"OTEL_EXPORTER_OTLP_HEADERS" doc:"Headers for the receiver: name=value, comma-separated, percent-encoded."`
	Timeout        int            `env:"OTEL_EXPORTER_OTLP_TIMEOUT" envDefault:"10000" doc:"Longest time for one export, in milliseconds."`
	Certificate    string         `env:"OTEL_EXPORTER_OTLP_CERTIFICATE" doc:"PEM file of the authorities that sign the receiver's certificate."`
	ServiceName    string         `env:"OTEL_SERVICE_NAME" envDefault:"jobtrail-worker" doc:"Name of this service in traces."`
	Attributes     string         `env:"OTEL_RESOURCE_ATTRIBUTES" doc:"Further attributes of this service: name=value, comma-separated."`
	Sampler        string         `env:"OTEL_TRACES_SAMPLER" envDefault:"parentbased_always_on" doc:"Which traces are sent: always_on, always_off, traceidratio, or one of these after parentbased_."`
	SamplerArg     string         `env:"OTEL_TRACES_SAMPLER_ARG" doc:"Share of traces for traceidratio, 0 to 1."`
	Disabled       bool           `env:"OTEL_SDK_DISABLED" envDefault:"false" doc:"Send no traces."`
}

// Validate implements connect.Validator.
func (t tracing) Validate() error {
	var problems []error
	for name, v := range map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": t.Endpoint, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": t.TracesEndpoint} {
		if v == "" {
			continue
		}
		if u, err := url.Parse(v); err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
			problems = append(problems, fmt.Errorf("%s: it is no http or https URL", name))
		}
	}
	if t.on() && t.Protocol != "http/protobuf" {
		problems = append(problems, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL: %q is not supported, only http/protobuf is", t.Protocol))
	}
	return errors.Join(problems...)
}

func (t tracing) on() bool { return !t.Disabled && (t.Endpoint != "" || t.TracesEndpoint != "") }

// secrets returns the values of the headers, as they are sent and as they are
// written.
func (t tracing) secrets() []string {
	var out []string
	for pair := range strings.SplitSeq(t.Headers.Reveal(), ",") {
		if _, v, ok := strings.Cut(pair, "="); ok {
			out = append(out, strings.TrimSpace(v))
			if plain, err := url.PathUnescape(strings.TrimSpace(v)); err == nil {
				out = append(out, plain)
			}
		}
	}
	return out
}

// plan is a configuration that holds together.
type plan struct {
	config
	kafka  []kgo.Opt
	worker worker.Config
}

// configure reads environment and jobs file, and returns every problem of both,
// joined. The sanitiser, which is there with an error too, knows the secrets of
// both.
func configure(environ []string) (*plan, *sanitize.Sanitizer, error) {
	p, secrets, err := planOf(environ)
	clean := redact.New(p.config, environ, slices.Concat(secrets, p.Tracing.secrets())...)
	if err != nil {
		return nil, clean, err
	}
	return p, clean, nil
}

// planOf also returns the variables that the jobs file asks for.
func planOf(environ []string) (*plan, []string, error) {
	p := new(plan)
	problems := []error{connect.Parse(environ, &p.config)}
	if p.Kafka.Validate() == nil { // else it is reported
		opts, err := p.Kafka.Options()
		problems = append(problems, err)
		p.kafka = opts
	}
	file, secrets, err := loadJobs(p.Worker.JobsFile, environ)
	problems = append(problems, err)
	if file != nil {
		types, err := handlersOf(file, environ)
		problems = append(problems, err)
		p.worker = worker.Config{
			Group: p.Worker.Group, Topics: file.Topics, Types: types, Tiers: file.Tiers, Concurrency: file.Concurrency,
			UnknownTypes: worker.Unknown(file.UnknownTypes), Grace: p.Worker.Grace, Slot: p.Worker.Slot,
			DedupWindow: file.DedupWindow, DedupMax: file.DedupMax,
		}
	}
	if err := errors.Join(problems...); err != nil {
		return p, secrets, err
	}
	// What only the whole shows, such as a job topic that is the group's own.
	_, err = worker.New(p.worker, worker.Deps{Kafka: p.kafka})
	return p, secrets, err
}

// loadJobs also returns the values that it put into the file, which are secrets
// even when the file is wrong.
func loadJobs(path string, environ []string) (file *jobsfile.File, secrets []string, err error) {
	if path == "" { // already reported
		return nil, nil, nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, fmt.Errorf("JOBTRAIL_JOBS_FILE: %w", err)
	}
	vars := make(map[string]string, len(environ))
	for _, line := range environ {
		if name, v, ok := strings.Cut(line, "="); ok {
			vars[name] = v
		}
	}
	file, err = jobsfile.Load(path, data, func(name string) (string, bool) {
		v, ok := vars[name]
		secrets = append(secrets, v)
		return v, ok
	}, func(e *jobsfile.Exec) error {
		_, err := findCommand(e)
		return err
	})
	return file, secrets, err
}

// handlersOf returns the job types with what runs them, or every command that
// is not there.
func handlersOf(file *jobsfile.File, environ []string) ([]worker.Type, error) {
	var problems []error
	var types []worker.Type
	starter := newStarter()
	for _, t := range file.Types {
		wt := worker.Type{Name: t.Name, Policy: t.Policy, Concurrency: t.Concurrency}
		if t.HTTP != nil {
			concurrency := t.Concurrency
			if concurrency == 0 {
				concurrency = file.Concurrency
			}
			wt.Handler = newCaller(t.HTTP, concurrency)
		} else {
			r, err := newRunner(t.Exec, environ, starter)
			if err != nil {
				problems = append(problems, fmt.Errorf("types.%s.exec.argv: %w", t.Name, err))
			}
			wt.Handler = r
		}
		types = append(types, wt)
	}
	return types, errors.Join(problems...)
}
