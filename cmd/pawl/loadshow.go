package main

import (
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/internal/load/controller"
	"github.com/pawl-dev/pawl/internal/load/loadpb"
	"github.com/pawl-dev/pawl/internal/load/report"
	"github.com/pawl-dev/pawl/internal/load/spec"
)

// loadEvery is the time between two lines about the same thing where there is no terminal.
const loadEvery = 5 * time.Second

// A loadShown shows a run while it is on: as a drawing on a terminal, as lines, or as JSON. All of
// its methods are called by one goroutine.
type loadShown struct {
	*app
	json    *loadLines // nil: for people
	load    console.Load
	drawing *console.Drawing // nil: none
	end     func()           // stops writing to stderr in the background
	known   []agentShown     // what was shown of each agent
	phase   controller.Phase
	next    time.Duration // the end of the interval to be shown next, where each would be too many
}

// An agentShown is what is worth a line if it changes.
type agentShown struct {
	status          loadpb.Status
	failed          bool
	measured, begun bool
	done            uint64
	at              time.Time // of the last line about progress
}

func (a *app) loadShown(o loadRun, test *spec.Test) *loadShown {
	s := &loadShown{app: a, load: console.Load{Name: test.Name}, end: a.logs.Buffer()}
	if test.Duration > 0 {
		s.load.Length = test.Warmup + test.Duration
	}
	switch {
	case o.form == formJSON:
		s.json = newLoadLines(a.stdout)
	case a.screen.Terminal:
		out := console.NewAsyncWriter(a.stderr) // a terminal that is held must not hold the run
		d := console.NewDrawing(console.NewLive(out, a.screen, console.Frame{Zone: a.talkZone(), Paint: a.colours()}), a.logs)
		s.drawing = &d
		unbuffer := s.end
		s.end = func() {
			d.Close()
			out.Close()
			unbuffer()
		}
	}
	return s
}

// paint draws the run.
func (s *loadShown) paint() {
	load := s.load
	s.drawing.Paint(func(f console.Frame) []string { return console.DrawLoad(load, f) })
}

// close waits until everything is written to stdout, and returns its error.
func (s *loadShown) close() error {
	if s.json != nil {
		return s.json.close()
	}
	return nil
}

// changed shows that the run or one of its agents has changed.
func (s *loadShown) changed(v controller.View) {
	s.load.View = v
	if s.drawing != nil {
		s.paint()
		return
	}
	if v.Phase != s.phase {
		s.phase = v.Phase
		if s.json != nil {
			s.json.put(loadPhase{"run", time.Now(), v.ID, s.load.Name, v.Phase, v.Reason, len(v.Agents)}, false)
		} else {
			s.say("%s %s", s.load.Name, s.phaseText(v))
		}
	}
	if s.known == nil {
		s.known = make([]agentShown, len(v.Agents))
	}
	for i := range v.Agents {
		s.agent(&v.Agents[i], &s.known[i])
	}
}

func (s *loadShown) phaseText(v controller.View) string {
	if v.Reason != "" {
		return string(v.Phase) + ": " + v.Reason
	}
	return string(v.Phase)
}

// agent shows what has changed of an agent.
func (s *loadShown) agent(v *controller.AgentView, known *agentShown) {
	now := agentShown{v.Status, v.Failure != nil, v.Measured, v.Begun, v.Progress.GetDone(), known.at}
	if p := v.Progress; now.done != known.done && (s.json != nil || time.Since(known.at) >= loadEvery) {
		now.at = time.Now()
		if s.json != nil {
			s.json.put(loadProgress{"progress", now.at, v.Index, v.Address, p.GetPhase(), p.GetDone(), p.GetTotal(), p.GetBytes(), p.GetBytesPerSecond()}, true)
		} else {
			s.say("%s: %s", v.Name, console.LoadProgress(p))
		}
	}
	changed := now.status != known.status || now.failed != known.failed || now.measured != known.measured || now.begun != known.begun
	*known = now
	switch {
	case !changed:
	case s.json != nil:
		s.json.put(agentEvent(v), false)
	default:
		row := console.AgentRows([]controller.AgentView{*v})[1]
		text := v.Name + ": " + row[1]
		for i, name := range []string{"clock ", "skew ", ""} {
			if cell := row[2+i]; cell != "" {
				text += ", " + name + cell
			}
		}
		s.say("%s", text)
	}
}

// interval shows what was done in an interval.
func (s *loadShown) interval(i controller.Interval) {
	s.load.Last = &i
	switch {
	case s.drawing != nil:
		s.paint()
	case s.json != nil:
		s.json.put(loadInterval{"interval", time.Now(), i.Start.Seconds(), i.End.Seconds(), i.Warmup, i.Agents, i.Backlog, report.Operations(i.Operations, i.Seconds())}, true)
	case i.End >= s.next:
		s.next = i.End.Truncate(loadEvery) + loadEvery
		s.say("%s", console.LoadLine(&i))
	}
}

// say writes a line for people.
func (s *loadShown) say(format string, args ...any) {
	fmt.Fprintln(s.logs, console.Printable(fmt.Sprintf(format, args...)))
}

// summary shows how the run has ended. No folder means that there is no result: the load never began,
// or it cannot be written.
func (s *loadShown) summary(r *report.Report, dir string) error {
	sum := &r.Summary
	if s.json != nil {
		s.json.put(loadSummary{"summary", time.Now(), sum.RunID, sum.Outcome, sum.Reason, dir, sum}, false)
		return nil
	}
	if sum.Started == nil {
		return nil
	}
	if err := console.LoadReport(s.stdout, sum, s.outZone()); err != nil || dir == "" {
		return err
	}
	_, err := fmt.Fprintf(s.stdout, "result in %s\n", console.Shell(dir))
	return err
}

// The lines of -o json, which docs/load-running.md describes.
type (
	loadPhase struct {
		Type   string           `json:"type"`
		At     time.Time        `json:"at"`
		Run    string           `json:"run"`
		Name   string           `json:"name"`
		Phase  controller.Phase `json:"phase"`
		Reason string           `json:"reason,omitempty"`
		Agents int              `json:"agents"`
	}
	loadAgent struct {
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
	loadProgress struct {
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
	loadInterval struct {
		Type       string             `json:"type"`
		At         time.Time          `json:"at"`
		Start      float64            `json:"start_seconds"`
		End        float64            `json:"end_seconds"`
		Warmup     bool               `json:"warmup"`
		Agents     int                `json:"agents"`
		Backlog    uint64             `json:"backlog"`
		Operations []report.Operation `json:"operations"`
	}
	loadLeft struct {
		Type  string    `json:"type"`
		At    time.Time `json:"at"`
		Lines int       `json:"lines"`
	}
	loadSummary struct {
		Type    string          `json:"type"`
		At      time.Time       `json:"at"`
		Run     string          `json:"run"`
		Outcome string          `json:"outcome"`
		Reason  string          `json:"reason,omitempty"`
		Folder  string          `json:"folder,omitempty"`
		Summary *report.Summary `json:"summary"`
	}
)

func agentEvent(v *controller.AgentView) loadAgent {
	e := loadAgent{Type: "agent", At: time.Now(), Agent: v.Index, ID: v.Info.GetId(), Address: v.Address, Status: console.LoadStatus(v)}
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
