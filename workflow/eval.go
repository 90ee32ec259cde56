package workflow

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/vm"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/document"
)

// MaxItems is the length of the longest list of a foreach.
const MaxItems = 100_000

// An evaluation runs the expressions of one place in the file.
type evaluation struct {
	d     *Definition
	scope *Scope
	meter *meter
	vars  map[string]any
	bound bool // vars has what every expression may use
}

// evaluate prepares the variables that the programs refer to.
func (d *Definition) evaluate(s *Scope, each func(func(*program))) (*evaluation, error) {
	v := &evaluation{d: d, scope: s, meter: &meter{}, vars: map[string]any{}}
	steps, env := map[string]any{}, false
	var err error
	each(func(p *program) {
		env = env || p.refs.uses("env")
		err = errors.Join(err, v.variables(p, steps))
	})
	if err != nil {
		return nil, err
	}
	v.vars["steps"] = steps
	if env {
		if _, err := v.environment(); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// job returns the variable of that name.
func (s *Scope) job() map[string]any {
	job := map[string]any{"id": s.JobID, "workflow": s.Workflow}
	if s.JobStatus != "" {
		job["status"], job["error"] = string(s.JobStatus), nil
	}
	if s.JobError != "" {
		job["error"] = s.JobError
	}
	return job
}

// variables decodes what a program refers to, once.
func (v *evaluation) variables(p *program, steps map[string]any) error {
	s := v.scope
	for _, name := range []string{"item", "matrix"} {
		if _, done := v.vars[name]; !done && p.refs.uses(name) {
			if err := v.decode(name, s.Item); err != nil {
				return err
			}
		}
	}
	if _, done := v.vars["inputs"]; !done && p.refs.uses("inputs") {
		if err := v.decode("inputs", s.Inputs); err != nil {
			return err
		}
		if v.vars["inputs"] == nil {
			v.vars["inputs"] = map[string]any{}
		}
	}
	for _, ref := range p.refs.steps {
		n := v.d.byID[ref.id]
		output, err := s.output(n)
		if err != nil {
			return pawl.Errorf(pawl.Internal, "output of step %s: %v", ref.id, err)
		}
		steps[ref.id] = map[string]any{"output": output, "status": string(s.Statuses[n])}
	}
	return nil
}

func (v *evaluation) decode(name string, raw json.RawMessage) error {
	value, err := decodeJSON(raw)
	if err != nil {
		return pawl.Errorf(pawl.Internal, "%s: %v", name, err)
	}
	v.vars[name] = value
	return nil
}

// output decodes the output of a node, and keeps it until the scope gets another one.
func (s *Scope) output(n int) (any, error) {
	raw := s.Outputs[n]
	if len(raw) == 0 {
		return nil, nil
	}
	if have, ok := s.decoded[n]; ok && len(have.raw) == len(raw) && &have.raw[0] == &raw[0] {
		return have.value, nil
	}
	value, err := decodeJSON(raw)
	if err != nil {
		return nil, err
	}
	if s.decoded == nil {
		s.decoded = map[int]decodedOutput{}
	}
	s.decoded[n] = decodedOutput{raw, value}
	return value, nil
}

// environment evaluates the workflow's env and adds it to the variables.
func (v *evaluation) environment() (map[string]any, error) {
	if have, ok := v.vars["env"].(map[string]any); ok {
		return have, nil
	}
	for i := range v.d.env {
		var err error
		v.d.env[i].each(func(p *program) { err = errors.Join(err, v.variables(p, nil)) })
		if err != nil {
			return nil, err
		}
	}
	env, err := v.texts(v.d.env, map[string]any{})
	if err != nil {
		return nil, err
	}
	v.vars["env"] = env
	return env, nil
}

// texts evaluates named templates to text, into m.
func (v *evaluation) texts(list []namedTemplate, m map[string]any) (map[string]any, error) {
	for _, t := range list {
		text, err := v.text(t.template)
		if err != nil {
			return nil, err
		}
		m[t.name] = text
	}
	return m, nil
}

// bind adds the functions and variables that every expression may use. It is called
// late, since most steps have no expression.
func (v *evaluation) bind() {
	if v.bound {
		return
	}
	v.bound = true
	maps.Copy(v.vars, v.meter.environment())
	v.vars["job"], v.vars["index"] = v.scope.job(), v.scope.Index
}

// run evaluates one expression.
func (v *evaluation) run(path string, p *program) (any, error) {
	v.bind()
	v.meter.left = maxCost
	machine := vm.VM{MemoryBudget: maxMemory}
	out, err := machine.Run(p.code, v.vars)
	if err == nil {
		return out, nil
	}
	message := err.Error()
	var fe *file.Error
	if errors.As(err, &fe) {
		message = fe.Message
	}
	message = strings.ReplaceAll(message, "<nil>", "null")
	message = strings.ReplaceAll(message, "workflow.largeInteger", typeName(largeInteger{}))
	message = strings.ReplaceAll(message, "memory budget exceeded", "the expression makes lists that are too large")
	return nil, v.fault(path, &ExpressionError{Text: strings.TrimSpace(p.text), Message: message})
}

// An ExpressionError says why an expression has no value, or no usable one.
type ExpressionError struct {
	Text    string // of the expression, without ${{ }}
	Message string
}

func (e *ExpressionError) Error() string {
	return "${{ " + document.Shorten(e.Text) + " }}: " + e.Message
}

// describePath names a place by the id of its step: "step load: env.FILE".
func (d *Definition) describePath(path string) string {
	for i := range d.Nodes {
		n := &d.Nodes[i]
		key, ok := strings.CutPrefix(path, n.path+".")
		switch {
		case ok && n.Hook != NoHook:
			return fmt.Sprintf("hook %s: %s", n.ID, key)
		case ok:
			return fmt.Sprintf("step %s: %s", n.ID, key)
		}
	}
	return path
}

// value evaluates a template; one whole expression keeps its type.
func (v *evaluation) value(t *template) (any, error) {
	switch t.kind {
	case textTemplate:
		if len(t.parts) == 1 && t.parts[0].program != nil {
			return v.run(t.path, t.parts[0].program)
		}
		return v.text(t)
	case listTemplate:
		list := make([]any, len(t.list))
		for i, c := range t.list {
			var err error
			if list[i], err = v.value(c); err != nil {
				return nil, err
			}
		}
		return list, nil
	case objectTemplate:
		m := make(map[string]any, len(t.keys))
		for i, c := range t.vals {
			var err error
			if m[t.keys[i]], err = v.value(c); err != nil {
				return nil, err
			}
		}
		return m, nil
	}
	return t.value, nil
}

// text evaluates a template of text.
func (v *evaluation) text(t *template) (string, error) {
	if t == nil {
		return "", nil
	}
	var b strings.Builder
	for _, p := range t.parts {
		if p.program == nil {
			b.WriteString(p.text)
			continue
		}
		out, err := v.run(t.path, p.program)
		if err != nil {
			return "", err
		}
		s, err := asText(out)
		if err != nil {
			return "", v.fault(t.path, err)
		}
		b.WriteString(s)
		if b.Len() > MaxValue {
			return "", v.fault(t.path, errTooLarge)
		}
	}
	if strings.ContainsRune(b.String(), 0) {
		return "", v.fault(t.path, errors.New("the text holds a zero byte"))
	}
	return b.String(), nil
}

func (v *evaluation) fault(path string, err error) error {
	return &pawl.Error{Kind: pawl.Invalid, Message: v.d.describePath(path), Err: err}
}

// json evaluates a template and writes it as JSON.
func (v *evaluation) json(t *template) (json.RawMessage, error) {
	out, err := v.value(t)
	if err != nil {
		return nil, err
	}
	raw, err := encodeJSON(out)
	if err != nil {
		return nil, v.fault(t.path, err)
	}
	return raw, nil
}

// EvalIf returns the value of the `if` of node n; without one it is true. The error is
// of kind Invalid.
func (d *Definition) EvalIf(n int, s *Scope) (bool, error) {
	p := d.Nodes[n-1].condition
	if p == nil {
		return true, nil
	}
	v, err := d.evaluate(s, func(do func(*program)) { do(p) })
	if err != nil {
		return false, err
	}
	path := d.Nodes[n-1].path + ".if"
	out, err := v.run(path, p)
	if err != nil {
		return false, err
	}
	truth, ok := out.(bool)
	if !ok {
		return false, v.fault(path, &ExpressionError{Text: strings.TrimSpace(p.text), Message: "want true or false, got " + describe(out)})
	}
	return truth, nil
}

// EvalForeach returns the items of node n, each as JSON: at most MaxItems, of
// MaxValue bytes together. The error is of kind Invalid.
func (d *Definition) EvalForeach(n int, s *Scope) ([]json.RawMessage, error) {
	t := d.Nodes[n-1].foreach
	if t == nil {
		return nil, pawl.Errorf(pawl.Internal, "step %s has no foreach", d.Nodes[n-1].ID)
	}
	v, err := d.evaluate(s, t.each)
	if err != nil {
		return nil, err
	}
	raw, err := v.json(t)
	if err != nil {
		return nil, err
	}
	if raw[0] != '[' {
		return nil, v.fault(t.path, fmt.Errorf("want a list, got %s", document.Shorten(string(raw))))
	}
	var items []json.RawMessage
	if err := json.Unmarshal(raw, &items); err != nil {
		return nil, v.fault(t.path, err)
	}
	if len(items) > MaxItems {
		return nil, v.fault(t.path, fmt.Errorf("the list has %d items; at most %d are allowed", len(items), MaxItems))
	}
	return items, nil
}

// HasOutput reports whether the workflow has an output of its own.
func (d *Definition) HasOutput() bool { return d.output != nil }

// EvalOutput returns the output of a job as JSON; null without one. The error
// is of kind Invalid.
func (d *Definition) EvalOutput(s *Scope) (json.RawMessage, error) {
	if d.output == nil {
		return json.RawMessage("null"), nil
	}
	v, err := d.evaluate(s, d.output.each)
	if err != nil {
		return nil, err
	}
	return v.json(d.output)
}
