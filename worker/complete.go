package worker

import (
	"context"
	"encoding/json"
	"sync/atomic"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/workflow"
)

// ClassNotCommitted is the class of the failure of a step whose handler has called
// CompleteTx, and then returned without an error though the transaction was not committed.
const ClassNotCommitted = "not_committed"

// CompleteTx completes a step within a transaction of its handler, so that what the
// handler writes in it happens exactly once: both are committed or none is. See
// "Transactions" in the package's documentation. The output is encoded as JSON, a
// json.RawMessage as it is; it takes the place of what the handler returns.
//
// tx is what client.Jobs.SubmitTx takes, on the database of the worker's client. The task
// is that of the handler, see TaskOf. If the claim is lost, because the worker was taken
// for dead or the step was canceled, the error is of kind Conflict. After any error the
// transaction has to be rolled back.
func CompleteTx(ctx context.Context, tx any, t *Task, output any) error {
	if t == nil || t.link == nil {
		return pawl.Errorf(pawl.Invalid, "task: want the task of a handler that a worker runs, as TaskOf returns it")
	}
	body, err := t.output(output)
	if err != nil {
		return err
	}
	r := link.Report{Step: t.step, Claim: t.Claim, Actor: t.actor, Report: decide.Report{Event: lifecycle.StepSuccess, Output: body}}
	if err := t.link.CompleteTx(ctx, tx, r); err != nil {
		return err
	}
	t.called.Store(true)
	return nil
}

// output encodes the output of a step, and checks its size (T8).
func (t *Task) output(value any) (json.RawMessage, error) {
	if t.Output == workflow.OutputNone {
		return json.RawMessage("null"), nil
	}
	r := encoded("the output", value, t.Limits.withDefaults().Output)
	if r.Failure != nil {
		return nil, &pawl.Error{Kind: pawl.Invalid, Message: r.Failure.Message, Err: r.Failure}
	}
	return r.Output, nil
}

// A completion has what CompleteTx needs of a worker, and whether it was called. Only
// the database knows the outcome of the transaction.
type completion struct {
	link   link.Worker // nil: no worker runs the task
	step   pawl.StepKey
	actor  string
	called atomic.Bool
}

// settle makes the report of a success, after CompleteTx, one for when the transaction
// was not committed.
func (c *completion) settle(r *link.Report) {
	if r.Event != lifecycle.StepSuccess || !c.called.Load() {
		return
	}
	failure := retryable(ClassNotCommitted, "the handler returned without an error, but the transaction in which it had completed the step was not committed")
	r.Event, r.Output, r.Failure, r.Settled = lifecycle.StepFail, nil, failure, true
}
