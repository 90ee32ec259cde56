package report

import (
	"cmp"
	"math"
	"slices"

	"github.com/pawl-dev/pawl/internal/load/histogram"
	"github.com/pawl-dev/pawl/internal/load/stats"
)

// Figures are what was done in a time.
type Figures struct {
	Operations          uint64            `json:"operations"`
	Bytes               uint64            `json:"bytes"`
	Errors              uint64            `json:"errors"`
	ErrorClasses        map[string]uint64 `json:"error_classes,omitempty"`
	OperationsPerSecond float64           `json:"operations_per_second"`
	BytesPerSecond      float64           `json:"bytes_per_second"`
	Service             Latency           `json:"service"`
	Response            *Latency          `json:"response,omitempty"`   // with a rate only
	FirstByte           *Latency          `json:"first_byte,omitempty"` // to the first byte of the content, of reads of objects
	Retries             uint64            `json:"retries,omitempty"`    // requests to an object store that were tried again
}

// A Latency has the figures of a histogram, in nanoseconds.
type Latency struct {
	Count uint64  `json:"count"`
	Mean  float64 `json:"mean_ns"`
	Min   int64   `json:"min_ns"`
	P50   int64   `json:"p50_ns"`
	P90   int64   `json:"p90_ns"`
	P95   int64   `json:"p95_ns"`
	P99   int64   `json:"p99_ns"`
	P999  int64   `json:"p999_ns"`
	Max   int64   `json:"max_ns"`
}

// Felt is the latency that a user of the system has felt: from the time at which an operation
// was due if there is a rate, and from its beginning otherwise.
func (f *Figures) Felt() *Latency {
	if f.Response != nil {
		return f.Response
	}
	return &f.Service
}

func latencyOf(h *histogram.Histogram) Latency {
	return Latency{
		Count: h.Count(), Mean: h.Mean(), Min: h.Min(), P50: h.Quantile(0.5), P90: h.Quantile(0.9), P95: h.Quantile(0.95),
		P99: h.Quantile(0.99), P999: h.Quantile(0.999), Max: h.Max(),
	}
}

// figuresOf returns the figures of a counter over some seconds.
func figuresOf(c *stats.Counter, seconds float64) Figures {
	f := Figures{Operations: c.Operations, Bytes: c.Bytes, ErrorClasses: c.Errors, Service: latencyOf(&c.Service), Retries: c.Retries}
	for _, n := range c.Errors {
		f.Errors += n
	}
	if c.Response != nil {
		response := latencyOf(c.Response)
		f.Response = &response
	}
	if c.FirstByte != nil && c.FirstByte.Count() > 0 {
		first := latencyOf(c.FirstByte)
		f.FirstByte = &first
	}
	if seconds > 0 {
		f.OperationsPerSecond, f.BytesPerSecond = float64(c.Operations)/seconds, float64(c.Bytes)/seconds
	}
	return f
}

// Total returns the figures of all operations of a table over some seconds.
func Total(t stats.Table, seconds float64) Figures { return figuresOf(sum(t, ""), seconds) }

// Operations returns the figures of each operation of a table over some seconds, in the order of
// reports and without size classes.
func Operations(t stats.Table, seconds float64) []Operation {
	all := []Operation{}
	for _, name := range operationsOf(t) {
		all = append(all, Operation{Operation: name, Figures: figuresOf(sum(t, name), seconds)})
	}
	slices.SortStableFunc(all, func(a, b Operation) int { return cmp.Compare(kindRank(a.Operation), kindRank(b.Operation)) })
	return all
}

// sum returns the counters of one operation, or of all for "", added up.
func sum(t stats.Table, operation string) *stats.Counter {
	c := &stats.Counter{}
	addUp(c, t, operation)
	return c
}

func addUp(c *stats.Counter, t stats.Table, operation string) {
	t.Sum(c, func(k stats.Key) bool { return operation == "" || k.Operation == operation })
}

// operationsOf returns the operations of a table that were done at all, sorted by name.
func operationsOf(t stats.Table) (names []string) {
	for _, k := range t.Keys() {
		if c := t[k]; (c.Operations > 0 || len(c.Errors) > 0) && (len(names) == 0 || names[len(names)-1] != k.Operation) {
			names = append(names, k.Operation)
		}
	}
	return names
}

// deviation returns the standard deviation of n values from the sum of their squared distances
// to the mean.
func deviation(squares float64, n uint64) float64 {
	if n == 0 {
		return 0
	}
	return math.Sqrt(squares / float64(n))
}
