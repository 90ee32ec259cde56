package verify

import (
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
)

// The rule about outputs that may be missing.
const ruleMissing = "missing-output"

// read checks expressions that have just been evaluated for missing outputs.
func (x *explorer) read(w *world, at use, node int, scope *workflow.Scope, err error) {
	var failed *workflow.ExpressionError
	errors.As(err, &failed)
	for _, e := range x.r.at(at, node) {
		mine := failed != nil && failed.Text == e.text
		for _, ref := range e.missing(scope, mine) {
			switch {
			case mine:
				x.missing(w, e, ref, scope, Err)
			case err == nil && e.printed():
				x.missing(w, e, ref, scope, Warn)
			}
		}
	}
}

// becauses say why there is no output.
var becauses = map[machine.State]string{
	lifecycle.StepSkipped:        "was skipped",
	lifecycle.StepCancelled:      "was cancelled",
	lifecycle.StepPermanentError: "failed",
}

func (x *explorer) missing(w *world, e *expr, ref outputRef, scope *workflow.Scope, severity Severity) {
	id, because := x.r.def.Node(ref.node).ID, becauses[scope.Statuses[ref.node]]
	if because == "" {
		because = "is " + string(scope.Statuses[ref.node])
	}
	who := "the job"
	f := Finding{Severity: severity, Rule: ruleMissing, Key: e.path}
	if e.node > 0 {
		f.Step = x.r.def.Node(e.node).ID
		who = "step " + f.Step
	}
	f.Message = fmt.Sprintf("%s uses the output of %s in ${{ %s }}, and there may be none: here %s %s", who, id, e.text, id, because)
	f.Why = "the output is null then, and the expression becomes empty text"
	if severity == Err {
		f.Why = "the output is null then, the expression fails, and " + who + " with it"
	}
	f.Hint = fmt.Sprintf("check steps.%s.status == \"complete\" first, or write steps.%s.output ?? a default", id, id)
	if len(ref.fields) > 0 && ref.fields[0] != "[]" {
		f.Hint = fmt.Sprintf("check steps.%s.status == \"complete\" first, or write steps.%s.output?.%s ?? a default", id, id, ref.fields[0])
	}
	x.report(f, w)
}
