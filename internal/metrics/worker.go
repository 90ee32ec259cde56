package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawl-dev/pawl/worker"
	"github.com/pawl-dev/pawl/workflow"
)

// The outcomes of attempts.
const (
	outcomeSuccess   = "success"
	outcomeRetryable = "retryable"
	outcomePermanent = "permanent"
	outcomeSnoozed   = "snoozed"
	outcomePanic     = "panic"
)

// Worker adds the metrics of the worker of this process, and returns the middleware that
// counts for them.
func (m *Metrics) Worker(capacity int) func(worker.Handler) worker.Handler {
	attempts := counter("worker_attempts_total", "Attempts of steps that have ended, by handler and outcome.", "handler", "outcome")
	took := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "pawl_worker_attempt_duration_seconds", Help: "How long attempts of steps took.",
		Buckets: []float64{.005, .05, .5, 5, 60, 600, 3600},
	}, []string{"handler"})
	running := prometheus.NewGauge(prometheus.GaugeOpts{Name: "pawl_worker_running", Help: "Steps that run now."})
	slots := prometheus.NewGauge(prometheus.GaugeOpts{Name: "pawl_worker_capacity", Help: "How many steps can run at once."})
	slots.Set(float64(capacity))
	m.registry.MustRegister(attempts, took, running, slots)
	return func(next worker.Handler) worker.Handler {
		return func(ctx context.Context, t *worker.Task) worker.Result {
			began, name, outcome := time.Now(), handlerOf(t.Work), outcomePanic
			running.Inc()
			defer func() {
				running.Dec()
				attempts.WithLabelValues(name, outcome).Inc()
				took.WithLabelValues(name).Observe(time.Since(began).Seconds())
			}()
			r := next(ctx, t)
			outcome = outcomeOf(&r)
			return r
		}
	}
}

// handlerOf returns the name of the handler of a step: of a command, a script or a request
// the kind.
func handlerOf(w *workflow.Work) string {
	if w.Handler != "" {
		return w.Handler
	}
	return string(w.Kind)
}

func outcomeOf(r *worker.Result) string {
	switch {
	case r.Failure != nil && r.Failure.Permanent:
		return outcomePermanent
	case r.Failure != nil:
		return outcomeRetryable
	case r.Snooze != 0:
		return outcomeSnoozed
	}
	return outcomeSuccess
}
