// Package machine defines state machines as tables of legal moves. A table is data:
// tests examine it (machinetest), diagrams are drawn from it, and Next returns the next
// state. It never acts.
//
// The package is pure and uses the standard library only.
package machine

import "slices"

// A State is one state of a machine, spelled as its specification spells it.
type State string

// An Event is what may happen to a machine. Guards are not part of a table:
// the caller judges the facts into an event first.
type Event string

// A Table holds the legal moves, state by state and event by event. Written as
// a Go map literal keyed by constants, a state that handles an event twice does
// not compile.
type Table map[State]map[Event]State

// A Machine is one lifecycle as data. It is read only: the methods may be called
// from any number of goroutines.
type Machine struct {
	Name     string  // "job", "step", ...
	Doc      string  // one line: what the machine describes
	Create   Event   // the event of the first audit row, from nothing to Initial
	Initial  State   // the state an instance is created in
	States   []State // every state, in the order of the specification
	Ends     []State // states in which an instance has ended
	Resident bool    // whether the machine is meant to have no end
	Table    Table
}

// Next returns the state that event leads to from the state from, or a
// *Refusal (K3).
func (m *Machine) Next(from State, event Event) (State, error) {
	if to, ok := m.Table[from][event]; ok {
		return to, nil
	}
	return "", m.refuse(from, event)
}

func (m *Machine) refuse(from State, event Event) *Refusal {
	return &Refusal{
		Machine: m.Name,
		State:   from,
		Event:   event,
		Allowed: m.Allowed(from),
		Already: m.leadsTo(event, from),
		Unknown: !m.Has(from),
		Final:   m.Has(from) && !m.leaves(from),
	}
}

// leaves reports whether some event leads from s to another state.
func (m *Machine) leaves(s State) bool {
	for _, to := range m.Table[s] {
		if to != s {
			return true
		}
	}
	return false
}

// leadsTo reports whether event leads to the state s from some other state.
func (m *Machine) leadsTo(event Event, s State) bool {
	for from, row := range m.Table {
		if to, ok := row[event]; ok && to == s && from != s {
			return true
		}
	}
	return false
}

// Allowed returns the events that are legal in state s, sorted.
func (m *Machine) Allowed(s State) []Event {
	events := make([]Event, 0, len(m.Table[s]))
	for e := range m.Table[s] {
		events = append(events, e)
	}
	slices.Sort(events)
	return events
}

// Events returns every event of the table, the creation excluded, sorted.
func (m *Machine) Events() []Event {
	var events []Event
	for _, row := range m.Table {
		for e := range row {
			events = append(events, e)
		}
	}
	slices.Sort(events)
	return slices.Compact(events)
}

// A Transition is one row of a table.
type Transition struct {
	From  State `json:"from"` // empty for the creation
	Event Event `json:"event"`
	To    State `json:"to"`
}

// Transitions returns the rows of the table, the creation excluded: the states
// in their order, each one's events sorted. Rows of states that the machine does
// not list are left out.
func (m *Machine) Transitions() []Transition {
	var rows []Transition
	for _, from := range m.States {
		for _, event := range m.Allowed(from) {
			rows = append(rows, Transition{from, event, m.Table[from][event]})
		}
	}
	return rows
}

// creation is the row of the first audit entry, from nothing.
func (m *Machine) creation() Transition { return Transition{Event: m.Create, To: m.Initial} }

// Has reports whether s is a state of the machine.
func (m *Machine) Has(s State) bool { return slices.Contains(m.States, s) }

// Ended reports whether an instance in state s has ended.
func (m *Machine) Ended(s State) bool { return slices.Contains(m.Ends, s) }
