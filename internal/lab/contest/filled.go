package contest

import (
	"context"
	"strconv"

	"github.com/pawl-dev/pawl/internal/lab/bench"
)

// Filled compares a filled database with an empty one. Jobs that ended long ago, and jobs
// that wait for other workers, must not slow the rest.
type Filled struct {
	Full, Empty bench.Target // of the same store
	Fill        bench.Fill
	Workloads   []bench.Workload
	Sizes       bench.Sizes
	Rounds      int
	Progress    func(target, what string)
}

// A FilledOutcome is the result.
type FilledOutcome struct {
	Store string `json:"store"`
	bench.Fill
	Rounds int `json:"rounds"`
	Outcome
}

// The entrants of Filled.
const (
	FullDatabase  = "filled"
	EmptyDatabase = "empty"
)

// FilledWorkloads are the default workloads of Filled: claims and results alone, many whole
// jobs, and one whole job at a time.
var FilledWorkloads = []string{bench.Drained, bench.EndToEnd, bench.OneChain}

// Run fills one database and measures the workloads on both, in turns.
func (f Filled) Run(ctx context.Context) (*FilledOutcome, error) {
	store := f.Full.Name()
	if err := f.Fill.Pour(ctx, f.Full, func(what string) { f.Progress(store, what) }); err != nil {
		return nil, err
	}
	o, err := Contest{
		Entrants: []Entrant{f.entrant(FullDatabase, f.Full), f.entrant(EmptyDatabase, f.Empty)}, Workloads: f.Workloads, Rounds: f.Rounds,
		Aims: f.aims(), CPU: CPUOf(f.Full),
		Progress: func(workload string, round int, who, what string) {
			f.Progress(store, workload+", round "+strconv.Itoa(round)+": "+who+": "+what)
		},
	}.Run(ctx)
	if err != nil {
		return nil, err
	}
	return &FilledOutcome{Store: store, Fill: f.Fill, Rounds: f.Rounds, Outcome: *o}, nil
}

func (f Filled) entrant(name string, t bench.Target) Entrant {
	return Entrant{Name: name, Sizes: f.Sizes, Open: func(ctx context.Context) (bench.System, error) { return t.Open(ctx, bench.Crew{}) }}
}

// slower is the highest ratio of time or CPU of a filled database to that of an empty one.
const slower = 1.1

// aims returns an aim for each time and cost, except p99: a long tail is mostly due to the machine.
func (f Filled) aims() (list []Aim) {
	for _, w := range f.Workloads {
		list = append(list, Aim{Workload: w.Name, Measure: JobRate, Against: EmptyDatabase, AtLeast: 0.91})
		for _, m := range []string{P50, ClientCPU, ServerCPU, BothCPU} {
			list = append(list, Aim{Workload: w.Name, Measure: m, Against: EmptyDatabase, AtMost: slower})
		}
	}
	return list
}

// CPUOf returns a function that reads the CPU time of this process and the target's.
func CPUOf(t bench.Target) func() CPU {
	postmaster := postmasterOf(t)
	return func() CPU { return Used(postmaster) }
}

// postmasterOf returns the server's process, if it is visible.
func postmasterOf(t bench.Target) int {
	if p, ok := t.(*bench.Postgres); ok {
		return Postmaster(p.Backend())
	}
	return 0
}
