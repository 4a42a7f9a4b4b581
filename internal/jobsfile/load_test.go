package jobsfile

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jobtrail/jobtrail/pkg/retrytopics"
)

// token is built at run time so that no file holds something like a secret.
var token = strings.Repeat("t0k", 4) + fmt.Sprint(6*7)

func lookup(name string) (string, bool) {
	v, ok := map[string]string{"PAY_TOKEN": token, "TOPIC": "shop.jobs", "WAIT": "90s", "NESTED": "${PAY_TOKEN}", "EMPTY": ""}[name]
	return v, ok
}

// found finds every command but one.
func found(e *Exec) error {
	if e.Argv[0] == "./missing" {
		return errors.New("no such command: somewhere")
	}
	return nil
}

func load(t *testing.T, text string) (*File, error) {
	t.Helper()
	return Load("jobs.yaml", []byte(text), lookup, found)
}

func TestTheFileOfTheContract(t *testing.T) {
	f, err := load(t, `
topics: [shop.jobs]
concurrency: 200                  # handlers at once in this process
unknown_types: dlq                # or skip
defaults: {retry: {max_attempts: 5, initial: 1s}, timeout: 30s}
types:
  charge-card:
    http: {url: "https://pay.internal/charge", headers: {Authorization: "Bearer ${PAY_TOKEN}"}}
    concurrency: 20
    idempotent: false
  thumbnail:
    exec: {argv: [thumb, --size, "200"]}
    timeout: 5m
`)
	if err != nil {
		t.Fatal(err)
	}
	charge, thumb := retrytopics.DefaultPolicy(), retrytopics.DefaultPolicy()
	charge.Idempotent = false
	thumb.Timeout = 5 * time.Minute
	want := &File{
		Topics: []string{"shop.jobs"}, Tiers: retrytopics.DefaultTiers(), Concurrency: 200, UnknownTypes: "dlq", DedupWindow: time.Hour, DedupMax: 200_000,
		Types: []Type{
			{Name: "charge-card", Policy: charge, Concurrency: 20, HTTP: &HTTP{URL: "https://pay.internal/charge", Headers: map[string]string{"Authorization": "Bearer " + token}}},
			{Name: "thumbnail", Policy: thumb, Exec: &Exec{Argv: []string{"thumb", "--size", "200"}, KillAfter: 5 * time.Second}},
		},
		Secrets: []string{token},
	}
	if !reflect.DeepEqual(f, want) {
		t.Errorf("got\n%+v\nwant\n%+v", f, want)
	}
}

