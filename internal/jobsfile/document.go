package jobsfile

import "time"

// The types of this file are the file as it is written. Tags:
//
//	yaml      the key
//	doc       its meaning
//	default   what holds where the key is missing
//	required  it must be there
//	min, max  bounds of a number, a duration, the length of a text, or the
//	          number of entries
//	enum      the only texts that are allowed
//	pattern   what a text, or each text of a list or map, must match;
//	          want says it in words
//	keys      what each key of a map must match; wantkeys says it in words

type document struct {
	Topics       []string        `yaml:"topics" required:"true" min:"1" pattern:"^[a-zA-Z0-9._-]{1,249}$" want:"a topic name of up to 249 letters, digits, dots, dashes and underscores" doc:"Job topics that the group consumes."`
	Concurrency  int             `yaml:"concurrency" default:"200" min:"1" doc:"Handlers that run at once in this process, of all types."`
	UnknownTypes string          `yaml:"unknown_types" default:"dlq" enum:"dlq,skip" doc:"What happens to a job of a type that is not listed: dlq ends it as unknown_type in the dead-letter topic, skip passes over it because another group runs it."`
	Tiers        []time.Duration `yaml:"tiers" default:"0s 1s 2s 4s 8s 30s 2m 10m 1h 6h" min:"0s" doc:"Delays of the group's retry topics: whole seconds, growing, the first 0s. The same for every worker of the group and for 'jobtrail topics'."`
	Dedup        dedup           `yaml:"dedup" doc:"How long a job id is remembered, to recognise a second publication."`
	Defaults     settings        `yaml:"defaults" doc:"Settings of every type that does not set them itself."`
	Types        map[string]job  `yaml:"types" required:"true" min:"1" keys:"^[ -~]{1,200}$" wantkeys:"a type name of up to 200 printable ASCII characters" doc:"The job types by name: the value of the job-type header."`
}

type dedup struct {
	Window time.Duration `yaml:"window" default:"1h" min:"1s" doc:"Time since the job's last event."`
	MaxIDs int           `yaml:"max_ids" default:"200000" min:"1" doc:"Most ids that are remembered in a partition."`
}

// settings are what defaults and every type have. A pointer says whether the
// key is there.
type settings struct {
	Retry        retry          `yaml:"retry" doc:"When a failed attempt is tried again."`
	Timeout      *time.Duration `yaml:"timeout" default:"30s" min:"1ms" doc:"How long an attempt may run. Then the request is cancelled or the command is ended."`
	Deadline     *time.Duration `yaml:"deadline" default:"0s" min:"0s" doc:"How long after its publication a job may still start an attempt, where the job names no deadline of its own. 0s: no limit."`
	Idempotent   *bool          `yaml:"idempotent" default:"true" doc:"Whether an attempt of unknown outcome may simply be run again. Otherwise such a job is parked for a decision."`
	OnDuplicate  *string        `yaml:"on_duplicate" default:"reject" enum:"reject,run" doc:"What happens to a second publication of a job that is open, parked or succeeded: it is recorded and not run, or recorded and run."`
	MaxCrashes   *int           `yaml:"max_crashes" default:"2" min:"1" doc:"How many times a job may take its worker down while it runs alone, before it ends as crash_loop."`
	PayloadClass *string        `yaml:"payload_class" pattern:"^[ -~]{0,200}$" want:"up to 200 printable ASCII characters" doc:"A name for the sensitivity of the payload. Shown to people; no effect on processing."`
}

type retry struct {
	MaxAttempts *int           `yaml:"max_attempts" default:"5" min:"1" doc:"Failed and timed-out attempts until the job is exhausted."`
	Initial     *time.Duration `yaml:"initial" default:"1s" min:"1ms" doc:"Delay before the first retry."`
	Multiplier  *float64       `yaml:"multiplier" default:"2" min:"1" doc:"Factor from one delay to the next."`
	MaxInterval *time.Duration `yaml:"max_interval" default:"1h" min:"1ms" doc:"Longest delay, also where a handler asks for a longer one."`
	Jitter      *float64       `yaml:"jitter" default:"0.2" min:"0" max:"1" doc:"Share by which a delay is lengthened at most; how much follows from the attempt id."`
	MaxElapsed  *time.Duration `yaml:"max_elapsed" default:"0s" min:"0s" doc:"Longest time from publication to the start of a retry. 0s: no limit."`
}

type job struct {
	settings
	Concurrency int   `yaml:"concurrency" min:"1" doc:"Handlers of this type that run at once in this process. Default: no limit but the worker's."`
	HTTP        *HTTP `yaml:"http" doc:"The job is a POST request to this endpoint."`
	Exec        *Exec `yaml:"exec" doc:"The job is a run of this command."`
}

// handlers are the keys of a job of which there must be exactly one.
var handlers = []string{"http", "exec"}

// HTTP is a job type whose jobs are POST requests.
type HTTP struct {
	URL     string            `yaml:"url" required:"true" min:"1" doc:"Absolute http or https URL."`
	Headers map[string]string `yaml:"headers" keys:"^[!#$%&'*+.^_\x60|~0-9A-Za-z-]+$" wantkeys:"an HTTP header name" pattern:"^[^\\x00-\\x08\\x0a-\\x1f\\x7f]*$" want:"text without control characters" doc:"Headers of every request, besides those that describe the job."`
}

// Exec is a job type whose jobs are runs of a command.
type Exec struct {
	Argv      []string          `yaml:"argv" required:"true" min:"1" pattern:"^[^\\x00]*$" want:"text without NUL" doc:"The command and its arguments. No shell is involved."`
	Env       map[string]string `yaml:"env" keys:"^[A-Za-z_][A-Za-z0-9_]*$" wantkeys:"the name of an environment variable" pattern:"^[^\\x00]*$" want:"text without NUL" doc:"Environment of the command, besides the variables that describe the job and HOME, LANG, LC_ALL, PATH, TMPDIR, TZ and USER of the worker."`
	Dir       string            `yaml:"dir" pattern:"^[^\\x00]*$" want:"text without NUL" doc:"Working directory. Default: the worker's."`
	ExitCodes map[int]string    `yaml:"exit_codes" enum:"done,retry,permanent" keys:"^([1-9]|[1-9][0-9]|1[0-9][0-9]|2[0-4][0-9]|25[0-5])$" wantkeys:"an exit code from 1 to 255" doc:"What an exit code means: done, retry or permanent (no retry). 0 is done; every code that is not listed is retry."`
	KillAfter time.Duration     `yaml:"kill_after" default:"5s" min:"0s" doc:"How long after SIGTERM a command that is to end gets SIGKILL."`
}
