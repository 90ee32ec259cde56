package main

import (
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/internal/load/controller"
	"github.com/pawl-dev/pawl/internal/load/journal"
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
	lines   *journal.Feed // nil: for people
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
		s.lines = &journal.Feed{Name: test.Name, Lines: journal.NewLines(a.stdout)}
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
	if s.lines != nil {
		return s.lines.Lines.Close()
	}
	return nil
}

// changed shows that the run or one of its agents has changed.
func (s *loadShown) changed(v controller.View) {
	s.load.View = v
	switch {
	case s.drawing != nil:
		s.paint()
		return
	case s.lines != nil:
		s.lines.Changed(v)
		return
	case v.Phase != s.phase:
		s.phase = v.Phase
		s.say("%s %s", s.load.Name, s.phaseText(v))
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
	if now.done != known.done && time.Since(known.at) >= loadEvery {
		now.at = time.Now()
		s.say("%s: %s", v.Name, console.LoadProgress(v.Progress))
	}
	changed := now.status != known.status || now.failed != known.failed || now.measured != known.measured || now.begun != known.begun
	if *known = now; changed {
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
	case s.lines != nil:
		s.lines.Interval(i)
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
	if s.lines != nil {
		s.lines.Lines.Put(journal.SummaryLine{Type: journal.TypeSummary, At: time.Now(), Run: sum.RunID, Outcome: sum.Outcome, Reason: sum.Reason, Folder: dir, Summary: sum}, false)
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
