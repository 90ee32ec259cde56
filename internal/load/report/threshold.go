package report

import (
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/internal/load/spec"
)

// violations returns a sentence for each threshold of a test that its result does not keep.
func violations(t *spec.Test, r *Report) (all []string) {
	for _, one := range t.Threshold {
		name, f := "all operations", &r.Summary.Total
		if one.Operation != "" {
			name, f = string(one.Operation), nil
			for i := range r.Summary.Operations {
				if r.Summary.Operations[i].Operation == name {
					f = &r.Summary.Operations[i].Figures
				}
			}
		}
		if text := violation(one, f); text != "" {
			all = append(all, fmt.Sprintf("%s of %s: %s", one.Metric, name, text))
		}
	}
	return all
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

func isLatency(m spec.Metric) bool {
	return m != spec.Throughput && m != spec.Operations && m != spec.Failures
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
