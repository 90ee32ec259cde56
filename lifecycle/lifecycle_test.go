package lifecycle_test

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/machine/machinetest"
)

// K2: every machine is sound.
func TestSound(t *testing.T) {
	t.Parallel()
	for _, m := range lifecycle.All() {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			machinetest.Check(t, m)
		})
	}
}

// K1: each table has the rows of its specification and no other. What is not
// listed is refused, for every pair of a state and an event (K3).
func TestTables(t *testing.T) {
	t.Parallel()
	specs := specifications()
	if len(specs) != len(lifecycle.All()) {
		t.Errorf("%d specifications for %d machines", len(specs), len(lifecycle.All()))
	}
	for _, spec := range specs {
		t.Run(spec.name, func(t *testing.T) {
			t.Parallel()
			m := lifecycle.ByName(spec.name)
			if m == nil {
				t.Fatalf("no machine %s", spec.name)
			}
			compareHead(t, m, spec)
			comparePairs(t, m, spec)
		})
	}
}

func compareHead(t *testing.T, m *machine.Machine, spec specification) {
	t.Helper()
	got := specification{
		name: m.Name, create: string(m.Create), states: words(m.States), ends: words(m.Ends), resident: m.Resident,
	}
	want := spec
	want.rows = ""
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(specification{})); diff != "" {
		t.Errorf("head (-want +got):\n%s", diff)
	}
	if string(m.Initial) != strings.Fields(spec.states)[0] {
		t.Errorf("initial %s, want the first of %s", m.Initial, spec.states)
	}
}

func words(states []machine.State) string {
	var names []string
	for _, s := range states {
		names = append(names, string(s))
	}
	return strings.Join(names, " ")
}

type pair struct {
	state machine.State
	event machine.Event
}

func comparePairs(t *testing.T, m *machine.Machine, spec specification) {
	t.Helper()
	legal, events := spec.pairs(t)
	if diff := cmp.Diff(events, m.Events()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	for _, s := range m.States {
		for _, e := range append(m.Events(), m.Create) {
			compare(t, m, pair{s, e}, legal)
		}
	}
}

func compare(t *testing.T, m *machine.Machine, p pair, legal map[pair]machine.State) {
	t.Helper()
	got, err := m.Next(p.state, p.event)
	want, ok := legal[p]
	if ok && (err != nil || got != want) {
		t.Errorf("%s -%s-> %s, %v; want %s", p.state, p.event, got, err, want)
	}
	var refusal *machine.Refusal
	if !ok && !errors.As(err, &refusal) {
		t.Errorf("%s -%s-> %s, %v; want a refusal", p.state, p.event, got, err)
	}
}

// pairs reads the rows of a specification: state, event, state.
func (s specification) pairs(t *testing.T) (map[pair]machine.State, []machine.Event) {
	t.Helper()
	legal := map[pair]machine.State{}
	var events []machine.Event
	for line := range strings.Lines(s.rows) {
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		p := pair{machine.State(f[0]), machine.Event(f[1])}
		if _, twice := legal[p]; twice || len(f) != 3 {
			t.Fatalf("specification of %s: bad row %q", s.name, line)
		}
		legal[p] = machine.State(f[2])
		events = append(events, p.event)
	}
	slices.Sort(events)
	return legal, slices.Compact(events)
}

// K3: what a refusal says, of each machine one that is final, one that has other
// events and one that is already there.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		m     *machine.Machine
		state machine.State
		event machine.Event
		want  string
	}{
		{lifecycle.Job, lifecycle.JobCompleted, lifecycle.JobResume, "job: event resume is not allowed in state COMPLETED, which is final"},
		{lifecycle.Job, lifecycle.JobCanceled, lifecycle.JobCancel, "job is already in CANCELED"},
		{lifecycle.Job, lifecycle.JobSubmitted, lifecycle.JobAllocateResources, "job: event allocate_resources is not allowed in state SUBMITTED (allowed: cancel, reject, validate)"},
		{lifecycle.Step, lifecycle.StepPending, lifecycle.StepClaim, "step: event claim is not allowed in state pending (allowed: cancel, enqueue, resolve, retry, skip)"},
		{lifecycle.Step, lifecycle.StepInProgress, lifecycle.StepClaim, "step is already in in_progress"},
		{lifecycle.Worker, lifecycle.WorkerIdle, lifecycle.WorkerPause, "worker: event pause is not allowed in state IDLE (allowed: start_task, terminate)"},
		{lifecycle.Worker, lifecycle.WorkerTerminated, lifecycle.WorkerTerminate, "worker is already in TERMINATED"},
		{lifecycle.Worker, lifecycle.WorkerFailed, lifecycle.WorkerResume, "worker: event resume is not allowed in state FAILED (allowed: terminate)"},
		{lifecycle.Service, lifecycle.ServiceRemoved, lifecycle.ServiceStart, "service: event start is not allowed in state removed, which is final"},
		{lifecycle.Service, lifecycle.ServiceRunning, lifecycle.ServiceHasStarted, "service is already in running"},
		{lifecycle.Member, lifecycle.MemberIdle, lifecycle.MemberSubmit, "member: event submit_pr is not allowed in state IDLE (allowed: assign_task)"},
		{lifecycle.Member, lifecycle.MemberFailed, lifecycle.MemberCancel, "member is already in FAILED"},
		{lifecycle.Agent, lifecycle.AgentAborted, lifecycle.AgentPing, "agent: event ping is not allowed in state ABORTED, which is final"},
		{lifecycle.Agent, lifecycle.AgentError, lifecycle.AgentConnectionLost, "agent is already in ERROR"},
	} {
		t.Run(tt.m.Name+"-"+string(tt.state)+"-"+string(tt.event), func(t *testing.T) {
			t.Parallel()
			_, err := tt.m.Next(tt.state, tt.event)
			if err == nil || err.Error() != tt.want {
				t.Errorf("error %v, want %s", err, tt.want)
			}
		})
	}
}

