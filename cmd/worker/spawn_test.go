package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/jobtrail/jobtrail/internal/jobsfile"
	"github.com/jobtrail/jobtrail/pkg/events"
	"github.com/jobtrail/jobtrail/pkg/worker"
)

// errCut is the cause of a context that a shutdown ends.
var errCut = errors.New("the test shuts down")

// shell returns a runner of a shell script.
func shell(t testing.TB, script string, change ...func(*jobsfile.Exec)) *runner {
	t.Helper()
	conf := &jobsfile.Exec{Argv: []string{"/bin/sh", "-c", script}, KillAfter: 5 * time.Second}
	for _, c := range change {
		c(conf)
	}
	r, err := newRunner(conf, os.Environ(), newStarter())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(10 * time.Second); !cond(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("not within 10 s: %s", what)
		}
	}
}

// running reports whether a process is there and no zombie.
func running(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, after, _ := bytes.Cut(stat, []byte(") "))
	return len(after) > 0 && after[0] != 'Z' && after[0] != 'X'
}

// pidIn waits for a process number in a file.
func pidIn(t testing.TB, file string) (pid int) {
	t.Helper()
	eventually(t, "a process number in "+filepath.Base(file), func() bool {
		b, _ := os.ReadFile(file)
		if !bytes.HasSuffix(b, []byte("\n")) {
			return false
		}
		pid, _ = strconv.Atoi(strings.TrimSpace(string(b)))
		return pid > 0
	})
	return pid
}

func TestExitCodesAndStderr(t *testing.T) {
	table := map[int]string{65: "permanent", 3: "done", 4: "retry"}
	for _, tt := range []struct {
		name, script string
		class        events.ErrorClass // 0: done
		kind, msg    string
	}{
		{"done", "exit 0", 0, "", ""},
		{"done with noise", "echo bad >&2; echo out; exit 0", 0, "", ""},
		{"retry", "exit 75", events.ClassTransient, "exit_75", "exit code 75"},
		{"any other", "exit 1", events.ClassTransient, "exit_1", "exit code 1"},
		{"table: retry", "exit 4", events.ClassTransient, "exit_4", "exit code 4"},
		{"table: permanent", "echo no such order >&2; exit 65", events.ClassPermanent, "exit_65", "no such order"},
		{"table: done", "echo already done >&2; exit 3", 0, "", ""},
		{"last line", `printf 'first\nsecond\n\n  \n' >&2; exit 1`, events.ClassTransient, "exit_1", "second"},
		{"no newline at the end", `printf 'first\nsecond' >&2; exit 1`, events.ClassTransient, "exit_1", "second"},
		{"progress bar", `printf '10%%\r20%%\r30%%' >&2; exit 1`, events.ClassTransient, "exit_1", "30%"},
		{"Windows lines", `printf 'a\r\nb\r\n' >&2; exit 1`, events.ClassTransient, "exit_1", "b"},
		{"a line without end", `head -c 3000000 /dev/zero | tr '\0' x >&2; exit 1`, events.ClassTransient, "exit_1", strings.Repeat("x", maxLine)},
		{"much on both", `head -c 3000000 /dev/zero; yes line | head -n 300000 >&2; echo last >&2; exit 1`, events.ClassTransient, "exit_1", "last"},
		{"signal", "kill -SEGV $$", events.ClassCrash, "signal_segv", "ended by SIGSEGV"},
		{"signal with a word", "echo dying >&2; kill -KILL $$", events.ClassCrash, "signal_kill", "dying"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := shell(t, tt.script, func(e *jobsfile.Exec) { e.ExitCodes = table })
			err := r.Handle(limited(t, 20*time.Second), testJob("x"))
			if tt.class == 0 {
				if err != nil {
					t.Errorf("got %v, want nil", err)
				}
				return
			}
			wantError(t, err, tt.class, tt.kind, tt.msg)
		})
	}
}

