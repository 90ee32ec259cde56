package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// A teller follows a job as plain lines, one for each change of a step's state:
//
//	2026-01-31T10:00:00.123Z extract in_progress
//	2026-01-31T10:00:01.456Z extract complete (1.3s)
type teller struct {
	w    io.Writer
	seen map[string]pawl.StepView // by key
	job  machine.State
}

func newTeller(w io.Writer) *teller { return &teller{w: w, seen: make(map[string]pawl.StepView)} }

// show tells what has changed since it was called last.
func (t *teller) show(v *pawl.JobView) {
	if v.Status != t.job && t.job == "" {
		t.line(v.CreatedAt.Time(), v.Workflow, v.Status, "")
	}
	for _, s := range v.Steps {
		t.step(&s, v.UpdatedAt)
		t.seen[s.Key] = s
	}
	if v.Status != t.job && lifecycle.Job.Ended(v.Status) {
		t.line(v.CompletedAt.Time(), v.Workflow, v.Status, took(v.StartedAt, v.CompletedAt, time.Time{}))
	}
	t.job = v.Status
}

// step tells of one step. A start that came and went between two looks is told
// all the same.
func (t *teller) step(s *pawl.StepView, at pawl.Timestamp) {
	was, known := t.seen[s.Key]
	if known && was.Status == s.Status && was.Claims == s.Claims && was.NotBefore == s.NotBefore {
		return
	}
	running := s.Status == lifecycle.StepInProgress
	if s.Claims > was.Claims || running && was.Status != s.Status {
		t.line(s.StartedAt.Time(), s.Key, lifecycle.StepInProgress, attempt(s))
	}
	end := s.CompletedAt
	if end == 0 {
		end = at
	}
	switch s.Status {
	case lifecycle.StepInProgress, lifecycle.StepEnqueued:
	case lifecycle.StepPending:
		if s.NotBefore != 0 {
			t.line(end.Time(), s.Key, s.Status, fmt.Sprintf("attempt %d at %s: %s", s.Attempts+1, stamp(s.NotBefore.Time()), message(s.Error)))
		} else if s.Claims > 0 {
			t.line(end.Time(), s.Key, s.Status, "")
		}
	case lifecycle.StepComplete:
		t.line(end.Time(), s.Key, s.Status, took(s.StartedAt, s.CompletedAt, time.Time{}))
	default:
		t.line(end.Time(), s.Key, s.Status, message(s.Error))
	}
}

func attempt(s *pawl.StepView) string {
	if s.Attempts > 1 {
		return fmt.Sprintf("attempt %d", s.Attempts)
	}
	return ""
}

func message(f *pawl.Failure) string {
	if f == nil {
		return ""
	}
	return f.Message
}

func (t *teller) line(at time.Time, what string, state machine.State, more string) {
	if more != "" {
		more = " (" + printable(more) + ")"
	}
	fmt.Fprintf(t.w, "%s %s %s%s\n", stamp(at), what, strings.ToLower(string(state)), more)
}
