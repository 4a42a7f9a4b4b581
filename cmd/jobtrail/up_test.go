package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/jobtrail/jobtrail/internal/connect/documented"
)

func TestUpVariablesAreDocumented(t *testing.T) {
	documented.Check(t, "../../docs/configuration.md", "up", upEnvironment{})
}

// up runs "jobtrail up" on free ports and returns the two addresses.
func up(t *testing.T, dir string, flags ...string) (kafka, store string) {
	t.Helper()
	args := append([]string{"up", "--data", dir, "--kafka-port", "0", "--clickhouse-port", "0", "--clickhouse-http-port", "0"}, flags...)
	code, stdout, errs := call(t, os.Environ(), args...)
	if code != 0 {
		t.Fatalf("up: exit code %d\n%s", code, errs)
	}
	t.Logf("up said:\n%s%s", errs, stdout)
	lines := strings.Split(stdout, "\n")
	kafka, okKafka := strings.CutPrefix(lines[0], "KAFKA_BROKERS=")
	store, okStore := strings.CutPrefix(lines[1], "CLICKHOUSE_ADDR=")
	if !okKafka || !okStore || len(lines) != 3 {
		t.Fatalf("up printed %q", stdout)
	}
	return kafka, store
}

func down(t *testing.T, dir string) string {
	t.Helper()
	code, _, errs := call(t, os.Environ(), "down", "--data", dir)
	if code != 0 {
		t.Fatalf("down: exit code %d\n%s", code, errs)
	}
	return errs
}

// pids reads the process ids from the data folder.
func pids(t *testing.T, dir string) map[string]int {
	t.Helper()
	found := map[string]int{}
	for _, name := range []string{"kafka", "clickhouse"} {
		text, err := os.ReadFile(filepath.Join(dir, name+".json"))
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		var state struct{ PID int }
		if err := json.Unmarshal(text, &state); err != nil {
			t.Fatal(err)
		}
		found[name] = state.PID
	}
	return found
}

