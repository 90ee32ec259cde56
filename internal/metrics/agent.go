package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawl-dev/pawl/internal/load/agent"
	"github.com/pawl-dev/pawl/internal/load/histogram"
	"github.com/pawl-dev/pawl/internal/load/stats"
)

// What is read at each scrape of the requests of the load agent of this process to object stores (L11).
var (
	agentFirstByte = about("agent_first_byte_seconds", "How long reads of objects took until the first byte of the content was there.", "operation")
	agentRetries   = about("agent_retries_total", "Requests to an object store that were tried again.", "operation")
)

// Agent adds the metrics of the load agent of this process, and returns the hooks that count for
// them (L11). A run prepares in CONFIG_RECEIVED, waits in READY, and runs in RUNNING.
func (m *Metrics) Agent() agent.Hooks {
	states := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "pawl_agent_state_duration_seconds", Help: "How long runs were in a state.",
		Buckets: []float64{.01, .1, 1, 10, 60, 600, 3600, 36000},
	}, []string{"state"})
	ended := counter("agent_runs_total", "Runs that have ended, by the state and, in ERROR, the code of the error.", "state", "code")
	failures := counter("agent_operation_errors_total", "Operations that have failed, by class.", "class")
	objects := &agentObjects{done: stats.Table{}}
	m.registry.MustRegister(states, ended, failures, objects)
	return agent.Hooks{
		Left:     func(state string, after time.Duration) { states.WithLabelValues(state).Observe(after.Seconds()) },
		Ended:    func(state, code string) { ended.WithLabelValues(state, code).Inc() },
		Failures: func(class string, n uint64) { failures.WithLabelValues(class).Add(float64(n)) },
		Objects:  objects.add,
	}
}

// agentObjects is the prometheus.Collector of requests to object stores. Its methods are safe for concurrent use.
type agentObjects struct {
	mu   sync.Mutex  // guards done
	done stats.Table // by operation
}

// add counts requests of an operation.
func (a *agentObjects) add(operation string, firstByte *histogram.Histogram, retries uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.done.Merge(stats.Table{{Operation: operation}: {FirstByte: firstByte, Retries: retries}})
}

// Describe implements prometheus.Collector.
func (*agentObjects) Describe(to chan<- *prometheus.Desc) {
	to <- agentFirstByte
	to <- agentRetries
}

// Collect implements prometheus.Collector.
func (a *agentObjects) Collect(to chan<- prometheus.Metric) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for of, c := range a.done {
		collectRequests(to, agentFirstByte, agentRetries, of.Operation, c)
	}
}

// collectRequests collects what is counted of the requests of an operation to an object store.
func collectRequests(to chan<- prometheus.Metric, firstByte, retries *prometheus.Desc, operation string, c *stats.Counter) {
	if c.FirstByte != nil {
		to <- bucketed(firstByte, c.FirstByte, operation)
	}
	to <- prometheus.MustNewConstMetric(retries, prometheus.CounterValue, float64(c.Retries), operation)
}
