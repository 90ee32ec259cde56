package verify

import (
	"encoding/json"
	"strings"

	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
)

// opaque reports whether the tried values may not cover all values of the
// condition of a node.
func (r *reading) opaque(node int, e *expr) bool {
	if e.names["env"] || e.names["job.id"] || e.names["job.error"] && !strings.Contains(e.text, "nil") {
		return true
	}
	for name := range e.names {
		if input, ok := strings.CutPrefix(name, "inputs."); ok && r.opaqueInput(input) && len(e.outs) == 0 {
			return true
		}
	}
	return len(e.outs) > 0 && !r.bothWays(node, e)
}

// opaqueInput reports whether some values of an input that make a difference are not
// tried.
func (r *reading) opaqueInput(name string) bool {
	s := r.shapes.inputs[name]
	for i := range r.def.Inputs {
		if in := &r.def.Inputs[i]; in.Name == name && (in.Type == workflow.TypeBoolean || len(in.Enum) > 0) {
			return false
		}
	}
	return s == nil || s.opaque || s.list || len(s.fields) > 0 || len(s.literals) == 0
}

// maxTries bounds how many combinations bothWays evaluates.
const maxTries = 200

// bothWays reports whether a condition is both true and false for the tried outputs.
func (r *reading) bothWays(node int, e *expr) bool {
	scopes := []map[int]json.RawMessage{{}}
	for _, ref := range e.outs {
		var next []map[int]json.RawMessage
		if _, done := scopes[0][ref.node]; done {
			continue
		}
		for _, output := range r.whole(ref.node) {
			for _, s := range scopes {
				c := map[int]json.RawMessage{ref.node: output}
				for n, old := range s {
					c[n] = old
				}
				next = append(next, c)
			}
		}
		scopes = next[:min(len(next), maxTries)]
	}
	sets, err := r.inputs(nil, inputSets)
	if err != nil {
		return false
	}
	var seen [2]bool
	for _, outputs := range scopes {
		scope := &workflow.Scope{Inputs: sets[0], Outputs: outputs, Statuses: map[int]machine.State{}, Workflow: r.def.Name}
		for n := range outputs {
			scope.Statuses[n] = lifecycle.StepComplete
		}
		for _, set := range sets {
			scope.Inputs = set
			truth, err := r.def.EvalIf(node, scope)
			seen[0], seen[1] = seen[0] || err == nil && !truth, seen[1] || err == nil && truth
		}
	}
	return seen[0] && seen[1]
}

// whole returns possible outputs of a node; that of a fan-out is a list.
func (r *reading) whole(n int) []json.RawMessage {
	if !r.def.Node(n).Fans() {
		return r.results(n, false, true)
	}
	var list []json.RawMessage
	for _, one := range r.results(n, true, true) {
		list = append(list, json.RawMessage("["+string(one)+"]"))
	}
	return append(list, json.RawMessage("[]"))
}
