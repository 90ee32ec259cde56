package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/pawl-dev/pawl/internal/load/histogram"
)

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"latency": LatencyText,
	"mean":    func(ns float64) string { return LatencyText(int64(ns)) },
	"rate":    func(v float64) string { return strconv.FormatFloat(v, 'f', 1, 64) },
	"mib":     func(v float64) string { return strconv.FormatFloat(v/(1<<20), 'f', 1, 64) },
	"time":    func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") },
}).Parse(pageText))

// A page is what the template shows.
type page struct {
	*Summary
	Config string
	Rows   []pageRow
	Errors []pageErrors
	Charts []pageChart
}

// A pageRow is a line of the table of operations.
type pageRow struct {
	Operation, Class, Kind string
	Figures
	Latency
}

// A pageChart is a chart that was drawn.
type pageChart struct {
	Title string
	SVG   template.HTML
}

// pageErrors are the errors of one class.
type pageErrors struct {
	Operation, Class string
	Count            uint64
}

// WriteHTML writes the report as one HTML page, which needs nothing else: no scripts, fonts or
// images from elsewhere.
func (r *Report) WriteHTML(w io.Writer) error {
	p := page{Summary: &r.Summary, Config: string(r.Run.Config)}
	add := func(operation, class string, f Figures) {
		if f.Response != nil {
			p.Rows = append(p.Rows, pageRow{operation, class, "response", f, *f.Response})
		}
		p.Rows = append(p.Rows, pageRow{operation, class, "service", f, f.Service})
		if f.FirstByte != nil && operation != "all" {
			p.Rows = append(p.Rows, pageRow{operation, class, "first byte", f, *f.FirstByte})
		}
	}
	for _, o := range r.Summary.Operations {
		add(o.Operation, "all", o.Figures)
		for _, c := range o.SizeClasses {
			if len(o.SizeClasses) > 1 {
				add(o.Operation, c.Class, c.Figures)
			}
		}
		for _, class := range slices.Sorted(keys(o.ErrorClasses)) {
			p.Errors = append(p.Errors, pageErrors{o.Operation, class, o.ErrorClasses[class]})
		}
	}
	for _, c := range r.charts() {
		if drawn := c.draw(); drawn != "" {
			p.Charts = append(p.Charts, pageChart{c.title, drawn})
		}
	}
	return pageTemplate.Execute(w, p)
}

func keys(m map[string]uint64) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// charts returns throughput and latencies over time, and the distribution of latencies.
func (r *Report) charts() []*chart {
	points := thinned(r.Series)
	over := func(title string, logarithmic bool, text func(float64) string, lines ...line) *chart {
		c := &chart{title: title, xTitle: "seconds since the start; the warm-up is shaded", logarithmic: logarithmic, yText: text, lines: lines}
		for _, p := range points {
			if c.to = max(c.to, p.End); p.Warmup {
				c.shade = p.End
			}
		}
		for _, v := range steps(0, c.to, 10) {
			c.xTicks = append(c.xTicks, tick{v, strconv.FormatFloat(v, 'g', 6, 64)})
		}
		return c
	}
	series := func(name string, value func(*Point) float64) line {
		l := line{name: name}
		for i := range points {
			l.points = append(l.points, [2]float64{(points[i].Start + points[i].End) / 2, value(&points[i])})
		}
		return l
	}
	latency := func(v float64) string { return LatencyText(int64(v)) }
	return []*chart{
		over("Operations per second", false, numberText, series("operations/s", func(p *Point) float64 { return p.OperationsPerSecond })),
		over("Throughput", false, func(v float64) string { return numberText(v) + " MiB/s" }, series("MiB/s", func(p *Point) float64 { return p.BytesPerSecond / (1 << 20) })),
		over("Latency over time", true, latency, series("p50", func(p *Point) float64 { return float64(p.Felt().P50) }), series("p99", func(p *Point) float64 { return float64(p.Felt().P99) }),
			series("max", func(p *Point) float64 { return float64(p.Felt().Max) })),
		r.percentiles(),
	}
}

// thinned returns at most maxPoints points: of neighbours the rates together, and the greatest
// latencies.
func thinned(all []Point) []Point {
	size := (len(all) + maxPoints - 1) / maxPoints
	if size <= 1 {
		return all
	}
	var thin []Point
	for part := range slices.Chunk(all, size) {
		p := part[0]
		felt, seconds := *p.Felt(), p.End-p.Start
		for _, other := range part[1:] {
			o := other.Felt()
			felt.P50, felt.P99, felt.Max = max(felt.P50, o.P50), max(felt.P99, o.P99), max(felt.Max, o.Max)
			p.Operations, p.Bytes, p.End, seconds = p.Operations+other.Operations, p.Bytes+other.Bytes, other.End, seconds+other.End-other.Start
		}
		p.Response = &felt
		p.OperationsPerSecond, p.BytesPerSecond = float64(p.Operations)/seconds, float64(p.Bytes)/seconds
		thin = append(thin, p)
	}
	return thin
}

// percentiles returns the latency at each percentile, up to the one that a single operation makes.
func (r *Report) percentiles() *chart {
	c := &chart{title: "Latency by percentile", xTitle: "percentile", logarithmic: true, yText: func(v float64) string { return LatencyText(int64(v)) }}
	for _, name := range operationsOf(r.Totals) {
		counter := sum(r.Totals, name)
		if counter.Response != nil {
			c.addPercentiles(name+" response", counter.Response)
		}
		c.addPercentiles(name+" service", &counter.Service)
	}
	for nines := 0; float64(nines) <= c.to; nines++ {
		text := "0 %"
		if nines > 0 {
			text = fmt.Sprintf("%.*f %%", max(nines-2, 0), 100-math.Pow(10, float64(2-nines)))
		}
		c.xTicks = append(c.xTicks, tick{float64(nines), text})
	}
	return c
}

func (c *chart) addPercentiles(name string, h *histogram.Histogram) {
	l, seen, last := line{name: name}, uint64(0), -1.0
	h.Each(func(upTo int64, n uint64) {
		// the values of this bucket begin where those before it end
		x := math.Log10(float64(h.Count()) / float64(h.Count()-seen))
		if seen += n; x-last > 0.01 || seen == h.Count() {
			l.points = append(l.points, [2]float64{x, float64(min(upTo, h.Max()))})
			last = x
		}
		c.to = max(c.to, x)
	})
	if h.Count() > 0 {
		c.lines = append(c.lines, l)
	}
}
