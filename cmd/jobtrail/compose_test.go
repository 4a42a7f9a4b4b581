package main

import (
	"debug/elf"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	compose "github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
)

func loadCompose(t *testing.T) *types.Project {
	t.Helper()
	options, err := compose.NewProjectOptions([]string{"../../docker-compose.yml"})
	if err != nil {
		t.Fatal(err)
	}
	project, err := options.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return project
}

// buildStatic builds commands as the Dockerfile does.
func buildStatic(t *testing.T, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	args := []string{"build", "-trimpath", "-buildvcs=false", "-o", dir + "/"}
	for _, name := range names {
		args = append(args, "../"+name)
	}
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return dir
}

// portsOf returns the container's ports of a service by the machine's, all on
// loopback.
func portsOf(t *testing.T, s types.ServiceConfig) map[string]string {
	t.Helper()
	ports := map[string]string{}
	for _, p := range s.Ports {
		if p.HostIP != "127.0.0.1" {
			t.Errorf("%s: port %s is published on %q, want 127.0.0.1", s.Name, p.Published, p.HostIP)
		}
		ports[p.Published] = fmt.Sprint(p.Target)
	}
	return ports
}

// The servers answer where those of `jobtrail up` do.
func TestComposePortsAreThoseOfUp(t *testing.T) {
	parser, err := newParser(&Globals{Stdout: os.Stdout, Stderr: os.Stderr}, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	defaults := map[string]string{}
	for _, leaf := range parser.Model.Leaves(true) {
		if leaf.Name == "up" {
			for _, flag := range leaf.Flags {
				defaults[flag.Name] = flag.Default
			}
		}
	}
	services := loadCompose(t).Services
	kafka, clickhouse := portsOf(t, services["kafka"]), portsOf(t, services["clickhouse"])
	if len(kafka) != 1 || kafka[defaults["kafka-port"]] != "9092" {
		t.Errorf("kafka: %v", kafka)
	}
	if len(clickhouse) != 2 || clickhouse[defaults["clickhouse-port"]] != "9000" || clickhouse[defaults["clickhouse-http-port"]] != "8123" {
		t.Errorf("clickhouse: %v", clickhouse)
	}
	env := services["kafka"].Environment
	if want := "HOST://127.0.0.1:" + defaults["kafka-port"]; !strings.HasPrefix(*env["KAFKA_ADVERTISED_LISTENERS"], want) {
		t.Errorf("the broker tells this machine %s, want %s", *env["KAFKA_ADVERTISED_LISTENERS"], want)
	}
}

// variablesOf returns the defaults of the variables that a command's help lists.
func variablesOf(t *testing.T, program string) map[string]string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), program, "--help").Output()
	if err != nil {
		t.Fatalf("%s --help: %v", program, err)
	}
	_, rows, ok := strings.Cut(string(out), "MEANING\n")
	if !ok {
		t.Fatalf("%s --help lists no variables:\n%s", program, out)
	}
	variables := map[string]string{}
	for line := range strings.Lines(rows) {
		if f := regexp.MustCompile(`\s{2,}`).Split(strings.TrimSpace(line), 4); len(f) == 4 {
			variables[f[0]] = f[2]
		}
	}
	return variables
}

func TestComposeServicesAreTheCommands(t *testing.T) {
	project := loadCompose(t)
	dir := buildStatic(t, "worker", "projector")
	for _, name := range []string{"worker", "projector"} {
		s := project.Services[name]
		if !slices.Equal(s.Command, []string{"/" + name}) || s.Build == nil || s.Build.Target != "" {
			t.Errorf("%s: command %v, build %+v", name, s.Command, s.Build)
		}
		program := filepath.Join(dir, name)
		checkStatic(t, program)
		known := variablesOf(t, program)
		for variable, value := range s.Environment {
			if _, ok := known[variable]; !ok {
				t.Errorf("%s: %s is no variable of the command", name, variable)
			}
			if variable == "KAFKA_BROKERS" && *value != "kafka:19092" {
				t.Errorf("%s: KAFKA_BROKERS is %s", name, *value)
			}
		}
		for variable, value := range known {
			if _, ok := s.Environment[variable]; value == "required" && !ok {
				t.Errorf("%s: %s is required and not set", name, variable)
			}
		}
		// The admin server listens on every address of the container, at its port.
		_, port, err := net.SplitHostPort(known["JOBTRAIL_ADMIN_ADDR"])
		if err != nil {
			t.Fatalf("%s: JOBTRAIL_ADMIN_ADDR is %q by default: %v", name, known["JOBTRAIL_ADMIN_ADDR"], err)
		}
		if got := *s.Environment["JOBTRAIL_ADMIN_ADDR"]; got != "0.0.0.0:"+port {
			t.Errorf("%s: JOBTRAIL_ADMIN_ADDR is %s, want port %s", name, got, port)
		}
		if ports := portsOf(t, s); len(ports) != 1 || ports[port] != port {
			t.Errorf("%s: published %v, want %s", name, ports, port)
		}
		if grace, err := time.ParseDuration(known["JOBTRAIL_GRACE"]); err == nil && time.Duration(*s.StopGracePeriod) <= grace {
			t.Errorf("%s is killed after %s, and may drain for %s", name, time.Duration(*s.StopGracePeriod), grace)
		}
	}
	checkWorker(t, project, filepath.Join(dir, "worker"))
}

