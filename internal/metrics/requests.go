package metrics

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// requests are the metrics of the operations of the API.
type requests struct {
	all      *prometheus.CounterVec // operation, status
	replayed *prometheus.CounterVec // operation
	took     *prometheus.HistogramVec
}

func newRequests() requests {
	return requests{
		all:      counter("api_requests_total", "Requests that got a response, by operation and status.", "operation", "status"),
		replayed: counter("api_replays_total", "Requests that got the stored response to an earlier one.", "operation"),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "pawl_api_request_duration_seconds", Help: "How long requests took, waiting included.",
			Buckets: []float64{.005, .025, .1, .5, 2.5, 10, 30},
		}, []string{"operation"}),
	}
}

// Request counts a request to the API.
func (m *Metrics) Request(operation string, status int, replayed bool, took time.Duration) {
	m.requests.all.WithLabelValues(operation, strconv.Itoa(status)).Inc()
	m.requests.took.WithLabelValues(operation).Observe(took.Seconds())
	if replayed {
		m.requests.replayed.WithLabelValues(operation).Inc()
	}
}
