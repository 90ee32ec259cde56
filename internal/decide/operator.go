package decide

import (
	"encoding/json"
	"errors"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
)

// What operators do to a job and its steps (T13). The tables define what is legal;
// these methods check what a table cannot know.

// ErrNotApplied is returned for a step that has failed and whose outcome no engine has
// applied yet. An engine does that within a moment.
var ErrNotApplied = errors.New("what follows is not decided yet")

// Pause stops enqueueing steps (J2). Running steps continue.
func (d *Decision) Pause(note Note) error {
	j := d.job()
	if err := d.allows(lifecycle.JobPause); err != nil {
		return err
	}
	if j.Paused {
		return conflict(j, "is already paused")
	}
	j.Paused = true
	return d.JobTx.MoveJob(lifecycle.JobPause, note)
}

// conflict is the error of a job whose state does not allow what was asked.
func conflict(j *pawl.Job, why string) error {
	id := j.ID.Public(pawl.JobPrefix)
	return &pawl.Error{Kind: pawl.Conflict, Entity: id, Message: "job " + id + " " + why}
}

// Resume ends a pause. The caller refills.
func (d *Decision) Resume(note Note) error {
	j := d.job()
	if err := d.allows(lifecycle.JobResume); err != nil {
		return err
	}
	if !j.Paused {
		return conflict(j, "is not paused")
	}
	j.Paused = false
	return d.JobTx.MoveJob(lifecycle.JobResume, note)
}

// Retry lets the next attempt of a step that waits for its backoff begin now.
func (d *Decision) Retry(s *pawl.Step, note Note) error {
	if err := d.allowsStep(s, lifecycle.StepRetry); err != nil {
		return err
	}
	if s.State == lifecycle.StepRetryableError || s.DueEvent == lifecycle.StepRetry { // it has failed, or snoozed
		return d.retryNotApplied(s, note)
	}
	if s.DueEvent != lifecycle.StepEnqueue {
		return pawl.Errorf(pawl.Conflict, "step %s does not wait for another attempt", d.Definition.Key(s.Ord))
	}
	s.DueAt, s.DueEvent = 0, ""
	note.Metadata = retryNote(d.Now)
	if err := d.JobTx.Move(s, lifecycle.StepRetry, note); err != nil {
		return err
	}
	return d.again(s)
}

// retryNotApplied retries a step whose outcome was not applied yet.
func (d *Decision) retryNotApplied(s *pawl.Step, note Note) error {
	if why := Exhausted(d.Definition, s); why != "" {
		return pawl.Errorf(pawl.Conflict, "step %s gets no further attempt: %s", d.Definition.Key(s.Ord), why)
	}
	d.giveBack(s)
	s.Mark, s.DueAt, s.DueEvent = pawl.Clear, 0, ""
	note.Metadata = retryNote(d.Now)
	if err := d.JobTx.Move(s, lifecycle.StepRetry, note); err != nil {
		return err
	}
	return d.again(s)
}

// giveBack takes the slot of its job from a step that an operator ends while it
// is enqueued, or before its outcome is applied.
func (d *Decision) giveBack(s *pawl.Step) {
	if s.State == lifecycle.StepEnqueued || s.Mark == pawl.Attention && s.Worker != 0 {
		d.job().Active--
		d.JobTx.SaveJob()
	}
}

// Skip ends a step as skipped, with the same consequences as a condition that is false.
func (d *Decision) Skip(s *pawl.Step, note Note) error {
	return d.settleStep(s, lifecycle.StepSkip, nil, note)
}

// Resolve ends a step as resolved_manually, with an output; what depends on it
// continues. A step that has failed can be resolved as long as its job drains.
func (d *Decision) Resolve(s *pawl.Step, output json.RawMessage, note Note) error {
	if s.State == lifecycle.StepPermanentError {
		return d.resolveFailed(s, output, note)
	}
	return d.settleStep(s, lifecycle.StepResolve, output, note)
}

func (d *Decision) settleStep(s *pawl.Step, event machine.Event, output json.RawMessage, note Note) error {
	if err := d.running(s); err != nil {
		return err
	}
	if err := d.allowsStep(s, event); err != nil {
		return err
	}
	d.giveBack(s)
	if s.Mark == pawl.Blocked {
		d.unblock(s)
	}
	s.Mark, s.DueAt, s.DueEvent, s.CompletedAt, s.Output = pawl.Clear, 0, "", d.Now, output
	if err := d.JobTx.Move(s, event, note); err != nil {
		return err
	}
	if d.job().Blocked > 0 {
		if err := d.release(); err != nil { // the steps that only this one kept blocked
			return err
		}
	}
	if err := d.ended(s); err != nil {
		return err
	}
	return d.finish()
}

// running returns an error unless the job is running and its end has not begun.
func (d *Decision) running(s *pawl.Step) error {
	j := d.job()
	hook := d.node(s.Ord).Hook != workflow.NoHook
	switch {
	case lifecycle.Step.Ended(s.State) && s.State != lifecycle.StepPermanentError:
		return nil // the table refuses it, and says more
	case j.State != lifecycle.JobRunning:
		return conflict(j, "is "+string(j.State)+": its steps can be settled while it is RUNNING")
	case d.stopping():
		return conflict(j, "is ending, as "+string(j.Ending))
	case hook != (j.Hooks == pawl.HooksRun):
		return pawl.Errorf(pawl.Conflict, "step %s: hooks can be settled when they run, other steps before", d.Definition.Key(s.Ord))
	}
	return nil
}

