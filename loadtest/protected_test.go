package loadtest_test

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// unprotectedVariable names, to a worker built with the tag unprotected, the
// protection that it lacks: see pkg/worker/unprotected.go.
const unprotectedVariable = "JOBTRAIL_UNPROTECTED"

// lack is a protection that a hard case needs.
type lack struct {
	protection string // by its name in pkg/worker/unprotected.go
	shows      string // matches what the case then finds wrong
}

// protected runs a hard case with the worker as it is, when it must pass, and
// once more without each of the protections that it is about: then it must find
// something wrong, and among that what the lack is known by. A case gives the
// name of the protection to its groups, as group.lack; it is empty where nothing
// lacks.
func protected(t *testing.T, hard func(t testing.TB, lack string), lacks ...lack) {
	t.Helper()
	t.Run("protected", func(t *testing.T) {
		t.Parallel()
		defer within(t, t.Name())()
		hard(t, "")
	})
	for _, l := range lacks {
		t.Run("but "+l.protection, func(t *testing.T) {
			t.Parallel()
			defer within(t, t.Name())()
			v := &verdict{TB: t}
			v.judge(func() { hard(v, l.protection) })
			wrong := v.all()
			found := len(wrong)
			shown := regexp.MustCompile(l.shows).FindString(strings.Join(wrong, "\n"))
			switch {
			case found == 0:
				t.Errorf("%s, and nothing is found wrong", l.protection)
			case shown == "":
				t.Errorf("%s, but what is found wrong does not say so (%s):\n%s", l.protection, l.shows, strings.Join(wrong[:min(found, 20)], "\n"))
			default:
				t.Logf("%d findings, among them: %s", found, shown)
			}
		})
	}
}

// verdict is a test that keeps what is found wrong, and does not fail.
type verdict struct {
	testing.TB

	mu    sync.Mutex
	wrong []string
}

// judge runs a case to its end, which may be a call of Fatal.
func (v *verdict) judge(hard func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		hard()
	}()
	<-done
}

func (v *verdict) all() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return append([]string(nil), v.wrong...)
}

func (v *verdict) keep(text string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.wrong = append(v.wrong, strings.TrimSuffix(text, "\n"))
}

func (v *verdict) Error(args ...any)            { v.keep(fmt.Sprintln(args...)) }
func (v *verdict) Errorf(f string, args ...any) { v.keep(fmt.Sprintf(f, args...)) }
func (v *verdict) Fatal(args ...any)            { v.Error(args...); runtime.Goexit() }
func (v *verdict) Fatalf(f string, args ...any) { v.Errorf(f, args...); runtime.Goexit() }
func (v *verdict) Fail()                        { v.keep("failed") }
func (v *verdict) FailNow()                     { v.Fail(); runtime.Goexit() }
func (v *verdict) Failed() bool                 { return v.TB.Failed() || len(v.all()) > 0 }

// TestWorkerHasNoSwitch holds that only the tests' build of the worker can lack
// a protection.
func TestWorkerHasNoSwitch(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{"worker": false, "worker@unprotected": true} {
		program, err := os.ReadFile(built(t, name))
		if err != nil {
			t.Fatal(err)
		}
		if got := bytes.Contains(program, []byte(unprotectedVariable)); got != want {
			t.Errorf("%s knows %s: %v, wanted %v", name, unprotectedVariable, got, want)
		}
	}
}

// TestUnknownProtection holds that a name that is misspelt is no protection taken
// out: the worker does not start.
func TestUnknownProtection(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 1)
	g.lack = "gravity"
	w := newWitness(t, g)
	p := g.worker(w.jobsFile(`job: {http: {url: "URL"}}` + "\n"))
	if p.exit(30*time.Second) == 0 {
		t.Error("a worker runs that is to lack what it does not have")
	}
	p.says(`nothing is known as`, 1, 0)
}
