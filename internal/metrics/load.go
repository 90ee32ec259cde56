package metrics

import (
	"maps"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawl-dev/pawl/internal/load/controller"
	"github.com/pawl-dev/pawl/internal/load/histogram"
	"github.com/pawl-dev/pawl/internal/load/report"
	"github.com/pawl-dev/pawl/internal/load/stats"
)

// What is read of the load that this process controls at each scrape (L11).
var (
	loadPhase     = about("load_phase", "1 for the phase that the load is in, 0 for the others.", "phase")
	loadAgents    = about("load_agents", "Agents of the load, by status.", "status")
	loadSkew      = about("load_skew_seconds", "How long after the agreed start the first and the last thread of all agents have begun.", "thread")
	loadBound     = about("load_clock_bound_seconds", "The greatest uncertainty of the clock of an agent, and of its skew.")
	loadOps       = about("load_operations_total", "Operations that have succeeded, the warm-up included.", "operation")
	loadBytes     = about("load_bytes_total", "Bytes of those operations.", "operation")
	loadErrors    = about("load_errors_total", "Operations that have failed, by class.", "operation", "class")
	loadService   = about("load_service_seconds", "How long operations took from their beginning.", "operation")
	loadResponse  = about("load_response_seconds", "With a rate: how long operations took from the time at which they were due.", "operation")
	loadFirstByte = about("load_first_byte_seconds", "With an object store: how long reads took until the first byte of the content was there.", "operation")
	loadRetries   = about("load_retries_total", "Requests to an object store that were tried again.", "operation")
	loadBacklog   = about("load_backlog", "Operations that were due and had not begun at the end of the last interval.")
	loadIntervals = about("load_intervals_total", "Intervals whose figures are in these metrics.")
)

// loadBounds are the upper bounds of the buckets of latencies, in nanoseconds.
var loadBounds = []int64{1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6, 2e6, 5e6, 1e7, 2e7, 5e7, 1e8, 2e8, 5e8, 1e9, 2e9, 5e9, 1e10}

// A Load has the metrics of the load that this process controls. Its methods are safe for concurrent use.
type Load struct {
	mu        sync.Mutex // guards the fields below
	view      controller.View
	totals    stats.Table
	backlog   uint64
	intervals int
}

// Load adds the metrics of the load that this process controls.
func (m *Metrics) Load() *Load {
	l := &Load{totals: stats.Table{}}
	m.registry.MustRegister(l)
	return l
}

// Changed takes the load as it is now.
func (l *Load) Changed(v controller.View) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.view = v
}

// Interval takes what was done in an interval.
func (l *Load) Interval(i controller.Interval) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.totals.Merge(i.Operations)
	l.backlog = i.Backlog
	l.intervals++
}

// Describe implements prometheus.Collector.
func (*Load) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{loadPhase, loadAgents, loadSkew, loadBound, loadOps, loadBytes, loadErrors, loadService, loadResponse, loadFirstByte, loadRetries, loadBacklog, loadIntervals} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (l *Load) Collect(to chan<- prometheus.Metric) {
	l.mu.Lock()
	defer l.mu.Unlock()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for _, p := range controller.Phases {
		gauge(loadPhase, one(l.view.Phase == p), string(p))
	}
	gauge(loadBacklog, float64(l.backlog))
	to <- prometheus.MustNewConstMetric(loadIntervals, prometheus.CounterValue, float64(l.intervals))
	l.agents(gauge)
	l.operations(to)
}

func (l *Load) agents(gauge func(*prometheus.Desc, float64, ...string)) {
	states := map[string]int{}
	for _, s := range controller.AgentStates {
		states[s] = 0
	}
	var skew []float64
	bound := 0.0
	for i := range l.view.Agents {
		a := &l.view.Agents[i]
		states[a.State()]++
		if a.Measured {
			bound = max(bound, a.Clock.Bound.Seconds())
		}
		if a.Begun {
			skew = append(skew, a.Skew[0].Seconds(), a.Skew[1].Seconds())
		}
	}
	for s, n := range states {
		gauge(loadAgents, float64(n), s)
	}
	if len(skew) > 0 {
		gauge(loadSkew, slices.Min(skew), "first")
		gauge(loadSkew, slices.Max(skew), "last")
	}
	gauge(loadBound, bound)
}

func (l *Load) operations(to chan<- prometheus.Metric) {
	for _, o := range report.Operations(l.totals, 0) {
		c := &stats.Counter{}
		l.totals.Sum(c, func(k stats.Key) bool { return k.Operation == o.Operation })
		count := func(d *prometheus.Desc, v uint64, labels ...string) {
			to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), append([]string{o.Operation}, labels...)...)
		}
		count(loadOps, c.Operations)
		count(loadBytes, c.Bytes)
		for _, class := range slices.Sorted(maps.Keys(c.Errors)) {
			count(loadErrors, c.Errors[class], class)
		}
		to <- bucketed(loadService, &c.Service, o.Operation)
		if c.Response != nil {
			to <- bucketed(loadResponse, c.Response, o.Operation)
		}
		collectRequests(to, loadFirstByte, loadRetries, o.Operation, c)
	}
}

// bucketed returns a histogram with the buckets of loadBounds. A value counts as the upper edge of its own
// bucket, which is at most 1/64 above it.
func bucketed(d *prometheus.Desc, h *histogram.Histogram, operation string) prometheus.Metric {
	buckets := map[float64]uint64{}
	for _, b := range loadBounds {
		buckets[float64(b)/1e9] = 0
	}
	h.Each(func(upTo int64, n uint64) {
		for i := len(loadBounds) - 1; i >= 0 && loadBounds[i] >= min(upTo, h.Max()); i-- {
			buckets[float64(loadBounds[i])/1e9] += n
		}
	})
	return prometheus.MustNewConstHistogram(d, h.Count(), h.Mean()*float64(h.Count())/1e9, buckets, operation)
}
