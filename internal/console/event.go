package console

import (
	"fmt"
	"time"

	"github.com/pawl-dev/pawl"
)

// Event returns a line about a move: when, of what, which event led where, and who asked for it.
func Event(e *pawl.Event, zone *time.Location) string {
	of := e.Machine + " " + e.Name
	switch {
	case e.Step != "":
		of = fmt.Sprintf("step %s of %s %s", e.Step, e.Name, e.JobID)
	default:
		of += " " + e.Entity
	}
	line := fmt.Sprintf("%s  %s  %s  %s  by %s", Stamp(e.At.Time(), zone), of, e.Event, move(&pawl.Transition{From: e.From, To: e.To}), e.Actor)
	if e.Reason != "" {
		line += ": " + e.Reason
	}
	return OneLine(line) + "\n"
}
