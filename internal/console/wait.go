package console

import (
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/inspect"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/workflow"
)

// awaits says what a step waits for other than a worker, or how and by whom that wait was
// ended; otherwise it returns "".
func awaits(s *pawl.StepView, zone *time.Location) string {
	w := s.Wait
	if w == nil {
		return ""
	}
	kind := workflow.Kind(w.Kind)
	switch {
	case s.Status == lifecycle.StepComplete && w.By != "":
		return decided(kind, w)
	case s.Status != lifecycle.StepInProgress:
		return ""
	}
	text := ""
	switch kind {
	case workflow.KindApproval:
		text = "waits for approval"
		if w.Prompt != "" {
			text += ": " + w.Prompt
		}
	case workflow.KindEvent:
		text = "waits for the event " + w.Event
	case workflow.KindWorkflow:
		text = "waits for job " + w.Job
	case workflow.KindSleep:
		text = "sleeps"
	}
	if w.Until != 0 {
		text += ", until " + In(w.Until.Time(), zone).Format(time.RFC3339)
	}
	return OneLine(text)
}

// OneLine turns text that people wrote into one printable line.
func OneLine(text string) string { return Printable(strings.Join(strings.Fields(text), " ")) }

func decided(kind workflow.Kind, w *pawl.Wait) string {
	text := "by " + w.By
	if kind == workflow.KindApproval {
		text = "approved " + text
	}
	if w.Reason != "" {
		text += ": " + w.Reason
	}
	return OneLine(text)
}

// Answer returns the command that ends the wait for an approval, or "". given are the global
// flags that the command needs.
func Answer(s *pawl.StepView, job, given string) string {
	if !inspect.WaitsForApproval(s) {
		return ""
	}
	return "pawl approve " + job + " " + Shell(s.Key) + s.Wait.Blanks() + given
}

// Instead returns a hint at what can be done to a step in place of the refused action, or "".
func Instead(v *pawl.JobView, step, given string) string {
	if v.Status == lifecycle.JobFailed || v.Status == lifecycle.JobCanceled {
		return "continue the job with a new one: pawl job retry " + v.ID + given
	}
	for i := range v.Steps {
		if command := Answer(&v.Steps[i], v.ID, given); v.Steps[i].Key == step && command != "" {
			return "answer the approval with: " + command
		}
	}
	return ""
}
