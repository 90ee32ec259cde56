package workflow

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl"
)

// EvalWait returns what node n waits for, or the instance of it whose item and
// index are in the scope. The error is of kind Invalid.
func (d *Definition) EvalWait(n int, s *Scope) (*Waiting, error) {
	node := &d.Nodes[n-1]
	if !node.Kind.Waits() {
		return nil, pawl.Errorf(pawl.Internal, "step %s does not wait", node.ID)
	}
	v, err := d.evaluate(s, node.wait.each)
	if err != nil {
		return nil, err
	}
	w := &Waiting{Wait: pawl.Wait{Kind: string(node.Kind), Event: node.Event, Form: node.wait.form}, For: node.Expires}
	switch node.Kind {
	case KindApproval:
		w.Wait.Prompt, err = v.text(node.wait.prompt)
	case KindSleep:
		w.For, err = v.pause(node.wait.sleep)
	case KindWorkflow:
		w.Child, err = v.born(node)
	}
	if err != nil {
		return nil, err
	}
	return w, nil
}

// pause returns how long a step sleeps: at least a microsecond, since 0 would mean for
// ever.
func (v *evaluation) pause(t *template) (time.Duration, error) {
	text, err := v.text(t)
	if err != nil {
		return 0, err
	}
	d, err := pause(text)
	if err != nil {
		return 0, v.fault(t.path, err)
	}
	return max(d, time.Microsecond), nil
}

// born returns the child job of a step. An input whose value is null is not given.
func (v *evaluation) born(node *Node) (*Born, error) {
	t, child := node.wait.inputs, node.Child
	raw, err := v.json(t)
	if err != nil {
		return nil, err
	}
	numbers, err := decodeNumbers(raw)
	if err != nil {
		return nil, v.fault(t.path, err)
	}
	b := &Born{Name: child.Name, Version: child.Version, Definition: child.Definition, Given: numbers.(map[string]any)}
	for name, value := range b.Given {
		if value == nil {
			delete(b.Given, name)
		}
	}
	if child.Definition == nil {
		return b, nil
	}
	if b.Inputs, err = child.Definition.BindInputs(b.Given); err != nil {
		return nil, v.fault(t.path, err)
	}
	return b, nil
}

// EvalConcurrency returns the concurrency key of a job, from the inputs and the name of
// the workflow. It is empty if the file has none. The error is of kind Invalid.
func (d *Definition) EvalConcurrency(s *Scope) (string, error) {
	if d.key == nil {
		return "", nil
	}
	v, err := d.evaluate(s, d.key.each)
	if err != nil {
		return "", err
	}
	key, err := v.text(d.key)
	if err == nil && len(key) > MaxKey {
		err = v.fault(d.key.path, fmt.Errorf("the key is %d bytes long; at most %d are allowed", len(key), MaxKey))
	}
	return key, err
}

// BindForm checks what a person filled in for node n, an approval, and applies the
// defaults. It returns the output of the step: a JSON object with sorted keys. The
// error is of kind Invalid and names every fault.
func (d *Definition) BindForm(n int, given map[string]any) (json.RawMessage, error) {
	form, err := d.form(n)
	if err != nil {
		return nil, err
	}
	return form.bindAll(given, anyValue)
}

// ParseForm reads the text of a command line, key=text, by the type of the field. The
// error is of kind Invalid; for an unknown field it names the nearest one.
func (d *Definition) ParseForm(n int, key, text string) (any, error) {
	form, err := d.form(n)
	if err != nil {
		return nil, err
	}
	return form.parse(key, text)
}

func (d *Definition) form(n int) (declared, error) {
	node := &d.Nodes[n-1]
	if node.Approval == nil {
		return declared{}, pawl.Errorf(pawl.Invalid, "step %s is not an approval", node.ID)
	}
	return declared{"field", "the approval has no form", node.Approval.Form}, nil
}
