package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawl-dev/pawl/internal/webhook"
)

// What is read of the deliveries of webhooks at each scrape.
var (
	webhookAttempts = about("webhook_attempts_total", "Attempts to deliver a message to the receiver of a webhook.", "outcome")
	webhooksActive  = about("webhooks_active", "Webhooks whose messages this process delivers; 0: another process does.")
	webhooksFailing = about("webhooks_failing", "Webhooks of this process whose last attempt has failed, or whose secret it cannot decrypt.")
	webhookLag      = about("webhook_lag_seconds", "The age of the oldest event that waits for its delivery by this process; 0: none waits.")
)

// A webhooks is the prometheus.Collector of the deliveries of a process.
type webhooks func() webhook.Stats

// WatchWebhooks adds the metrics of the webhooks, which each scrape reads.
func (m *Metrics) WatchWebhooks(stats func() webhook.Stats) { m.registry.MustRegister(webhooks(stats)) }

// Describe implements prometheus.Collector.
func (webhooks) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{webhookAttempts, webhooksActive, webhooksFailing, webhookLag} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (w webhooks) Collect(to chan<- prometheus.Metric) {
	s := w()
	for outcome, n := range map[string]int64{"delivered": s.Delivered, "failed": s.Failed} {
		to <- prometheus.MustNewConstMetric(webhookAttempts, prometheus.CounterValue, float64(n), outcome)
	}
	to <- prometheus.MustNewConstMetric(webhooksActive, prometheus.GaugeValue, float64(s.Active))
	to <- prometheus.MustNewConstMetric(webhooksFailing, prometheus.GaugeValue, float64(s.Failing))
	to <- prometheus.MustNewConstMetric(webhookLag, prometheus.GaugeValue, s.Lag.Seconds())
}
