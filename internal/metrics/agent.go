package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawl-dev/pawl/internal/load/agent"
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
	m.registry.MustRegister(states, ended, failures)
	return agent.Hooks{
		Left:     func(state string, after time.Duration) { states.WithLabelValues(state).Observe(after.Seconds()) },
		Ended:    func(state, code string) { ended.WithLabelValues(state, code).Inc() },
		Failures: func(class string, n uint64) { failures.WithLabelValues(class).Add(float64(n)) },
	}
}
