package localstack

import (
	"bytes"
	"context"
	"encoding/xml"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
)

// serverConfig is the server's configuration: %[1]s is the data folder, %[2]d
// and %[3]d the native and the HTTP port.
const serverConfig = `<!-- Written by jobtrail at every start. -->
<clickhouse>
  <path>%[1]s/clickhouse/data/</path>
  <tmp_path>%[1]s/clickhouse/tmp/</tmp_path>
  <user_files_path>%[1]s/clickhouse/user_files/</user_files_path>
  <format_schema_path>%[1]s/clickhouse/format_schemas/</format_schema_path>
  <users_config>%[1]s/clickhouse/users.xml</users_config>
  <listen_host>127.0.0.1</listen_host>
  <tcp_port>%[2]d</tcp_port>
  <http_port>%[3]d</http_port>
  <timezone>UTC</timezone>
  <log-level>information</log-level>
  <logger>
    <log>%[1]s/logs/clickhouse.log</log>
    <size>20M</size>
    <count>3</count>
  </logger>
  <!-- Room for a broker, workers and tests on a machine with 24 GiB. -->
  <max_server_memory_usage>6442450944</max_server_memory_usage>
  <mark_cache_size>536870912</mark_cache_size>
</clickhouse>
`

// usersConfig lets the user default in without a password, from this machine
// only. Files in users.d beside it are merged into it.
const usersConfig = `<!-- Written by jobtrail at every start. -->
<clickhouse>
  <profiles>
    <default>
      <!-- Seconds after which an idle connection notices that the server
           stops; a stop waits for it, 5 s at most. -->
      <poll_interval>1</poll_interval>
    </default>
  </profiles>
  <quotas>
    <default/>
  </quotas>
  <users>
    <default>
      <password/>
      <networks>
        <ip>127.0.0.1</ip>
      </networks>
      <profile>default</profile>
      <quota>default</quota>
    </default>
  </users>
</clickhouse>
`

// bootQueries opens the listeners and then waits for the end of standard
// input, which the child process holds open until it is told to stop.
const bootQueries = `SYSTEM START LISTEN TCP;
SYSTEM START LISTEN HTTP;
SELECT line FROM file('/dev/stdin', 'LineAsString', 'line String') FORMAT Null;
`

// clickHouse is the launcher of the ClickHouse server.
type clickHouse struct {
	library    string
	usersFiles []string // merged into usersConfig
}

func (clickHouse) name() string         { return "ClickHouse " + clickHouseServerVersion }
func (clickHouse) stateName() string    { return "clickhouse.json" }
func (clickHouse) logNames() []string   { return []string{"clickhouse.log", "clickhouse.out"} }
func (clickHouse) grace() time.Duration { return 10 * time.Second }

// command writes the configuration for p and returns the server's command line.
func (c clickHouse) command(_ context.Context, dir string, p ports) (*exec.Cmd, error) {
	conf := filepath.Join(dir, "clickhouse")
	usersDir := filepath.Join(conf, "users.d")
	// Files of an earlier start may not be wanted any more.
	if err := os.RemoveAll(usersDir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(usersDir, 0o755); err != nil {
		return nil, err
	}
	var escaped bytes.Buffer
	if err := xml.EscapeText(&escaped, []byte(dir)); err != nil {
		return nil, err
	}
	files := map[string]string{
		"config.xml": fmt.Sprintf(serverConfig, escaped.String(), p.Port, p.Second),
		"users.xml":  usersConfig,
		"boot.sql":   bootQueries,
	}
	for _, name := range c.usersFiles {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("reading a users file: %w", err)
		}
		files[filepath.Join("users.d", filepath.Base(name))] = string(text)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(conf, name), []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	// The link names the executable even if its file was replaced meanwhile.
	cmd := exec.Command("/proc/self/exe", c.library, filepath.Join(conf, "config.xml"), filepath.Join(conf, "boot.sql"))
	cmd.Args[0] = childName
	return cmd, nil
}

// ready asks for the version over the native protocol.
func (clickHouse) ready(ctx context.Context, p ports) error {
	conn, err := clickhouse.Open(&clickhouse.Options{Addr: []string{address(p.Port)}, DialTimeout: time.Second, MaxOpenConns: 1})
	if err != nil {
		return err
	}
	defer conn.Close()
	var version string
	return conn.QueryRow(ctx, "SELECT version()").Scan(&version)
}
