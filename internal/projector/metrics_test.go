package projector

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

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

// TestLagEndsWithThePartition: a projector that gave up a partition must not go
// on telling a lag that nobody works off.
func TestLagEndsWithThePartition(t *testing.T) {
	reg := prometheus.NewRegistry()
	m := newMetrics(reg, sanitize.New(sanitize.Config{}))
	r := &reader{shared: &shared{metrics: m}, worker: "shop", partitions: map[int32]*partition{}}
	mine, other := &partition{r: r, number: 0}, &partition{r: r, number: 1}
	r.partitions[0], r.partitions[1] = mine, other
	lags := func() (partitions []string) {
		t.Helper()
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			for _, s := range f.GetMetric() {
				if f.GetName() == "jobtrail_projector_lag_seconds" {
					partitions = append(partitions, s.GetLabel()[1].GetValue())
				}
			}
		}
		return partitions
	}
	for _, p := range []*partition{mine, other} {
		r.tell(p, 1, 2, 2, time.Now())
	}
	if got := lags(); !slices.Equal(got, []string{"0", "1"}) {
		t.Fatalf("lags are told of %v", got)
	}
	delete(r.partitions, 0)
	m.endOf(mine.labels())
	r.tell(mine, 1, 2, 2, time.Now())
	if got := lags(); !slices.Equal(got, []string{"1"}) {
		t.Errorf("lags are told of %v", got)
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
	tellReady(&registered, nil)
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
