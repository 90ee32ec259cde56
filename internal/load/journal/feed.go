package journal

import (
	"time"

	"github.com/pawl-dev/pawl/internal/load/controller"
	"github.com/pawl-dev/pawl/internal/load/loadpb"
	"github.com/pawl-dev/pawl/internal/load/report"
)

// The types of lines, which docs/load-running.md describes.
const (
	TypeRun      = "run"
	TypeAgent    = "agent"
	TypeProgress = "progress"
	TypeInterval = "interval"
	TypeSummary  = "summary" // of standard output
	TypeEnd      = "end"     // of a journal
	typeLeftOut  = "left_out"
)

// A RunLine says that a run has entered a phase.
type RunLine struct {
	Type   string           `json:"type"`
	At     time.Time        `json:"at"`
	Run    string           `json:"run"`
	Name   string           `json:"name"`
	Phase  controller.Phase `json:"phase"`
	Reason string           `json:"reason,omitempty"`
	Agents int              `json:"agents"`
	Start  *time.Time       `json:"start,omitempty"`
}

// An AgentLine says what an agent is now.
type AgentLine struct {
	Type      string    `json:"type"`
	At        time.Time `json:"at"`
	Agent     int       `json:"agent"`
	ID        string    `json:"id,omitempty"`
	Address   string    `json:"address"`
	Status    string    `json:"status"`
	Code      string    `json:"error_code,omitempty"`
	Error     string    `json:"error,omitempty"`
	Offset    *int64    `json:"clock_offset_ns,omitempty"`
	Bound     *int64    `json:"clock_bound_ns,omitempty"`
	SkewFirst *int64    `json:"skew_first_ns,omitempty"`
	SkewLast  *int64    `json:"skew_last_ns,omitempty"`
}

// A ProgressLine says how far an agent is with preparing or cleaning up.
type ProgressLine struct {
	Type    string    `json:"type"`
	At      time.Time `json:"at"`
	Agent   int       `json:"agent"`
	Address string    `json:"address"`
	Phase   string    `json:"phase"`
	Done    uint64    `json:"done"`
	Total   uint64    `json:"total"`
	Bytes   uint64    `json:"bytes"`
	Rate    float64   `json:"bytes_per_second"`
}

// An IntervalLine has what all agents have done in an interval, or one of them.
type IntervalLine struct {
	Type       string             `json:"type"`
	At         time.Time          `json:"at"`
	Start      float64            `json:"start_seconds"`
	End        float64            `json:"end_seconds"`
	Warmup     bool               `json:"warmup"`
	Agents     int                `json:"agents"`
	Agent      *int               `json:"agent,omitempty"` // the index of the one
	Backlog    uint64             `json:"backlog"`
	Total      report.Figures     `json:"total"`
	Operations []report.Operation `json:"operations"`
}

// A SummaryLine ends the lines of standard output.
type SummaryLine struct {
	Type    string          `json:"type"`
	At      time.Time       `json:"at"`
	Run     string          `json:"run"`
	Outcome string          `json:"outcome"`
	Reason  string          `json:"reason,omitempty"`
	Folder  string          `json:"folder,omitempty"`
	Summary *report.Summary `json:"summary"`
}

// An EndLine ends the lines of a journal.
type EndLine struct {
	Type    string    `json:"type"`
	At      time.Time `json:"at"`
	Run     string    `json:"run"`
	Outcome string    `json:"outcome"`
	Reason  string    `json:"reason,omitempty"`
	Folder  string    `json:"folder,omitempty"` // the name of the result; empty: there is none
}

// leftOut says that so many lines before it were left out, since they could not be written in time.
type leftOut struct {
	Type  string    `json:"type"`
	At    time.Time `json:"at"`
	Lines int       `json:"lines"`
}

// A Feed puts a line for each change of a run. It is of the goroutine that runs it.
type Feed struct {
	Name  string // of the load
	Lines *Lines

	phase controller.Phase
	known []agentShown
}

// agentShown is what is worth a line if it changes.
type agentShown struct {
	state           string
	failed          bool
	measured, begun bool
	done            uint64
	at              time.Time // of the last line about progress
}

// progressEvery is the least time between two lines about the progress of an agent.
const progressEvery = 500 * time.Millisecond

// Changed takes a run as it is now.
func (f *Feed) Changed(v controller.View) {
	if v.Phase != f.phase {
		f.phase = v.Phase
		line := RunLine{Type: TypeRun, At: time.Now(), Run: v.ID, Name: f.Name, Phase: v.Phase, Reason: v.Reason, Agents: len(v.Agents)}
		if !v.Start.IsZero() {
			start := v.Start.UTC()
			line.Start = &start
		}
		f.Lines.Put(line, false)
	}
	if f.known == nil {
		f.known = make([]agentShown, len(v.Agents))
	}
	for i := range v.Agents {
		f.agent(&v.Agents[i], &f.known[i])
	}
}

func (f *Feed) agent(v *controller.AgentView, known *agentShown) {
	now := agentShown{v.State(), v.Failure != nil, v.Measured, v.Begun, v.Progress.GetDone(), known.at}
	if now.done != known.done && time.Since(known.at) < progressEvery {
		now.done = known.done // until later
	}
	if now.done != known.done {
		now.at = time.Now()
		f.Lines.Put(progressOf(v.Index, v.Address, v.Progress, now.at), true)
	}
	changed := now.state != known.state || now.failed != known.failed || now.measured != known.measured || now.begun != known.begun
	*known = now
	if changed {
		f.Lines.Put(agentOf(v), false)
	}
}

// Interval takes what was done in an interval.
func (f *Feed) Interval(i controller.Interval) {
	f.Lines.Put(IntervalLine{TypeInterval, time.Now(), i.Start.Seconds(), i.End.Seconds(), i.Warmup, i.Agents, nil, i.Backlog,
		report.Total(i.Operations, i.Seconds()), report.Operations(i.Operations, i.Seconds())}, true)
}

func progressOf(agent int, address string, p *loadpb.Progress, at time.Time) ProgressLine {
	return ProgressLine{TypeProgress, at, agent, address, p.GetPhase(), p.GetDone(), p.GetTotal(), p.GetBytes(), p.GetBytesPerSecond()}
}

func agentOf(v *controller.AgentView) AgentLine {
	e := AgentLine{Type: TypeAgent, At: time.Now(), Agent: v.Index, ID: v.Info.GetId(), Address: v.Address, Status: v.State()}
	if v.Failure != nil {
		e.Code, e.Error = v.Failure.GetCode().String(), v.Failure.GetMessage()
	}
	if v.Measured {
		offset, bound := int64(v.Clock.Offset), int64(v.Clock.Bound)
		e.Offset, e.Bound = &offset, &bound
	}
	if v.Begun {
		first, last := int64(v.Skew[0]), int64(v.Skew[1])
		e.SkewFirst, e.SkewLast = &first, &last
	}
	return e
}
