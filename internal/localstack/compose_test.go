package localstack

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
)

func loadCompose(t *testing.T) *types.Project {
	t.Helper()
	options, err := cli.NewProjectOptions([]string{"../../docker-compose.yml"})
	if err != nil {
		t.Fatal(err)
	}
	project, err := options.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return project
}

// placed are the settings that say where a broker is, which differ.
var placed = []string{"process.roles", "node.id", "controller.quorum.voters", "controller.listener.names", "listeners", "advertised.listeners",
	"listener.security.protocol.map", "inter.broker.listener.name", "log.dirs"}

// The container's broker has the settings of the local stack: what a test proves
// here holds there.
func TestComposeBrokerIsThatOfTheStack(t *testing.T) {
	want := map[string]string{}
	for line := range strings.Lines(brokerProperties) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(line, "#") {
			want[name] = value
		}
	}
	got := map[string]string{}
	for name, value := range loadCompose(t).Services["kafka"].Environment {
		// As the image does it: KAFKA_A_B is a.b, KAFKA_A__B is a_b.
		if key, ok := strings.CutPrefix(name, "KAFKA_"); ok {
			got[strings.ToLower(strings.NewReplacer("__", "_", "_", ".").Replace(key))] = *value
		}
	}
	maps.DeleteFunc(want, func(name, _ string) bool { return slices.Contains(placed, name) })
	maps.DeleteFunc(got, func(name, _ string) bool { return slices.Contains(placed, name) })
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s is %q in docker-compose.yml, %q in the local stack", name, got[name], value)
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%s is only in docker-compose.yml", name)
		}
	}
	if len(want) < 20 {
		t.Errorf("only %d settings were compared", len(want))
	}
}

func TestComposeImagesAreThoseOfTheStack(t *testing.T) {
	services := loadCompose(t).Services
	if got, want := services["kafka"].Image, "apache/kafka:"+kafkaVersion; got != want {
		t.Errorf("kafka is %s, want %s", got, want)
	}
	if got, want := services["clickhouse"].Image, "clickhouse/clickhouse-server:"+clickHouseVersion[:strings.LastIndexByte(clickHouseVersion, '.')]; got != want {
		t.Errorf("clickhouse is %s, want %s", got, want)
	}
}
