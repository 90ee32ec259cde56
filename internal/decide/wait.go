package decide

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/workflow"
)

// Steps that wait are in progress and owned by the engine: they hold no worker
// and no slot of their job (T1).

// wait begins the wait of a pending step.
func (d *Decision) wait(s *pawl.Step, answer StartAnswer) error {
	if d.job().Paused {
		d.awaitSlot(s) // and is evaluated anew when the job is resumed
		return nil
	}
	if answer.Reused != nil {
		return d.reuse(s, answer.Reused)
	}
	w := answer.Waiting
	n := d.node(s.Ord)
	if err := d.take(s); err != nil {
		return err
	}
	if w.For > 0 || n.Kind == workflow.KindSleep {
		s.DueAt, s.DueEvent = d.Now+w.For.Microseconds(), lifecycle.StepFailPermanently
		if n.Kind == workflow.KindSleep {
			s.DueEvent = lifecycle.StepSuccess
		}
	}
	told := w.Wait
	told.Kind, told.Until = string(n.Kind), pawl.Timestamp(s.DueAt)
	if n.Kind == workflow.KindWorkflow {
		id, err := d.JobTx.Spawn(s, w.Child)
		if err != nil {
			return err
		}
		told.Job = id
	}
	return d.tell(s, told) // a signal that came early is delivered with the others
}

// tell stores what s waits for, or how the wait ended.
func (d *Decision) tell(s *pawl.Step, w pawl.Wait) error {
	raw, err := json.Marshal(w)
	if err != nil {
		return fmt.Errorf("step %s: write what it waits for: %w", d.Definition.Key(s.Ord), err)
	}
	s.Input = raw
	d.JobTx.Save(s)
	return nil
}

// reuse completes a pending step with the output that it has in the job that this
// one continues (J2).
func (d *Decision) reuse(s *pawl.Step, output json.RawMessage) error {
	if err := d.take(s); err != nil {
		return err
	}
	return d.Report(s, Report{Event: lifecycle.StepSuccess, Output: output, Note: Note{Reason: Reused}})
}

// Reused is the reason in the trail of a step that was not run.
const Reused = "its result in the job that this one continues is used"

// deliver gives signals to the steps in sight that wait for them, in the order in which
// they came. If several steps wait for one name, the one that began first takes it.
func (d *Decision) deliver() error {
	if signals, err := d.signals(); err != nil || len(signals) == 0 {
		return err
	}
	var waiting []*pawl.Step
	d.JobTx.Steps(func(s *pawl.Step) {
		if s.State == lifecycle.StepInProgress && d.waits(s) && d.node(s.Ord).Kind == workflow.KindEvent {
			waiting = append(waiting, s)
		}
	})
	slices.SortFunc(waiting, func(a, b *pawl.Step) int {
		return cmp.Or(cmp.Compare(a.StartedAt, b.StartedAt), cmp.Compare(a.Ord, b.Ord))
	})
	for _, s := range waiting {
		if err := d.hear(s); err != nil {
			return err
		}
	}
	return nil
}

// signals returns those that no step has taken, or none if no step of the job can wait
// for one.
func (d *Decision) signals() ([]*pawl.Signal, error) {
	if !d.Definition.Events {
		return nil, nil
	}
	return d.JobTx.Signals()
}

// unheard reports whether a signal came after the listeners were searched.
func (d *Decision) unheard() (bool, error) {
	signals, err := d.signals()
	return len(signals) > 0 && signals[len(signals)-1].Seq > d.Answers.Heard, err
}

// hear gives s the oldest signal of its name, if there is one.
func (d *Decision) hear(s *pawl.Step) error {
	n := d.node(s.Ord)
	signals, err := d.JobTx.Signals()
	if err != nil {
		return err
	}
	for _, signal := range signals {
		if signal.Name != n.Event || d.job().Mark == pawl.Attention && signal.Seq > d.Answers.Heard {
			continue // of another name, or a step that has waited longer for it may be out of sight
		}
		d.JobTx.Take(signal, s)
		if err := d.tell(s, pawl.Wait{Kind: string(n.Kind), Event: n.Event, By: signal.Actor}); err != nil {
			return err
		}
		return d.Report(s, Report{Event: lifecycle.StepSuccess, Output: signal.Data, Note: Note{Actor: signal.Actor, Reason: "the signal " + n.Event + " came"}})
	}
	return nil
}

// waited ends a wait whose time has come.
func (d *Decision) waited(s *pawl.Step) error {
	n := d.node(s.Ord)
	if s.DueEvent == lifecycle.StepSuccess {
		return d.Report(s, Report{Event: lifecycle.StepSuccess, Output: json.RawMessage("null")})
	}
	if came, err := d.came(s); came || err != nil {
		return err // the evaluator delivers it; the deadline stays until then
	}
	f := &pawl.Failure{Class: "expired", Permanent: true}
	waited := time.Duration(d.Now-s.StartedAt) * time.Microsecond
	switch n.Kind {
	case workflow.KindApproval:
		f.Message = fmt.Sprintf("it was neither approved nor rejected within %s", n.Expires)
	default:
		f.Message = fmt.Sprintf("the signal %s did not come within %s", n.Event, n.Expires)
	}
	if n.Expires == 0 {
		f.Message = fmt.Sprintf("it waited for %s", waited)
	}
	return d.Report(s, Report{Event: lifecycle.StepFailPermanently, Failure: f, Note: Note{Reason: f.Message}})
}

// cancelChild requests the cancellation of the child job of s. The step ends when the
// child has; it is marked until the child is known to be ending.
func (d *Decision) cancelChild(s *pawl.Step, note Note) error {
	if s.DueEvent == lifecycle.StepCancel {
		return nil
	}
	s.DueAt, s.DueEvent = 0, lifecycle.StepCancel
	s.MarkNow()
	return d.JobTx.Move(s, lifecycle.StepCancelRequested, note)
}

// childEnded ends a step whose child job has ended. If the child lives, the step waits:
// the commit that ends the child marks it. Otherwise the mark stays, since the commit
// that set it knows more than the evaluation.
func (d *Decision) childEnded(s *pawl.Step) error {
	end, ok := d.Answers.Ends[s.Ord]
	if !ok && !d.Answers.Lives[s.Ord] {
		return nil
	}
	s.Mark = pawl.Clear
	d.JobTx.Save(s)
	if !ok {
		return nil
	}
	if end.Failure == nil {
		return d.Report(s, Report{Event: lifecycle.StepSuccess, Output: end.Output})
	}
	return d.Report(s, Report{Event: lifecycle.StepFailPermanently, Failure: end.Failure, Note: Note{Reason: "its child job did not complete"}})
}

// came reports whether a signal for s came in time, and is yet to be delivered.
func (d *Decision) came(s *pawl.Step) (bool, error) {
	if d.node(s.Ord).Kind != workflow.KindEvent {
		return false, nil
	}
	signals, err := d.JobTx.Signals()
	return d.job().Mark == pawl.Attention && slices.ContainsFunc(signals, func(g *pawl.Signal) bool {
		return g.Name == d.node(s.Ord).Event && g.At < s.DueAt
	}), err
}
