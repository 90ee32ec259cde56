package controller

import (
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/load/loadpb"
	"github.com/pawl-dev/pawl/internal/load/report"
)

// A Phase is what a run is about to achieve, for people.
type Phase string

// The phases, in their order.
const (
	Connecting Phase = "connecting"
	Preparing  Phase = "preparing"
	Starting   Phase = "starting" // the clocks are measured
	Running    Phase = "running"  // from the choice of the start time on
	Ending     Phase = "ending"   // the agents were told to abort
)

// Phases are all of them, and AgentStates what [AgentView.State] returns.
var (
	Phases      = []Phase{Connecting, Preparing, Starting, Running, Ending}
	AgentStates = []string{"connecting", "preparing", "ready", "running", "completed", "error", "aborted", "lost"}
)

// A View is a run as it is now.
type View struct {
	ID      string
	Phase   Phase
	Start   time.Time // the coordinated one; zero: there is none yet
	Reason  string    // why the run is being aborted
	Outcome string    // how it ends then: report.Failed or report.Aborted
	Agents  []AgentView
}

// An AgentView is an agent as it is now.
type AgentView struct {
	Index    int
	Name     string // for people: "agent HOST:PORT" or "agent local-1"
	Address  string
	Info     *loadpb.AgentInfo // nil: it has not greeted yet
	Status   loadpb.Status     // the last that it has reported
	Failure  *loadpb.Error     // why it does not count any more; nil: it does
	Progress *loadpb.Progress
	Measured bool // Clock is known
	Clock    report.Clock
	Begun    bool             // Skew is known
	Skew     [2]time.Duration // as in report.Agent
	Dropped  int64
}

// State returns the status of an agent in a word. One that failed without saying so is lost.
func (a *AgentView) State() string {
	switch {
	case a.Failure != nil && !ends[a.Status]:
		return "lost"
	case a.Status == loadpb.Status_STATUS_UNSPECIFIED:
		return "connecting"
	}
	return strings.ToLower(strings.TrimPrefix(a.Status.String(), "STATUS_"))
}

// ends are the states that a run ends in.
var ends = map[loadpb.Status]bool{loadpb.Status_STATUS_COMPLETED: true, loadpb.Status_STATUS_ERROR: true, loadpb.Status_STATUS_ABORTED: true}

func (r *run) view() View {
	v := View{ID: r.ID, Phase: r.phase, Start: r.start, Reason: r.reason, Outcome: r.outcome}
	for _, a := range r.agents {
		v.Agents = append(v.Agents, AgentView{
			Index: a.index, Name: a.name, Address: a.address, Info: a.info, Status: a.status, Failure: a.failure, Progress: a.progress,
			Measured: a.measured, Clock: a.offset, Begun: a.hasBegun, Skew: a.skew, Dropped: a.dropped,
		})
	}
	return v
}

func (r *run) enter(p Phase) {
	r.phase = p
	r.changed()
}

func (r *run) changed() {
	if r.Changed != nil {
		r.Changed(r.view())
	}
}

func (r *run) emit(i Interval) {
	if r.Interval != nil {
		r.Interval(i)
	}
}
