package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawl-dev/pawl/internal/tracing"
)

var spansTotal = about("trace_spans_total", "Spans that were sent to the collector of traces, or were dropped.", "outcome")

// A spans is the prometheus.Collector of the traces of a process.
type spans func() tracing.Stats

// WatchSpans adds the metrics of the traces, which each scrape reads.
func (m *Metrics) WatchSpans(stats func() tracing.Stats) { m.registry.MustRegister(spans(stats)) }

// Describe implements prometheus.Collector.
func (spans) Describe(to chan<- *prometheus.Desc) { to <- spansTotal }

// Collect implements prometheus.Collector.
func (s spans) Collect(to chan<- prometheus.Metric) {
	stats := s()
	for outcome, n := range map[string]int64{"sent": stats.Sent, "dropped": stats.Dropped} {
		to <- prometheus.MustNewConstMetric(spansTotal, prometheus.CounterValue, float64(n), outcome)
	}
}
