// Command demo shows jobtrail at work: it starts a real Kafka and a real
// ClickHouse, a worker and a projector, publishes a small shop's worth of jobs,
// and prints the story of the operation that caused them. It ends with exit code
// 0 only when the evidence of every job is what expected says.
package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

//go:embed jobs.yaml
var jobsFile []byte

const (
	group = "shop"
	topic = "shop.jobs"
	// patience bounds the whole run after the servers answer.
	patience = 3 * time.Minute
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	d := &demo{dir: ".demo", bin: "bin", operation: "order-" + time.Now().UTC().Format("150405")}
	if err := d.run(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "demo: %v\n", err)
		os.Exit(1)
	}
}

type demo struct {
	dir, bin  string
	operation string
	env       []string // where the servers are

	mu    sync.Mutex
	calls map[string]int // of the shop, by job id
}

func (d *demo) run(ctx context.Context) error {
	begun := time.Now()
	if err := os.MkdirAll(d.dir, 0o755); err != nil {
		return err
	}
	if err := d.up(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	say("Making the topics of worker group %s.", group)
	if out, err := d.jobtrail(ctx, nil, "topics", "apply", "--group", group, "--jobs", topic, "--partitions", "4"); err != nil {
		return fmt.Errorf("making topics: %w\n%s", err, out)
	}
	shop, err := d.openShop()
	if err != nil {
		return err
	}
	defer shop.Close()
	file := filepath.Join(d.dir, "jobs.yaml")
	if err := os.WriteFile(file, jobsFile, 0o600); err != nil {
		return err
	}
	projector, err := d.start("projector", "JOBTRAIL_GROUPS="+group, "JOBTRAIL_ADMIN_ADDR=127.0.0.1:0")
	if err != nil {
		return err
	}
	defer projector.stop()
	worker := d.supervise("worker", "JOBTRAIL_GROUP="+group, "JOBTRAIL_JOBS_FILE="+file, "JOBTRAIL_ADMIN_ADDR=127.0.0.1:0", "SHOP=http://"+shop.Addr, "JOBTRAIL_GRACE=5s")
	defer worker.stop()

	if err := d.publish(ctx); err != nil {
		return err
	}
	if _, err := d.watch(ctx, worker, len(expected)-1); err != nil {
		return err
	}
	say("\nNow a job whose command kills its worker, each time.")
	if _, err := d.jobtrail(ctx, nil, "enqueue", "--topic", topic, "--type", "resize-image", "--job-id", d.operation+"/crash", "--operation-id", d.operation, "--tenant", "acme"); err != nil {
		return fmt.Errorf("publishing: %w", err)
	}
	story, err := d.watch(ctx, worker, len(expected))
	if err != nil {
		return err
	}
	wrong := judge(story)
	fmt.Fprintln(os.Stderr)
	out, err := d.jobtrail(ctx, nil, "op", "show", d.operation)
	if code := exitCode(err); code != 3 {
		wrong = append(wrong, fmt.Sprintf("op show ended with exit code %d, wanted 3, since a job failed for good", code))
	}
	fmt.Printf("%s\n", out)
	fmt.Print(reading)
	if len(wrong) > 0 {
		return errors.New("the evidence is not what the demo demands:\n  " + strings.Join(wrong, "\n  "))
	}
	fmt.Printf("Every job's evidence is what the demo demands (%v in all). The worker was killed %d times on the way.\n", time.Since(begun).Round(time.Second), worker.crashes())
	fmt.Printf("\nKafka and ClickHouse still run, data in %s. Look around:\n", d.dir)
	for _, e := range d.env {
		fmt.Printf("  export %s\n", e)
	}
	fmt.Printf("  %[1]s/jobtrail op show %[2]s\n  %[1]s/jobtrail job list\n  %[1]s/jobtrail dlq list --group %[3]s\n  %[1]s/jobtrail queue list --group %[3]s\n  %[1]s/jobtrail down --data %[4]s    # stops them; data stays\n", d.bin, d.operation, group, d.dir)
	return nil
}

// reading explains what of the story is not plain.
const reading = `How to read it
  poison  was published as a broken producer would: its header not-before is "tomorrow", which is no time. So it is
          malformed: nothing runs it, and it lies in the dead-letter topic with its exact bytes.
  crash   kills its worker each time. A crash takes down everything that runs beside it, so nobody is condemned for
          company: the first two attempts ran among all others, the third among at most 32 suspects, the fourth
          among 4, the fifth alone. Only that one counts for max_crashes, which is 1 here: hence crash_loop.
  mail-1  was published twice: the second is a duplicate, and was not run.

`

func say(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// up starts the servers, on the usual ports where they are free.
func (d *demo) up(ctx context.Context) error {
	args := []string{"up", "--data", d.dir}
	for _, p := range []struct{ flag, usual, server, field string }{
		{"--kafka-port", "9092", "kafka", "port"}, {"--clickhouse-port", "9000", "clickhouse", "port"}, {"--clickhouse-http-port", "8123", "clickhouse", "second_port"},
	} {
		port, err := d.port(p.usual, p.server, p.field)
		if err != nil {
			return err
		}
		if port != p.usual {
			say("Port %s is taken, so %s is %s.", p.usual, strings.TrimPrefix(p.flag, "--"), port)
		}
		args = append(args, p.flag, port)
	}
	cmd := exec.CommandContext(ctx, filepath.Join(d.bin, "jobtrail"), args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("starting Kafka and ClickHouse: %w", err)
	}
	for line := range strings.Lines(string(out)) {
		if line = strings.TrimSpace(line); strings.Contains(line, "=") {
			d.env = append(d.env, line)
		}
	}
	return nil
}

// port returns the port of a server that runs in the demo's folder, else the
// usual one if nobody has it, else another.
func (d *demo) port(usual, server, field string) (string, error) {
	text, err := os.ReadFile(filepath.Join(d.dir, server+".json"))
	if err != nil {
		return free(usual)
	}
	var state map[string]any
	if err := json.Unmarshal(text, &state); err != nil {
		return "", fmt.Errorf("reading which ports the demo's servers have: %w", err)
	}
	port := fmt.Sprint(state[field])
	l, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		return port, nil
	}
	_ = l.Close() // the server was killed
	return free(usual)
}

// free returns the usual port if nobody has it, else another.
func free(usual string) (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:"+usual)
	if err != nil {
		if l, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return "", err
		}
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}

func (d *demo) jobtrail(ctx context.Context, stdin []byte, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(d.bin, "jobtrail"), args...)
	cmd.Env = append(os.Environ(), d.env...)
	cmd.Stdin = bytes.NewReader(stdin)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil && stderr.Len() > 0 {
		return out, fmt.Errorf("%w: %s", err, strings.TrimSpace(stderr.String()))
	}
	return out, err
}

