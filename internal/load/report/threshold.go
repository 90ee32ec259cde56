package report

import (
	"fmt"
	"math"
	"time"

	"github.com/pawl-dev/pawl/internal/load/spec"
)

// A Judged is a threshold of a test, and how its result does not keep it.
type Judged struct {
	spec.Threshold
	Violation string // empty: it is kept, or there is no result
}

// Thresholds returns those of a test, judged by a summary; nil: by none.
func Thresholds(t *spec.Test, s *Summary) (all []Judged) {
	for _, one := range t.Threshold {
		j := Judged{Threshold: one}
		if s != nil {
			j.Violation = (&Report{Run: &Run{Test: t}, Summary: *s}).judge(one)
		}
		all = append(all, j)
	}
	return all
}

// violations returns a sentence for each threshold of a test that its result does not keep.
func violations(t *spec.Test, r *Report) (all []string) {
	for _, one := range t.Threshold {
		if text := r.judge(one); text != "" {
			all = append(all, text)
		}
	}
	return all
}

// judge returns how a result does not keep a threshold, or "".
func (r *Report) judge(t spec.Threshold) string {
	name, f := "all operations", &r.Summary.Total
	if t.Operation != "" {
		name, f = string(t.Operation), nil
		for i := range r.Summary.Operations {
			if r.Summary.Operations[i].Operation == name {
				f = &r.Summary.Operations[i].Figures
			}
		}
	}
	text := violation(t, f)
	if text == "" {
		text = r.overdue(t)
	}
	if text != "" {
		text = fmt.Sprintf("%s of %s: %s", t.Metric, name, text)
	}
	return text
}

// violation returns how the figures break a threshold, or "". Nothing breaks one of errors only
// by there being nothing.
func violation(t spec.Threshold, f *Figures) string {
	if f == nil || f.Operations+f.Errors == 0 {
		if t.Metric == spec.Failures {
			return ""
		}
		return "nothing was measured"
	}
	if isLatency(t.Metric) && f.Felt().Count == 0 { // all have failed
		return "nothing was measured"
	}
	value, atLeast, text := measured(t.Metric, f)
	switch {
	case atLeast && value < t.Limit:
		return fmt.Sprintf("%s, want at least %s", text(value), text(t.Limit))
	case !atLeast && value > t.Limit:
		return fmt.Sprintf("%s, want at most %s", text(value), text(t.Limit))
	}
	return ""
}

// shares are what the percentiles leave above them.
var shares = map[spec.Metric]float64{spec.P50: 0.5, spec.P90: 0.1, spec.P99: 0.01, spec.P999: 0.001, spec.Maximum: 0}

// overdue returns how operations that had not begun at the end break a threshold of a latency, or "":
// those that were due for longer than its limit are more than may be above it. The mix spreads them
// over all kinds.
func (r *Report) overdue(t spec.Threshold) string {
	share := shares[t.Metric]
	if !isLatency(t.Metric) || r.Run.Test.Rate == nil {
		return ""
	}
	recent := math.Ceil(r.Run.Test.Rate.Operations * t.Limit / 1e9) // became due within the limit, on one agent
	late := 0.0
	for i := range r.Summary.Agents {
		late += max(0, float64(r.Summary.Agents[i].NotBegun)-recent)
	}
	if late <= share*(float64(r.Summary.Total.Felt().Count)+float64(r.Summary.NotBegun)) {
		return ""
	}
	return fmt.Sprintf("%.0f operations had been due for longer than %s and not begun at the end", late, time.Duration(t.Limit))
}

func isLatency(m spec.Metric) bool {
	_, is := shares[m]
	return is
}

// measured returns the value of a metric, whether more is better, and how it is written.
func measured(m spec.Metric, f *Figures) (value float64, atLeast bool, text func(float64) string) {
	latency := f.Felt()
	switch m {
	case spec.Throughput:
		return f.BytesPerSecond, true, func(v float64) string { return fmt.Sprintf("%.1f MiB/s", v/(1<<20)) }
	case spec.Operations:
		return f.OperationsPerSecond, true, func(v float64) string { return fmt.Sprintf("%.1f a second", v) }
	case spec.Failures:
		return float64(f.Errors), false, func(v float64) string { return fmt.Sprintf("%.0f", v) }
	}
	byMetric := map[spec.Metric]int64{spec.P50: latency.P50, spec.P90: latency.P90, spec.P99: latency.P99, spec.P999: latency.P999, spec.Maximum: latency.Max}
	return float64(byMetric[m]), false, func(v float64) string { return time.Duration(v).String() }
}
