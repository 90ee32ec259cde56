// Package machinetest examines machines: a table is data, so its faults can be
// found without running anything (K2). It is for tests.
package machinetest

import (
	"fmt"
	"regexp"
	"slices"
	"testing"

	"github.com/pawl-dev/pawl/machine"
)

// Check reports every fault that Examine finds in m as an error of t.
func Check(t testing.TB, m *machine.Machine) {
	t.Helper()
	for _, err := range Examine(m) {
		t.Error(err)
	}
}

// Examine returns the faults of m, none if it is sound. Each one names the machine and
// the culprit. A state that handles an event twice is not among them: as a map literal,
// it does not compile.
func Examine(m *machine.Machine) []error {
	e := &examination{m: m}
	e.names()
	e.states()
	e.rows()
	e.reach()
	e.lives()
	return e.faults
}

type examination struct {
	m      *machine.Machine
	faults []error
}

func (e *examination) fault(format string, args ...any) {
	e.faults = append(e.faults, fmt.Errorf("machine %s: "+format, append([]any{e.m.Name}, args...)...))
}

// word matches names that need no quotes in diagrams, SQL and URLs.
var word = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]*$`)

func (e *examination) names() {
	if !word.MatchString(e.m.Name) {
		e.fault("name %q: want letters, digits and underscores", e.m.Name)
	}
	if e.m.Doc == "" {
		e.fault("has no doc line")
	}
	if !word.MatchString(string(e.m.Create)) {
		e.fault("create %q: want letters, digits and underscores", e.m.Create)
	}
	for _, s := range e.m.States {
		if !word.MatchString(string(s)) {
			e.fault("state %q: want letters, digits and underscores", s)
		}
	}
	for _, event := range e.m.Events() {
		if !word.MatchString(string(event)) {
			e.fault("event %q: want letters, digits and underscores", event)
		}
	}
}

// states checks the states that the machine names against its list of states.
func (e *examination) states() {
	for i, s := range e.m.States {
		if slices.Contains(e.m.States[:i], s) {
			e.fault("state %s is listed twice", s)
		}
	}
	for i, s := range e.m.Ends {
		if !e.m.Has(s) {
			e.fault("end %s is not a state", s)
		}
		if slices.Contains(e.m.Ends[:i], s) {
			e.fault("end %s is listed twice", s)
		}
	}
	if !e.m.Has(e.m.Initial) {
		e.fault("initial %q is not a state", e.m.Initial)
	}
	if e.m.Ended(e.m.Initial) {
		e.fault("initial %s is an end", e.m.Initial)
	}
	if len(e.m.Ends) == 0 && !e.m.Resident {
		e.fault("has no ends and is not resident")
	}
}

// rows checks each row of the table, including those of unlisted states.
func (e *examination) rows() {
	for _, from := range sources(e.m) {
		if !e.m.Has(from) {
			e.fault("the table has rows for %s, which is not a state", from)
		}
		for _, event := range e.m.Allowed(from) {
			e.row(machine.Transition{From: from, Event: event, To: e.m.Table[from][event]})
		}
	}
}

func (e *examination) row(t machine.Transition) {
	if !e.m.Has(t.To) {
		e.fault("%s -%s-> %s leads to what is not a state", t.From, t.Event, t.To)
	}
	if t.Event == e.m.Create {
		e.fault("%s -%s-> %s has the event of the creation", t.From, t.Event, t.To)
	}
	if e.m.Ended(t.From) && !e.m.Ended(t.To) {
		e.fault("%s -%s-> %s leads out of an end", t.From, t.Event, t.To)
	}
}

// reach finds the states that no instance can reach.
func (e *examination) reach() {
	reached := closure([]machine.State{e.m.Initial}, forward(e.m))
	for _, s := range e.m.States {
		if !reached[s] {
			e.fault("state %s cannot be reached from %s", s, e.m.Initial)
		}
	}
}

// lives finds the states from which an instance cannot reach an end. A resident machine
// needs none, but none of its states may be a trap.
func (e *examination) lives() {
	ending := closure(e.m.Ends, backward(e.m))
	for _, s := range e.m.States {
		switch {
		case e.m.Resident && !e.m.Ended(s) && !leaves(e.m, s):
			e.fault("state %s cannot be left", s)
		case !e.m.Resident && !ending[s]:
			e.fault("state %s has no way to an end", s)
		}
	}
}

// leaves reports whether some event leads from s to another state.
func leaves(m *machine.Machine, s machine.State) bool {
	for _, to := range m.Table[s] {
		if to != s {
			return true
		}
	}
	return false
}

// sources returns the states that the table has rows for, sorted.
func sources(m *machine.Machine) []machine.State {
	var from []machine.State
	for s := range m.Table {
		from = append(from, s)
	}
	slices.Sort(from)
	return from
}

type edges map[machine.State][]machine.State

func forward(m *machine.Machine) edges {
	next := edges{}
	for from, row := range m.Table {
		for _, to := range row {
			next[from] = append(next[from], to)
		}
	}
	return next
}

func backward(m *machine.Machine) edges {
	next := edges{}
	for from, row := range m.Table {
		for _, to := range row {
			next[to] = append(next[to], from)
		}
	}
	return next
}

// closure returns the states that can be reached from start, including start.
func closure(start []machine.State, next edges) map[machine.State]bool {
	seen := map[machine.State]bool{}
	todo := slices.Clone(start)
	for len(todo) > 0 {
		s := todo[0]
		todo = todo[1:]
		if !seen[s] {
			seen[s] = true
			todo = append(todo, next[s]...)
		}
	}
	return seen
}
