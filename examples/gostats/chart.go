package main

import (
	"bytes"
	"fmt"
	"html"
	"math"
)

// The measures of the chart, in pixels.
const (
	chartWidth = 900
	margin     = 24
	plotLeft   = 190 // names of packages stand left of it
	plotRight  = chartWidth - 90
	plotTop    = 118
	rowHeight  = 26
	barHeight  = 16
	axisHeight = 58
)

// The parts of a bar, from the left, and their colours on light and dark ground.
var parts = []struct {
	class, name, light, dark string
	of                       func(numbers) int
}{
	{"code", "code", "#0e7490", "#38bdf8", func(n numbers) int { return n.Code }},
	{"comment", "comments", "#f59e0b", "#fbbf24", func(n numbers) int { return n.Comment }},
	{"blank", "blank", "#cbd5e1", "#475569", func(n numbers) int { return n.Blank }},
}

// The other colours. Attributes say the light ones, which every viewer
// understands; the style sheet has the dark ones for those who ask for them.
const (
	darkStyle = ".ground{fill:#0f172a}.ink{fill:#f1f5f9}.faint{fill:#94a3b8}.grid{stroke:#334155}.axis{stroke:#94a3b8}"
	ground    = `class="ground" fill="#ffffff"`
	ink       = `class="ink" fill="#0f172a"`
	faint     = `class="faint" fill="#64748b"`
	gridLine  = `class="grid" stroke="#e2e8f0"`
	axisLine  = `class="axis" stroke="#64748b"`
)

// chart writes the chart and prints its path.
func chart(c call) error { return publish(c, chartName, chartOf) }

// A drawing is an SVG in the making.
type drawing struct {
	bytes.Buffer
	bottom int // of the plot
	scale  axis
}

// chartOf returns the chart: a bar for each of the top packages.
func chartOf(s summary) []byte {
	d := &drawing{bottom: plotTop + rowHeight*len(s.Top), scale: axis{step: 1, end: 1}}
	if len(s.Top) > 0 {
		d.scale = axisFor(s.Top[0].Lines)
	}
	d.open(s)
	d.legend()
	d.grid()
	for i, p := range s.Top {
		d.row(plotTop+rowHeight*i, p)
	}
	d.linef(plotLeft, plotTop, plotLeft, d.bottom, axisLine)
	d.textf((plotLeft+plotRight)/2, d.bottom+44, 12, "middle", faint, "lines of Go, tests not counted")
	d.WriteString("</svg>\n")
	return d.Bytes()
}

// open writes the head of the file, the ground and the titles.
func (d *drawing) open(s summary) {
	height := d.bottom + axisHeight
	title := fmt.Sprintf("The %d largest packages of the Go standard library", len(s.Top))
	fmt.Fprintf(d, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" font-family="system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif">`+"\n",
		chartWidth, height, chartWidth, height)
	fmt.Fprintf(d, "<title>%s</title>\n", html.EscapeString(title))
	fmt.Fprintf(d, "<style>@media (prefers-color-scheme: dark){%s", darkStyle)
	for _, p := range parts {
		fmt.Fprintf(d, ".%s{fill:%s}", p.class, p.dark)
	}
	d.WriteString("}</style>\n")
	fmt.Fprintf(d, `<rect %s width="%d" height="%d" rx="10"/>`+"\n", ground, chartWidth, height)
	d.textf(margin, 42, 21, "start", ink+` font-weight="600"`, "%s", title)
	d.textf(margin, 66, 13, "start", faint, "%s for %s: %s packages with %s lines and %s declarations in all",
		s.Release, s.Platform, grouped(s.Packages), grouped(s.Total.Lines), grouped(s.Declarations))
}

func (d *drawing) legend() {
	x := plotLeft
	for _, p := range parts {
		fmt.Fprintf(d, `<rect class="%s" fill="%s" x="%d" y="86" width="12" height="12" rx="2"/>`+"\n", p.class, p.light, x)
		d.textf(x+18, 96, 12, "start", faint, "%s", p.name)
		x += 46 + 7*len(p.name)
	}
}

func (d *drawing) grid() {
	for v := 0; v <= d.scale.end; v += d.scale.step {
		x := d.x(v)
		d.linef(x, plotTop, x, d.bottom, gridLine)
		d.textf(x, d.bottom+20, 12, "middle", faint, "%s", grouped(v))
	}
}

// row draws a package in the row that begins at y.
func (d *drawing) row(y int, p packageCount) {
	baseline := y + rowHeight/2 + 4
	d.textf(plotLeft-10, baseline, 13, "end", ink, "%s", p.Package)
	fmt.Fprintf(d, "<g><title>%s: %s code, %s comments, %s blank</title>\n", html.EscapeString(p.Package),
		grouped(p.Code), grouped(p.Comment), grouped(p.Blank))
	upTo := 0
	for _, part := range parts {
		from := d.x(upTo)
		upTo += part.of(p.numbers)
		fmt.Fprintf(d, `<rect class="%s" fill="%s" x="%d" y="%d" width="%d" height="%d"/>`+"\n",
			part.class, part.light, from, y+(rowHeight-barHeight)/2, d.x(upTo)-from, barHeight)
	}
	d.WriteString("</g>\n")
	d.textf(d.x(p.Lines)+8, baseline, 12, "start", faint, "%s", grouped(p.Lines))
}

func (d *drawing) linef(x1, y1, x2, y2 int, look string) {
	fmt.Fprintf(d, `<line %s x1="%d" y1="%d" x2="%d" y2="%d"/>`+"\n", look, x1, y1, x2, y2)
}

func (d *drawing) textf(x, y, size int, anchor, look, format string, args ...any) {
	fmt.Fprintf(d, `<text %s x="%d" y="%d" font-size="%d" text-anchor="%s">%s</text>`+"\n",
		look, x, y, size, anchor, html.EscapeString(fmt.Sprintf(format, args...)))
}

// x returns where a number of lines is on the axis.
func (d *drawing) x(lines int) int {
	return plotLeft + int(math.Round(float64(lines)/float64(d.scale.end)*(plotRight-plotLeft)))
}

// An axis goes from 0 to end, a multiple of step.
type axis struct{ step, end int }

// axisFor returns the axis for numbers up to most: in at most eight steps
// of 1, 2 or 5 times a power of ten.
func axisFor(most int) axis {
	most = max(most, 1)
	for power := 1; ; power *= 10 {
		for _, digit := range []int{1, 2, 5} {
			step := digit * power
			if most <= 8*step {
				return axis{step, (most + step - 1) / step * step}
			}
		}
	}
}
