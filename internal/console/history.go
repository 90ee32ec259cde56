package console

import (
	"fmt"
	"io"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/inspect"
)

// History lists the transitions of a job and its steps.
func History(w io.Writer, json bool, zone *time.Location) *Listing[pawl.Transition] {
	row := func(r *pawl.Transition) []string {
		of := r.Step
		if of == "" {
			of = inspect.OfJob
		}
		lasted := ""
		if r.Took != nil {
			lasted = Duration(time.Duration(*r.Took))
		}
		return []string{Stamp(r.At.Time(), zone), of, move(r), string(r.Event), lasted, r.Actor, r.Reason}
	}
	return &Listing[pawl.Transition]{W: w, JSON: json, Head: []string{"AT", "OF", "MOVE", "EVENT", "TOOK", "BY", "WHY"}, Row: row}
}

// Moves lists moves of the audit trail.
func Moves(w io.Writer, json bool, zone *time.Location) *Listing[pawl.Move] {
	row := func(m *pawl.Move) []string {
		what, of := m.Machine+" "+m.Name, m.Entity
		if m.Step != "" {
			what, of = "step "+m.Step+" of "+m.Name, m.JobID
		}
		return []string{Stamp(m.At.Time(), zone), what, of, move(&m.Transition), string(m.Event), m.Actor, m.Reason}
	}
	return &Listing[pawl.Move]{W: w, JSON: json, Head: []string{"AT", "WHAT", "OF", "MOVE", "EVENT", "BY", "WHY"}, Row: row}
}

func move(r *pawl.Transition) string {
	switch {
	case r.Refused:
		return "REFUSED"
	case r.From == nil:
		return string(r.To)
	case *r.From == r.To:
		return fmt.Sprintf("%s (stays)", r.To)
	}
	return fmt.Sprintf("%s -> %s", *r.From, r.To)
}
