// Package promtool holds the metrics, the alert rules and the dashboard against the tool of
// Prometheus, and against what processes really serve (K7). It has tests only. They need
// promtool, which they take from Debian's package of Prometheus if there is none.
package promtool
