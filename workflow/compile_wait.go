package workflow

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl/internal/document"
)

// nodeWait is the compiled form of what EvalWait returns.
type nodeWait struct {
	prompt *template
	form   json.RawMessage
	sleep  *template
	inputs *template
}

// each calls do for every program of what is waited for.
func (w *nodeWait) each(do func(*program)) {
	for _, t := range []*template{w.prompt, w.sleep, w.inputs} {
		t.each(do)
	}
}

// wait compiles what a step waits for.
func (c *compilation) wait(path func(string) string, s *Step, n *Node, ctx context) {
	switch n.Kind {
	case KindApproval:
		n.wait.prompt = c.template(path("approval.prompt"), s.Approval.Prompt, ctx)
		n.wait.form = formOf(s.Approval.Form)
	case KindSleep:
		n.wait.sleep = c.template(path("sleep"), s.Sleep, ctx)
	case KindWorkflow:
		given := make(map[string]any, len(s.Inputs))
		for name, v := range s.Inputs {
			given[name] = v
		}
		n.wait.inputs = c.template(path("inputs"), given, ctx)
		if n.Child.Definition != nil {
			c.childInputs(path, n)
		}
	}
}

// formOf writes the fields of a form as in the file.
func formOf(form map[string]InputSchema) json.RawMessage {
	if len(form) == 0 {
		return nil
	}
	raw, err := json.Marshal(form)
	if err != nil {
		return nil
	}
	v, err := decodeJSON(raw)
	if err != nil {
		return nil
	}
	return canonicalNumber(v)
}

// childInputs checks the inputs of a child against its declarations, as far as they are
// known.
func (c *compilation) childInputs(path func(string) string, n *Node) {
	child := n.Child.Definition
	for i, name := range n.wait.inputs.keys {
		at := document.JoinPath(path("inputs"), name)
		in := child.inputs[name]
		if !idPattern.MatchString(name) {
			continue // it has been reported
		}
		if in == nil {
			c.e.ReportKey(at, fmt.Sprintf("workflow %s has no input %q", child.Name, name), c.e.Suggest(name, sortedKeys(child.inputs)))
			continue
		}
		if err := c.fits(in, n.wait.inputs.vals[i]); err != nil {
			c.e.ReportAt(at, err.Error(), "")
		}
	}
	for i := range child.Inputs {
		if in := &child.Inputs[i]; in.Required && !slices.Contains(n.wait.inputs.keys, in.Name) {
			c.e.ReportAt(path("workflow"), fmt.Sprintf("workflow %s requires the input %q: want %s", child.Name, in.Name, in.Type.noun()), "")
		}
	}
}

// fits returns why a value is not allowed as an input, as far as the value or its kind
// is known now.
func (c *compilation) fits(in *Input, t *template) error {
	open := false
	t.each(func(*program) { open = true })
	switch {
	case !open:
		v, err := (&evaluation{d: c.d}).value(t)
		if err != nil || v == nil {
			return err
		}
		return in.check(v)
	case t.kind == textTemplate && len(t.parts) > 1 && in.Type != TypeString:
		return fmt.Errorf("want %s, got text", in.Type.noun())
	case t.kind == listTemplate && in.Type != TypeArray:
		return fmt.Errorf("want %s, got a list", in.Type.noun())
	case t.kind == objectTemplate && in.Type != TypeObject:
		return fmt.Errorf("want %s, got a mapping", in.Type.noun())
	}
	return nil
}