func exitCode(err error) int {
	if x, ok := errors.AsType[*exec.ExitError](err); ok {
		return x.ExitCode()
	}
	if err != nil {
		return -1
	}
	return 0
}

// openShop serves the endpoints that the jobs call.
func (d *demo) openShop() (*http.Server, error) {
	d.calls = make(map[string]int)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/mail", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/stock", func(w http.ResponseWriter, r *http.Request) { // down for the first two calls of a job
		d.mu.Lock()
		defer d.mu.Unlock()
		id := r.Header.Get("Jobtrail-Job-Id")
		if d.calls[id]++; d.calls[id] <= 2 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("/charge", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusPaymentRequired) })
	mux.HandleFunc("/report", func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(3 * time.Second):
		case <-r.Context().Done():
		}
	})
	srv := &http.Server{Addr: l.Addr().String(), Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = srv.Serve(l) }()
	return srv, nil
}

// publish publishes the operation's jobs.
func (d *demo) publish(ctx context.Context) error {
	var lines bytes.Buffer
	enc := json.NewEncoder(&lines)
	add := func(typ, id, data string) error {
		return enc.Encode(map[string]string{"topic": topic, "type": typ, "job-id": d.operation + "/" + id, "operation-id": d.operation, "tenant": "acme", "data": data})
	}
	var errs []error
	for i := range 5 {
		errs = append(errs, add("send-mail", fmt.Sprintf("mail-%d", i+1), `{"to":"customer"}`))
	}
	errs = append(errs, add("reserve-stock", "stock", `{"sku":"A-1"}`), add("charge-card", "charge", `{"amount":1900}`), add("build-report", "report", `{}`),
		add("send-mail", "mail-1", `{"to":"customer"}`))
	if err := errors.Join(errs...); err != nil {
		return err
	}
	say("Publishing the jobs of operation %s.", d.operation)
	if _, err := d.jobtrail(ctx, lines.Bytes(), "enqueue", "--ndjson", "-"); err != nil {
		return fmt.Errorf("publishing: %w", err)
	}
	return d.publishPoison(ctx)
}

// publishPoison publishes a job as a broken producer would: its not-before is no
// time.
func (d *demo) publishPoison(ctx context.Context) error {
	var brokers string
	for _, e := range d.env {
		if v, ok := strings.CutPrefix(e, "KAFKA_BROKERS="); ok {
			brokers = v
		}
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(brokers, ",")...))
	if err != nil {
		return err
	}
	defer cl.Close()
	rec := &kgo.Record{Topic: topic, Key: []byte(d.operation), Value: []byte("\x00\xffpoison")}
	for _, h := range [][2]string{{"job-type", "send-mail"}, {"job-id", d.operation + "/poison"}, {"operation-id", d.operation}, {"tenant-id", "acme"}, {"not-before", "tomorrow"}} {
		rec.Headers = append(rec.Headers, kgo.RecordHeader{Key: h[0], Value: []byte(h[1])})
	}
	return cl.ProduceSync(ctx, rec).FirstErr()
}
