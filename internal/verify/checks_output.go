package verify

import (
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl/internal/expressions"
	"github.com/pawl-dev/pawl/workflow"
)

// outputFields checks the fields that an expression uses of an output against those
// that the step can have.
func (v *verification) outputFields(e *expressions.Expr) {
	for _, ref := range e.Outputs {
		node := v.Definition.Node(ref.Node)
		fields, instance := ref.Fields, false
		if node.Fans() && len(fields) > 0 && fields[0] == "[]" {
			fields, instance = fields[1:], true
			if len(node.Matrix) > 0 {
				if len(fields) == 0 || fields[0] != "output" {
					continue
				}
				fields = fields[1:]
			}
		}
		if node.Fans() && !instance {
			v.listField(e, ref, node)
			continue
		}
		v.fieldOf(e, node, fields)
		if len(fields) == 0 && !instance {
			v.listOf(e, node)
		}
	}
}

func (v *verification) wrong(e *expressions.Expr, severity Severity, rule, why, hint, format string, args ...any) {
	f := Finding{Severity: severity, Rule: rule, Key: e.Path, Why: why, Hint: hint, Message: fmt.Sprintf(format, args...)}
	if e.Node > 0 {
		f.Step = v.Definition.Node(e.Node).ID
	}
	v.add(f)
}

const failsAlways = "the expression fails whenever it is evaluated"

// listField reports a field that is used of the list of a fan-out.
func (v *verification) listField(e *expressions.Expr, ref expressions.OutputRef, node *workflow.Node) {
	if len(ref.Fields) > 0 && ref.Fields[0] != "[]" {
		v.wrong(e, Err, "output-field", failsAlways, fmt.Sprintf("take an element first: steps.%s.output[0], or map(steps.%s.output, ...)", node.ID, node.ID),
			"the output of %s is the list of its instances' outputs, and has no field %q", node.ID, ref.Fields[0])
	}
}

// nothing returns why a step has no output at all, or "".
func nothing(node *workflow.Node) string {
	switch {
	case node.Kind == workflow.KindSleep:
		return "it only sleeps"
	case node.Output == workflow.OutputNone && !node.Kind.Waits():
		return "it has `output: none`"
	case node.Kind == workflow.KindWorkflow && node.Child.Definition != nil && !node.Child.Definition.HasOutput():
		return "its child workflow has no output"
	}
	return ""
}

// fieldOf reports fields that the output of a step cannot have.
func (v *verification) fieldOf(e *expressions.Expr, node *workflow.Node, fields []string) {
	if why := nothing(node); why != "" {
		severity := Warn
		if len(fields) > 0 || e.Use == expressions.UseForeach {
			severity = Err
		}
		v.wrong(e, severity, "no-output", "the expression always gets null", "give the step an output, or do not use it", "the output of %s is used, and it never has one: %s", node.ID, why)
		return
	}
	if len(fields) == 0 {
		return
	}
	command := node.Kind == workflow.KindCommand || node.Kind == workflow.KindRun
	switch field := fields[0]; {
	case command && node.Output == workflow.OutputText && field != "[]":
		v.wrong(e, Err, "output-field", failsAlways, fmt.Sprintf("give %s `output: json`", node.ID), "the output of %s is text, and has no field %q", node.ID, field)
	case command && node.Output == workflow.OutputLines && field != "[]":
		v.wrong(e, Err, "output-field", failsAlways, fmt.Sprintf("give %s `output: json`", node.ID), "the output of %s is a list of lines, and has no field %q", node.ID, field)
	case node.Kind == workflow.KindHTTP && !slices.Contains([]string{"status", "headers", "body", "[]"}, field):
		v.wrong(e, Err, "output-field", "it is always null", fmt.Sprintf("the body of the response is steps.%s.output.body", node.ID), "the output of %s has status, headers and body, and no field %q", node.ID, field)
	}
}

