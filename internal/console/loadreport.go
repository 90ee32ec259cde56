package console

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/pawl-dev/pawl/internal/load/report"
	"github.com/pawl-dev/pawl/internal/load/spec"
)

// LoadReport shows the result of a load run.
func LoadReport(w io.Writer, s *report.Summary, zone *time.Location) error {
	fmt.Fprintf(w, "%s  %s  %s\n", Printable(s.Name), Printable(s.RunID), Printable(s.Outcome))
	if s.Reason != "" {
		fmt.Fprintln(w, "reason:", OneLine(s.Reason))
	}
	if s.Partial {
		fmt.Fprintln(w, "This result is partial: the run, or an agent of it, has not completed.")
	}
	if s.Live > 0 {
		fmt.Fprintf(w, "There is no result of %s. All figures include what has come while it ran: see partial below.\n", Plural(int64(s.Live), "agent"))
	}
	started := ""
	if s.Started != nil {
		started = "started " + In(*s.Started, zone).Format(time.DateTime) + ", "
	}
	fmt.Fprintf(w, "%s%.1f s measured on %s", started, s.Seconds, Plural(int64(len(s.Agents)), "agent"))
	if k := s.Skew; k != nil {
		fmt.Fprintf(w, ", start skew %s to %s, uncertainty %s", report.LatencyText(k.First), report.LatencyText(k.Last), report.LatencyText(k.Bound))
	}
	fmt.Fprint(w, "\n\n")
	if err := Table(w, figureRows(s)); err != nil {
		return err
	}
	fmt.Fprintln(w)
	if err := Table(w, partRows(s.Agents)); err != nil {
		return err
	}
	for i := range s.Agents {
		if p := &s.Agents[i]; p.Error != nil && p.Problem != "" { // the note is the error
			fmt.Fprintf(w, "partial: %s: %s\n", Printable(p.Folder), OneLine(p.Problem))
		}
	}
	for i := range s.Agents {
		if c := s.Agents[i].Cleanup; c != nil && len(c.Errors) > 0 {
			fmt.Fprintf(w, "not cleaned up: %s left %s: %s\n", Printable(s.Agents[i].Folder), Plural(int64(c.Left), "file"), OneLine(c.Errors[0]))
		}
	}
	for _, o := range s.Operations {
		for _, class := range slices.Sorted(mapKeys(o.ErrorClasses)) {
			fmt.Fprintf(w, "errors: %s %s %d\n", o.Operation, Printable(class), o.ErrorClasses[class])
		}
	}
	for _, o := range s.Operations {
		if o.Retries > 0 {
			fmt.Fprintf(w, "retries: %s %d\n", o.Operation, o.Retries)
		}
	}
	if s.NotBegun > 0 {
		fmt.Fprintf(w, "not begun: %s, due at the end; no latency has them\n", Plural(int64(s.NotBegun), "operation"))
	}
	for _, v := range s.Violations {
		fmt.Fprintln(w, "threshold violated:", Printable(v))
	}
	return nil
}

func mapKeys(m map[string]uint64) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// figureRows lists operations and their size classes, and last all of them. An operation with a
// rate has a row for its response time and one for its service time.
func figureRows(s *report.Summary) [][]string {
	rows := [][]string{{"OPERATION", "SIZE", "OPERATIONS", "ERRORS", "OPS/S", "MIB/S", "TIME", "MEAN", "P50", "P90", "P99", "P99.9", "MAX"}}
	add := func(operation, size string, f *report.Figures) {
		row := []string{operation, size, strconv.FormatUint(f.Operations, 10), strconv.FormatUint(f.Errors, 10), Rate(f.OperationsPerSecond), MiB(f.BytesPerSecond)}
		if f.Response != nil {
			rows = append(rows, slices.Concat(row, []string{"response"}, latencyCells(f.Response)))
			row = make([]string, len(row))
		}
		rows = append(rows, slices.Concat(row, []string{"service"}, latencyCells(&f.Service)))
		if f.FirstByte != nil && operation != "all" {
			rows = append(rows, slices.Concat(make([]string, len(row)), []string{"first byte"}, latencyCells(f.FirstByte)))
		}
	}
	for i := range s.Operations {
		o := &s.Operations[i]
		add(o.Operation, "all", &o.Figures)
		for j := range o.SizeClasses {
			if len(o.SizeClasses) > 1 {
				add("", o.SizeClasses[j].Class, &o.SizeClasses[j].Figures)
			}
		}
	}
	if len(s.Operations) != 1 {
		add("all", "all", &s.Total)
	}
	return rows
}

