package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawl-dev/pawl/internal/feed"
)

// What is read of the hub of events at each scrape.
var (
	eventStreams = about("event_streams", "Streams of events that are open.")
	eventsSent   = about("events_sent_total", "Events that were sent to streams.")
	eventGaps    = about("event_gaps_total", "Gaps that streams had: events that their clients have to make up for by reading the state.")
	eventLag     = about("event_lag_seconds", "How long ago the feed of events was read to its end; 0: nobody listens.")
)

// An events is the prometheus.Collector of a hub.
type events func() feed.Stats

// WatchEvents adds the metrics of the events, which each scrape reads.
func (m *Metrics) WatchEvents(stats func() feed.Stats) { m.registry.MustRegister(events(stats)) }

// Describe implements prometheus.Collector.
func (events) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{eventStreams, eventsSent, eventGaps, eventLag} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (e events) Collect(to chan<- prometheus.Metric) {
	s := e()
	for _, v := range []struct {
		desc *prometheus.Desc
		kind prometheus.ValueType
		n    float64
	}{
		{eventStreams, prometheus.GaugeValue, float64(s.Streams)}, {eventsSent, prometheus.CounterValue, float64(s.Sent)},
		{eventGaps, prometheus.CounterValue, float64(s.Gaps)}, {eventLag, prometheus.GaugeValue, s.Lag.Seconds()},
	} {
		to <- prometheus.MustNewConstMetric(v.desc, v.kind, v.n)
	}
}
