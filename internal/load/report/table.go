package report

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/internal/load/histogram"
	"github.com/pawl-dev/pawl/internal/load/stats"
)

// writeTables writes operations.tsv and intervals.tsv.
func (r *Report) writeTables(dir string) error {
	if err := create(filepath.Join(dir, "operations.tsv"), r.writeOperations); err != nil {
		return err
	}
	return create(filepath.Join(dir, "intervals.tsv"), r.writeIntervals)
}

var figureColumns = "operations\tbytes\terrors\toperations_per_s\tmib_per_s" + latencyColumns("service") + latencyColumns("response")

func latencyColumns(prefix string) string {
	var b strings.Builder
	for _, c := range []string{"mean", "p50", "p90", "p95", "p99", "p999", "max"} {
		fmt.Fprintf(&b, "\t%s_%s_us", prefix, c)
	}
	return b.String()
}

func figureCells(f *Figures) string {
	return fmt.Sprintf("%d\t%d\t%d\t%.3f\t%.3f%s%s", f.Operations, f.Bytes, f.Errors, f.OperationsPerSecond, f.BytesPerSecond/(1<<20), latencyCells(&f.Service), latencyCells(f.Response))
}

// latencyCells leaves the cells empty if there is nothing to tell.
func latencyCells(l *Latency) string {
	if l == nil || l.Count == 0 {
		return strings.Repeat("\t", 7)
	}
	var b strings.Builder
	b.WriteString("\t" + micros(l.Mean))
	for _, v := range []int64{l.P50, l.P90, l.P95, l.P99, l.P999, l.Max} {
		b.WriteString("\t" + micros(float64(v)))
	}
	return b.String()
}

func micros(ns float64) string { return strconv.FormatFloat(ns/1e3, 'f', 3, 64) }

// objectColumns are those of reads of objects and of requests to their stores, the last ones.
var objectColumns = "retries" + latencyColumns("first_byte")

func objectCells(f *Figures) string {
	return strconv.FormatUint(f.Retries, 10) + latencyCells(f.FirstByte)
}

// writeOperations writes a row for each operation, with size class "all", and one for each of
// its size classes; and first a row for all operations. All of them are partial if the run is.
func (r *Report) writeOperations(w io.Writer) error {
	b := bufio.NewWriter(w)
	row := func(operation, class string, f *Figures) {
		fmt.Fprintf(b, "%s\t%s\t%s\t%t\t%d\t%s\n", operation, class, figureCells(f), r.Summary.Partial, r.Summary.Live, objectCells(f))
	}
	fmt.Fprintf(b, "operation\tsize_class\t%s\tpartial\tlive_agents\t%s\n", figureColumns, objectColumns)
	row("all", "all", &r.Summary.Total)
	for i := range r.Summary.Operations {
		o := &r.Summary.Operations[i]
		row(o.Operation, "all", &o.Figures)
		for j := range o.SizeClasses {
			row(o.Operation, o.SizeClasses[j].Class, &o.SizeClasses[j].Figures)
		}
	}
	return b.Flush()
}

// writeIntervals writes for each interval a row of all agents and operations, one for each
// operation of all agents, and one for each agent.
func (r *Report) writeIntervals(w io.Writer) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "start_s\tend_s\twarmup\tagent\toperation\tbacklog\tcpu_user_s\tcpu_system_s\t%s\tlive_agents\t%s\n", figureColumns, objectColumns)
	one := stats.Table{}
	err := walk(r.Run, func(s *slice) error {
		var user, system float64
		live := 0
		for _, p := range s.parts {
			user, system = user+p.GetCpuUserSeconds(), system+p.GetCpuSystemSeconds()
			live += r.live(p.agent)
		}
		row := func(from, to float64, agent, operation string, backlog uint64, cpu string, f Figures) {
			fmt.Fprintf(b, "%.3f\t%.3f\t%t\t%s\t%s\t%d\t%s\t%s\t%d\t%s\n", from, to, s.warmup, agent, operation, backlog, cpu, figureCells(&f), live, objectCells(&f))
		}
		from, to := s.start.Seconds(), s.end.Seconds()
		row(from, to, "all", "all", s.backlog, cpuCells(user, system), figuresOf(s.sum(s.table, ""), s.seconds()))
		for _, name := range operationsOf(s.table) {
			row(from, to, "all", name, 0, "\t", figuresOf(s.sum(s.table, name), s.seconds()))
		}
		for _, p := range s.parts {
			one.Reset()
			if err := one.Add(p.GetOperations()); err != nil {
				return err
			}
			live = r.live(p.agent)
			row(float64(p.GetStartNs())/1e9, float64(p.GetEndNs())/1e9, r.Summary.Agents[p.agent].Folder, "all", p.GetBacklog(),
				cpuCells(p.GetCpuUserSeconds(), p.GetCpuSystemSeconds()), figuresOf(s.sum(one, ""), p.seconds()))
		}
		return nil
	})
	if err != nil {
		return err
	}
	return b.Flush()
}

// live returns 1 if there is no result of an agent, but what has come while it ran, and 0 otherwise.
func (r *Report) live(agent int) int {
	if r.Run.Agents[agent].Live {
		return 1
	}
	return 0
}

func cpuCells(user, system float64) string { return fmt.Sprintf("%.3f\t%.3f", user, system) }

// writeLatencies writes the distributions of each operation, in the text form of HdrHistogram.
func (r *Report) writeLatencies(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, name := range operationsOf(r.Totals) {
		c := sum(r.Totals, name)
		if err := create(filepath.Join(dir, name+".service.hgrm"), distribution(&c.Service)); err != nil {
			return err
		}
		for kind, h := range map[string]*histogram.Histogram{"response": c.Response, "first_byte": c.FirstByte} {
			if h == nil {
				continue
			}
			if err := create(filepath.Join(dir, name+"."+kind+".hgrm"), distribution(h)); err != nil {
				return err
			}
		}
	}
	return syncDir(dir)
}

// distribution writes a percentile distribution, in milliseconds, as HdrHistogram does and its
// plotter reads it: a line for each bucket that has values.
func distribution(h *histogram.Histogram) func(io.Writer) error {
	return func(w io.Writer) error {
		b := bufio.NewWriter(w)
		fmt.Fprintf(b, "%12s %14s %10s %14s\n\n", "Value", "Percentile", "TotalCount", "1/(1-Percentile)")
		seen, squares := uint64(0), 0.0
		h.Each(func(upTo int64, n uint64) {
			seen += n
			value := float64(min(upTo, h.Max()))
			squares += float64(n) * (value - h.Mean()) * (value - h.Mean())
			fmt.Fprintf(b, "%12.6f %14.12f %10d", value/1e6, float64(seen)/float64(h.Count()), seen)
			if seen < h.Count() {
				fmt.Fprintf(b, " %14.2f", float64(h.Count())/float64(h.Count()-seen))
			}
			b.WriteByte('\n')
		})
		fmt.Fprintf(b, "#[Mean    = %12.6f, StdDeviation   = %12.6f]\n", h.Mean()/1e6, deviation(squares, h.Count())/1e6)
		fmt.Fprintf(b, "#[Max     = %12.6f, Total count    = %12d]\n", float64(h.Max())/1e6, h.Count())
		fmt.Fprintf(b, "#[Buckets = %12d, SubBuckets     = %12d]\n", histogram.Buckets/64, 64)
		return b.Flush()
	}
}