// listOf reports a foreach over something that is not a list.
func (v *verification) listOf(e *expressions.Expr, node *workflow.Node) {
	root, _ := e.Reference()
	if e.Use != expressions.UseForeach || root != "steps" || !e.Whole || e.Path != v.Paths[e.Node]+".foreach" {
		return
	}
	command := node.Kind == workflow.KindCommand || node.Kind == workflow.KindRun
	kind := ""
	switch {
	case command && node.Output == workflow.OutputText:
		kind = "text"
	case node.Kind == workflow.KindHTTP, node.Kind == workflow.KindCrew, node.Kind == workflow.KindLoad, node.Kind == workflow.KindApproval:
		kind = "an object"
	}
	if kind != "" {
		v.wrong(e, Err, "foreach-type", "the step fails whenever it begins", fmt.Sprintf("give %s `output: lines` or json, or take a list out of it", node.ID), "a foreach goes over the output of %s, which is %s and no list", node.ID, kind)
	}
}

// child checks a child workflow.
func (v *verification) child(n int) {
	node := v.Definition.Node(n)
	if node.Child == nil {
		return
	}
	if node.Child.Definition == nil {
		v.calledAgain(n, node.Child.Name, 0)
		return
	}
	v.calledAgain(n, node.Child.Definition.Name, node.Child.Definition.Concurrency)
	for _, e := range v.At(expressions.UseWait, n) {
		v.childInput(n, e)
	}
}

// calledAgain reports a child that is a workflow that waits for it.
func (v *verification) calledAgain(n int, name string, limit int) {
	node := v.Definition.Node(n)
	for _, def := range append(slices.Clone(v.above), v.Definition) {
		if def.Name != name {
			continue
		}
		f := v.on(n, Err, "calls-itself", "workflow")
		switch {
		case limit > 0 || node.Child.Definition == nil && def.Concurrency > 0:
			f.Rule = "waits-for-itself"
			f.Message = fmt.Sprintf("the child job of step %s runs workflow %s, and its parent's job counts against the concurrency of that workflow", node.ID, name)
			f.Why = "the child waits for a slot that its parent holds until the child has ended; it is refused when the step starts"
			f.Hint = "give the child a name of its own, or lift the limit"
		case node.Child.Definition == nil:
			f.Message = fmt.Sprintf("step %s starts a job of workflow %s, which is this workflow", node.ID, name)
			f.Why = "each job starts another one, until one is too deep and fails"
			f.Hint = "give the step an `if` that ends the recursion, or call another workflow"
			if node.HasIf {
				f.Severity = Warn
			}
		default:
			continue
		}
		v.add(f)
		return
	}
}

// childInput checks an input that is passed on against the type that the child
// declares.
func (v *verification) childInput(n int, e *expressions.Expr) {
	child := v.Definition.Node(n).Child.Definition
	for i := range child.Inputs {
		in := &child.Inputs[i]
		if e.Path != v.Paths[n]+".inputs."+in.Name || !e.Whole {
			continue
		}
		have := v.typeOf(e)
		if have == "" || have == in.Type || have == workflow.TypeInteger && in.Type == workflow.TypeNumber {
			return
		}
		v.wrong(e, Err, "child-input", "the step fails whenever it starts", "convert it, or change the type that the child declares",
			"input %s of workflow %s is of type %s, and ${{ %s }} is of type %s", in.Name, child.Name, in.Type, e.Text, have)
	}
}

// typeOf returns the type of an expression that is only a path, or "".
func (v *verification) typeOf(e *expressions.Expr) workflow.InputType {
	root, fields := e.Reference()
	switch {
	case root == "inputs" && len(fields) == 1:
		for _, in := range v.Definition.Inputs {
			if in.Name == fields[0] {
				return in.Type
			}
		}
	case root == "steps" && len(fields) == 2 && fields[1] == "status":
		return workflow.TypeString
	case root == "steps" && len(fields) == 2:
		node := v.Definition.Node(v.Definition.NodeByID(fields[0]))
		command := node.Kind == workflow.KindCommand || node.Kind == workflow.KindRun
		switch {
		case node.Fans(), command && node.Output == workflow.OutputLines:
			return workflow.TypeArray
		case command && node.Output == workflow.OutputText:
			return workflow.TypeString
		case node.Kind == workflow.KindHTTP, node.Kind == workflow.KindCrew, node.Kind == workflow.KindLoad, node.Kind == workflow.KindApproval:
			return workflow.TypeObject
		}
	}
	return ""
}
