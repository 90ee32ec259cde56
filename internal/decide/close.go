package decide

import (
	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
)

// End begins the end of a running job, as FAILED or CANCELED, and ends it at
// once if no worker holds a step of it.
func (d *Decision) End(as machine.State, f *pawl.Failure, note Note) error {
	j := d.job()
	if d.stopping() {
		return nil
	}
	j.Ending = as
	if f != nil {
		j.Error = f
	}
	j.DueAt, j.DueEvent = 0, ""
	if f != nil && f.Class == pawl.ClassTimeout {
		j.DueEvent = lifecycle.JobCancel // see timedOut
	}
	d.JobTx.SaveJob()
	if err := d.cancelOpen(note); err != nil {
		return err
	}
	if j.Open > 0 {
		return d.JobTx.MoveJob(lifecycle.JobHalt, note)
	}
	return nil // finish follows
}

// Cancel ends a job as CANCELED. Once its hooks run, its ending is settled, and only
// the hooks are cancelled.
func (d *Decision) Cancel(note Note) error { return d.cancelJob("canceled", note) }

func (d *Decision) cancelJob(class string, note Note) error {
	j := d.job()
	f := &pawl.Failure{Class: class, Message: note.Reason, Permanent: true}
	switch {
	case j.State != lifecycle.JobRunning:
		return d.cancelUnstarted(f, note)
	case d.stopping():
		return conflict(j, "is already ending, as "+string(j.Ending))
	case j.Hooks == pawl.HooksRun:
		if err := d.cancelHooks(note); err != nil {
			return err
		}
	default:
		if err := d.End(lifecycle.JobCanceled, f, note); err != nil {
			return err
		}
	}
	return d.finish()
}

// cancelUnstarted cancels a job that is not running. A refusal of the table comes
// before its steps are touched.
func (d *Decision) cancelUnstarted(f *pawl.Failure, note Note) error {
	j := d.job()
	if err := d.allows(lifecycle.JobCancel); err != nil {
		return err
	}
	if err := d.JobTx.Open(); err != nil {
		return err // hooks are among them, which nothing counts yet
	}
	j.Ending, j.Error = lifecycle.JobCanceled, f
	if err := d.cancelOpen(note); err != nil {
		return err
	}
	return d.close(note)
}

// allows returns the table's refusal of an event of the job, or nil.
func (d *Decision) allows(event machine.Event) error {
	j := d.job()
	_, err := lifecycle.Job.Next(j.State, event)
	if refusal, ok := err.(*machine.Refusal); ok {
		refusal.Entity = j.ID.Public(pawl.JobPrefix)
	}
	return err
}

// cancelOpen cancels every step that has not ended: at once, or by asking the
// worker that holds it. The hooks of a running job are spared.
func (d *Decision) cancelOpen(note Note) error {
	if err := d.openInSight(nil); err != nil {
		return err
	}
	var open, parents []*pawl.Step
	d.JobTx.Steps(func(s *pawl.Step) {
		switch {
		case lifecycle.Step.Ended(s.State):
		case d.node(s.Ord).Hook != workflow.NoHook && d.job().State == lifecycle.JobRunning:
		case d.isFan(s):
			parents = append(parents, s)
		default:
			open = append(open, s)
		}
	})
	for _, s := range append(byOrd(open), byOrd(parents)...) {
		if err := d.cancel(s, note); err != nil {
			return err
		}
	}
	return nil
}

// cancel ends one step that has not ended. A worker that holds it is asked to
// stop, and has CancelGrace to do so; a fan-out waits for its instances.
func (d *Decision) cancel(s *pawl.Step, note Note) error {
	if lifecycle.Step.Ended(s.State) {
		return nil
	}
	if d.isFan(s) && s.Live > 0 {
		if s.Mark == pawl.Waiting {
			s.Mark = pawl.Clear
			d.JobTx.Save(s)
		}
		return nil
	}
	if d.isFan(s) && s.DueEvent == lifecycle.StepFailPermanently {
		return d.advance(s) // no instance is left: it failed before it could be cancelled
	}
	if s.State == lifecycle.StepInProgress && !d.isFan(s) {
		switch n := d.node(s.Ord); {
		case n.Kind == workflow.KindWorkflow:
			return d.cancelChild(s, note)
		case !n.Kind.Waits():
			return d.askToStop(s, note)
		}
	}
	d.giveBack(s)
	if s.Mark == pawl.Blocked {
		d.unblock(s)
	}
	s.Mark, s.DueAt, s.DueEvent, s.CompletedAt = pawl.Clear, 0, "", d.Now
	if err := d.JobTx.Move(s, lifecycle.StepCancel, note); err != nil {
		return err
	}
	return d.ended(s)
}

