package expressions

import (
	"encoding/json"
	"strings"

	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
)

// Opaque reports whether the tried values may not cover all values of the
// condition of a node.
func (r *Reading) Opaque(node int, e *Expr) bool {
	if e.Names["env"] || e.Names["job.id"] || e.Names["job.error"] && !strings.Contains(e.Text, "nil") {
		return true
	}
	for name := range e.Names {
		if input, ok := strings.CutPrefix(name, "inputs."); ok && r.opaqueInput(input) && len(e.Outputs) == 0 {
			return true
		}
	}
	return len(e.Outputs) > 0 && !r.bothWays(node, e)
}

// opaqueInput reports whether some values of an input that make a difference are not
// tried.
func (r *Reading) opaqueInput(name string) bool {
	s := r.shapes.inputs[name]
	for i := range r.Definition.Inputs {
		if in := &r.Definition.Inputs[i]; in.Name == name && (in.Type == workflow.TypeBoolean || len(in.Enum) > 0) {
			return false
		}
	}
	return s == nil || s.opaque || s.list || len(s.fields) > 0 || len(s.literals) == 0
}

// maxTries bounds how many combinations bothWays evaluates.
const maxTries = 200

// bothWays reports whether a condition is both true and false for the tried outputs.
func (r *Reading) bothWays(node int, e *Expr) bool {
	scopes := []map[int]json.RawMessage{{}}
	for _, ref := range e.Outputs {
		var next []map[int]json.RawMessage
		if _, done := scopes[0][ref.Node]; done {
			continue
		}
		for _, output := range r.whole(ref.Node) {
			for _, s := range scopes {
				c := map[int]json.RawMessage{ref.Node: output}
				for n, old := range s {
					c[n] = old
				}
				next = append(next, c)
			}
		}
		scopes = next[:min(len(next), maxTries)]
	}
	sets, err := r.Inputs(nil, InputSets)
	if err != nil {
		return false
	}
	var seen [2]bool
	for _, outputs := range scopes {
		scope := &workflow.Scope{Inputs: sets[0], Outputs: outputs, Statuses: map[int]machine.State{}, Workflow: r.Definition.Name}
		for n := range outputs {
			scope.Statuses[n] = lifecycle.StepComplete
		}
		for _, set := range sets {
			scope.Inputs = set
			truth, err := r.Definition.EvalIf(node, scope)
			seen[0], seen[1] = seen[0] || err == nil && !truth, seen[1] || err == nil && truth
		}
	}
	return seen[0] && seen[1]
}

// whole returns possible outputs of a node; that of a fan-out is a list.
func (r *Reading) whole(n int) []json.RawMessage {
	if !r.Definition.Node(n).Fans() {
		return r.Results(n, false, true)
	}
	var list []json.RawMessage
	for _, one := range r.Results(n, true, true) {
		list = append(list, json.RawMessage("["+string(one)+"]"))
	}
	return append(list, json.RawMessage("[]"))
}
