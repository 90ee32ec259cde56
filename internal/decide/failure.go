package decide

import (
	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/workflow"
)

// failHere fails a pending step before any worker has seen it.
func (d *Decision) failHere(s *pawl.Step, f *pawl.Failure) error {
	if err := d.take(s); err != nil {
		return err
	}
	return d.failPermanently(s, f)
}

func (d *Decision) failPermanently(s *pawl.Step, f *pawl.Failure) error {
	s.Error, s.CompletedAt, s.Mark, s.DueEvent = f, d.Now, pawl.Clear, ""
	note := Note{}
	if f != nil {
		note = failureNote(s, f, note)
	}
	if err := d.JobTx.Move(s, lifecycle.StepFailPermanently, note); err != nil {
		return err
	}
	if can, err := d.canApply(s); err != nil {
		return err
	} else if !can {
		return d.mark(s)
	}
	return d.failed(s)
}

// failed passes a permanent error on: to the fan-out, and to the job (T7).
func (d *Decision) failed(s *pawl.Step) error {
	f := d.failure(s)
	if s.Ord.Instance() != 0 {
		return d.instanceFailed(s, f)
	}
	if d.node(s.Ord).Hook != workflow.NoHook {
		return d.hookEnded(s)
	}
	d.countOut(s)
	if d.Definition.OnError == workflow.Halt || d.stopping() {
		return d.End(lifecycle.JobFailed, f, Note{Reason: reasonOf(f)})
	}
	d.blame(f)
	behind, err := d.behind(s.Ord.Node())
	for _, next := range behind {
		if next.Mark != pawl.Blocked {
			d.block(next)
		}
	}
	return err
}

// behind returns the nodes that cannot begin because the given ones have failed: those
// that need them, directly or through others, unless an operator has settled them.
func (d *Decision) behind(failed ...int) (map[int]*pawl.Step, error) {
	found := make(map[int]*pawl.Step)
	for len(failed) > 0 {
		n := failed[0]
		failed = failed[1:]
		for _, m := range d.Definition.Nodes[n-1].Dependents {
			s, err := d.nodeStep(m)
			if err != nil {
				return nil, err
			}
			if found[m] == nil && s.State == lifecycle.StepPending {
				found[m] = s
				failed = append(failed, m)
			}
		}
	}
	return found, nil
}

// block holds back a step behind a failed one, until the rest of the job has
// drained: an operator may still resolve what failed (T7, T13).
func (d *Decision) block(s *pawl.Step) {
	s.Mark = pawl.Blocked
	d.JobTx.Save(s)
	d.job().Open--
	d.job().Blocked++
	d.JobTx.SaveJob()
}

// unblock takes back what block did.
func (d *Decision) unblock(s *pawl.Step) {
	s.Mark = pawl.Clear
	d.JobTx.Save(s)
	d.job().Open++
	d.job().Blocked--
	d.JobTx.SaveJob()
}

// blocked returns the steps in sight that are behind failed ones, ascending.
func (d *Decision) blocked() []*pawl.Step {
	var blocked []*pawl.Step
	d.JobTx.Steps(func(s *pawl.Step) {
		if s.Mark == pawl.Blocked {
			blocked = append(blocked, s)
		}
	})
	return byOrd(blocked)
}

// cancelBlocked cancels what is behind failed steps, all of which is in sight.
func (d *Decision) cancelBlocked() error {
	for _, s := range d.blocked() {
		if err := d.cancel(s, Note{Reason: "a step it needs failed"}); err != nil {
			return err
		}
	}
	return nil
}

// blame stores the first failure of a job that drains.
func (d *Decision) blame(f *pawl.Failure) {
	if j := d.job(); j.Ending == "" {
		j.Ending, j.Error = lifecycle.JobFailed, f
		d.JobTx.SaveJob()
	}
}

// instanceFailed lets the fan-out of an instance fail as soon as its other
// instances have ended: cancelled, or run to their end if the job drains.
func (d *Decision) instanceFailed(s *pawl.Step, f *pawl.Failure) error {
	p, err := d.step(s.Ord.Parent())
	if err != nil {
		return err
	}
	p.Live--
	if p.State == lifecycle.StepInProgress && p.DueEvent == "" {
		p.DueEvent, p.Error = lifecycle.StepFailPermanently, f
	}
	d.JobTx.Save(p)
	d.JobTx.Fold(s)
	if d.Definition.OnError == workflow.Drain {
		d.blame(f)
	} else if err := d.End(lifecycle.JobFailed, f, Note{Reason: reasonOf(f)}); err != nil {
		return err
	}
	return d.advance(p)
}

// lastFailure returns why s failed last.
func (d *Decision) lastFailure(s *pawl.Step) *pawl.Failure {
	if s.Error != nil {
		return s.Error
	}
	return orUnknown(d.Answers.Errors[s.Ord])
}

// failure returns why s failed, naming the step.
func (d *Decision) failure(s *pawl.Step) *pawl.Failure {
	f := d.lastFailure(s)
	if f.Step != "" {
		return f
	}
	named := *f
	named.Step = d.Definition.Key(s.Ord)
	return &named
}

// permanent returns a failure as one after which there is no further attempt.
func permanent(f *pawl.Failure) *pawl.Failure {
	if f = orUnknown(f); f.Permanent {
		return f
	}
	final := *f
	final.Permanent = true
	return &final
}

// reasonOf returns why a job fails, without its message, which is payload.
func reasonOf(f *pawl.Failure) string {
	switch {
	case f.Step != "":
		return "step " + f.Step + " failed"
	case f.Class == "canceled" || f.Class == pawl.ClassTimeout:
		return f.Message // of the operator who canceled it
	}
	return "it failed: " + f.Class
}

// orUnknown returns f or, if f is nil, a failure without a known reason.
func orUnknown(f *pawl.Failure) *pawl.Failure {
	if f != nil {
		return f
	}
	return &pawl.Failure{Class: "unknown", Message: "the step failed", Permanent: true}
}
