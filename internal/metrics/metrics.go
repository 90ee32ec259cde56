// Package metrics exports Prometheus metrics of a process (K7, S12): of its services, from
// the supervisor's hooks and their states at each scrape; of the requests to its API; and
// of its database, which each scrape reads. No label has an id in it. docs/metrics.md lists
// what there is.
package metrics

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/common/expfmt"

	"github.com/pawl-dev/pawl/internal/server"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/supervisor"
)

// Metrics are the metrics of one process.
type Metrics struct {
	registry *prometheus.Registry

	transitions *prometheus.CounterVec // type, from, to
	refusals    *prometheus.CounterVec // type
	escalations *prometheus.CounterVec // type
	panics      *prometheus.CounterVec // type, where
	waits       prometheus.Histogram
	durations   *prometheus.HistogramVec // action
	retries     *prometheus.CounterVec   // action
	timeouts    *prometheus.CounterVec   // action
	requests    requests

	mu    sync.Mutex
	stats func() supervisor.Stats
	parts func() []server.Count
}

// New returns the metrics of a process of that version of the program.
func New(version string) *Metrics {
	m := &Metrics{
		registry:    prometheus.NewRegistry(),
		transitions: counter("service_transitions_total", "Changes of state, by the states of the table that they lead from and to.", "type", "from", "to"),
		refusals:    counter("service_refusals_total", "Decisions that were not legal.", "type"),
		escalations: counter("service_escalations_total", "Times that a person was called for.", "type"),
		panics:      counter("service_panics_total", "Panics that were contained, by where they were.", "type", "where"),
		waits: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "pawl_service_decision_wait_seconds", Help: "How long a service that had something to decide waited for its turn.",
			Buckets: []float64{.0001, .001, .005, .01, .025, .1, 1},
		}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "pawl_service_action_duration_seconds", Help: "How long attempts of actions took, late ones included.",
			Buckets: []float64{.001, .01, .1, .5, 1, 5, 15, 60, 300},
		}, []string{"action"}),
		retries:  counter("service_action_retries_total", "Attempts of actions after the first.", "action"),
		timeouts: counter("service_action_timeouts_total", "Attempts of actions that took too long.", "action"),
		requests: newRequests(),
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{Name: "pawl_build_info", Help: "Always 1; the label says which version this is.",
		ConstLabels: prometheus.Labels{"version": version}})
	build.Set(1)
	m.registry.MustRegister(build, m.transitions, m.refusals, m.escalations, m.panics, m.waits, m.durations, m.retries, m.timeouts,
		m.requests.all, m.requests.replayed, m.requests.took, moment{m}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "pawl_" + name, Help: help}, labels)
}

// Watch sets the functions that each scrape calls for numbers of the moment. Either may be
// nil.
func (m *Metrics) Watch(stats func() supervisor.Stats, parts func() []server.Count) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stats, m.parts = stats, parts
}

// Hooks returns the supervisor's hooks that count events.
func (m *Metrics) Hooks() supervisor.Hooks {
	return supervisor.Hooks{
		Transition: func(id supervisor.Identity, t supervisor.Transition) {
			m.transitions.WithLabelValues(id.Type, string(t.FromPhase), string(t.ToPhase)).Inc()
		},
		Action: func(ctx context.Context, _ supervisor.Identity, run supervisor.Run, a supervisor.Action) (context.Context, func(supervisor.Attempt)) {
			if run.Attempt > 1 {
				m.retries.WithLabelValues(a.Name()).Inc()
			}
			return ctx, func(at supervisor.Attempt) { m.durations.WithLabelValues(a.Name()).Observe(at.Took.Seconds()) }
		},
		Settled: func(_ supervisor.Identity, s supervisor.ActionStatus) {
			if s.Kind == supervisor.KindTimeout {
				m.timeouts.WithLabelValues(s.ActionName).Inc()
			}
		},
		Decided: func(_ supervisor.Identity, waited, _ time.Duration) { m.waits.Observe(waited.Seconds()) },
		Refused: func(id supervisor.Identity, _ error) { m.refusals.WithLabelValues(id.Type).Inc() },
		Panicked: func(id supervisor.Identity, where string, _ any, _ []byte) {
			m.panics.WithLabelValues(id.Type, where).Inc()
		},
		Escalated: func(id supervisor.Identity, _ string) { m.escalations.WithLabelValues(id.Type).Inc() },
	}
}

