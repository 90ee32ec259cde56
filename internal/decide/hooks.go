package decide

import (
	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
)

// Hooks run one after another when the ending of the job is settled (T7). Their
// outcomes do not change it.

// startHooks begins the hooks, with the job's deadline lifted.
func (d *Decision) startHooks() error {
	j := d.job()
	j.Hooks, j.Open = pawl.HooksRun, len(d.Definition.Hooks)
	if !d.timedOut() {
		j.DueAt, j.DueEvent = 0, ""
	}
	if err := d.JobTx.MoveJob(lifecycle.JobHooks, Note{Metadata: endingNote(j.Ending)}); err != nil {
		return err
	}
	if err := d.nextHook(); err != nil {
		return err
	}
	return d.finish()
}

func endingNote(ending machine.State) []byte { return []byte(`{"ending":"` + string(ending) + `"}`) }

// nextHook begins the first remaining hook, unless one runs. It skips hooks for another
// ending.
func (d *Decision) nextHook() error {
	for _, n := range d.Definition.Hooks {
		s, err := d.nodeStep(n)
		switch {
		case err != nil:
			return err
		case lifecycle.Step.Ended(s.State):
			continue
		case s.State != lifecycle.StepPending || s.Claims > 0 || s.Attempts > 0 || s.Mark != pawl.Clear:
			return nil
		}
		if why := d.notFor(d.node(s.Ord).Hook); why != "" {
			return d.skip(s, why) // and so on to the next
		}
		return d.begin(s)
	}
	return nil
}

// notFor returns why a kind of hooks does not run for the ending of the job, or "".
func (d *Decision) notFor(kind workflow.Hook) string {
	ending := d.job().Ending
	switch {
	case kind == workflow.HookOnFailure && ending != lifecycle.JobFailed && !d.timedOut():
		return "the job did not fail"
	case kind == workflow.HookOnCancel && (ending != lifecycle.JobCanceled || d.timedOut()):
		return "the job was not canceled"
	}
	return ""
}

// timedOut reports whether the job's deadline has ended it. The event of the deadline
// stays for this, without its time, until the job is closed: its error is not in sight.
func (d *Decision) timedOut() bool {
	j := d.job()
	return j.DueAt == 0 && j.DueEvent == lifecycle.JobCancel
}

// hookEnded begins the next hook.
func (d *Decision) hookEnded(s *pawl.Step) error {
	j := d.job()
	if j.Hooks == pawl.HooksNotYet {
		d.JobTx.Fold(s) // cancelled with a job that never ran, and not among the open nodes
		return nil
	}
	d.countOut(s)
	if j.Hooks == pawl.HooksCancelled {
		return nil
	}
	return d.nextHook()
}

// cancelHooks cancels the hooks that have not ended.
func (d *Decision) cancelHooks(note Note) error {
	if err := d.JobTx.Open(); err != nil {
		return err
	}
	d.job().Hooks = pawl.HooksCancelled
	d.JobTx.SaveJob()
	var open []*pawl.Step
	d.JobTx.Steps(func(s *pawl.Step) {
		if !lifecycle.Step.Ended(s.State) {
			open = append(open, s)
		}
	})
	for _, s := range byOrd(open) {
		if err := d.cancel(s, note); err != nil {
			return err
		}
	}
	if d.job().Open > 0 {
		return d.JobTx.MoveJob(lifecycle.JobHalt, note)
	}
	return nil
}
