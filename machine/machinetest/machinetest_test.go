package machinetest_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/machine/machinetest"
)

// sound is a machine without faults; each case of TestExamine spoils one.
func sound() *machine.Machine {
	return &machine.Machine{
		Name:    "door",
		Doc:     "a door",
		Create:  "build",
		Initial: "open",
		States:  []machine.State{"open", "shut", "walled"},
		Ends:    []machine.State{"walled"},
		Table: machine.Table{
			"open": {"close": "shut"},
			"shut": {"open": "open", "wall": "walled", "knock": "shut"},
		},
	}
}

// K2: each planted fault is found, and the error names the culprit.
func TestExamine(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		spoil func(m *machine.Machine)
		want  []string
	}{
		{"sound", func(*machine.Machine) {}, nil},
		{"bad name", func(m *machine.Machine) { m.Name = "a door" },
			[]string{`machine a door: name "a door": want letters, digits and underscores`}},
		{"no doc", func(m *machine.Machine) { m.Doc = "" },
			[]string{"machine door: has no doc line"}},
		{"no create", func(m *machine.Machine) { m.Create = "" },
			[]string{`machine door: create "": want letters, digits and underscores`}},
		{"bad event", func(m *machine.Machine) { m.Table["open"]["slam-it"] = "shut" },
			[]string{`machine door: event "slam-it": want letters, digits and underscores`}},
		{"bad state", func(m *machine.Machine) {
			m.States[2], m.Ends[0], m.Table["shut"]["wall"] = "walled up", "walled up", "walled up"
		}, []string{`machine door: state "walled up": want letters, digits and underscores`}},
		{"state twice", func(m *machine.Machine) { m.States = append(m.States, "shut") },
			[]string{"machine door: state shut is listed twice"}},
		{"end twice", func(m *machine.Machine) { m.Ends = append(m.Ends, "walled") },
			[]string{"machine door: end walled is listed twice"}},
		{"end is no state", func(m *machine.Machine) { m.Ends = append(m.Ends, "burnt") },
			[]string{"machine door: end burnt is not a state"}},
		{"no ends", func(m *machine.Machine) { m.Ends = nil }, []string{
			"machine door: has no ends and is not resident",
			"machine door: state open has no way to an end",
			"machine door: state shut has no way to an end",
			"machine door: state walled has no way to an end",
		}},
		{"initial unknown", func(m *machine.Machine) { m.Initial = "ajar" }, []string{
			`machine door: initial "ajar" is not a state`,
			"machine door: state open cannot be reached from ajar",
			"machine door: state shut cannot be reached from ajar",
			"machine door: state walled cannot be reached from ajar",
		}},
		{"initial is an end", func(m *machine.Machine) { m.Ends = []machine.State{"open", "shut", "walled"} },
			[]string{"machine door: initial open is an end"}},
		{"rows of an unknown state", func(m *machine.Machine) {
			m.Table["ajar"] = map[machine.Event]machine.State{"push": "open"}
		}, []string{"machine door: the table has rows for ajar, which is not a state"}},
		{"unknown target", func(m *machine.Machine) { m.Table["open"]["burn"] = "burnt" },
			[]string{"machine door: open -burn-> burnt leads to what is not a state"}},
		{"created again", func(m *machine.Machine) { m.Table["shut"]["build"] = "open" },
			[]string{"machine door: shut -build-> open has the event of the creation"}},
		{"out of an end", func(m *machine.Machine) {
			m.Table["walled"] = map[machine.Event]machine.State{"break": "open"}
		}, []string{"machine door: walled -break-> open leads out of an end"}},
		{"from end to end", func(m *machine.Machine) {
			m.States, m.Ends = append(m.States, "rubble"), append(m.Ends, "rubble")
			m.Table["walled"] = map[machine.Event]machine.State{"break": "rubble"}
		}, nil},
		{"unreachable", func(m *machine.Machine) {
			m.States = append(m.States, "ajar")
			m.Table["ajar"] = map[machine.Event]machine.State{"push": "open"}
		}, []string{"machine door: state ajar cannot be reached from open"}},
		{"no way to an end", func(m *machine.Machine) {
			m.States = append(m.States, "stuck")
			m.Table["open"]["jam"] = "stuck"
			m.Table["stuck"] = map[machine.Event]machine.State{"knock": "stuck"}
		}, []string{"machine door: state stuck has no way to an end"}},
		{"resident without an end", func(m *machine.Machine) {
			m.Resident, m.Ends, m.States = true, nil, m.States[:2]
			delete(m.Table["shut"], "wall")
		}, nil},
		{"resident with a trap", func(m *machine.Machine) { m.Resident, m.Ends = true, nil },
			[]string{"machine door: state walled cannot be left"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := sound()
			tt.spoil(m)
			var got []string
			for _, err := range machinetest.Examine(m) {
				got = append(got, err.Error())
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Examine (-want +got):\n%s", diff)
			}
		})
	}
}