// Every key of settings is set to something else in defaults and in the type.
func TestTypesOverrideDefaults(t *testing.T) {
	f, err := load(t, `
topics: [a, b]
tiers: [0s, 5s, 1m]
concurrency: 7
unknown_types: skip
dedup: {window: 2h, max_ids: 9}
defaults:
  retry: {max_attempts: 2, initial: 2s, multiplier: 3, max_interval: 2m, jitter: 0.5, max_elapsed: 2h}
  timeout: 2s
  deadline: 2h
  idempotent: false
  on_duplicate: run
  max_crashes: 3
  payload_class: pii
types:
  inherits: {exec: {argv: [x], env: {A: b}, dir: /tmp, exit_codes: {65: permanent, 3: done}, kill_after: 1s}}
  overrides:
    retry: {max_attempts: 4, initial: 4s, multiplier: 1.5, max_interval: 4m, jitter: 0, max_elapsed: 0s}
    timeout: 4s
    deadline: 0s
    idempotent: true
    on_duplicate: reject
    max_crashes: 5
    payload_class: ""
    http: {url: http://h}
  mixes:
    retry: {max_attempts: 9}
    http: {url: http://h}
`)
	if err != nil {
		t.Fatal(err)
	}
	shared := retrytopics.Policy{MaxAttempts: 2, Initial: 2 * time.Second, Multiplier: 3, MaxInterval: 2 * time.Minute, Jitter: 0.5, MaxElapsed: 2 * time.Hour, MaxCrashes: 3,
		Timeout: 2 * time.Second, Deadline: 2 * time.Hour, OnDuplicate: retrytopics.RunDuplicates, PayloadClass: "pii"}
	mixed := shared
	mixed.MaxAttempts = 9
	own := retrytopics.Policy{MaxAttempts: 4, Initial: 4 * time.Second, Multiplier: 1.5, MaxInterval: 4 * time.Minute, MaxCrashes: 5,
		Timeout: 4 * time.Second, Idempotent: true, OnDuplicate: retrytopics.RejectDuplicates}
	for i, want := range []struct {
		name   string
		policy retrytopics.Policy
	}{{"inherits", shared}, {"overrides", own}, {"mixes", mixed}} {
		if got := f.Types[i]; got.Name != want.name || got.Policy != want.policy {
			t.Errorf("type %d: got %s %+v\nwant %s %+v", i, got.Name, got.Policy, want.name, want.policy)
		}
	}
	if got, want := *f.Types[0].Exec, (Exec{Argv: []string{"x"}, Env: map[string]string{"A": "b"}, Dir: "/tmp", ExitCodes: map[int]string{65: "permanent", 3: "done"}, KillAfter: time.Second}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := fmt.Sprintf("%v %v %v %v %v %v", f.Topics, f.Tiers, f.Concurrency, f.UnknownTypes, f.DedupWindow, f.DedupMax); got != "[a b] 0s 5s 1m 7 skip 2h0m0s 9" {
		t.Errorf("got %s", got)
	}
}

func TestTagDefaultsAreThoseOfThePolicy(t *testing.T) {
	var s settings
	v := reflect.ValueOf(&s).Elem()
	var set func(v reflect.Value)
	set = func(v reflect.Value) {
		for _, f := range fieldsOf(v.Type()) {
			fv := v.FieldByIndex(f.Index)
			if fv.Kind() == reflect.Struct {
				set(fv)
				continue
			}
			if def := f.Tag.Get("default"); def != "" {
				k := map[bool]kind{true: integer, false: text}[fv.Type().Elem().Kind() != reflect.String && fv.Type().Elem() != durationType]
				if fv.Type().Elem().Kind() == reflect.Bool {
					k = boolean
				}
				r := &report{at: map[string]position{}, bad: map[string]bool{}}
				decoder{r}.decode(&value{kind: k, text: def, shown: def}, "x", fv, f.Tag)
				if err := r.err(); err != nil {
					t.Errorf("%s: %v", f.Name, err)
				}
			}
		}
	}
	set(v)
	var p retrytopics.Policy
	s.apply(&p)
	if p != retrytopics.DefaultPolicy() {
		t.Errorf("the tags say %+v\nthe policy %+v", p, retrytopics.DefaultPolicy())
	}
}

func TestVariables(t *testing.T) {
	f, err := load(t, `
topics: ["${TOPIC}", "x-${TOPIC}.y"]
types:
  t:
    timeout: ${WAIT}
    exec:
      argv: [a, "${NESTED}", "$${PAY_TOKEN}", "$PAY_TOKEN", "$$", "{}", "${TOPIC}${TOPIC}"]
      env:
        B: |
          one ${PAY_TOKEN}
`)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(f.Topics, f.Types[0].Policy.Timeout); got != "[shop.jobs x-shop.jobs.y] 1m30s" {
		t.Errorf("got %s", got)
	}
	if got, want := f.Types[0].Exec.Argv, []string{"a", "${PAY_TOKEN}", "${PAY_TOKEN}", "$PAY_TOKEN", "$$", "{}", "shop.jobsshop.jobs"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := f.Types[0].Exec.Env["B"]; got != "one "+token+"\n" {
		t.Errorf("got %q", got)
	}
	slices.Sort(f.Secrets)
	want := []string{"${PAY_TOKEN}", "90s", "shop.jobs", token}
	slices.Sort(want)
	if !slices.Equal(f.Secrets, want) {
		t.Errorf("got secrets %q, want %q", f.Secrets, want)
	}
}

func TestAnchors(t *testing.T) {
	f, err := load(t, `
topics: [a]
types:
  one: {http: &h {url: http://h}, timeout: &t 7s}
  two: {http: *h, timeout: *t}
`)
	if err != nil {
		t.Fatal(err)
	}
	if two := f.Types[1]; two.HTTP.URL != "http://h" || two.Policy.Timeout != 7*time.Second {
		t.Errorf("got %+v", two)
	}
}

// Each case is a file in which » stands before the place of each problem.
func TestProblemsAreFoundInTheirPlace(t *testing.T) {
	const head = "topics: [a]\ntypes:\n  t:\n    "
	for _, tt := range []struct {
		name, text string
		want       []string
	}{
		{"empty", "»", []string{"the file is empty"}},
		{"only a comment", "»# nothing\n", []string{"the file is empty"}},
		{"not YAML", "topics: [a\n»types: {", []string{"it is no valid YAML"}},
		{"bad indentation", "topics:\n  - a\n »x: 1\n", []string{"it is no valid YAML"}},
		{"a list at the top", "»- a\n", []string{"want a mapping, got a list"}},
		{"text at the top", "»hello\n", []string{`want a mapping, got "hello"`}},
		{"two documents", "topics: [a]\ntypes: {t: {http: {url: http://h}}}\n---\n»topics: [b]\n", []string{"the file has several documents"}},
		{"nothing in it", "»{}\n", []string{"topics: the key is missing", "types: the key is missing"}},
		{"key without value", "»topics:\n»types:\n", []string{"topics: want a list, got nothing", "types: want a mapping, got nothing"}},
		{"empty list and mapping", "»topics: []\n»types: {}\n", []string{"topics: must not be empty", "types: must not be empty"}},
		{"unknown keys at every level", "»topic: b\n" + head + "»retrys: {}\n    retry: {»max: 1}\n    http: {url: http://h, »method: GET}\n    \ndefaults:\n  »http: {url: http://h}\ndedup: {»size: 1}\n", []string{
			"topic: the key is not known here; known are topics, concurrency, unknown_types, tiers, dedup, defaults, types",
			"types.t.retrys: the key is not known", "types.t.retry.max: the key is not known here; known are max_attempts, initial, multiplier, max_interval, jitter, max_elapsed",
			"types.t.http.method: the key is not known here; known are url, headers", "defaults.http: the key is not known", "dedup.size: the key is not known"}},
		{"mistakes of a type whose key is there twice", head + "http: {url: »nowhere}\n    max_crashes: »0\n  »t: {}\n", []string{"types.t.http.url: want an absolute URL", "types.t.max_crashes: must be at least 1, got 0", "types.t: the key is there twice, first in line 3"}},
		{"a command that is not there, beside others", head + "max_crashes: »0\n    exec: {argv: [»./missing]}\n", []string{"types.t.max_crashes: must be at least 1, got 0", "types.t.exec.argv[0]: no such command: somewhere"}},
		{"the same key twice", head + "timeout: 1s\n    »timeout: 2s\n    http: {url: http://h}\n  »t: {}\n", []string{"types.t.timeout: the key is there twice, first in line 4", "types.t: the key is there twice, first in line 3"}},
		{"numbers", "topics: [a]\nconcurrency: »0\ntypes:\n  t:\n    concurrency: »-1\n    retry: {max_attempts: »1.5, multiplier: »0.5, jitter: »1.1}\n    max_crashes: »99999999999\n    http: {url: http://h}\ndedup: {max_ids: »many}\n", []string{
			"concurrency: must be at least 1, got 0", "types.t.concurrency: must be at least 1, got -1", "types.t.retry.max_attempts: want a whole number, got 1.5",
			"types.t.retry.multiplier: must be at least 1, got 0.5", "types.t.retry.jitter: must be at most 1, got 1.1", "types.t.max_crashes: must be at most 2147483647, got 99999999999",
			`dedup.max_ids: want a whole number, got "many"`}},
		{"not a number", head + "retry: {jitter: ».nan, multiplier: ».inf}\n    http: {url: http://h}\n", []string{"types.t.retry.jitter: a YAML Nan is not supported", "types.t.retry.multiplier: a YAML Infinity is not supported"}},
		{"durations", head + "timeout: »30\n    deadline: »-1s\n    retry: {initial: »0s, max_interval: »1 hour, »max_elapsed: [1s]}\n    http: {url: http://h}\n", []string{
			"types.t.timeout: want a duration such as 30s or 5m, got 30", `types.t.deadline: must be at least 0s, got "-1s"`, `types.t.retry.initial: must be at least 1ms, got "0s"`,
			`types.t.retry.max_interval: want a duration such as 30s or 5m, got "1 hour"`, "types.t.retry.max_elapsed: want a duration such as 30s or 5m, got a list"}},
		{"switches and words", "topics: [a]\nunknown_types: »drop\ntypes:\n  t:\n    idempotent: »yes\n    on_duplicate: »Run\n    payload_class: »\"a\\nb\"\n    http: {url: http://h}\n", []string{
			`unknown_types: want dlq or skip, got "drop"`, `types.t.idempotent: want true or false, got "yes"`, `types.t.on_duplicate: want reject or run, got "Run"`,
			`types.t.payload_class: want up to 200 printable ASCII characters, got "a\nb"`}},
		{"topics", "topics: [a, »a b, »1, »a]\ntypes: {t: {http: {url: http://h}}}\n", []string{
			`topics[1]: want a topic name of up to 249 letters, digits, dots, dashes and underscores, got "a b"`, `topics[2]: want text, got 1; write it in quotes: "1"`, "topics[3]: the topic is there twice"}},
		{"tiers that do not grow", "topics: [a]\n»tiers: [0s, 2s, 1s]\ntypes: {t: {http: {url: http://h}}}\n", []string{"tiers: the tiers 0s 2s 1s must grow"}},
		{"tiers without 0s", "topics: [a]\n»tiers: [1s]\ntypes: {t: {http: {url: http://h}}}\n", []string{"tiers: the first tier must be 0s"}},
		{"a tier that is no duration", "topics: [a]\ntiers: [0s, »soon]\ntypes: {t: {http: {url: http://h}}}\n", []string{"tiers[1]: want a duration"}},
		{"type names", "topics: [a]\ntypes:\n  »\"\": {http: {url: http://h}}\n  »zahlung-ü: {http: {url: http://h}}\n", []string{
			`types.: want a type name of up to 200 printable ASCII characters, got ""`, `types.zahlung-ü: want a type name`}},
		{"no handler, two handlers, no type", "topics: [a]\ntypes:\n  »a: {timeout: 1s}\n  »b: {http: {url: http://h}, exec: {argv: [x]}}\n  »c:\n", []string{
			"types.a: what runs the job is missing: http or exec", "types.b: only one of http and exec can run the job", "types.c: want a mapping, got nothing"}},
		{"intervals", "topics: [a]\ndefaults: {retry: {initial: 2h, max_interval: 3h}}\ntypes:\n  ok: {http: {url: http://h}}\n  t: {retry: {max_interval: »1h}, http: {url: http://h}}\n", []string{
			"types.t.retry.max_interval: max_interval 1h0m0s is below initial 2h0m0s"}},
		{"intervals of the defaults, told once", "topics: [a]\ndefaults: {retry: {initial: »2h}}\ntypes:\n  t: {http: {url: http://h}}\n  u: {http: {url: http://h}}\n", []string{
			"defaults.retry.initial: max_interval 1h0m0s is below initial 2h0m0s"}},
		{"URLs", "topics: [a]\ntypes:\n  a: {http: {url: »/path}}\n  b: {http: {url: »ftp://h}}\n  c: {http: {url: »\"http://[::1\"}}\n  d: {http: {url: »\"\"}}\n  e: {»http: {}}\n  f: {http: {url: »http://h/#x}}\n  g: {http: {url: »\"http://\"}}\n", []string{
			"types.a.http.url: want an absolute URL", "types.b.http.url: want an absolute URL", "types.c.http.url: want an absolute URL", "types.d.http.url: must not be empty",
			"types.e.http.url: the key is missing", "types.f.http.url: a fragment (#) is never sent", "types.g.http.url: want an absolute URL"}},
		{"headers", head + "http:\n      url: http://h\n      headers:\n        »a b: c\n        X: »\"a\\rb\"\n        Jobtrail-Job-Id: »x\n        idempotency-key: »x\n        Y: a\n        y: »b\n        Z: »1\n", []string{
			`types.t.http.headers.a b: want an HTTP header name, got "a b"`, "types.t.http.headers.X: want text without control characters", "types.t.http.headers.Jobtrail-Job-Id: the header is set by the worker",
			"types.t.http.headers.idempotency-key: the header is set by the worker", "types.t.http.headers.y: the header is there twice, as Y and y", `types.t.http.headers.Z: want text, got 1; write it in quotes: "1"`}},
		{"commands", head + "exec:\n      argv: [»\"\", »7]\n      dir: »\"a\\0\"\n      env: {»1A: x, JOBTRAIL_X: »y, B: »\"\\0\", TRACEPARENT: »z}\n      exit_codes: {»0: done, »256: retry, 3: »fail, »x: done}\n      kill_after: »-1s\n", []string{
			"types.t.exec.argv[0]: the command's name must not be empty", "types.t.exec.argv[1]: want text, got 7", "types.t.exec.dir: want text without NUL", "types.t.exec.env.1A: want the name of an environment variable",
			"types.t.exec.env.JOBTRAIL_X: the variable is set by the worker", "types.t.exec.env.B: want text without NUL", "types.t.exec.env.TRACEPARENT: the variable is set by the worker",
			`types.t.exec.exit_codes.0: want an exit code from 1 to 255, got "0"`, "types.t.exec.exit_codes.256: want an exit code", `types.t.exec.exit_codes.3: want done or retry or permanent, got "fail"`,
			"types.t.exec.exit_codes.x: want an exit code", "types.t.exec.kill_after: must be at least 0s"}},
		{"an empty command", head + "exec: {»argv: []}\n", []string{"types.t.exec.argv: must not be empty"}},
		{"variables", "topics: [»\"${GONE}\"]\ntypes:\n  t:\n    http: {url: »\"http://h/${\", headers: {A: »\"${a-b}\", B: »\"${EMPTY}\"}}\n    timeout: »${PAY_TOKEN}\n", []string{
			"topics[0]: the environment variable GONE is not set", "types.t.http.url: ${ is not closed", "types.t.http.headers.A: ${a-b} is no environment variable",
			"types.t.http.headers.B: the environment variable EMPTY is not set", `types.t.timeout: want a duration such as 30s or 5m, got "${PAY_TOKEN}"`}},
		{"what YAML has besides", head + "timeout: »!!str 5s\n    »<<: {deadline: 1s}\n    payload_class: »*gone\n    http: {url: http://h}\n", []string{
			"types.t.timeout: a YAML Tag is not supported here", "types.t: merge keys (<<) are not supported", `types.t.payload_class: the anchor "gone" is not defined`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text, places := unmark(tt.text)
			_, err := load(t, text)
			ps, ok := errors.AsType[Problems](err)
			if !ok {
				t.Fatalf("got %v, want Problems", err)
			}
			if strings.Contains(err.Error(), token) {
				t.Errorf("a variable's value is shown: %v", err)
			}
			missing := slices.Clone(places)
			for _, p := range ps {
				place := fmt.Sprintf("%d:%d", p.Line, p.Column)
				if i := slices.Index(missing, place); i >= 0 {
					missing = slices.Delete(missing, i, i+1)
				} else if len(places) > 0 && !slices.Contains(places, place) {
					t.Errorf("no mark is at %s", p)
				}
				if !strings.HasPrefix(p.String(), "jobs.yaml:"+place+": ") {
					t.Errorf("%q does not begin with its place", p)
				}
			}
			if len(missing) > 0 {
				t.Errorf("nothing is reported at %v", missing)
			}
			lines := make([]string, len(ps))
			for i, p := range ps {
				_, lines[i], _ = strings.Cut(p.String(), ": ")
			}
			for _, want := range tt.want {
				if !slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, want) }) {
					t.Errorf("no problem %q", want)
				}
			}
			if len(ps) != len(tt.want) {
				t.Errorf("%d problems, want %d", len(ps), len(tt.want))
			}
			if t.Failed() {
				t.Logf("%s\n%v", text, err)
			}
		})
	}
}

