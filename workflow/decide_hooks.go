package workflow

import (
	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// Hooks run one after another when it is certain how the job ends (T7). What
// becomes of them does not change that.

// startHooks begins the hooks, with the job's deadline lifted.
func (d *Decision) startHooks() error {
	j := d.job()
	j.Hooks, j.Open = pawl.HooksRun, len(d.Definition.Hooks)
	j.DueAt, j.DueEvent = 0, ""
	if err := d.Board.MoveJob(lifecycle.JobHooks, Note{Metadata: endingNote(j.Ending)}); err != nil {
		return err
	}
	if err := d.nextHook(); err != nil {
		return err
	}
	return d.finish()
}

func endingNote(ending machine.State) []byte { return []byte(`{"ending":"` + string(ending) + `"}`) }

// nextHook begins the first hook that is left, unless one is on. Those on failure
// are skipped in a job that did not fail.
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
		case d.Definition.Nodes[n-1].Hook == HookOnFailure && d.job().Ending != lifecycle.JobFailed:
			return d.skip(s, "the job did not fail") // and so on to the next
		}
		return d.begin(s)
	}
	return nil
}

// hookEnded goes on to the next hook.
func (d *Decision) hookEnded(s *pawl.Step) error {
	j := d.job()
	if j.Hooks == pawl.HooksNotYet {
		d.Board.Fold(s) // cancelled with a job that never ran, and not among the open nodes
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
	if err := d.Board.Open(); err != nil {
		return err
	}
	d.job().Hooks = pawl.HooksCancelled
	d.Board.SaveJob()
	var open []*pawl.Step
	d.Board.Steps(func(s *pawl.Step) {
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
		return d.Board.MoveJob(lifecycle.JobHalt, note)
	}
	return nil
}