// checkStatic fails the test when a program needs a loader: the image has none.
func checkStatic(t *testing.T, program string) {
	t.Helper()
	f, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			t.Errorf("%s is not static", filepath.Base(program))
		}
	}
}

// checkWorker has the worker check its environment and its jobs file, as they
// are mounted.
func checkWorker(t *testing.T, project *types.Project, program string) {
	t.Helper()
	s := project.Services["worker"]
	cmd := exec.CommandContext(t.Context(), program, "--check")
	cmd.Env = []string{}
	for name, value := range s.Environment {
		text := *value
		for _, v := range s.Volumes {
			if v.Target == text {
				text = v.Source
			}
		}
		if name == "JOBTRAIL_JOBS_FILE" && text == *value {
			t.Errorf("no mount has the jobs file %s", text)
		}
		cmd.Env = append(cmd.Env, name+"="+text)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("worker --check: %v\n%s", err, out)
	}
	for name, s := range project.Services {
		for _, v := range s.Volumes {
			if _, err := os.Stat(v.Source); v.Type == types.VolumeTypeBind && err != nil {
				t.Errorf("%s mounts what is not there: %v", name, err)
			}
			if _, ok := project.Volumes[v.Source]; v.Type == types.VolumeTypeVolume && !ok {
				t.Errorf("%s mounts volume %s, which is not declared", name, v.Source)
			}
		}
	}
}

// The one-shot service makes the topics of the group and the jobs file.
func TestComposeMakesTheTopics(t *testing.T) {
	project := loadCompose(t)
	s := project.Services["topics"]
	var parsed cli
	parser, err := kong.New(&parsed, kong.Vars{"tiers": "0s"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parser.Parse(s.Command); err != nil {
		t.Fatalf("%v: %v", s.Command, err)
	}
	req, err := parsed.Topics.Apply.request()
	if err != nil {
		t.Fatal(err)
	}
	if group := *project.Services["worker"].Environment["JOBTRAIL_GROUP"]; req.Topology.Group != group || *project.Services["projector"].Environment["JOBTRAIL_GROUPS"] != group {
		t.Errorf("topics of group %s, a worker of group %s", req.Topology.Group, group)
	}
	jobs, err := os.ReadFile("../../docs/examples/jobs.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if want := "topics: [" + strings.Join(req.Topology.Jobs, ", ") + "]"; !strings.Contains(string(jobs), want) {
		t.Errorf("the jobs file does not say %s", want)
	}
	if s.Build == nil || s.Build.Target != "cli" {
		t.Errorf("it is built as %+v", s.Build)
	}
}

// TestDockerfile holds the image to what the commands need.
func TestDockerfile(t *testing.T) {
	file, err := os.ReadFile("../../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindSubmatch(mod)
	last := string(file)[strings.LastIndex(string(file), "\nFROM "):]
	for _, want := range []string{"FROM golang:" + string(version[1]) + " AS build", "CGO_ENABLED=0 go build", "./cmd/worker ./cmd/projector ./cmd/jobtrail"} {
		if !strings.Contains(string(file), want) {
			t.Errorf("no %q in the Dockerfile", want)
		}
	}
	for _, want := range []string{"FROM scratch", "USER 65532:65532", "ca-certificates.crt", "/out/worker /out/projector /"} {
		if !strings.Contains(last, want) {
			t.Errorf("no %q in the last stage:\n%s", want, last)
		}
	}
}