func latencyCells(l *report.Latency) (cells []string) {
	for _, ns := range []int64{int64(l.Mean), l.P50, l.P90, l.P99, l.P999, l.Max} {
		cells = append(cells, report.LatencyText(ns))
	}
	return cells
}

// partRows lists the agents of a run.
func partRows(parts []report.AgentPart) [][]string {
	rows := [][]string{{"AGENT", "HOST", "STATUS", "OPS/S", "MIB/S", "P50", "P99", "SKEW", "UNCERTAINTY", "CLOCK", "NOTE"}}
	for i := range parts {
		p := &parts[i]
		note := p.Problem
		if p.Error != nil {
			note = p.Error.Message
		}
		skew, bound, clock := "", "", ""
		if p.ClockProbes > 0 {
			if p.HasBegun() {
				skew = report.LatencyText(p.SkewFirst) + " to " + report.LatencyText(p.SkewLast)
			}
			bound, clock = report.LatencyText(p.ClockBound), report.LatencyText(p.ClockOffset)
		}
		rows = append(rows, []string{
			p.Folder, p.Host, p.State(), Rate(p.OperationsPerSecond), MiB(p.BytesPerSecond), report.LatencyText(p.Felt().P50), report.LatencyText(p.Felt().P99), skew, bound, clock, OneLine(note),
		})
	}
	return rows
}

// LoadComparison shows how one load run differs from another.
func LoadComparison(w io.Writer, c *report.Comparison) error {
	fmt.Fprintf(w, "A %s\nB %s\n", Printable(c.A), Printable(c.B))
	for _, d := range c.Config {
		fmt.Fprintln(w, "differs:", Printable(d))
	}
	for _, id := range c.Partial {
		fmt.Fprintf(w, "partial: %s has not completed\n", Printable(id))
	}
	fmt.Fprintln(w)
	rows := [][]string{{"OPERATION", "MEASURE", "A", "B", "CHANGE", "95 % INTERVAL", "VERDICT"}}
	for _, o := range c.Operations {
		for i := range o.Measures {
			rows = append(rows, measureRow(o.Operation, &o.Measures[i]))
		}
	}
	return Table(w, rows)
}

func measureRow(operation string, m *report.Compared) []string {
	name, text := "ops/s", Rate
	switch m.Measure {
	case report.MeasureP50, report.MeasureP99:
		name, text = map[string]string{report.MeasureP50: "p50", report.MeasureP99: "p99"}[m.Measure], func(ns float64) string { return report.LatencyText(int64(ns)) }
	}
	if m.Measure == report.MeasureErrors {
		name, text = "errors", func(share float64) string { return fmt.Sprintf("%.3g %%", 100*share) }
	}
	row := []string{operation, name, text(m.A), text(m.B), "", "", string(m.Verdict)}
	if m.Low != m.High {
		row[4], row[5] = percent(m.Change), percent(m.Low)+" to "+percent(m.High)
	}
	return row
}

func percent(share float64) string { return fmt.Sprintf("%+.1f %%", 100*share) }

// LoadTest says what a load file means.
func LoadTest(w io.Writer, t *spec.Test) {
	for _, s := range t.Files {
		if s.Count == 0 {
			fmt.Fprintf(w, "files %s: none before the run\n", s.Name)
			continue
		}
		fmt.Fprintf(w, "files %s: %d of %s in %s, %s, about %s\n", s.Name, s.Count, s.Size.Text(), Plural(int64(s.Tree.Folders()+1), "folder"), s.Blocks, spec.RoundSizeText(s.Size.Mean()*float64(s.Count)))
	}
	weights := 0
	for _, o := range t.Mix {
		weights += o.Weight
	}
	for i := range t.Mix {
		fmt.Fprintf(w, "%.1f %%: %s\n", 100*float64(t.Mix[i].Weight)/float64(weights), t.Mix[i].Text())
	}
	fmt.Fprintf(w, "each agent: %s, engine %s%s, sync %s, %s\n", Plural(int64(t.Jobs), "thread"), t.Engine, direct(t), t.Sync, loadLength(t))
}

func direct(t *spec.Test) string {
	text := ""
	if t.Depth > 1 {
		text = fmt.Sprintf(" with %d operations in flight in each", t.Depth)
	}
	if t.Direct {
		text += ", direct I/O"
	}
	return text
}

func loadLength(t *spec.Test) string {
	text := fmt.Sprintf("%d operations", t.Count)
	if t.Count == 0 {
		text = "for " + t.Duration.String()
	}
	if t.Warmup > 0 {
		text += " after a warm-up of " + t.Warmup.String()
	}
	if t.Rate != nil {
		text += fmt.Sprintf(", %s a second (%s)", Rate(t.Rate.Operations), t.Rate.Arrival)
	}
	return text
}