func TestACommandIsToldAboutTheJob(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	t.Setenv("KAFKA_SASL_PASSWORD", strings.Repeat("s3", 4))
	t.Setenv("TZ", "Europe/Zurich")
	r := shell(t, `{ env | sort; pwd; cat; } > "$OUT"`, func(e *jobsfile.Exec) {
		e.Env = map[string]string{"OUT": out, "LANG": "C", "TOKEN": "x=y"}
		e.Dir = "/"
	})
	if err := r.Handle(limited(t, 10*time.Second), testJob("the\nvalue\x00\xff")); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{}
	vars := map[string]string{}
	for line := range strings.SplitSeq(string(b), "\n") {
		if name, v, ok := strings.Cut(line, "="); ok {
			vars[name] = v
			names = append(names, name)
		}
	}
	for name, want := range map[string]string{
		"JOBTRAIL_JOB_ID": "order-1/charge", "JOBTRAIL_JOB_TYPE": "charge-card", "JOBTRAIL_ATTEMPT_ID": "11111111-1111-5111-8111-111111111111", "JOBTRAIL_ATTEMPT": "3",
		"JOBTRAIL_OPERATION_ID": "op-1", "JOBTRAIL_TENANT_ID": "acme", "JOBTRAIL_STEP": "capture", "JOBTRAIL_DEADLINE": "2026-03-01T12:00:00.005Z",
		"JOBTRAIL_IDEMPOTENCY_KEY": "22222222-2222-5222-8222-222222222222", "JOBTRAIL_CONTENT_TYPE": "application/json",
		"TRACEPARENT": "00-01000000000000000000000000000000-0200000000000000-01", "TRACESTATE": "a=b", "LANG": "C", "TOKEN": "x=y", "TZ": "Europe/Zurich", "PATH": os.Getenv("PATH"),
	} {
		if vars[name] != want {
			t.Errorf("%s is %q, want %q", name, vars[name], want)
		}
	}
	known := append(slices.Clone(inherited), "OUT", "TOKEN", "TRACEPARENT", "TRACESTATE", "PWD", "SHLVL", "_", "OLDPWD")
	for _, name := range names {
		if !strings.HasPrefix(name, "JOBTRAIL_") && !slices.Contains(known, name) {
			t.Errorf("the command sees %s", name)
		}
	}
	if !strings.HasSuffix(string(b), "\n/\nthe\nvalue\x00\xff") {
		t.Errorf("directory or value: %q", b[max(0, len(b)-40):])
	}
}

func TestAValueThatIsNotReadDoesNotMatter(t *testing.T) {
	if err := shell(t, "exit 0").Handle(limited(t, 10*time.Second), testJob(strings.Repeat("x", 4<<20))); err != nil {
		t.Errorf("got %v", err)
	}
	if err := shell(t, "exec <&-; exit 0").Handle(limited(t, 10*time.Second), testJob(strings.Repeat("x", 4<<20))); err != nil {
		t.Errorf("got %v", err)
	}
	if err := shell(t, `[ "$(wc -c)" -eq 4194304 ]`).Handle(limited(t, 10*time.Second), testJob(strings.Repeat("x", 4<<20))); err != nil {
		t.Errorf("a large value was not passed whole: %v", err)
	}
}

// A command with a child is ended by the attempt's timeout, both at once.
func TestTheTimeoutEndsTheWholeGroup(t *testing.T) {
	for _, tt := range []struct {
		name, script string
		killAfter    time.Duration
		least        time.Duration
		cause        error
	}{
		{"by SIGTERM", `sleep 60 & echo $! > "$CHILD"; echo $$ > "$PARENT"; wait`, 20 * time.Second, 0, errLimit},
		{"that exits 0 on SIGTERM", `trap 'exit 0' TERM; sleep 60 & echo $! > "$CHILD"; echo $$ > "$PARENT"; wait`, 20 * time.Second, 0, errLimit},
		{"that ignores SIGTERM", `trap '' TERM; sh -c 'echo $$ > "$CHILD"; while :; do sleep 60; done' & echo $$ > "$PARENT"; while :; do sleep 60; done`, 300 * time.Millisecond, 300 * time.Millisecond, errLimit},
		{"at once", `trap '' TERM; sleep 60 & echo $! > "$CHILD"; echo $$ > "$PARENT"; wait`, 0, 0, errLimit},
		{"by a shutdown, which has less time", `trap '' TERM; sleep 60 & echo $! > "$CHILD"; echo $$ > "$PARENT"; wait`, time.Minute, cutPatience, errCut},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			child, parent := filepath.Join(dir, "child"), filepath.Join(dir, "parent")
			r := shell(t, tt.script, func(e *jobsfile.Exec) {
				e.Env, e.KillAfter = map[string]string{"CHILD": child, "PARENT": parent}, tt.killAfter
			})
			ctx, cancel := context.WithCancelCause(context.Background())
			done := make(chan error, 1)
			go func() { done <- r.Handle(ctx, testJob("")) }()
			pids := []int{pidIn(t, child), pidIn(t, parent)}
			start := time.Now()
			cancel(tt.cause)
			var err error
			select {
			case err = <-done:
			case <-time.After(10 * time.Second):
				t.Fatal("the command was not ended within 10 s")
			}
			if took := time.Since(start); took < tt.least {
				t.Errorf("SIGKILL came after %v, it should wait %v", took, tt.least)
			}
			if !errors.Is(err, tt.cause) {
				t.Errorf("got %v, want the context's cause", err)
			}
			if _, ok := errors.AsType[*worker.Error](err); ok {
				t.Errorf("%v has a class of its own, the worker must give it", err)
			}
			for _, pid := range pids {
				eventually(t, fmt.Sprintf("the end of process %d", pid), func() bool { return !running(pid) })
			}
		})
	}
}