// K1: however the events fall, an instance stays within its machine, and nothing
// but an end follows an end.
func TestLives(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := rapid.SampledFrom(lifecycle.All()).Draw(t, "machine")
		event := rapid.OneOf(rapid.SampledFrom(m.Events()), rapid.Map(rapid.String(), func(s string) machine.Event { return machine.Event(s) }))
		at := m.Initial
		for _, e := range rapid.SliceOfN(event, 0, 50).Draw(t, "events") {
			to, err := m.Next(at, e)
			if err != nil {
				continue
			}
			if !m.Has(to) || m.Ended(at) && !m.Ended(to) {
				t.Fatalf("%s: %s -%s-> %s", m.Name, at, e, to)
			}
			at = to
		}
	})
}

func TestByName(t *testing.T) {
	t.Parallel()
	for _, m := range lifecycle.All() {
		if lifecycle.ByName(m.Name) != m {
			t.Errorf("ByName(%s) is another machine", m.Name)
		}
	}
	if m := lifecycle.ByName("nothing"); m != nil {
		t.Errorf("ByName(nothing) = %s, want nil", m.Name)
	}
}

// K1: every state and event that is declared stands in the table of its file, and
// no file declares one spelling twice.
func TestEveryNameIsUsed(t *testing.T) {
	t.Parallel()
	for _, m := range lifecycle.All() {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			states, events := declared(t, m.Name+".go")
			if diff := cmp.Diff(sorted(m.States), states); diff != "" {
				t.Errorf("states (-machine +declared):\n%s", diff)
			}
			if diff := cmp.Diff(sorted(append(m.Events(), m.Create)), events); diff != "" {
				t.Errorf("events (-machine +declared):\n%s", diff)
			}
		})
	}
}

func sorted[S ~string](names []S) []string {
	var out []string
	for _, n := range names {
		out = append(out, string(n))
	}
	slices.Sort(out)
	return out
}

// declared reads the constants of type machine.State and machine.Event.
func declared(t *testing.T, file string) (states, events []string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		kind, ok := spec.Type.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		for _, v := range spec.Values {
			name, err := strconv.Unquote(v.(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			if kind.Sel.Name == "State" {
				states = append(states, name)
			} else {
				events = append(events, name)
			}
		}
		return true
	})
	slices.Sort(states)
	slices.Sort(events)
	return states, events
}
