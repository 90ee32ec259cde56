package report

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"strconv"
	"strings"
	"time"
)

// A chart is drawn as SVG, with lines over a common x axis. Colours are classes, which the page
// defines for light and dark.
type chart struct {
	title, xTitle string
	xTicks        []tick
	from, to      float64 // of x
	shade         float64 // up to this x the run was not measured; 0: nowhere
	logarithmic   bool    // the y axis
	yText         func(float64) string
	lines         []line
}

type tick struct {
	at   float64
	text string
}

type line struct {
	name   string
	points [][2]float64
}

// Size of a chart, and of the space around its lines.
const (
	chartWidth, chartHeight         = 860.0, 260.0
	marginLeft, marginRight         = 78.0, 130.0
	marginTop, marginBottom         = 12.0, 40.0
	plotWidth, plotHeight           = chartWidth - marginLeft - marginRight, chartHeight - marginTop - marginBottom
	maxPoints                       = 600
	colours                         = 6
	legendLeft, legendTop, legendDY = chartWidth - marginRight + 10, marginTop + 10, 16.0
)

// draw returns the chart, or nothing if it has no points.
func (c *chart) draw() template.HTML {
	low, high := c.bounds()
	if high <= low || c.to <= c.from {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %g %g" role="img" aria-label="%s"><title>%s</title>`, chartWidth, chartHeight, html.EscapeString(c.title), html.EscapeString(c.title))
	if c.shade > c.from {
		fmt.Fprintf(&b, `<rect class="shade" x="%g" y="%g" width="%.1f" height="%g"/>`, marginLeft, marginTop, c.x(c.shade)-marginLeft, plotHeight)
	}
	for _, t := range c.yTicks(low, high) {
		y := c.y(t.at, low, high)
		fmt.Fprintf(&b, `<line class="grid" x1="%g" x2="%g" y1="%.1f" y2="%.1f"/><text x="%g" y="%.1f" text-anchor="end">%s</text>`,
			marginLeft, chartWidth-marginRight, y, y, marginLeft-6, y+4, html.EscapeString(t.text))
	}
	for _, t := range c.xTicks {
		x := c.x(t.at)
		fmt.Fprintf(&b, `<line class="grid" x1="%.1f" x2="%.1f" y1="%g" y2="%g"/><text x="%.1f" y="%g" text-anchor="middle">%s</text>`,
			x, x, marginTop, marginTop+plotHeight, x, marginTop+plotHeight+16, html.EscapeString(t.text))
	}
	fmt.Fprintf(&b, `<text x="%g" y="%g" text-anchor="middle">%s</text>`, marginLeft+plotWidth/2, chartHeight-6, html.EscapeString(c.xTitle))
	for i, l := range c.lines {
		c.drawLine(&b, i, l, low, high)
	}
	b.WriteString("</svg>")
	return template.HTML(b.String()) // numbers, and text that was escaped
}

func (c *chart) drawLine(b *strings.Builder, i int, l line, low, high float64) {
	var points []string
	for _, p := range l.points {
		if !c.logarithmic || p[1] > 0 {
			points = append(points, fmt.Sprintf("%.1f,%.1f", c.x(p[0]), c.y(p[1], low, high)))
		}
	}
	class := fmt.Sprintf("line c%d", i%colours)
	if i >= colours {
		class += " dashed"
	}
	fmt.Fprintf(b, `<polyline class="%s" points="%s"/>`, class, strings.Join(points, " "))
	y := legendTop + float64(i)*legendDY
	fmt.Fprintf(b, `<line class="%s" x1="%g" x2="%g" y1="%g" y2="%g"/><text x="%g" y="%g">%s</text>`,
		class, legendLeft, legendLeft+18, y-4, y-4, legendLeft+24, y, html.EscapeString(l.name))
}

// bounds returns the bounds of the y axis.
func (c *chart) bounds() (low, high float64) {
	low = math.Inf(1)
	for _, l := range c.lines {
		for _, p := range l.points {
			if p[1] > 0 {
				low = min(low, p[1])
			}
			high = max(high, p[1])
		}
	}
	if !c.logarithmic {
		return 0, high * 1.05
	}
	return math.Pow(10, math.Floor(math.Log10(low))), math.Pow(10, math.Ceil(math.Log10(high*1.001)))
}

func (c *chart) x(v float64) float64 { return marginLeft + (v-c.from)/(c.to-c.from)*plotWidth }

func (c *chart) y(v, low, high float64) float64 {
	if c.logarithmic {
		v, low, high = math.Log10(v), math.Log10(low), math.Log10(high)
	}
	return marginTop + plotHeight - (v-low)/(high-low)*plotHeight
}

func (c *chart) yTicks(low, high float64) (ticks []tick) {
	if !c.logarithmic {
		for _, v := range steps(low, high, 5) {
			ticks = append(ticks, tick{v, c.yText(v)})
		}
		return ticks
	}
	for v := low; v <= high*1.001; v *= 10 {
		ticks = append(ticks, tick{v, c.yText(v)})
	}
	return ticks
}

// steps returns about n round values from low to high.
func steps(low, high float64, n int) (values []float64) {
	raw := (high - low) / float64(n)
	if !(raw > 0) || math.IsInf(raw, 0) {
		return nil
	}
	unit := math.Pow(10, math.Floor(math.Log10(raw)))
	for _, m := range []float64{1, 2, 5, 10} {
		if unit*m >= raw {
			unit *= m
			break
		}
	}
	for v := math.Ceil(low/unit) * unit; v <= high; v += unit {
		values = append(values, v)
	}
	return values
}

// LatencyText formats nanoseconds with three digits.
func LatencyText(ns int64) string {
	if ns < 0 {
		return "-" + LatencyText(-ns)
	}
	unit := int64(1)
	for ns/unit >= 1000 {
		unit *= 10
	}
	return time.Duration((ns + unit/2) / unit * unit).String()
}

// numberText formats a number with at most three digits and a unit of thousands.
func numberText(v float64) string {
	for _, u := range []struct {
		size float64
		name string
	}{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if math.Abs(v) >= u.size {
			return strconv.FormatFloat(v/u.size, 'g', 3, 64) + u.name
		}
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}