func TestAnEndedContextStartsNothing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ran")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errLimit)
	err := shell(t, `: > "$RAN"`, func(e *jobsfile.Exec) { e.Env = map[string]string{"RAN": file} }).Handle(ctx, testJob(""))
	if _, statErr := os.Stat(file); statErr == nil || !errors.Is(err, errLimit) {
		t.Errorf("got %v; the command's file: %v", err, statErr)
	}
}

// What a command leaves behind in its group ends with it, and does not hold up
// the outcome by keeping stderr open.
func TestGrandchildrenDoNotOutliveTheAttempt(t *testing.T) {
	child := filepath.Join(t.TempDir(), "child")
	r := shell(t, `sleep 60 & echo $! > "$CHILD"; exit 0`, func(e *jobsfile.Exec) { e.Env = map[string]string{"CHILD": child} })
	if err := within(t, 5*time.Second, func() error { return r.Handle(limited(t, 30*time.Second), testJob("")) }); err != nil {
		t.Errorf("got %v", err)
	}
	pid := pidIn(t, child)
	eventually(t, "the end of the grandchild", func() bool { return !running(pid) })
}

// A process that made a session of its own survives, and holds stderr open.
func TestADaemonDoesNotHoldUpTheOutcome(t *testing.T) {
	child := filepath.Join(t.TempDir(), "child")
	r := shell(t, `setsid sh -c 'echo $$ > "$CHILD"; exec sleep 60' & while [ ! -s "$CHILD" ]; do :; done; echo failed >&2; exit 1`, func(e *jobsfile.Exec) { e.Env = map[string]string{"CHILD": child} })
	err := within(t, 5*time.Second, func() error { return r.Handle(limited(t, 30*time.Second), testJob("")) })
	wantError(t, err, events.ClassTransient, "exit_1", "failed")
	pid := pidIn(t, child)
	if !running(pid) {
		t.Error("the daemon was ended with the command's group")
	}
	_ = syscall.Kill(pid, syscall.SIGKILL)
}

// helperFile makes this test's binary run one command as a worker does; the
// command writes its process number to the file.
const helperFile = "JOBTRAIL_TEST_HELPER_FILE"

// helperSignals makes it wait for signals as a worker does.
const helperSignals = "JOBTRAIL_TEST_HELPER_SIGNALS"

func TestMain(m *testing.M) {
	if os.Getenv(helperSignals) != "" {
		ctx := untilSignal()
		fmt.Fprintln(os.Stdout, "started")
		<-ctx.Done()
		fmt.Fprintln(os.Stdout, "first signal")
		<-time.After(time.Minute)
		os.Exit(1)
	}
	if file := os.Getenv(helperFile); file != "" {
		r, err := newRunner(&jobsfile.Exec{Argv: []string{"/bin/sh", "-c", `echo $$ > "$FILE"; exec sleep 60`}, Env: map[string]string{"FILE": file}}, nil, newStarter())
		if err == nil {
			err = r.Handle(context.Background(), testJob(""))
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	// An exporter whose receiver hangs may still empty its queue when its
	// shutdown has given up: it ends by itself, on a busy machine in seconds.
	ours := goleak.IgnoreTopFunction("github.com/jobtrail/jobtrail/cmd/worker.newStarter.func1")
	var leak error
	for deadline := time.Now().Add(30 * time.Second); code == 0; {
		if leak = goleak.Find(ours); leak == nil {
			break
		}
		if time.Now().After(deadline) {
			fmt.Fprintf(os.Stderr, "goroutines are left: %v\n", leak)
			code = 1
		}
	}
	os.Exit(code)
}

func TestManyCommandsAtOnce(t *testing.T) {
	r := shell(t, `read v; echo "$v" >&2; exit 7`)
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			err := r.Handle(limited(t, 30*time.Second), testJob(fmt.Sprintf("job %d\n", i)))
			wantError(t, err, events.ClassTransient, "exit_7", fmt.Sprintf("job %d", i))
		})
	}
	wg.Wait()
}

