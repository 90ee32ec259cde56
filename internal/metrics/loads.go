package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawl-dev/pawl/internal/load/results"
)

var (
	loadRuns  = about("load_runs", "Load runs in the folder of this process, by state.", "state")
	loadsRead = about("load_runs_readable", "1 if the folder of load runs can be read, 0 if not.")
)

// loads is the prometheus.Collector of a folder of load runs.
type loads func() ([]results.Run, error)

// WatchLoads adds the metrics of a folder of load runs, which each scrape lists.
func (m *Metrics) WatchLoads(list func() ([]results.Run, error)) {
	m.registry.MustRegister(loads(list))
}

// Describe implements prometheus.Collector.
func (loads) Describe(to chan<- *prometheus.Desc) {
	to <- loadRuns
	to <- loadsRead
}

// Collect implements prometheus.Collector.
func (l loads) Collect(to chan<- prometheus.Metric) {
	runs, err := l()
	to <- prometheus.MustNewConstMetric(loadsRead, prometheus.GaugeValue, one(err == nil))
	if err != nil {
		return
	}
	n := map[results.State]int{}
	for i := range runs {
		n[runs[i].State]++
	}
	for _, s := range results.States {
		to <- prometheus.MustNewConstMetric(loadRuns, prometheus.GaugeValue, float64(n[s]), string(s))
	}
}
