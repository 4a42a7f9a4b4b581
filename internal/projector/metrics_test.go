package projector

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/jobtrail/jobtrail/pkg/sanitize"
)

// names is a registerer that only takes down names.
type names []string

func (n *names) Register(c prometheus.Collector) error { n.MustRegister(c); return nil }

func (n *names) MustRegister(cs ...prometheus.Collector) {
	for _, c := range cs {
		descs := make(chan *prometheus.Desc)
		go func() { c.Describe(descs); close(descs) }()
		for d := range descs {
			*n = append(*n, regexp.MustCompile(`fqName: "([^"]+)"`).FindStringSubmatch(d.String())[1])
		}
	}
}

func (n *names) Unregister(prometheus.Collector) bool { return false }

func TestMetricsBeginAtZero(t *testing.T) {
	reg := prometheus.NewRegistry()
	newMetrics(reg, sanitize.New(sanitize.Config{})).begin([]string{"shop", "0"})
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	exposed := map[string]bool{}
	for _, f := range families {
		exposed[f.GetName()] = true
	}
	for _, name := range []string{"rewinds_total", "log_truncated", "quarantined_total", "stopped", "rows_total", "batches_total"} {
		if !exposed["jobtrail_projector_"+name] {
			t.Errorf("%s is not exposed before it first happens", name)
		}
	}
}

// TestMetricsAreDocumented holds docs/metrics.md against the code.
func TestMetricsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "## Projector\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var registered names
	newMetrics(&registered, sanitize.New(sanitize.Config{}))
	documented := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\|").FindAllStringSubmatch(section, -1) {
		documented["jobtrail_projector_"+m[1]] = true
	}
	for _, name := range registered {
		if !documented[name] {
			t.Errorf("%s has no row in docs/metrics.md", name)
		}
		delete(documented, name)
	}
	for name := range documented {
		t.Errorf("docs/metrics.md has a row for %s, which does not exist", name)
	}
}
