package console

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// A Transcript follows a job as plain lines, one for each change of a step's state:
//
//	2026-01-31T10:00:00.123Z extract in_progress
//	2026-01-31T10:00:01.456Z extract complete (1.3s)
//
// A change without a time of its own has the time at which it was seen. The instances of a
// large fan-out are counted; see fanOut.
type Transcript struct {
	w     io.Writer
	now   func() time.Time
	seen  map[string]pawl.StepView // by key
	job   machine.State
	id    string // of the job
	Given string // the global flags that printed commands need
	Zone  *time.Location
	lines []change // of one call of Show
}

// A change is one line.
type change struct {
	at   time.Time
	text string
}

func NewTranscript(w io.Writer, now func() time.Time) *Transcript {
	return &Transcript{w: w, now: now, seen: make(map[string]pawl.StepView)}
}

// Since records the earlier state, so that it is not reported as a change.
func (t *Transcript) Since(v *pawl.JobView) {
	t.job = v.Status
	for _, s := range v.Steps {
		t.seen[s.Key] = s
	}
}

func (t *Transcript) Close() {}

// Show writes what has changed since the last call, in the order of time.
func (t *Transcript) Show(v *pawl.JobView) {
	t.id = v.ID
	if t.job == "" && !lifecycle.Job.Ended(v.Status) {
		t.line(v.CreatedAt.Time(), v.Workflow, v.Status, "")
	}
	fanOuts := t.fanOuts(v.Steps)
	for _, s := range v.Steps {
		node, _, instance := strings.Cut(s.Key, "[")
		if counted := instance && fanOuts[node] != nil; !counted || t.remarkable(&s) {
			t.step(&s, counted)
		}
		t.seen[s.Key] = s
	}
	if v.Status != t.job && lifecycle.Job.Ended(v.Status) {
		t.line(v.CompletedAt.Time(), v.Workflow, v.Status, elapsed(v.StartedAt, v.CompletedAt, time.Time{}))
	}
	t.job = v.Status
	slices.SortStableFunc(t.lines, func(a, b change) int { return a.at.Compare(b.at) })
	for _, l := range t.lines {
		fmt.Fprintln(t.w, Stamp(l.at, t.Zone)+" "+l.text)
	}
	t.lines = t.lines[:0]
}

// step reports one step. It reports a start that came and went between two calls of Show too,
// unless it is the first attempt of an instance that is only counted.
func (t *Transcript) step(s *pawl.StepView, counted bool) {
	was, known := t.seen[s.Key]
	if known && was.Status == s.Status && was.Claims == s.Claims && was.NotBefore == s.NotBefore {
		return
	}
	running := s.Status == lifecycle.StepInProgress
	begun := s.Claims > was.Claims || running && was.Status != s.Status
	if begun && (running || !counted || s.Attempts > 1) {
		t.line(s.StartedAt.Time(), s.Key, lifecycle.StepInProgress, t.doing(s))
	}
	end := t.now()
	if s.CompletedAt != 0 {
		end = s.CompletedAt.Time()
	}
	switch s.Status {
	case lifecycle.StepInProgress, lifecycle.StepEnqueued:
	case lifecycle.StepPending:
		if s.NotBefore != 0 {
			t.line(end, s.Key, s.Status, fmt.Sprintf("attempt %d at %s: %s", s.Attempts+1, Stamp(s.NotBefore.Time(), t.Zone), Message(s.Error)))
		} else if s.Claims > 0 {
			t.line(end, s.Key, s.Status, "")
		}
	case lifecycle.StepComplete:
		t.line(end, s.Key, s.Status, joined(elapsed(s.StartedAt, s.CompletedAt, time.Time{}), awaits(s, t.Zone)))
	default:
		t.line(end, s.Key, s.Status, Message(s.Error))
	}
}

// doing describes a step in progress.
func (t *Transcript) doing(s *pawl.StepView) string {
	if s.Status != lifecycle.StepInProgress { // it came and went
		return attempt(s)
	}
	text := joined(attempt(s), awaits(s, t.Zone))
	if command := Answer(s, t.id, t.Given); command != "" {
		text += "; approve it with: " + command
	}
	return text
}

func joined(facts ...string) string {
	return strings.Join(slices.DeleteFunc(facts, func(fact string) bool { return fact == "" }), "; ")
}

func attempt(s *pawl.StepView) string {
	if s.Attempts > 1 {
		return fmt.Sprintf("attempt %d", s.Attempts)
	}
	return ""
}

func Message(f *pawl.Failure) string {
	if f == nil {
		return ""
	}
	return f.Text()
}

func (t *Transcript) line(at time.Time, what string, state machine.State, more string) {
	if more != "" {
		more = " (" + Printable(more) + ")"
	}
	t.lines = append(t.lines, change{at, what + " " + strings.ToLower(string(state)) + more})
}
