package decide

import (
	"encoding/json"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/workflow"
)

// ended passes on the end of a step that did not fail.
func (d *Decision) ended(s *pawl.Step) error {
	if s.Ord.Instance() != 0 {
		return d.instanceEnded(s)
	}
	if d.node(s.Ord).Hook != workflow.NoHook {
		return d.hookEnded(s)
	}
	d.countOut(s)
	if s.State == lifecycle.StepCancelled || d.stopping() {
		return nil // the end of the job cancels what depends on it
	}
	for _, n := range d.node(s.Ord).Dependents {
		next, err := d.nodeStep(n)
		if err != nil {
			return err
		}
		next.Unmet--
		next.Skipped = next.Skipped || s.State == lifecycle.StepSkipped
		d.JobTx.Save(next)
		if next.Unmet > 0 || next.State != lifecycle.StepPending {
			continue
		}
		if err := d.begin(next); err != nil {
			return err
		}
	}
	return nil
}

// instanceEnded makes the next instances of a fan-out, or ends it.
func (d *Decision) instanceEnded(s *pawl.Step) error {
	p, err := d.step(s.Ord.Parent())
	if err != nil {
		return err
	}
	p.Live--
	d.JobTx.Save(p)
	d.JobTx.Fold(s)
	return d.advance(p)
}

// countOut takes a node from the open nodes.
func (d *Decision) countOut(s *pawl.Step) {
	d.job().Open--
	d.JobTx.SaveJob()
	d.JobTx.Fold(s)
}

// advance makes the next instances of the fan-out p or, when there are no more
// and all have ended, ends it: failed if one failed, else by gathering outputs.
func (d *Decision) advance(p *pawl.Step) error {
	switch {
	case p.State != lifecycle.StepInProgress:
		return nil
	case p.Made < p.Total && !d.stopping():
		return d.spread(p)
	case p.Live > 0:
		return nil
	case p.DueEvent == lifecycle.StepFailPermanently:
		return d.failPermanently(p, p.Error) // nil leaves the one that instanceFailed has stored
	case d.stopping():
		return d.cancel(p, Note{Reason: "the job is ending"})
	}
	return d.gather(p)
}

// gather completes a fan-out whose instances have all ended well.
func (d *Decision) gather(p *pawl.Step) error {
	answer, ok := d.Answers.Gathers[p.Ord]
	switch {
	case !ok:
		return d.mark(p)
	case answer.Failure != nil:
		return d.failPermanently(p, answer.Failure)
	}
	return d.succeed(p, answer.Output)
}

// succeed completes a step that the engine owns.
func (d *Decision) succeed(s *pawl.Step, output json.RawMessage) error {
	s.Output, s.CompletedAt, s.Mark = output, d.Now, pawl.Clear
	if err := d.JobTx.Move(s, lifecycle.StepSuccess, Note{}); err != nil {
		return err
	}
	return d.ended(s)
}

// skip ends a step that is not to run, and passes that on to its dependants. They may
// be out of sight, unless s was prepared to start.
func (d *Decision) skip(s *pawl.Step, why string) error {
	if unseen := d.inSight(d.node(s.Ord).Dependents); unseen != nil {
		if _, prepared := d.Answers.Starts[s.Ord]; prepared {
			return unseen
		}
		return d.mark(s)
	}
	s.Mark, s.CompletedAt = pawl.Clear, d.Now
	if err := d.JobTx.Move(s, lifecycle.StepSkip, Note{Reason: why}); err != nil {
		return err
	}
	return d.ended(s)
}

// Evaluate decides about the prepared steps that are still marked, and about the job
// itself.
func (d *Decision) Evaluate() error {
	for _, ord := range d.Answers.Marked {
		s, err := d.step(ord)
		if err == nil && s.Mark == pawl.Attention { // else it was handled
			err = d.evaluateStep(s)
		}
		if err != nil {
			return err
		}
	}
	if err := d.deliver(); err != nil {
		return err
	}
	if unheard, err := d.unheard(); err != nil {
		return err
	} else if !unheard {
		d.job().Mark = pawl.Clear
	}
	d.JobTx.SaveJob()
	return d.finish()
}

func (d *Decision) evaluateStep(s *pawl.Step) error {
	switch {
	case s.State == lifecycle.StepPending && s.Claims == 0: // else it was interrupted
		return d.begin(s)
	case s.State == lifecycle.StepInProgress && d.isFan(s):
		s.Mark = pawl.Clear
		d.JobTx.Save(s)
		return d.advance(s)
	case s.State == lifecycle.StepInProgress && d.node(s.Ord).Kind == workflow.KindWorkflow:
		return d.childEnded(s)
	case s.State == lifecycle.StepInProgress || s.State == lifecycle.StepEnqueued:
		s.Mark = pawl.Clear
		d.JobTx.Save(s)
		return nil
	}
	return d.ApplyOutcome(s)
}

// Refill starts waiting steps while the job has slots: those that had waited, in
// their order, then those that began to wait in this very transaction.
func (d *Decision) Refill() error {
	if d.held() {
		return nil
	}
	if MayWait(d.Definition, d.job().WorkerCount) {
		if err := d.refillWaiting(); err != nil {
			return err
		}
	}
	var rest []*pawl.Step
	d.JobTx.Steps(func(s *pawl.Step) {
		if s.Mark == pawl.Waiting {
			rest = append(rest, s)
		}
	})
	for _, s := range byOrd(rest) {
		if err := d.refill(s); err != nil {
			return err
		}
	}
	return nil
}

func (d *Decision) refillWaiting() error {
	waiting, err := d.JobTx.Waiting()
	if err != nil {
		return err
	}
	for _, ord := range waiting {
		s, err := d.step(ord)
		if err == nil {
			err = d.refill(s)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (d *Decision) refill(s *pawl.Step) error {
	j, kind := d.job(), d.node(s.Ord).Kind
	switch {
	case s.Mark != pawl.Waiting || d.held() || j.Active >= j.WorkerCount && !kind.Waits():
		return nil
	case d.isFan(s):
		return d.spread(s)
	case kind.Waits():
		return d.mark(s) // it was held back by a pause, and not evaluated
	}
	return d.enqueue(s)
}

// held reports whether the job may start nothing, whatever its slots.
func (d *Decision) held() bool {
	j := d.job()
	return j.Paused || d.stopping() || j.State != lifecycle.JobRunning
}