// askToStop asks the worker that holds s to stop it.
func (d *Decision) askToStop(s *pawl.Step, note Note) error {
	if s.DueEvent == lifecycle.StepCancel {
		return nil
	}
	s.DueAt, s.DueEvent = d.Now+CancelGrace.Microseconds(), lifecycle.StepCancel
	return d.JobTx.Move(s, lifecycle.StepCancelRequested, note)
}

// finish ends a job whose nodes have all ended: it settles the ending, runs the hooks,
// and closes the job. If what that needs is out of sight, it marks the job.
func (d *Decision) finish() error {
	j := d.job()
	if j.Open > 0 || j.State != lifecycle.JobRunning {
		return nil
	}
	d.JobTx.SaveJob()
	if j.Hooks != pawl.HooksNotYet {
		return d.close(Note{})
	}
	if unseen := d.endInSight(); unseen != nil {
		if d.Answers.Ending {
			return unseen
		}
		j.MarkNow()
		return nil
	}
	settled, err := d.settle()
	if err != nil || !settled {
		j.MarkNow()
		return err
	}
	if len(d.Definition.Hooks) > 0 {
		return d.startHooks()
	}
	return d.close(Note{})
}

// endInSight returns nil if the hooks and the blocked steps are in sight, else an error
// that says what is not.
func (d *Decision) endInSight() error {
	if err := d.inSight(d.Definition.Hooks); err != nil {
		return err
	}
	if d.job().Blocked > 0 && len(d.blocked()) < d.job().Blocked {
		return d.JobTx.Open()
	}
	return nil
}

// settle decides how the job ends.
func (d *Decision) settle() (bool, error) {
	j := d.job()
	if j.Blocked > 0 {
		return true, d.cancelBlocked()
	}
	answer := d.Answers.Output
	switch {
	case j.Ending != "":
	case !d.Definition.HasOutput():
		j.Ending = lifecycle.JobCompleted
	case answer == nil:
		return false, nil
	case answer.Failure != nil:
		j.Ending, j.Error = lifecycle.JobFailed, answer.Failure
	default:
		j.Ending, j.Output = lifecycle.JobCompleted, answer.Output
	}
	return true, nil
}

// closings are the events that end a job, by its Ending.
var closings = map[machine.State]machine.Event{
	lifecycle.JobCompleted: lifecycle.JobSuccess,
	lifecycle.JobFailed:    lifecycle.JobError,
	lifecycle.JobCanceled:  lifecycle.JobCancel,
}

// close ends a job with the ending that was settled, and wakes the step of the parent
// job that waits for it.
func (d *Decision) close(note Note) error {
	j := d.job()
	j.Mark, j.DueAt, j.DueEvent, j.CompletedAt = pawl.Clear, 0, "", d.Now
	if note.Reason == "" && j.Error != nil && j.Ending != lifecycle.JobCompleted {
		note.Reason = reasonOf(j.Error)
	}
	if err := d.JobTx.MoveJob(closings[j.Ending], note); err != nil {
		return err
	}
	if j.Children && j.Ending == lifecycle.JobCanceled {
		j.Mark, j.MarkAt, j.MarkTries = pawl.Attention, 0, 0 // those below it are canceled, too
	}
	p, err := d.JobTx.Parent()
	if err != nil {
		return err
	}
	if p != nil && p.State == lifecycle.StepInProgress {
		p.MarkNow()
		d.JobTx.Save(p)
	}
	return nil
}
