package main

import (
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/workflow"
)

// awaits says what a step waits for that is not a worker, or who ended that wait,
// and how; else nothing.
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
		text += ", until " + in(w.Until.Time(), zone).Format(time.RFC3339)
	}
	return oneLine(text)
}

// oneLine writes what people have written as one line that can be shown.
func oneLine(text string) string { return printable(strings.Join(strings.Fields(text), " ")) }

func decided(kind workflow.Kind, w *pawl.Wait) string {
	text := "by " + w.By
	if kind == workflow.KindApproval {
		text = "approved " + text
	}
	if w.Reason != "" {
		text += ": " + w.Reason
	}
	return oneLine(text)
}

// answer is the command that ends the wait of an approval, or "". Given are the
// global flags that it needs.
func answer(s *pawl.StepView, job, given string) string {
	if !waitsFor(s, workflow.KindApproval) {
		return ""
	}
	return "pawl approve " + job + " " + shell(s.Key) + s.Wait.Blanks() + given
}