// killIn ends a server of the test's own stack from outside, without a word to
// the stack.
func killIn(t *testing.T, dir, server string) {
	t.Helper()
	pid := pids(t, dir)[server]
	p, err := os.FindProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	_, _ = p.Wait() // an error where it is not our child
	deadline := time.Now().Add(10 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for p.Signal(syscall.Signal(0)) == nil {
		if time.Now().After(deadline) {
			t.Fatalf("process %d outlived its kill", pid)
		}
		<-tick.C
	}
}

func TestUpAndDown(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "stack")
	t.Cleanup(func() { call(t, os.Environ(), "down", "--data", dir) })
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()

	kafka, store := up(t, dir)
	first := pids(t, dir)
	cl, err := kgo.NewClient(kgo.SeedBrokers(kafka))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if _, err := kadm.NewClient(cl).CreateTopic(ctx, 1, 1, nil, "kept"); err != nil {
		t.Fatal(err)
	}
	conn, err := clickhouse.Open(&clickhouse.Options{Addr: []string{store}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.Exec(ctx, "CREATE TABLE kept (n Int64) ENGINE = MergeTree ORDER BY n"); err != nil {
		t.Fatal(err)
	}
	if err := conn.Exec(ctx, "INSERT INTO kept VALUES (7)"); err != nil {
		t.Fatal(err)
	}

	t.Run("a second up keeps what runs", func(t *testing.T) {
		again, againStore := up(t, dir)
		if again != kafka || againStore != store || fmt.Sprint(pids(t, dir)) != fmt.Sprint(first) {
			t.Errorf("got %s, %s, %v; had %s, %s, %v", again, againStore, pids(t, dir), kafka, store, first)
		}
	})
	t.Run("an up on other ports is refused", func(t *testing.T) {
		code, _, errs := call(t, os.Environ(), "up", "--data", dir, "--kafka-port", "1")
		if code != exitFailed || !strings.Contains(errs, "stop it first, with jobtrail down --data "+dir) {
			t.Errorf("exit code %d: %s", code, errs)
		}
	})
	_, kafkaPort, err := net.SplitHostPort(kafka)
	if err != nil {
		t.Fatal(err)
	}
	_, storePort, err := net.SplitHostPort(store)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("a taken port is named", func(t *testing.T) {
		other := filepath.Join(t.TempDir(), "other")
		code, _, errs := call(t, os.Environ(), "up", "--data", other, "--kafka-port", kafkaPort)
		if code != exitFailed || !strings.Contains(errs, "port "+kafkaPort+" for Kafka") || !strings.Contains(errs, "jobtrail down --data "+dir) || !strings.Contains(errs, "--kafka-port") {
			t.Errorf("exit code %d: %s", code, errs)
		}
		if left := pids(t, other); len(left) != 0 {
			t.Errorf("left running: %v", left)
		}
	})
	t.Run("up starts only what died", func(t *testing.T) {
		killIn(t, dir, "clickhouse")
		up(t, dir, "--clickhouse-port", storePort)
		now := pids(t, dir)
		if now["kafka"] != first["kafka"] || now["clickhouse"] == first["clickhouse"] {
			t.Errorf("had %v, got %v", first, now)
		}
		var n int64
		if err := conn.QueryRow(ctx, "SELECT n FROM kept").Scan(&n); err != nil || n != 7 {
			t.Errorf("after kill -9 the table gives %d, %v", n, err)
		}
	})
	t.Run("down with one already dead", func(t *testing.T) {
		killIn(t, dir, "clickhouse")
		if errs := down(t, dir); !strings.Contains(errs, "ClickHouse 26.7.2 does not run.") || !strings.Contains(errs, "Kafka 4.3.1 is stopped") {
			t.Errorf("down said: %s", errs)
		}
		if left := pids(t, dir); len(left) != 0 {
			t.Errorf("state left: %v", left)
		}
		if l, err := net.Listen("tcp4", kafka); err != nil {
			t.Errorf("the broker's port is not free: %v", err)
		} else {
			l.Close()
		}
	})
	t.Run("data is there after down and up", func(t *testing.T) {
		up(t, dir, "--kafka-port", kafkaPort, "--clickhouse-port", storePort)
		topics, err := kadm.NewClient(cl).ListTopics(ctx)
		if err != nil || !topics.Has("kept") {
			t.Errorf("topics: %v, %v", topics.Names(), err)
		}
		var n int64
		if err := conn.QueryRow(ctx, "SELECT n FROM kept").Scan(&n); err != nil || n != 7 {
			t.Errorf("the table gives %d, %v", n, err)
		}
	})
}

// A pid that was given to another process is not ours, whatever the folder says.
func TestDownLeavesStrangersAlone(t *testing.T) {
	stranger := exec.Command("sleep", "600")
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stranger.Process.Kill(); stranger.Wait() })
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, name := range []string{"kafka.json", "clickhouse.json"} {
		state := fmt.Sprintf(`{"pid":%d,"start_ticks":12,"boot_id":%q,"port":1,"second_port":2}`, stranger.Process.Pid, strings.TrimSpace(string(boot)))
		if err := os.WriteFile(filepath.Join(dir, name), []byte(state), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if errs := down(t, dir); strings.Count(errs, "does not run") != 2 {
		t.Errorf("down said: %s", errs)
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", stranger.Process.Pid))
	if err != nil || strings.Contains(string(stat), "(sleep) Z") {
		t.Errorf("the stranger is gone: %s, %v", stat, err)
	}
	if left := pids(t, dir); len(left) != 0 {
		t.Errorf("state left: %v", left)
	}
}

func TestDownWithoutAFolder(t *testing.T) {
	code, _, errs := call(t, nil, "down", "--data", filepath.Join(t.TempDir(), "none"))
	if code != exitFailed || !strings.Contains(errs, "no such folder") {
		t.Errorf("exit code %d: %s", code, errs)
	}
}
