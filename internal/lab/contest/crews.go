package contest

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/pawl-dev/pawl/internal/lab/bench"
)

// Crews measures how crews of several sizes work off the same backlog. Several workers must
// not be slower than one, and no worker may rest while there is work.
type Crews struct {
	Target   bench.Target
	Workers  []int  // of each crew; the others are compared with the first
	Program  string // see bench.Crew
	Sizes    bench.Sizes
	Rounds   int
	Progress func(target, what string)
}

// A CrewsOutcome is the result.
type CrewsOutcome struct {
	Store     string       `json:"store"`
	Processes bool         `json:"processes"` // each worker has a process of its own
	Jobs      int          `json:"jobs"`
	Rounds    int          `json:"rounds"`
	Crews     []CrewResult `json:"crews"`
}

// A CrewResult has the figures of a crew, medians of the rounds.
type CrewResult struct {
	Workers   int     `json:"workers"`
	JobRate   float64 `json:"jobs_per_second"`
	Least     float64 `json:"least_jobs_per_second"` // of the rounds
	Most      float64 `json:"most_jobs_per_second"`
	Ratio     float64 `json:"ratio"`                           // its rate divided by the first crew's: the median of the rounds' ratios
	ClientCPU float64 `json:"client_cpu_us_per_job,omitempty"` // of this process and those of the crew
	ServerCPU float64 `json:"server_cpu_us_per_job,omitempty"`
	Gap       float64 `json:"longest_gap_ms"` // without the end of a job, in any round
}

// Run measures the crews, in turns.
func (c Crews) Run(ctx context.Context) (*CrewsOutcome, error) {
	run := &crewsRun{Crews: c, gaps: make([]time.Duration, len(c.Workers))}
	contest := Contest{
		Workloads: []bench.Workload{bench.Crew{Program: c.Program}.Backlog()}, Rounds: c.Rounds, CPU: run.used(),
		Progress: func(_ string, round int, who, what string) {
			c.Progress(c.Target.Name(), "round "+strconv.Itoa(round)+": "+who+": "+what)
		},
	}
	contest.Workloads[0].After = run.after
	for i := range c.Workers {
		contest.Entrants = append(contest.Entrants, Entrant{Name: run.name(i), Sizes: c.Sizes, Open: func(ctx context.Context) (bench.System, error) {
			p, err := c.Target.Open(ctx, bench.Crew{Workers: c.Workers[i], Program: c.Program})
			run.turn, run.pawl = i, p
			return p, err
		}})
	}
	o, err := contest.Run(ctx)
	if err != nil {
		return nil, err
	}
	return run.outcome(o.Turns), nil
}

// A crewsRun is a measurement in progress.
type crewsRun struct {
	Crews
	turn int // the crew whose turn it is
	pawl *bench.Pawl
	gaps []time.Duration // the longest of each crew
}

func (r *crewsRun) name(i int) string {
	if r.Workers[i] == 1 {
		return "1 worker"
	}
	return strconv.Itoa(r.Workers[i]) + " workers"
}

func (r *crewsRun) used() func() CPU {
	postmaster := postmasterOf(r.Target)
	return func() CPU { return Used(postmaster, r.pawl.PIDs()...) }
}

// after records the longest gap of a turn.
func (r *crewsRun) after(ctx context.Context, _ bench.System) error {
	gap, err := r.pawl.Gap(ctx)
	r.gaps[r.turn] = max(r.gaps[r.turn], gap)
	return err
}

func (r *crewsRun) outcome(turns []Turn) *CrewsOutcome {
	o := &CrewsOutcome{Store: r.Target.Name(), Processes: r.Program != "", Jobs: turns[0].Jobs, Rounds: r.Rounds}
	first := rates(turns, r.name(0))
	for i, workers := range r.Workers {
		own := rates(turns, r.name(i))
		result := CrewResult{Workers: workers, JobRate: median(own), Least: slices.Min(own), Most: slices.Max(own), Gap: r.gaps[i].Seconds() * 1000}
		var ratios []float64
		for round := range own {
			ratios = append(ratios, own[round]/first[round])
		}
		result.Ratio = median(ratios)
		result.ClientCPU = 1000 * median(series(turns, bench.Drained, ClientCPU, r.name(i)))
		result.ServerCPU = 1000 * median(series(turns, bench.Drained, ServerCPU, r.name(i)))
		o.Crews = append(o.Crews, result)
	}
	return o
}

func rates(turns []Turn, name string) []float64 { return series(turns, bench.Drained, JobRate, name) }

// WriteTable writes the figures as a table.
func (o *CrewsOutcome) WriteTable(w io.Writer) error {
	where := "in this process"
	if o.Processes {
		where = "each in a process of its own"
	}
	fmt.Fprintf(w, "%s, %d jobs worked off by workers %s, medians of %d rounds\n", o.Store, o.Jobs, where, o.Rounds)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "WORKERS\tJOBS/S\tOF ROUNDS\tRATIO\tCLIENT CPU µS/JOB\tSERVER CPU µS/JOB\tLONGEST GAP MS\n")
	for _, c := range o.Crews {
		fmt.Fprintf(t, "%d\t%.0f\t%.0f-%.0f\t%.2f\t%.0f\t%.0f\t%.0f\n", c.Workers, c.JobRate, c.Least, c.Most, c.Ratio, c.ClientCPU, c.ServerCPU, c.Gap)
	}
	return t.Flush()
}
