package clickhouse

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/jobtrail/jobtrail/pkg/events"
)

// Layout says how the store is laid out on the server.
type Layout struct {
	// Database is the name readers use; the generations are <Database>_a and
	// <Database>_b. Letters, digits and underscores, at most 100.
	Database string
	// Cluster, when set, makes every table on all replicas of that ClickHouse
	// cluster, with Replicated engines whose path and replica name come from the
	// server's macros {shard} and {replica}. Empty: plain tables on one server.
	Cluster string
}

// The generations.
const (
	GenerationA = "a"
	GenerationB = "b"
)

var plainName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,99}$`)

// Validate reports names that cannot be used unquoted.
func (l Layout) Validate() error {
	if !plainName.MatchString(l.Database) {
		return fmt.Errorf("database %q: want letters, digits and underscores", l.Database)
	}
	if l.Cluster != "" && !plainName.MatchString(l.Cluster) {
		return fmt.Errorf("cluster %q: want letters, digits and underscores", l.Cluster)
	}
	return nil
}

// Generation returns the database of generation g.
func (l Layout) Generation(g string) string { return l.Database + "_" + g }

// The methods below are what the migrations' templates call.

// OnCluster returns the ON CLUSTER clause.
func (l Layout) OnCluster() string {
	if l.Cluster == "" {
		return ""
	}
	return "ON CLUSTER " + l.Cluster
}

// Engine returns the table engine: engine as it is, or its Replicated form.
func (l Layout) Engine(engine, table string) string {
	if l.Cluster == "" {
		return engine
	}
	name, args, _ := strings.Cut(engine, "(")
	if args = strings.TrimSuffix(args, ")"); args != "" {
		args = ", " + args
	}
	return fmt.Sprintf("Replicated%s('/clickhouse/tables/{shard}/{database}/%s', '{replica}'%s)", name, table, args)
}

// Window returns the settings that make a table remember the tokens of its
// last 100,000 inserted parts. The default of plain tables is none.
func (l Layout) Window() string {
	if l.Cluster == "" {
		return "non_replicated_deduplication_window = 100000"
	}
	return "replicated_deduplication_window = 100000, replicated_deduplication_window_seconds = 604800"
}

// States returns the column type of a state.
func (l Layout) States() string {
	names := []string{}
	for _, s := range append([]events.State{0}, events.States()...) {
		names = append(names, fmt.Sprintf("'%s' = %d", s, s))
	}
	return "Enum8(" + strings.Join(names, ", ") + ")"
}

// StatesQuoted returns States for use inside a string literal.
func (l Layout) StatesQuoted() string { return strings.ReplaceAll(l.States(), "'", `\'`) }

// Types returns the column type of an event type.
func (l Layout) Types() string {
	names := []string{}
	for t := events.TypeUnknown; t <= events.TypeDedupPage; t++ {
		names = append(names, fmt.Sprintf("'%s' = %d", t, t))
	}
	return "Enum8(" + strings.Join(names, ", ") + ")"
}
