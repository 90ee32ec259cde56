package metrics

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawl-dev/pawl/internal/load/results"
)

var (
	loadRuns  = about("load_runs", "Load runs in the folder of this process, by state.", "state")
	loadsRead = about("load_runs_readable", "1 if this scrape has read the folder of load runs in time, 0 if not.")
)

// loads is the prometheus.Collector of a folder of load runs. Like that of a database, it reads once at a time, and at
// most once a second.
type loads struct {
	list func(context.Context) ([]results.Run, error)

	mu   sync.Mutex // guards the fields below
	at   time.Time  // when the last list was there, or had failed
	runs []results.Run
	err  error
}

// WatchLoads adds the metrics of a folder of load runs, which scrapes list. list returns when ctx ends, whatever the file
// system does.
func (m *Metrics) WatchLoads(list func(context.Context) ([]results.Run, error)) {
	m.registry.MustRegister(&loads{list: list})
}

// read returns the runs, or why they cannot be listed, at most a second ago. So scrapes that come at the same time wait
// for one list.
func (l *loads) read() ([]results.Run, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.at.IsZero() && time.Since(l.at) < fresh {
		return l.runs, l.err
	}
	ctx, cancel := context.WithTimeout(context.Background(), readLimit)
	defer cancel()
	l.runs, l.err = l.list(ctx)
	l.at = time.Now()
	return l.runs, l.err
}

// Describe implements prometheus.Collector.
func (*loads) Describe(to chan<- *prometheus.Desc) {
	to <- loadRuns
	to <- loadsRead
}

// Collect implements prometheus.Collector.
func (l *loads) Collect(to chan<- prometheus.Metric) {
	runs, err := l.read()
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