func TestNewRunnerLooksForTheCommand(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "job.sh")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n[ \"$PWD\" = \"$WANT\" ]\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	for _, tt := range []struct {
		name string
		argv string
		dir  string
		ok   bool
	}{
		{"in PATH", "sh", "", true},
		{"absolute", script, "", true},
		{"relative to dir", "./job.sh", dir, true},
		{"not in dir", "./other.sh", dir, false},
		{"nowhere", "jobtrail-no-such-command", "", false},
		{"relative to the worker's directory", "./job.sh", "", true},
		{"relative to the worker's directory, named", "./job.sh", ".", true},
		{"not in the worker's directory", "./other.sh", "", false},
		{"a program of the worker's directory without ./", "job.sh", "", false},
	} {
		r, err := newRunner(&jobsfile.Exec{Argv: []string{tt.argv}, Dir: tt.dir, Env: map[string]string{"WANT": dir}}, os.Environ(), newStarter())
		if (err == nil) != tt.ok {
			t.Errorf("%s: got %v", tt.name, err)
		}
		if strings.HasPrefix(tt.argv, "./") && err == nil {
			if err := r.Handle(limited(t, 10*time.Second), testJob("")); err != nil {
				t.Errorf("%s: running it: %v", tt.name, err)
			}
		}
	}
	// It was there at the start.
	r, err := newRunner(&jobsfile.Exec{Argv: []string{script}}, nil, newStarter())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(script); err != nil {
		t.Fatal(err)
	}
	wantError(t, r.Handle(limited(t, 10*time.Second), testJob("")), events.ClassTransient, "exec_start", fmt.Sprintf("starting the command: fork/exec %s: no such file or directory", script))
}

func TestLastLineIsTheSameHoweverItIsCut(t *testing.T) {
	const text = "one\r\n\n two  \nthree\n\t\n"
	for cut := range len(text) {
		var l lastLine
		for _, part := range []string{text[:cut], text[cut:]} {
			if n, err := l.Write([]byte(part)); n != len(part) || err != nil {
				t.Fatalf("got %d, %v", n, err)
			}
		}
		if got := l.String(); got != "three" {
			t.Errorf("cut at %d: got %q", cut, got)
		}
	}
}

// The helper is this test's binary; it runs a command as a worker does and is
// then killed.
func TestCommandsDieWithTheWorker(t *testing.T) {
	if runtime.GOOS != "linux" {
		return // only Linux can do it, and the docs say so
	}
	file := filepath.Join(t.TempDir(), "pid")
	helper := exec.Command(os.Args[0])
	helper.Env = append(os.Environ(), helperFile+"="+file)
	if err := helper.Start(); err != nil {
		t.Fatal(err)
	}
	pid := pidIn(t, file)
	if !running(pid) {
		t.Fatal("the command does not run")
	}
	if err := helper.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = helper.Wait()
	eventually(t, "the end of the command", func() bool { return !running(pid) })
}

// endThreads ends many threads of this process, all that are idle among them:
// the runtime ends the thread of a goroutine that returns while locked to it.
func endThreads() {
	var all sync.WaitGroup
	barrier := make(chan struct{})
	for range 50 {
		all.Add(1)
		go func() {
			runtime.LockOSThread()
			all.Done()
			<-barrier
		}()
	}
	all.Wait()
	close(barrier)
}

// A command dies with the thread that started it. One that a starter started
// lives on whatever happens to other threads.
func TestCommandsOutliveTheThreadsOfTheWorker(t *testing.T) {
	if runtime.GOOS != "linux" {
		return // only there a command dies with a thread
	}
	s := newStarter()
	command := func() *exec.Cmd {
		cmd := exec.Command("sleep", "60")
		cmd.SysProcAttr = ownGroup()
		return cmd
	}
	var safe []*exec.Cmd
	for range 20 {
		cmd := command()
		if err := s.start(cmd); err != nil {
			t.Fatal(err)
		}
		safe = append(safe, cmd)
		endThreads()
	}
	// The threads do end: a command that was started on one of them is gone.
	doomed := command()
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		started <- doomed.Start()
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	_ = doomed.Wait()
	endThreads()
	for i, cmd := range safe {
		if !running(cmd.Process.Pid) {
			t.Errorf("command %d died with a thread", i)
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
}

func BenchmarkStart(b *testing.B) {
	r := shell(b, "exit 0")
	for b.Loop() {
		if err := r.Handle(context.Background(), testJob("")); err != nil {
			b.Fatal(err)
		}
	}
}
