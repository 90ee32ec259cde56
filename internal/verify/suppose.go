package verify

import (
	"encoding/json"
	"strings"

	"github.com/pawl-dev/pawl/internal/expressions"
	"github.com/pawl-dev/pawl/internal/rehearsal"
	"github.com/pawl-dev/pawl/workflow"
)

// How an explorer evaluates expressions.

var _ rehearsal.Mind = (*explorer)(nil)

func (x *explorer) Condition(w *rehearsal.World, node int, scope *workflow.Scope, truth bool, err error) (bool, error) {
	e := x.r.At(expressions.UseIf, node)[0]
	missing := len(e.Missing(scope, true)) > 0
	switch {
	case err != nil && missing:
		return false, err
	case !missing && (err != nil || x.opaque(node, e)):
		truth = x.suppose(w, e.Text)
	}
	seen := x.truths[node]
	if truth {
		seen[1] = true
	} else {
		seen[0] = true
	}
	x.truths[node] = seen
	return truth, nil
}

// suppose returns a value for a condition whose value cannot be known: both are tried,
// and on each path it stays the same.
func (x *explorer) suppose(w *rehearsal.World, text string) bool {
	bare, negated := strings.CutPrefix(text, "!")
	if known, ok := w.Facts[bare]; ok {
		return known != negated
	}
	truth := x.pick(2) == 0
	if w.Facts == nil {
		w.Facts = map[string]bool{}
	}
	w.Facts[bare] = truth != negated
	return truth
}

func (x *explorer) Items(w *rehearsal.World, node int, scope *workflow.Scope, items []json.RawMessage, err error) ([]json.RawMessage, error) {
	if err == nil || x.r.MissingAt(expressions.UseForeach, node, scope) {
		return items, err
	}
	if x.suppose(w, "foreach of "+x.r.Definition.Node(node).ID) {
		return []json.RawMessage{json.RawMessage("null"), json.RawMessage("null")}, nil
	}
	return nil, nil
}

func (x *explorer) Failed(_ *rehearsal.World, at expressions.Use, node int, scope *workflow.Scope, err error) error {
	if x.r.MissingAt(at, node, scope) {
		return err
	}
	return nil // what was made up may be to blame
}

// opaque reports whether a condition may have a value that it has for none of the tried
// values.
func (x *explorer) opaque(node int, e *expressions.Expr) bool {
	if known, ok := x.opaques[node]; ok {
		return known
	}
	o := x.r.Opaque(node, e)
	x.opaques[node] = o
	return o
}
