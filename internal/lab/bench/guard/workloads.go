package main

import (
	"slices"
	"strings"
)

// A workload is one of pawl bench, with sizes at which a run takes about a second.
type workload struct {
	name  string
	only  string // a part of the name that no other has, and without a comma
	args  []string
	quick bool // part of a short run
}

var workloads = []workload{
	{"no-op jobs, end to end", "end to end", []string{"--jobs", "5000"}, true},
	{"no-op jobs, drain", "drain", []string{"--jobs", "5000"}, true},
	{"chains of 10, many at once", "chains of 10", []string{"--chains", "300"}, true},
	{"chain of 10, one at a time", "chain of 10", []string{"--samples", "50"}, false},
	{"fan-out 1 -> 1000 -> 1, one at a time", "-> 1000 ->", nil, false},
	{"submit to start, idle", "submit to start", []string{"--samples", "40"}, true},
	{"sustained load", "sustained", []string{"--rate", "1000", "--sustain", "2s"}, false},
}

// selected returns the workloads of a run.
func selected(quick bool, words []string) []workload {
	return slices.DeleteFunc(slices.Clone(workloads), func(w workload) bool {
		if len(words) > 0 {
			return !slices.ContainsFunc(words, func(word string) bool { return strings.Contains(w.name, word) })
		}
		return quick && !w.quick
	})
}

// A cell is a workload on a store, and what was measured of it.
type cell struct {
	workload
	store  string
	blocks [][4]turn // base, base, head, head
}

// The measures. All are costs.
const (
	Time      = "ms a job"
	P50       = "p50 ms"
	P99       = "p99 ms"
	CPU       = "CPU µs a job"
	ClientCPU = "client CPU µs a job"
	ServerCPU = "server CPU µs a job"
)

// comparisons returns one for each measure that all turns have. The CPU of client and server
// together is judged; that of each is shown beside it.
func (c *cell) comparisons() (judged, shown []*Comparison) {
	own := c.all(func(t turn) bool { return t.result.PerJob.ClientCPU > 0 })
	for _, m := range []string{Time, P50, P99, CPU, ClientCPU, ServerCPU} {
		if m == P99 && c.only != "sustained" {
			continue // of a few samples it is the slowest
		}
		if len(c.blocks) == 0 && m != Time {
			continue
		}
		if !c.all(func(t turn) bool { return t.of(m, own) > 0 }) {
			continue
		}
		n := &Comparison{Store: c.store, Workload: c.name, Measure: m}
		for _, b := range c.blocks {
			v := func(i int) float64 { return b[i].of(m, own) }
			n.blocks = append(n.blocks, block{[2]float64{v(0), v(1)}, [2]float64{v(2), v(3)}})
		}
		if m == ClientCPU || m == ServerCPU {
			shown = append(shown, n)
		} else {
			judged = append(judged, n)
		}
	}
	return judged, shown
}

func (c *cell) all(has func(turn) bool) bool {
	for _, b := range c.blocks {
		if slices.ContainsFunc(b[:], func(t turn) bool { return !has(t) }) {
			return false
		}
	}
	return true
}

// of returns a measure of a turn, or 0 if it has none. own says whether the program has reported
// its CPU time; otherwise it is that of the whole process, with what it did before and after.
func (t turn) of(measure string, own bool) float64 {
	client, server := t.result.PerJob.ClientCPU, t.result.PerJob.ServerCPU
	if !own {
		client, server = t.client/float64(t.result.Jobs), t.server/float64(t.result.Jobs)
	}
	switch measure {
	case Time:
		if t.result.P50 == 0 {
			return 1000 * t.result.Seconds / float64(t.result.Jobs)
		}
	case P50:
		return float64(t.result.P50)
	case P99:
		return float64(t.result.P99)
	case CPU:
		return client + server
	case ClientCPU:
		if server > 0 {
			return client
		}
	case ServerCPU:
		return server
	}
	return 0
}
