package events

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var writeDocs = flag.Bool("docs.write", false, "write the generated part of docs/state-machine.md")

var (
	openStates  = []State{StatePending, StateRunning, StateDeciding, StateRetryWaiting, StateParked}
	finalStates = []State{StateSucceeded, StateFailed, StateCancelled, StateExpired, StateErased}
	allStates   = append(append([]State{0}, openStates...), finalStates...)
)

// step is an edge of the state machine.
type step struct {
	from State
	by   Type
}

// attempt asks Apply whether an event of type t, sound in everything else, may
// lead from one state to another.
func attempt(from State, t Type, to State) bool {
	j := Job{Run: 3, Version: 7, State: from, Number: 2}
	if from == 0 {
		j = Job{}
	}
	_, err := j.Apply(following(j, t, to))
	return err == nil
}

// following returns the event of type t that would lead j to a state.
func following(j Job, t Type, to State) *Event {
	e := &Event{Run: j.Run, Version: j.Version + 1, State: to, Number: j.Number, Body: newBody(t)}
	if j.Run == 0 {
		e.Run = 1
	}
	switch b := e.Body.(type) {
	case *AttemptStarted:
		e.Number++
	case *AttemptFinished:
		b.Outcome = OutcomeFailed
		if to == StateRetryWaiting {
			b.Next = Next{RetryAt: 1, Tier: "t"}
		}
	case *JobTerminal:
		for o := TerminalSucceeded; o <= TerminalErased; o++ {
			if o.FinalState() == to {
				b.Outcome = o
			}
		}
	case *JobRedriven:
		e.Run, e.Version, e.Number = j.Run+1, 1, 0
		if j.Run == 0 {
			e.Run = 2
		}
	}
	return e
}

// machine returns every edge that Apply allows.
func machine() map[step][]State {
	m := make(map[step][]State)
	for _, from := range allStates {
		for t := TypeUnknown; t <= TypeDedupPage; t++ {
			for _, to := range allStates {
				if attempt(from, t, to) {
					m[step{from, t}] = append(m[step{from, t}], to)
				}
			}
		}
	}
	return m
}

func names(states []State) string {
	if len(states) == 0 {
		return "-"
	}
	var s []string
	for _, x := range states {
		s = append(s, x.String())
	}
	return strings.Join(s, " ")
}

func readGolden(t testing.TB) []string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", "transitions.txt"))
	if err != nil {
		t.Fatalf("reading the golden table: %v", err)
	}
	return strings.Split(strings.TrimSpace(string(raw)), "\n")
}

// TestTransitionsAreTheGoldenOnes holds every state, event type and target
// state against the table, which is kept by hand.
func TestTransitionsAreTheGoldenOnes(t *testing.T) {
	m := machine()
	var got []string
	for _, from := range allStates {
		for typ := TypeUnknown; typ <= TypeDedupPage; typ++ {
			got = append(got, fmt.Sprintf("%-13s  %-19s  %s", from, typ, names(m[step{from, typ}])))
		}
	}
	golden := readGolden(t)
	if len(golden) != len(got) {
		t.Errorf("the table has %d lines, the machine %d", len(golden), len(got))
	}
	for i, line := range got {
		if i >= len(golden) || golden[i] != line {
			t.Errorf("line %d is now %q", i+1, line)
		}
	}
}

// goldenMachine reads the table back: what Apply is held against.
func goldenMachine(t testing.TB) map[step][]State {
	byName := make(map[string]State)
	for _, s := range allStates {
		byName[s.String()] = s
	}
	m := make(map[step][]State)
	for _, line := range readGolden(t) {
		f := strings.Fields(line)
		at := step{from: byName[f[0]], by: Type(slices.Index(typeNames[:], f[1]))}
		for _, to := range f[2:] {
			if to != "-" {
				m[at] = append(m[at], byName[to])
			}
		}
	}
	return m
}