// ServeHTTP writes all metrics in the text format of Prometheus.
func (m *Metrics) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	families, err := m.registry.Gather()
	if err != nil {
		http.Error(w, "metrics could not be gathered: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", string(expfmt.NewFormat(expfmt.TypeTextPlain)))
	e := expfmt.NewEncoder(w, expfmt.NewFormat(expfmt.TypeTextPlain))
	for _, f := range families {
		if e.Encode(f) != nil {
			return // the client has gone
		}
	}
}

// Gauges and counters that are read at each scrape.
var (
	services  = about("services", "Services, by the state of the table that theirs stand for.", "phase")
	running   = about("service_actions_running", "Actions that run.", "action")
	oldest    = about("service_action_oldest_running_seconds", "The age of the action that has been running for the longest.", "action")
	abandoned = about("service_actions_abandoned", "Actions that ignored their end and still run.")
	lost      = about("service_collections_lost", "Observations that ignored their end and still run.")
	seen      = about("service_observation_age_seconds", "The age of the oldest last observation of a service.")
	up        = about("part_up", "1 if the part of this process runs, 0 if not.", "part")
	starts    = about("part_starts_total", "Times that the part was begun.", "part")
	rounds    = about("part_rounds_total", "Rounds of the part that have ended; those of the evaluator are jobs that were evaluated, those of http requests.", "part")
	failures  = about("part_failures_total", "Rounds of the part that have failed.", "part")
	found     = about("part_found_total", "What the part has found that should not be: of the sweep, waits whose cause had ended.", "part")
	last      = about("part_last_round_timestamp_seconds", "When the last round of the part ended, since 1970.", "part")
)

func about(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("pawl_"+name, help, labels, nil)
}

// A moment is the prometheus.Collector of what is read at each scrape.
type moment struct{ *Metrics }

// Describe implements prometheus.Collector.
func (moment) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{services, running, oldest, abandoned, lost, seen, up, starts, rounds, failures, found, last} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (m moment) Collect(to chan<- prometheus.Metric) {
	m.mu.Lock()
	stats, parts := m.stats, m.parts
	m.mu.Unlock()
	say := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, kind, v, labels...)
	}
	if stats != nil {
		s := stats()
		for _, phase := range lifecycle.Service.States {
			say(services, prometheus.GaugeValue, float64(s.Services[phase]), string(phase))
		}
		for name, r := range s.Running {
			say(running, prometheus.GaugeValue, float64(r.Count), name)
			say(oldest, prometheus.GaugeValue, r.Oldest.Seconds(), name)
		}
		say(abandoned, prometheus.GaugeValue, float64(s.Abandoned))
		say(lost, prometheus.GaugeValue, float64(s.LostCollection))
		say(seen, prometheus.GaugeValue, s.OldestSeen.Seconds())
	}
	if parts != nil {
		for _, p := range parts() {
			say(up, prometheus.GaugeValue, one(p.Alive), p.Name)
			say(starts, prometheus.CounterValue, float64(p.Starts), p.Name)
			say(rounds, prometheus.CounterValue, float64(p.Rounds), p.Name)
			say(failures, prometheus.CounterValue, float64(p.Failures), p.Name)
			say(found, prometheus.CounterValue, float64(p.Found), p.Name)
			if !p.At.IsZero() {
				say(last, prometheus.GaugeValue, float64(p.At.UnixMilli())/1000, p.Name)
			}
		}
	}
}

func one(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
