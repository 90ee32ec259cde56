package results

import (
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/internal/load/controller"
	"github.com/pawl-dev/pawl/internal/load/journal"
	"github.com/pawl-dev/pawl/internal/load/report"
)

// A State is what a run is now.
type State string

// The states of a run: the phases of one that is on, and how others have ended.
const (
	Connecting = State(controller.Connecting)
	Preparing  = State(controller.Preparing)
	Starting   = State(controller.Starting)
	Running    = State(controller.Running)
	Ending     = State(controller.Ending)
	Completed  = State(report.Completed)
	Failed     = State(report.Failed)
	Aborted    = State(report.Aborted)
	Lost       = State("lost")    // it has begun, its controller is gone, and there is no result
	Damaged    = State("damaged") // its result cannot be read
)

// States are all of them.
var States = []State{Connecting, Preparing, Starting, Running, Ending, Completed, Failed, Aborted, Lost, Damaged}

// On reports whether a run in that state is on.
func (s State) On() bool {
	return s == Connecting || s == Preparing || s == Starting || s == Running || s == Ending
}

// A Run is a run in short.
type Run struct {
	Name       string         // of its folder
	ID         string         // of the run; empty if it is not known
	Load       string         // the name of its load file
	State      State          //
	Reason     string         // why it ends, has failed, is damaged or lost
	Partial    bool           // a part of the result is missing
	Violations int            // of thresholds
	Agents     int            //
	Begun      time.Time      // the agreed start, or when its controller has begun; of damaged ones, when they were written
	Ended      time.Time      // zero: it has not, or nobody knows
	Heard      time.Time      // of one that is on or lost: when its controller has last written anything
	Seconds    float64        // that were measured
	Total      report.Figures // of the whole run, or of the last interval if it is on or lost
	Result     bool           // it has one, which is not damaged
	Requested  *journal.Request
}

// Place returns the place of a run among others, as text that sorts: the newest is first.
func (r *Run) Place() string {
	const last = 1 << 62
	return fmt.Sprintf("%019d %s", last-max(r.Begun.UnixMicro(), 0), r.Name)
}

// ofSummary returns a run that has a result.
func ofSummary(name string, s *report.Summary) Run {
	r := Run{Name: name, ID: s.RunID, Load: s.Name, State: State(s.Outcome), Reason: s.Reason, Partial: s.Partial, Violations: len(s.Violations),
		Agents: len(s.Agents), Begun: s.Ended, Ended: s.Ended, Seconds: s.Seconds, Total: s.Total, Result: true}
	if s.Started != nil {
		r.Begun = *s.Started
	}
	if r.State != Completed && r.State != Failed && r.State != Aborted {
		r.State, r.Result, r.Reason = Damaged, false, "summary.json: the outcome is "+s.Outcome
	}
	return r
}

// ofJournal returns a run that has a journal.
func ofJournal(name string, info *journal.Info, s *journal.State) Run {
	phase := s.Phase()
	r := Run{Name: name, ID: info.Run, Load: info.Name, State: Connecting, Reason: phase.Reason, Agents: phase.Agents, Begun: info.Begun}
	if state := State(phase.Phase); state.On() {
		r.State = state
	}
	if phase.Start != nil {
		r.Begun = *phase.Start
	}
	if i := s.Last(); i != nil {
		r.Total, r.Seconds = i.Total, i.End
	}
	return r
}

// Why a run is lost, or damaged.
const (
	LostReason      = "it has no result: its controller has died, or could not write one"
	hangsReason     = "it cannot be read in time: its file system may hang"
	unwrittenReason = "it has no result: its controller could not write one"
)

// over makes the run one whose controller is gone without a result. One that says how it has ended, and
// had not begun, has nothing to be kept but that.
func (r *Run) over(end *journal.EndLine, began bool) {
	r.State, r.Reason = Lost, LostReason
	if end == nil {
		return
	}
	r.Ended, r.Reason = end.At.UTC(), unwrittenReason
	if outcome := State(end.Outcome); !began && (outcome == Failed || outcome == Aborted) {
		r.State, r.Reason = outcome, end.Reason
	}
}
