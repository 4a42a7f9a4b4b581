package worker

import (
	"context"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"

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
	newMetrics(&reg, sanitize.New(sanitize.Config{}), nil)
	tellReady(&reg, nil)
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

// TestCountersBeginAtZero: an alert on the first occurrence needs the series
// before it.
func TestCountersBeginAtZero(t *testing.T) {
	reg := prometheus.NewRegistry()
	if _, err := New(Config{Group: "g", Topics: []string{"j"}, Types: []Type{{Name: "charge", Handler: HandlerFunc(nil)}}}, Deps{Registry: reg}); err != nil {
		t.Fatal(err)
	}
	var registered names
	newMetrics(&registered, sanitize.New(sanitize.Config{}), nil)
	tellReady(&registered, nil)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	exposed := make(map[string]bool)
	series := make(map[string]bool)
	for _, f := range families {
		exposed[f.GetName()] = true
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			series[strings.TrimPrefix(f.GetName(), "jobtrail_worker_")+" "+strings.Join(labels, " ")] = true
			if c := m.GetCounter(); c != nil && c.GetValue() != 0 {
				t.Errorf("%s begins at %v", f.GetName(), c.GetValue())
			}
		}
	}
	for _, name := range registered.list {
		if !exposed[name] {
			t.Errorf("%s is not exposed before it first happens", name)
		}
	}
	for _, want := range []string{"retries_total transient charge", "terminals_total charge failed crash_loop", "terminals_total unknown failed unknown_type", "abandoned_total worker_lost", "parked_total charge interrupted", "ready ",
		"transactions_in_doubt_total unknown", "attempts_total timeout charge timed_out", "attempts_started_total redelivery charge"} {
		if !series[want] {
			t.Errorf("no series %s", want)
		}
	}
}

func TestKafkaMetricsServeSeveralClients(t *testing.T) {
	reg := prometheus.NewRegistry()
	m := newKafkaMetrics(reg)
	for range 3 {
		cl, err := kgo.NewClient(kgo.SeedBrokers("127.0.0.1:1"), kgo.WithHooks(m), kgo.DialTimeout(time.Second))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
		_ = cl.Ping(ctx)
		cancel()
		cl.Close()
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var exposed []string
	for _, f := range families {
		exposed = append(exposed, f.GetName())
	}
	if !slices.Contains(exposed, "jobtrail_worker_kafka_connect_errors_total") {
		t.Errorf("no errors of connections in %v", exposed)
	}
	page, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "## Kafka clients\n")
	documented := regexp.MustCompile("(?m)^\\| `(\\w+)` \\| \\w+ \\| both").FindAllStringSubmatch(section, -1)
	if len(documented) < 10 {
		t.Errorf("docs/metrics.md names %d metrics of Kafka clients", len(documented))
	}
	var all names
	newKafkaMetrics(&all).OnNewClient(unconnected(t))
	for _, m := range documented {
		name := "jobtrail_worker_kafka_" + m[1]
		if i := slices.Index(all.list, name); i >= 0 {
			all.list = slices.Delete(all.list, i, i+1)
		} else {
			t.Errorf("docs/metrics.md has a row for %s, which does not exist", name)
		}
	}
	for _, name := range all.list {
		t.Errorf("%s has no row in docs/metrics.md", name)
	}
	for _, n := range exposed {
		if strings.Contains(n, "buffered") {
			t.Errorf("%s is that of one client", n)
		}
	}
}

func unconnected(t *testing.T) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers("127.0.0.1:1"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}
