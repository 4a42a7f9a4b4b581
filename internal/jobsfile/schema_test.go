package jobsfile

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

func TestSchemaIsCommitted(t *testing.T) {
	const path = "../../docs/jobs.schema.json"
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, Schema()) {
		t.Errorf("%s differs from the Go types; write it with: go run ./cmd/worker --schema > docs/jobs.schema.json", strings.TrimPrefix(path, "../../"))
	}
}

func TestSchemaAgreesWithLoad(t *testing.T) {
	raw, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("jobs.schema.json", raw); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("jobs.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	const good = `topics: [a, "${TOPIC}x"]
concurrency: 3
unknown_types: skip
tiers: [0s, 5s, 1m30s]
dedup: {window: 1.5h, max_ids: 1}
defaults: {retry: {max_attempts: 5, jitter: 1, multiplier: 1.5}, timeout: "${WAIT}", deadline: 0s, idempotent: false, on_duplicate: run}
types:
  a: {http: {url: http://h, headers: {A: b}}, concurrency: 1}
  b: {exec: {argv: [x], env: {A: b}, dir: /, exit_codes: {65: permanent}, kill_after: 0s}, payload_class: pii}
`
	for _, tt := range []struct {
		name, old, new string
		valid          bool
	}{
		{"good", "", "", true},
		{"unknown key", "concurrency: 3", "concurency: 3", false},
		{"unknown setting", "jitter: 1", "jiter: 1", false},
		{"no topics", "topics: [a, \"${TOPIC}x\"]\n", "", false},
		{"empty topics", `[a, "${TOPIC}x"]`, "[]", false},
		{"topic name", "[a,", "[a b,", false},
		{"low number", "concurrency: 3", "concurrency: 0", false},
		{"high number", "jitter: 1", "jitter: 1.5", false},
		{"fraction", "max_attempts: 5", "max_attempts: 5.5", false},
		{"word", "skip", "drop", false},
		{"word from a variable", "unknown_types: skip", `unknown_types: "${TOPIC}"`, true},
		{"duration", "1.5h", "90", false},
		{"negative duration", "deadline: 0s", "deadline: -1s", false},
		{"tier", "5s,", "5,", false},
		{"no handler", "http: {url: http://h, headers: {A: b}}, ", "", false},
		{"two handlers", "concurrency: 1}", "exec: {argv: [x]}}", false},
		{"no URL", "url: http://h, ", "", false},
		{"header", "headers: {A: b}", "headers: {A: 1}", false},
		{"header name", "headers: {A: b}", `headers: {"a b": c}`, false},
		{"argument", "argv: [x]", "argv: [1]", false},
		{"variable name", "env: {A: b}", "env: {1A: b}", false},
		{"exit code", "65: permanent", "0: permanent", false},
		{"meaning of an exit code", "65: permanent", "65: fatal", false},
		{"type name", "  b: ", "  bü: ", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text := strings.Replace(good, tt.old, tt.new, 1)
			if tt.old != "" && text == good {
				t.Fatal("nothing was replaced")
			}
			asJSON, err := yaml.YAMLToJSON([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(asJSON))
			if err != nil {
				t.Fatal(err)
			}
			if err := schema.Validate(doc); (err == nil) != tt.valid {
				t.Errorf("the schema says %v", err)
			}
			_, err = load(t, text)
			if tt.name == "word from a variable" {
				return // the schema cannot see its value
			}
			if (err == nil) != tt.valid {
				t.Errorf("Load says %v", err)
			}
		})
	}
}