// TestApplyKeepsItsPromises folds random events, most of them fitting in some
// respect, and holds every answer against the golden table and a count by hand.
func TestApplyKeepsItsPromises(t *testing.T) {
	golden := goldenMachine(t)
	accepted, refused := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		var j Job
		var versions, starts uint32
		var ended State
		for range rapid.IntRange(1, 30).Draw(t, "events") {
			typ := Type(rapid.IntRange(0, int(TypeDedupPage)).Draw(t, "type"))
			to := rapid.SampledFrom(allStates).Draw(t, "to")
			if rapid.IntRange(0, 3).Draw(t, "legal") > 0 {
				var next []step
				for s := range golden {
					if s.from == j.State {
						next = append(next, s)
					}
				}
				if len(next) > 0 {
					slices.SortFunc(next, func(a, b step) int { return int(a.by) - int(b.by) })
					s := rapid.SampledFrom(next).Draw(t, "step")
					typ, to = s.by, rapid.SampledFrom(golden[s]).Draw(t, "to")
				}
			}
			e := following(j, typ, to)
			sound := true
			switch rapid.IntRange(0, 11).Draw(t, "fault") {
			case 0:
				e.Version = 0
			case 1:
				e.Version += rapid.Uint32Range(1, 3).Draw(t, "hole")
				sound = false
			case 2:
				e.Version = rapid.Uint32Range(0, e.Version-1).Draw(t, "stale")
				sound = e.Version == 0
			case 3:
				e.Number += rapid.Uint32Range(1, 3).Draw(t, "number")
				sound = false
			case 4:
				e.Run += rapid.Uint32Range(1, 3).Draw(t, "run")
				sound = false
			}
			next, err := j.Apply(e)
			switch {
			case e.Version == 0:
				if err != nil || next != j {
					t.Fatalf("a fact changes %+v to %+v: %v", j, next, err)
				}
				continue
			case err != nil:
				refused++
				if _, ok := errors.AsType[*TransitionError](err); !ok || next != j {
					t.Fatalf("refusing changes %+v to %+v: %v", j, next, err)
				}
				if sound && slices.Contains(golden[step{j.State, typ}], to) {
					t.Fatalf("%+v refuses %v to %v: %v", j, typ, to, err)
				}
				continue
			}
			accepted++
			if j.Run != 0 && !sound || !slices.Contains(golden[step{j.State, typ}], to) {
				t.Fatalf("%+v takes %v to %v with version %d, number %d, run %d", j, typ, to, e.Version, e.Number, e.Run)
			}
			if typ == TypeJobRedriven {
				versions, starts, ended = 0, 0, 0
			}
			if ended != 0 {
				t.Fatalf("%v follows the terminal state %v", typ, ended)
			}
			versions++
			if typ == TypeAttemptStarted {
				starts++
			}
			if next.State.Final() {
				ended = next.State
			}
			if next.Version != versions || next.Number != starts || next.State != to || next.Run != e.Run {
				t.Fatalf("%+v after %d versions and %d starts to %v", next, versions, starts, to)
			}
			if next.State.Open() == next.State.Final() {
				t.Fatalf("%v is open %v and final %v", next.State, next.State.Open(), next.State.Final())
			}
			j = next
		}
	})
	if accepted < 100 || refused < 100 {
		t.Errorf("%d events were accepted and %d refused: the test says too little", accepted, refused)
	}
}

