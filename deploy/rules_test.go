package deploy

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
)

const (
	rulesFile = "prometheus/jobtrail.rules.yml"
	testsFile = "prometheus/jobtrail.rules.test.yml"
	runbook   = "../docs/operations.md"
	runbooks  = "https://github.com/jobtrail/jobtrail/blob/main/docs/operations.md#"
)

type rule struct {
	Record, Alert, Expr, For string
	Labels, Annotations      map[string]string
}

// rules returns all rules, alerts and others.
func rules(t *testing.T) (all []rule) {
	t.Helper()
	var file struct {
		Groups []struct {
			Name  string
			Rules []rule
		}
	}
	read(t, rulesFile, &file)
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	return all
}

func read(t *testing.T, name string, into any) {
	t.Helper()
	raw, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(raw, into); err != nil {
		t.Fatalf("reading %s: %v", name, err)
	}
}

// promtool is built once, without the service discoveries, which are half of it.
var promtool = sync.OnceValues(func() (string, error) {
	program, err := filepath.Abs("../.cache/promtool")
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "build", "-modfile=promtool.mod", "-tags=remove_all_sd", "-o", program, "github.com/prometheus/prometheus/cmd/promtool")
	cmd.Dir = ".."
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building promtool: %w\n%s", err, out)
	}
	return program, nil
})

func runPromtool(t *testing.T, args ...string) {
	t.Helper()
	program, err := promtool()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	t.Logf("promtool %s\n%s", strings.Join(args, " "), out)
}

// TestAlertsFireAndKeepQuiet runs the rules on planted metrics.
func TestAlertsFireAndKeepQuiet(t *testing.T) {
	runPromtool(t, "check", "rules", "--lint=all", "--lint-fatal", rulesFile)
	runPromtool(t, "test", "rules", testsFile)
}

// TestEveryAlertIsTriedBothWays: each alert has a case in which it fires, and one
// in which it does not.
func TestEveryAlertIsTriedBothWays(t *testing.T) {
	var file struct {
		Tests []struct {
			Cases []struct {
				Expr    string
				Samples []struct{ Labels string } `yaml:"exp_samples"`
			} `yaml:"promql_expr_test"`
		}
	}
	read(t, testsFile, &file)
	fires, quiet := map[string]bool{}, map[string]bool{}
	alertOf := regexp.MustCompile(`^ALERTS\{alertname="(\w+)", alertstate="firing"\}$`)
	for _, test := range file.Tests {
		for _, c := range test.Cases {
			m := alertOf.FindStringSubmatch(c.Expr)
			if m == nil {
				t.Errorf("the case %s asks for no alert", c.Expr)
				continue
			}
			if len(c.Samples) == 0 {
				quiet[m[1]] = true
			} else {
				fires[m[1]] = true
			}
		}
	}
	known := map[string]bool{}
	for _, r := range rules(t) {
		if r.Alert == "" {
			continue
		}
		known[r.Alert] = true
		if !fires[r.Alert] {
			t.Errorf("no case in which %s fires", r.Alert)
		}
		if !quiet[r.Alert] {
			t.Errorf("no case in which %s is quiet", r.Alert)
		}
	}
	for name := range fires {
		if !known[name] {
			t.Errorf("a case fires %s, which is no alert", name)
		}
	}
	if len(known) < 20 {
		t.Errorf("only %d alerts were found", len(known))
	}
}

// TestEveryAlertHasItsRunbook: who is woken finds what to do, and no section is
// about an alert that is gone.
func TestEveryAlertHasItsRunbook(t *testing.T) {
	page, err := os.ReadFile(runbook)
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]string{}
	for _, part := range strings.Split(string(page), "\n### ")[1:] {
		title, text, _ := strings.Cut(part, "\n")
		text, _, _ = strings.Cut(text, "\n## ")
		sections[title] = strings.TrimSpace(text)
	}
	for _, r := range rules(t) {
		if r.Alert == "" {
			continue
		}
		if r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
			t.Errorf("%s has no summary or no description", r.Alert)
		}
		if severity := r.Labels["severity"]; severity != "page" && severity != "warn" {
			t.Errorf("%s has severity %q", r.Alert, severity)
		} else if text := sections[r.Alert]; len(text) < 80 || !strings.HasPrefix(text, "*"+severity+"*") {
			t.Errorf("%s has no section ### %s that begins with *%s* and says what to do: %q", runbook, r.Alert, severity, text)
		}
		if want := runbooks + strings.ToLower(r.Alert); r.Annotations["runbook_url"] != want {
			t.Errorf("%s has the runbook %q, want %s", r.Alert, r.Annotations["runbook_url"], want)
		}
		delete(sections, r.Alert)
	}
	for title := range sections {
		if strings.HasPrefix(title, "Jobtrail") {
			t.Errorf("%s has a section %s, which is no alert", runbook, title)
		}
	}
}

// metrics returns the names of docs/metrics.md, which tests of the packages hold
// against the code, and what the rules record.
func metrics(t *testing.T) map[string]bool {
	t.Helper()
	page, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, section := range strings.Split(string(page), "\n## ")[1:] {
		title, _, _ := strings.Cut(section, "\n")
		prefixes := map[string][]string{"Worker": {"jobtrail_worker_"}, "Projector": {"jobtrail_projector_"}, "Kafka clients": {"jobtrail_worker_kafka_", "jobtrail_projector_kafka_"}}[title]
		for _, m := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\| (\\w+) \\|").FindAllStringSubmatch(section, -1) {
			for _, prefix := range prefixes {
				names[prefix+m[1]] = true
				if m[2] == "histogram" {
					for _, suffix := range []string{"_bucket", "_sum", "_count"} {
						names[prefix+m[1]+suffix] = true
					}
				}
			}
		}
	}
	for _, r := range rules(t) {
		if r.Record != "" {
			names[r.Record] = true
		}
	}
	return names
}

var metricName = regexp.MustCompile(`\bjobtrail[_:][a-zA-Z0-9_:]+`)

func TestRulesNameMetricsThatExist(t *testing.T) {
	known := metrics(t)
	used := 0
	for _, r := range rules(t) {
		for _, name := range metricName.FindAllString(r.Expr, -1) {
			used++
			if !known[name] {
				t.Errorf("%s%s uses %s, which docs/metrics.md does not know", r.Alert, r.Record, name)
			}
		}
	}
	if used == 0 {
		t.Error("no metric is used")
	}
}

// TestEveryMetricIsExplained: the page says of every metric what to do, or leaves
// it to docs/metrics.md.
func TestEveryMetricIsExplained(t *testing.T) {
	page, err := os.ReadFile(runbook)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "](metrics.md") {
		t.Errorf("%s does not link metrics.md", runbook)
	}
	text := strings.ReplaceAll(string(page), "`", "")
	for name := range metrics(t) {
		short := strings.TrimPrefix(strings.TrimPrefix(name, "jobtrail_worker_"), "jobtrail_projector_")
		switch {
		case strings.HasPrefix(short, "kafka_"), strings.HasPrefix(name, "jobtrail:"):
		case strings.HasSuffix(short, "_bucket"), strings.HasSuffix(short, "_sum"), strings.HasSuffix(short, "_count"):
		case !regexp.MustCompile(`\b` + short + `\b`).MatchString(text):
			t.Errorf("%s does not mention %s", runbook, name)
		}
	}
}
