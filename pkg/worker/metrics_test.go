package worker

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/jobtrail/jobtrail/pkg/sanitize"
)

// names collects the names of what is registered.
type names struct{ list []string }

func (n *names) Register(c prometheus.Collector) error {
	n.MustRegister(c)
	return nil
}

func (n *names) MustRegister(cs ...prometheus.Collector) {
	for _, c := range cs {
		descs := make(chan *prometheus.Desc, 16)
		c.Describe(descs)
		close(descs)
		for d := range descs {
			n.list = append(n.list, regexp.MustCompile(`fqName: "([^"]+)"`).FindStringSubmatch(d.String())[1])
		}
	}
}

func (n *names) Unregister(prometheus.Collector) bool { return false }

// TestMetricsAreDocumented holds docs/metrics.md against the code.
func TestMetricsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "## Worker\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var reg names
	newMetrics(&reg, sanitize.New(sanitize.Config{}))
	documented := make(map[string]bool)
	for _, m := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\|").FindAllStringSubmatch(section, -1) {
		documented["jobtrail_worker_"+m[1]] = true
	}
	for _, name := range reg.list {
		if !documented[name] {
			t.Errorf("%s has no row in docs/metrics.md", name)
		}
		delete(documented, name)
	}
	for name := range documented {
		t.Errorf("docs/metrics.md has a row for %s, which does not exist", name)
	}
}