// allowsStep returns the table's refusal of an event of s, or nil.
func (d *Decision) allowsStep(s *pawl.Step, event machine.Event) error {
	_, err := lifecycle.Step.Next(s.State, event)
	if refusal, ok := err.(*machine.Refusal); ok {
		refusal.Entity = d.Definition.Key(s.Ord)
	}
	return err
}

// resolveFailed resolves a step that has failed, in a job that drains: steps that are
// behind it and behind no other failed step continue.
func (d *Decision) resolveFailed(s *pawl.Step, output json.RawMessage, note Note) error {
	if err := d.running(s); err != nil {
		return err
	}
	if d.node(s.Ord).Hook != workflow.NoHook {
		return pawl.Errorf(pawl.Conflict, "hook %s has failed, and nothing waits for it", d.Definition.Key(s.Ord))
	}
	if s.Ord.Instance() != 0 {
		parent := d.Definition.Nodes[s.Ord.Node()-1].ID
		return &pawl.Error{Kind: pawl.Conflict, Message: "step " + d.Definition.Key(s.Ord) + " is an instance that has failed", Hint: "resolve the whole step once it has failed: " + parent}
	}
	if s.Mark == pawl.Attention {
		return &pawl.Error{Kind: pawl.Conflict, Message: "step " + d.Definition.Key(s.Ord) + " has failed at this moment", Hint: "try again", Err: ErrNotApplied}
	}
	s.Output, s.CompletedAt = output, d.Now
	if err := d.JobTx.Move(s, lifecycle.StepResolve, note); err != nil {
		return err
	}
	failing, err := d.failingNodes()
	if err != nil {
		return err
	}
	if len(failing) == 0 {
		d.job().Ending = ""
	} else {
		d.job().Error = d.failureOf(failing[0])
	}
	if err := d.release(); err != nil {
		return err
	}
	d.job().Open++ // what ended counts down
	d.JobTx.SaveJob()
	if err := d.ended(s); err != nil {
		return err
	}
	return d.finish()
}

// failedNodes returns the failed nodes whose outcome has been applied.
func (d *Decision) failedNodes() ([]int, error) {
	return d.nodesThat(func(s *pawl.Step) bool { return s.State == lifecycle.StepPermanentError && s.Mark != pawl.Attention })
}

// failingNodes returns the nodes that have failed, or are going to because an
// instance has.
func (d *Decision) failingNodes() ([]int, error) {
	return d.nodesThat(func(s *pawl.Step) bool {
		return s.State == lifecycle.StepPermanentError || s.State == lifecycle.StepInProgress && d.isFan(s) && s.DueEvent == lifecycle.StepFailPermanently
	})
}

func (d *Decision) nodesThat(f func(*pawl.Step) bool) (found []int, err error) {
	for n := range d.Definition.Nodes {
		s, err := d.nodeStep(n + 1)
		if err != nil {
			return nil, err
		}
		if f(s) {
			found = append(found, n+1)
		}
	}
	return found, nil
}

// failureOf returns why a node has failed, or nil if that was not read.
func (d *Decision) failureOf(n int) *pawl.Failure {
	key := d.Definition.Nodes[n-1].ID
	f := pawl.Failure{Class: "step", Message: "step " + key + " failed", Permanent: true}
	if read := d.Answers.Errors[pawl.MakeOrd(n, 0)]; read != nil {
		f = *read
	}
	if f.Step == "" {
		f.Step = key
	}
	return &f
}

// release unblocks what is behind no failed node any more.
func (d *Decision) release() error {
	failed, err := d.failedNodes()
	if err != nil {
		return err
	}
	still, err := d.behind(failed...)
	if err != nil {
		return err
	}
	for n := range d.Definition.Nodes {
		s, err := d.nodeStep(n + 1)
		if err != nil {
			return err
		}
		if s.Mark == pawl.Blocked && still[n+1] == nil {
			d.unblock(s)
		}
	}
	return nil
}

// Adopt completes a pending step of a job that has not started with the output
// that it has in the job that this one continues (J2).
func (d *Decision) Adopt(s *pawl.Step, output json.RawMessage) error {
	if err := d.take(s); err != nil {
		return err
	}
	return d.preset(s, lifecycle.StepSuccess, output, Note{Reason: Reused})
}

// Preset resolves a pending step of a job that has not started (T13).
func (d *Decision) Preset(s *pawl.Step, output json.RawMessage, note Note) error {
	return d.preset(s, lifecycle.StepResolve, output, note)
}

func (d *Decision) preset(s *pawl.Step, event machine.Event, output json.RawMessage, note Note) error {
	s.Output, s.CompletedAt = output, d.Now
	if err := d.JobTx.Move(s, event, note); err != nil {
		return err
	}
	d.countOut(s)
	for _, n := range d.node(s.Ord).Dependents {
		next, err := d.nodeStep(n)
		if err != nil {
			return err
		}
		next.Unmet--
		d.JobTx.Save(next)
	}
	return nil
}
