package metrics

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// A Database is what the metrics of a database are read from.
type Database interface {
	Counts(ctx context.Context, workspace string) (*pawl.Counts, error)
	Queues(ctx context.Context, workspace string) ([]pawl.QueueView, error)
}

// Of what a scrape reads, the database and the folder of load runs.
const (
	readLimit = 2 * time.Second // how long a scrape waits for it
	fresh     = time.Second     // how long what was read serves further scrapes
)

// What is read of the database at each scrape: of all workspaces, and so the same at every
// process on it.
var (
	readable     = about("database_readable", "1 if this scrape has read the database in time, 0 if not.")
	jobs         = about("jobs", "Jobs that have not ended, by state.", "status")
	workers      = about("workers", "Workers that have not ended, by state.", "status")
	steps        = about("steps", "Steps that are enqueued or in progress.", "status")
	queueDepth   = about("queue_depth", "Steps that are enqueued.", "workspace", "queue")
	queueOldest  = about("queue_oldest_seconds", "How long the oldest enqueued step has waited; 0: there is none.", "workspace", "queue")
	queueRunning = about("queue_running", "Steps in progress.", "workspace", "queue")
	queueWorkers = about("queue_workers", "Workers that live and serve the queue.", "workspace", "queue")
	queueLimit   = about("queue_limit", "The limit of steps in progress, of queues that have one.", "workspace", "queue")
)

// A databaseMoment is the prometheus.Collector of a database. It reads once at a time, and at
// most once a second.
type databaseMoment struct {
	of  Database
	now func() time.Time

	mu     sync.Mutex
	at     time.Time // of the last reading
	counts *pawl.Counts
	queues []pawl.QueueView
}

// read returns what the database has, at most a second ago.
func (d *databaseMoment) read() (*pawl.Counts, []pawl.QueueView, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.counts != nil && d.now().Sub(d.at) < fresh {
		return d.counts, d.queues, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), readLimit)
	defer cancel()
	d.counts = nil
	counts, err := d.of.Counts(ctx, "")
	if err != nil {
		return nil, nil, err
	}
	queues, err := d.of.Queues(ctx, "")
	if err != nil {
		return nil, nil, err
	}
	d.counts, d.queues, d.at = counts, queues, d.now()
	return counts, queues, nil
}

// WatchDatabase adds the metrics of a database, which each scrape reads.
func (m *Metrics) WatchDatabase(of Database, now func() time.Time) {
	m.registry.MustRegister(&databaseMoment{of: of, now: now})
}

// Describe implements prometheus.Collector.
func (*databaseMoment) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{readable, jobs, workers, steps, queueDepth, queueOldest, queueRunning, queueWorkers, queueLimit} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (d *databaseMoment) Collect(to chan<- prometheus.Metric) {
	say := func(desc *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, v, labels...)
	}
	counts, queues, err := d.read()
	say(readable, one(err == nil))
	if err != nil {
		return
	}
	byState := func(desc *prometheus.Desc, m *machine.Machine, of map[machine.State]int) {
		for _, state := range m.States {
			if !m.Ended(state) {
				say(desc, float64(of[state]), string(state))
			}
		}
	}
	byState(jobs, lifecycle.Job, counts.Jobs)
	byState(workers, lifecycle.Worker, counts.Workers)
	for _, state := range slices.Sorted(maps.Keys(counts.Steps)) {
		say(steps, float64(counts.Steps[state]), string(state))
	}
	for _, q := range queues {
		waited := 0.0
		if q.Oldest != 0 {
			waited = max(0, d.now().Sub(q.Oldest.Time()).Seconds())
		}
		say(queueDepth, float64(q.Depth), q.Workspace, q.Name)
		say(queueOldest, waited, q.Workspace, q.Name)
		say(queueRunning, float64(q.Running), q.Workspace, q.Name)
		say(queueWorkers, float64(q.Workers), q.Workspace, q.Name)
		if q.Limit != nil {
			say(queueLimit, float64(*q.Limit), q.Workspace, q.Name)
		}
	}
}
