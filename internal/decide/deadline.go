package decide

import (
	"fmt"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
)

// TimeOut ends a job that takes longer than its timeout: as CANCELED, with the hooks
// of a failure.
func (d *Decision) TimeOut() error {
	return d.cancelJob(pawl.ClassTimeout, Note{Reason: "timeout: it took longer than " + d.Definition.Timeout.String()})
}

// Fire applies the deadline of a step that has passed (K8).
func (d *Decision) Fire(s *pawl.Step) error {
	if err := d.fire(s); err != nil {
		return err
	}
	return d.finish()
}

func (d *Decision) fire(s *pawl.Step) error {
	switch s.DueEvent {
	case lifecycle.StepEnqueue:
		s.DueAt, s.DueEvent = 0, ""
		d.JobTx.Save(s)
		return d.again(s)
	case lifecycle.StepRetry, lost:
		return d.ApplyOutcome(s)
	case lifecycle.StepQueueTimeout:
		return d.overdue(s, fmt.Sprintf("no worker took it within %s", d.node(s.Ord).QueueTimeout))
	case lifecycle.StepSuccess, lifecycle.StepFailPermanently:
		return d.waited(s)
	case lifecycle.StepTimeout:
		return d.overdue(s, fmt.Sprintf("it took longer than %s", d.node(s.Ord).Timeout))
	case lifecycle.StepCancel:
		return d.overdue(s, fmt.Sprintf("its worker did not stop it within %s", CancelGrace))
	}
	return fmt.Errorf("step %s: there is no deadline for %q", d.Definition.Key(s.Ord), s.DueEvent)
}

// overdue takes a step from a worker that has not ended it in time.
func (d *Decision) overdue(s *pawl.Step, why string) error {
	f := &pawl.Failure{Class: string(s.DueEvent), Message: why}
	return d.Report(s, Report{Event: s.DueEvent, Failure: f, Note: Note{Reason: why}})
}
