package console

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/load/controller"
	"github.com/pawl-dev/pawl/internal/load/loadpb"
	"github.com/pawl-dev/pawl/internal/load/report"
	"github.com/pawl-dev/pawl/internal/load/stats"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// A Load is what is shown of a load run while it is on.
type Load struct {
	Name   string
	Length time.Duration // of the run, with its warm-up; 0: it is not known
	View   controller.View
	Last   *controller.Interval // nil: there is none yet
}

// DrawLoad draws a load run: the last interval by operation, and its agents.
func DrawLoad(l Load, f Frame) []string {
	lines := []string{Printable(l.Name) + "  " + l.state(f.Now)}
	if l.Last != nil {
		lines = append(lines, loadLines(f, OperationRows(l.Last.Operations, l.Last.Seconds()), nil)...)
	}
	tint := func(row int) machine.State {
		if row == 0 {
			return ""
		}
		return loadTints[l.View.Agents[row-1].Status]
	}
	lines = append(lines, loadLines(f, AgentRows(l.View.Agents), tint)...)
	return f.fold(lines)
}

// state returns the phase of the run, and how far it is.
func (l Load) state(now time.Time) string {
	at := now.Sub(l.View.Start)
	switch {
	case l.View.Reason != "":
		return string(l.View.Phase) + ": " + Printable(l.View.Reason)
	case l.View.Phase != controller.Running:
		return string(l.View.Phase)
	case at < 0:
		return "begins in " + Duration(-at)
	case l.Length > 0:
		return fmt.Sprintf("%s of %s", Duration(min(at, l.Length)), Duration(l.Length))
	}
	return Duration(at)
}

// loadLines aligns the cells of rows, and paints those of the second column.
func loadLines(f Frame, rows [][]string, tint func(row int) machine.State) []string {
	wide := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			row[i] = Printable(cell)
			wide[i] = max(wide[i], len([]rune(row[i])))
		}
	}
	var lines []string
	for n, row := range rows {
		var cells []string
		for i, cell := range row {
			cell = fmt.Sprintf("%-*s", wide[i], cell)
			if i == 1 && tint != nil {
				cell = f.state(cell, tint(n))
			}
			cells = append(cells, cell)
		}
		lines = append(lines, f.cut(strings.TrimRight(strings.Join(cells, "  "), " ")))
	}
	return lines
}

// loadTints maps the status of an agent to the state of a job whose colour it has.
var loadTints = map[loadpb.Status]machine.State{
	loadpb.Status_STATUS_PREPARING: lifecycle.StepPending, loadpb.Status_STATUS_READY: lifecycle.StepPending,
	loadpb.Status_STATUS_RUNNING: lifecycle.JobRunning, loadpb.Status_STATUS_COMPLETED: lifecycle.JobCompleted,
	loadpb.Status_STATUS_ERROR: lifecycle.JobFailed, loadpb.Status_STATUS_ABORTED: lifecycle.JobCanceled,
}

// OperationRows lists what was done in some seconds, by operation; the last row is the sum. The
// latencies are response times where there is a rate.
func OperationRows(t stats.Table, seconds float64) [][]string {
	rows := [][]string{{"OPERATION", "OPS/S", "MIB/S", "P50", "P99", "P99.9", "MAX", "ERRORS"}}
	for _, o := range append(report.Operations(t, seconds), report.Operation{Operation: "all", Figures: report.Total(t, seconds)}) {
		felt := o.Felt()
		rows = append(rows, []string{
			o.Operation, Rate(o.OperationsPerSecond), MiB(o.BytesPerSecond), Latency(felt.P50), Latency(felt.P99), Latency(felt.P999), Latency(felt.Max),
			strconv.FormatUint(o.Errors, 10),
		})
	}
	return rows
}

// AgentRows lists agents.
func AgentRows(agents []controller.AgentView) [][]string {
	rows := [][]string{{"AGENT", "STATUS", "CLOCK", "SKEW", "NOTE"}}
	for _, a := range agents {
		rows = append(rows, []string{strings.TrimPrefix(a.Name, "agent "), a.State(), clockCell(a), SkewCell(a), loadNote(a)})
	}
	return rows
}

func clockCell(a controller.AgentView) string {
	if !a.Measured {
		return ""
	}
	return fmt.Sprintf("%s ±%s", signed(a.Clock.Offset), Latency(int64(a.Clock.Bound)))
}

// SkewCell returns how late the first and the last thread of an agent have begun, and the
// uncertainty of that.
func SkewCell(a controller.AgentView) string {
	if !a.Begun {
		return ""
	}
	return fmt.Sprintf("%s..%s ±%s", signed(a.Skew[0]), signed(a.Skew[1]), Latency(int64(a.Clock.Bound)))
}

// loadNote returns what a person should know of an agent.
func loadNote(a controller.AgentView) string {
	switch p := a.Progress; {
	case a.Failure != nil:
		return a.Failure.GetMessage()
	case a.Status == loadpb.Status_STATUS_PREPARING && p != nil:
		return LoadProgress(p)
	case a.Dropped > 0:
		return fmt.Sprintf("%d statistics dropped", a.Dropped)
	}
	return ""
}

// LoadProgress describes how far an agent is with what it does before and after the load.
func LoadProgress(p *loadpb.Progress) string {
	text := fmt.Sprintf("%s: %d", p.GetPhase(), p.GetDone())
	if p.GetTotal() > 0 {
		text += fmt.Sprintf(" of %d (%d%%)", p.GetTotal(), 100*p.GetDone()/p.GetTotal())
	}
	if p.GetBytesPerSecond() > 0 {
		text += ", " + MiB(p.GetBytesPerSecond()) + " MiB/s"
	}
	return text
}

// LoadLine is an interval on a line.
func LoadLine(i *controller.Interval) string {
	var parts []string
	for _, o := range report.Operations(i.Operations, i.Seconds()) {
		part := fmt.Sprintf("%s %s/s", o.Operation, Rate(o.OperationsPerSecond))
		if o.Bytes > 0 {
			part += " " + MiB(o.BytesPerSecond) + " MiB/s"
		}
		part += fmt.Sprintf(" p50 %s p99 %s", Latency(o.Felt().P50), Latency(o.Felt().P99))
		if o.Errors > 0 {
			part += fmt.Sprintf(" errors %d", o.Errors)
		}
		parts = append(parts, part)
	}
	if i.Warmup {
		parts = append(parts, "warm-up")
	}
	if i.Backlog > 0 {
		parts = append(parts, fmt.Sprintf("%d due", i.Backlog))
	}
	return fmt.Sprintf("%s  %s", Duration(i.End), Printable(strings.Join(parts, "; ")))
}

// Latency formats nanoseconds with three digits.
func Latency(ns int64) string { return report.LatencyText(ns) }

// signed formats a duration with its sign.
func signed(d time.Duration) string {
	if d < 0 {
		return "-" + Latency(int64(-d))
	}
	return "+" + Latency(int64(d))
}

// Rate formats a number per second.
func Rate(n float64) string {
	if n < 100 {
		return strconv.FormatFloat(n, 'f', 1, 64)
	}
	return strconv.FormatFloat(n, 'f', 0, 64)
}

// MiB formats bytes as MiB.
func MiB(bytes float64) string { return strconv.FormatFloat(bytes/(1<<20), 'f', 1, 64) }
