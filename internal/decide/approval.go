package decide

import (
	"encoding/json"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/workflow"
)

// Approve completes an approval that waits. Form is what BindForm returned.
func (d *Decision) Approve(s *pawl.Step, form json.RawMessage, note Note) error {
	if err := d.asked(s); err != nil {
		return err
	}
	if err := d.decided(s, note); err != nil {
		return err
	}
	return d.Report(s, Report{Event: lifecycle.StepSuccess, Output: form, Note: note})
}

// Reject refuses an approval that waits: its step fails for good.
func (d *Decision) Reject(s *pawl.Step, note Note) error {
	if err := d.asked(s); err != nil {
		return err
	}
	if err := d.decided(s, note); err != nil {
		return err
	}
	f := &pawl.Failure{Class: "rejected", Message: "rejected by " + note.Actor, Permanent: true}
	if note.Reason != "" {
		f.Message += ": " + note.Reason
	}
	return d.Report(s, Report{Event: lifecycle.StepFailPermanently, Failure: f, Note: note})
}

// decided stores who decided an approval, beside what was asked.
func (d *Decision) decided(s *pawl.Step, note Note) error {
	w := d.Answers.Waits[s.Ord]
	w.Kind, w.By, w.Reason = string(workflow.KindApproval), note.Actor, note.Reason
	return d.tell(s, w)
}

// asked refuses what is not an approval that waits.
func (d *Decision) asked(s *pawl.Step) error {
	key := d.Definition.Key(s.Ord)
	switch {
	case d.node(s.Ord).Kind != workflow.KindApproval || d.isFan(s):
		return pawl.Errorf(pawl.Conflict, "step %s is not an approval", key)
	case s.State != lifecycle.StepInProgress:
		return pawl.Errorf(pawl.Conflict, "step %s does not wait for an approval: it is %s", key, s.State)
	}
	return nil
}
