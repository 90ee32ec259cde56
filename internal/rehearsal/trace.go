package rehearsal

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/machine"
)

// An entry is one row of a timeline as it is stored: paths share their common rows.
type entry struct {
	ord      pawl.Ord // 0: the job
	from, to machine.State
	event    machine.Event
	at       int64
	why      string
	before   *entry
	said     string // instead of a move
}

func (w *World) tell(e entry) {
	e.at, e.before = w.Now, w.trail
	w.trail = &e
}

// Say records an event that is not a move.
func (w *World) Say(ord pawl.Ord, format string, args ...any) {
	w.tell(entry{ord: ord, said: fmt.Sprintf(format, args...)})
}

// A Row is one line of a timeline: a move of a step or of the job, or another event.
type Row struct {
	At    pawl.Duration `json:"at"`            // since the job was submitted
	Job   string        `json:"job,omitempty"` // of a child job: the step that waits for it
	Step  string        `json:"step,omitempty"`
	From  machine.State `json:"from,omitempty"`
	To    machine.State `json:"to,omitempty"`
	Event machine.Event `json:"event,omitempty"`
	Note  string        `json:"note,omitempty"`
}

// String writes a row as "T+00:01:02 load[2] in_progress -> complete (success)".
func (r Row) String() string {
	who := "job"
	if r.Step != "" {
		who = r.Step
	}
	if r.Job != "" {
		who = r.Job + "/" + who
	}
	line := fmt.Sprintf("%s %s ", clock(time.Duration(r.At)), who)
	switch {
	case r.Event == "":
		return line + r.Note
	case r.From == r.To:
		line += string(r.To) + " (" + string(r.Event) + ")"
	default:
		line += fmt.Sprintf("%s -> %s (%s)", r.From, r.To, r.Event)
	}
	if r.Note != "" {
		line += ": " + r.Note
	}
	return line
}

// clock formats a time since the beginning, with milliseconds if it is no whole second.
func clock(d time.Duration) string {
	d = d.Round(time.Millisecond)
	text := fmt.Sprintf("T+%02d:%02d:%02d", int(d.Hours()), int(d.Minutes())%60, int(d.Seconds())%60)
	if ms := d.Milliseconds() % 1000; ms != 0 {
		text += fmt.Sprintf(".%03d", ms)
	}
	return text
}

// A Timeline is what happened to a job, in order.
type Timeline []Row

// String returns a line for each row.
func (t Timeline) String() string {
	var b strings.Builder
	for _, r := range t {
		b.WriteString(r.String() + "\n")
	}
	return b.String()
}

// Drain removes and returns the rows since the last call.
func (w *World) Drain() Timeline {
	rows := w.Timeline()
	w.trail = nil
	return rows
}

// Timeline returns all rows.
func (w *World) Timeline() Timeline {
	var rows Timeline
	for e := w.trail; e != nil; e = e.before {
		rows = append(rows, w.row(e))
	}
	slices.Reverse(rows)
	return rows
}

func (w *World) row(e *entry) Row {
	r := Row{At: pawl.Duration(time.Duration(e.at-Epoch) * time.Microsecond), From: e.from, To: e.to, Event: e.event, Note: e.why}
	if e.said != "" {
		r.Note = e.said
	}
	if e.ord != 0 {
		r.Step = w.Definition.Key(e.ord)
	}
	if w.ParentJob != nil {
		r.Job = w.path()
	}
	return r
}

// path names a child job by the steps that wait for it and its parents.
func (w *World) path() string {
	key := w.ParentJob.Definition.Key(w.ParentStep)
	if w.ParentJob.ParentJob != nil {
		return w.ParentJob.path() + "/" + key
	}
	return key
}

// Brief leaves the obvious rows out of a timeline: that a step was enqueued and
// claimed.
func (t Timeline) Brief() Timeline {
	return slices.DeleteFunc(slices.Clone(t), func(r Row) bool {
		return r.Step != "" && (r.To == "enqueued" || r.Event == "claim" || r.Event == "cancel_requested")
	})
}