// TestApplyRefusesContradictions has what the table cannot show: events that
// contradict themselves.
func TestApplyRefusesContradictions(t *testing.T) {
	running := Job{Run: 1, Version: 1, State: StateRunning, Number: 1}
	deciding := Job{Run: 1, Version: 2, State: StateDeciding, Number: 1}
	finished := func(b AttemptFinished, to State) *Event {
		return &Event{Run: 1, Version: 2, State: to, Number: 1, Body: &b}
	}
	next := Next{RetryAt: 1, Tier: "t"}
	for _, c := range []struct {
		name string
		job  Job
		e    *Event
		why  string
	}{
		{"success retried", running, finished(AttemptFinished{Outcome: OutcomeSucceeded, Next: next}, StateRetryWaiting), "a success is never retried"},
		{"retry without a time", running, finished(AttemptFinished{Outcome: OutcomeFailed}, StateRetryWaiting), "a retry is announced"},
		{"decision with a retry", running, finished(AttemptFinished{Outcome: OutcomeFailed, Next: next}, StateDeciding), "a retry is announced"},
		{"late with a version", running, finished(AttemptFinished{Outcome: OutcomeFailed, Late: true}, StateDeciding), "a late outcome is a fact"},
		{"failed outcome, succeeded state", deciding, &Event{Run: 1, Version: 3, State: StateSucceeded, Number: 1, Body: &JobTerminal{Outcome: TerminalFailed}}, "does not fit the state"},
		{"unknown outcome", deciding, &Event{Run: 1, Version: 3, State: StateFailed, Number: 1, Body: &JobTerminal{Outcome: 99}}, "does not fit the state"},
		{"start that is not counted", Job{}, &Event{Run: 1, Version: 1, State: StateRunning, Body: &AttemptStarted{}}, "1 attempts were started, not 0"},
		{"no run", Job{}, &Event{Version: 1, State: StateRunning, Number: 1, Body: &AttemptStarted{}}, "runs count from 1"},
		{"first version missing", Job{}, &Event{Run: 1, Version: 2, State: StateRunning, Number: 1, Body: &AttemptStarted{}}, "the next version is 1"},
		{"first run redriven", Job{}, &Event{Run: 1, Version: 1, State: StatePending, Body: &JobRedriven{}}, "a run after the first"},
		{"redrive of an old run", Job{Run: 2, Version: 4, State: StateFailed}, &Event{Run: 2, Version: 1, State: StatePending, Body: &JobRedriven{}}, "the next run is 3"},
		{"other run", running, &Event{Run: 2, Version: 2, State: StateDeciding, Number: 1, Body: &AttemptFinished{}}, "the event is of run 2"},
		{"no body", running, &Event{Run: 1, Version: 2, State: StateDeciding, Number: 1}, "forbids"},
	} {
		j, err := c.job.Apply(c.e)
		if err == nil || !strings.Contains(err.Error(), c.why) || j != c.job {
			t.Errorf("%s: %+v, %v", c.name, j, err)
		}
	}
}

// diagram renders the machine for people: a flow chart in which an event that
// leads from every open state to the same state is drawn once.
func diagram() string {
	m := machine()
	targets := make(map[Type]map[State][]State) // by event and target: the sources
	for s, tos := range m {
		for _, to := range tos {
			if targets[s.by] == nil {
				targets[s.by] = make(map[State][]State)
			}
			if s.from != 0 {
				targets[s.by][to] = append(targets[s.by][to], s.from)
			}
		}
	}
	var b strings.Builder
	b.WriteString("flowchart LR\n    published((published)) --> pending\n    subgraph open\n        direction LR\n")
	var inner, outer []string
	for _, t := range slices.Sorted(maps.Keys(targets)) {
		for _, to := range slices.Sorted(maps.Keys(targets[t])) {
			from := targets[t][to]
			slices.Sort(from)
			if slices.Equal(from, openStates) {
				outer = append(outer, fmt.Sprintf("open -->|%s| %s", t, to))
				continue
			}
			for _, s := range from {
				line := fmt.Sprintf("%s -->|%s| %s", s, t, to)
				if s.Open() && to.Open() {
					inner = append(inner, line)
				} else {
					outer = append(outer, line)
				}
			}
		}
	}
	for _, line := range inner {
		b.WriteString("        " + line + "\n")
	}
	b.WriteString("    end\n")
	for _, line := range outer {
		b.WriteString("    " + line + "\n")
	}
	return b.String()
}

// transitionTable lists the edges for people.
func transitionTable() string {
	m := machine()
	var b strings.Builder
	b.WriteString("| from | event | to |\n|---|---|---|\n")
	for _, from := range allStates[1:] {
		for t := TypeUnknown; t <= TypeDedupPage; t++ {
			if tos := m[step{from, t}]; len(tos) > 0 {
				fmt.Fprintf(&b, "| %s | %s | %s |\n", from, t, strings.ReplaceAll(names(tos), " ", ", "))
			}
		}
	}
	return b.String()
}

// TestDocsShowTheStateMachine holds docs/state-machine.md against Apply. Run it
// with -docs.write after a change of the machine.
func TestDocsShowTheStateMachine(t *testing.T) {
	const begin, end = "<!-- state machine -->\n", "<!-- end -->"
	file := filepath.Join("..", "..", "docs", "state-machine.md")
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(raw), begin)
	_, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no part between %q and %q", file, begin, end)
	}
	want := head + begin + "```mermaid\n" + diagram() + "```\n\n" + transitionTable() + end + tail
	if string(raw) == want {
		return
	}
	if !*writeDocs {
		t.Fatalf("%s does not show the state machine as it is: run go test ./pkg/events -run TestDocsShowTheStateMachine -docs.write", file)
	}
	if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}