// unmark returns the text without its marks, and their places as line:column.
func unmark(text string) (string, []string) {
	var out strings.Builder
	var places []string
	line, column := 1, 1
	for _, c := range text {
		switch c {
		case '»':
			places = append(places, fmt.Sprintf("%d:%d", line, column))
			continue
		case '\n':
			line, column = line+1, 0
		}
		column++
		out.WriteRune(c)
	}
	return out.String(), places
}

func TestHugeFileIsRefused(t *testing.T) {
	_, err := load(t, strings.Repeat("#", maxBytes+1))
	if err == nil || !strings.Contains(err.Error(), "more than 4194304") {
		t.Errorf("got %v", err)
	}
}

func TestDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/jobs-file.md")
	if err != nil {
		t.Fatal(err)
	}
	for i, table := range Reference() {
		if !strings.Contains(string(page), table) {
			t.Errorf("docs/jobs-file.md does not have table %d; it should be\n%s", i, table)
		}
	}
}

func FuzzLoad(f *testing.F) {
	f.Add([]byte("topics: [a]\ntypes: {t: {http: {url: http://h}}}\n"))
	f.Add([]byte("a: &x [*x]\nb: *x\n? {c: d}\n: e\n"))
	f.Add([]byte("topics: |\n  ${GONE}\n--- !!x\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := Load("jobs.yaml", data, lookup, found)
		if (file == nil) == (err == nil) {
			t.Fatalf("got %v, %v", file, err)
		}
		if ps, ok := errors.AsType[Problems](err); err != nil && !ok {
			t.Fatalf("got %T", err)
		} else if ok {
			for _, p := range ps {
				if p.Line < 1 || p.Column < 1 {
					t.Errorf("no place: %s", p)
				}
			}
		}
	})
}
