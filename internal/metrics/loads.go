package metrics

import (
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawl-dev/pawl/internal/load/results"
)

var (
	loadRuns  = about("load_runs", "Load runs in the folder of this process, by state.", "state")
	loadsRead = about("load_runs_readable", "1 if this scrape has read the folder of load runs in time, 0 if not.")
)

const (
	loadsLimit = 2 * time.Second // how long a scrape waits for the folder
	loadsFresh = time.Second     // how long what was read serves further scrapes
)

// loads is the prometheus.Collector of a folder of load runs. It lists once at a time, by a goroutine of its
// own, since a file system may hang.
type loads struct {
	list  func() ([]results.Run, error)
	limit time.Duration

	mu   sync.Mutex // guards the fields below
	last *listing   // the one that is on, or the last one
}

// A listing is one look at the folder.
type listing struct {
	done chan struct{} // closed: the fields below are there
	at   time.Time
	runs []results.Run
	err  error
}

// WatchLoads adds the metrics of a folder of load runs, which scrapes list.
func (m *Metrics) WatchLoads(list func() ([]results.Run, error)) {
	m.registry.MustRegister(&loads{list: list, limit: loadsLimit})
}

// listing returns one that is on, or was made within a second.
func (l *loads) listing() *listing {
	l.mu.Lock()
	defer l.mu.Unlock()
	if last := l.last; last != nil {
		select {
		case <-last.done:
			if last.err == nil && time.Since(last.at) < loadsFresh {
				return last
			}
		default:
			return last
		}
	}
	next := &listing{done: make(chan struct{})}
	l.last = next
	go func() {
		defer close(next.done)
		next.runs, next.err = l.list()
		next.at = time.Now()
	}()
	return next
}

// read returns the runs, if it can in time.
func (l *loads) read() ([]results.Run, error) {
	now := l.listing()
	late := time.NewTimer(l.limit)
	defer late.Stop()
	select {
	case <-now.done:
		return now.runs, now.err
	case <-late.C:
		return nil, errors.New("the folder of load runs cannot be read in time")
	}
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
