package verify

import (
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl/internal/expressions"
	"github.com/pawl-dev/pawl/internal/rehearsal"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
)

// The rule about outputs that may be missing.
const ruleMissing = "missing-output"

// Read checks expressions that have just been evaluated for missing outputs.
func (x *explorer) Read(w *rehearsal.World, at expressions.Use, node int, scope *workflow.Scope, err error) {
	var failed *workflow.ExpressionError
	errors.As(err, &failed)
	for _, e := range x.r.At(at, node) {
		mine := failed != nil && failed.Text == e.Text
		for _, ref := range e.Missing(scope, mine) {
			switch {
			case mine:
				x.missing(w, e, ref, scope, Err)
			case err == nil && e.Printed():
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

func (x *explorer) missing(w *rehearsal.World, e *expressions.Expr, ref expressions.OutputRef, scope *workflow.Scope, severity Severity) {
	id, because := x.r.Definition.Node(ref.Node).ID, becauses[scope.Statuses[ref.Node]]
	if because == "" {
		because = "is " + string(scope.Statuses[ref.Node])
	}
	who := "the job"
	f := Finding{Severity: severity, Rule: ruleMissing, Key: e.Path}
	if e.Node > 0 {
		f.Step = x.r.Definition.Node(e.Node).ID
		who = "step " + f.Step
	}
	f.Message = fmt.Sprintf("%s uses the output of %s in ${{ %s }}, and there may be none: here %s %s", who, id, e.Text, id, because)
	f.Why = "the output is null then, and the expression becomes empty text"
	if severity == Err {
		f.Why = "the output is null then, the expression fails, and " + who + " with it"
	}
	f.Hint = fmt.Sprintf("check steps.%s.status == \"complete\" first, or write steps.%s.output ?? a default", id, id)
	if len(ref.Fields) > 0 && ref.Fields[0] != "[]" {
		f.Hint = fmt.Sprintf("check steps.%s.status == \"complete\" first, or write steps.%s.output?.%s ?? a default", id, id, ref.Fields[0])
	}
	x.report(f, w)
}