// K2: Check fails the test it is given, once for each fault.
func TestCheckReports(t *testing.T) {
	t.Parallel()
	m := sound()
	m.Doc, m.Initial = "", "ajar"
	tb := &recorder{}
	machinetest.Check(tb, m)
	if want := len(machinetest.Examine(m)); tb.errors != want || want < 2 {
		t.Errorf("Check reported %d faults, want %d", tb.errors, want)
	}
}

type recorder struct {
	testing.TB
	errors int
}

func (r *recorder) Helper()      {}
func (r *recorder) Error(...any) { r.errors++ }

// K2: a state that handles an event twice is an error of the compiler that names
// the event, constants of equal spelling included.
func TestAnswersTwice(t *testing.T) {
	t.Parallel()
	const source = `package p
const (open = "open"; alsoOpen = "open")
var table = map[string]map[string]string{"shut": {open: "a", alsoOpen: "b"}}`
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "p.go", source, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = (&types.Config{}).Check("p", fset, []*ast.File{file}, nil)
	if err == nil || !strings.Contains(err.Error(), "duplicate key \"open\"") {
		t.Errorf("type check: %v, want a duplicate key", err)
	}
}

// Reachability is checked against a dumb twin that walks every path of length up
// to the number of states.
func TestExamineAgainstTwin(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := randomMachine(t)
		var want []string
		for _, s := range m.States {
			if !walks(m, m.Initial, []machine.State{s}) {
				want = append(want, fmt.Sprintf("machine random: state %s cannot be reached from %s", s, m.Initial))
			}
		}
		for _, s := range m.States {
			if !walks(m, s, m.Ends) {
				want = append(want, fmt.Sprintf("machine random: state %s has no way to an end", s))
			}
		}
		var got []string
		for _, err := range machinetest.Examine(m) {
			got = append(got, err.Error())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("Examine (-want +got):\n%s", diff)
		}
	})
}

// walks reports whether some path leads from s to one of the targets.
func walks(m *machine.Machine, s machine.State, targets []machine.State) bool {
	at := []machine.State{s}
	for range m.States {
		for _, from := range slices.Clone(at) {
			for _, to := range m.Table[from] {
				at = append(at, to)
			}
		}
		slices.Sort(at)
		at = slices.Compact(at)
	}
	return slices.ContainsFunc(at, func(s machine.State) bool { return slices.Contains(targets, s) })
}

// randomMachine has faults in reachability only.
func randomMachine(t *rapid.T) *machine.Machine {
	m := &machine.Machine{Name: "random", Doc: "d", Create: "new", Initial: "s0", Table: machine.Table{}}
	n := rapid.IntRange(2, 7).Draw(t, "states")
	for i := range n {
		m.States = append(m.States, machine.State(fmt.Sprintf("s%d", i)))
	}
	m.Ends = m.States[n-1:]
	for _, from := range m.States[:n-1] {
		m.Table[from] = map[machine.Event]machine.State{}
		for i, to := range rapid.SliceOfN(rapid.SampledFrom(m.States), 0, 2).Draw(t, string(from)) {
			m.Table[from][machine.Event(fmt.Sprintf("e%d", i))] = to
		}
	}
	return m
}
