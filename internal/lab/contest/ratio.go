package contest

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/pawl-dev/pawl/internal/lab/bench"
)

// A Ratio compares the first entrant with another by one measure. Figures are medians of
// the rounds; the ratio is the median of the rounds' ratios.
type Ratio struct {
	Workload string  `json:"workload"`
	Measure  string  `json:"measure"`
	First    float64 `json:"first"`
	Against  string  `json:"against"`
	Other    float64 `json:"other"`
	Ratio    float64 `json:"ratio"`
	Least    float64 `json:"least"` // of the rounds
	Most     float64 `json:"most"`
	Aim      string  `json:"aim,omitempty"`
	Met      bool    `json:"met,omitempty"`
}

// The measures. A higher rate is better; of the others, a lower figure is.
const (
	JobRate     = "jobs/s"
	StepRate    = "steps/s"
	P50         = "p50 ms"
	P99         = "p99 ms"
	P999        = "p99.9 ms"
	Transitions = "transitions/s"
	ClientCPU   = "client CPU s per 1000 jobs"
	ServerCPU   = "server CPU s per 1000 jobs"
	BothCPU     = "both CPU s per 1000 jobs"
)

var measures = []string{JobRate, StepRate, P50, P99, P999, Transitions, ClientCPU, ServerCPU, BothCPU}

// An Aim is the limit of a ratio. Either AtLeast or AtMost is 0.
type Aim struct {
	Workload, Measure, Against string
	AtLeast, AtMost            float64
}

func (a Aim) met(ratio float64) bool {
	return ratio >= a.AtLeast && (a.AtMost == 0 || ratio <= a.AtMost)
}

func (a Aim) String() string {
	if a.AtMost > 0 {
		return fmt.Sprintf("at most %g", a.AtMost)
	}
	return fmt.Sprintf("at least %g", a.AtLeast)
}

// of returns a measure of a turn, or 0 if it has none.
func (t Turn) of(measure string) float64 {
	switch measure {
	case JobRate:
		if t.Steps == t.Jobs && t.P50 == 0 {
			return t.JobRate
		}
	case StepRate:
		if t.Steps > t.Jobs && t.P50 == 0 {
			return t.StepRate
		}
	case P50:
		return float64(t.P50)
	case P99:
		return float64(t.P99)
	case P999:
		return float64(t.P999)
	case Transitions:
		if t.Workload == bench.EndToEnd && t.Transitions == 0 {
			return t.JobRate * bench.Budget.Audit
		}
		return t.Transitions
	case ClientCPU:
		return t.perThousand(t.CPU.Client)
	case ServerCPU:
		return t.perThousand(t.CPU.Server)
	case BothCPU:
		if t.CPU.Server > 0 {
			return t.perThousand(t.CPU.Client + t.CPU.Server)
		}
	}
	return 0
}

func (t Turn) perThousand(seconds float64) float64 {
	if t.Jobs == 0 {
		return 0
	}
	return seconds / float64(t.Jobs) * 1000
}

func (c Contest) ratios(turns []Turn) []Ratio {
	var list []Ratio
	for _, w := range c.Workloads {
		for _, e := range append(c.others(), Bare) {
			for _, m := range measures {
				if (m == Transitions) != (e == Bare) {
					continue // the database alone has transitions and nothing else
				}
				if r, ok := c.ratio(turns, w.Name, m, e); ok {
					list = append(list, r)
				}
			}
		}
	}
	return list
}

func (c Contest) others() []string {
	var names []string
	for _, e := range c.Entrants[1:] {
		names = append(names, e.Name)
	}
	return names
}

// ratio reports whether both have the measure and did all the work, and compares them.
func (c Contest) ratio(turns []Turn, workload, measure, against string) (Ratio, bool) {
	if slices.ContainsFunc(turns, func(t Turn) bool {
		return t.Workload == workload && t.Failed > 0 && (t.Entrant == c.Entrants[0].Name || t.Entrant == against)
	}) {
		return Ratio{}, false
	}
	first, other := series(turns, workload, measure, c.Entrants[0].Name), series(turns, workload, measure, against)
	if len(first) == 0 || len(first) != len(other) || slices.Min(other) == 0 || slices.Max(first) == 0 {
		return Ratio{}, false
	}
	each := make([]float64, len(first))
	for i := range each {
		each[i] = first[i] / other[i]
	}
	r := Ratio{Workload: workload, Measure: measure, First: median(first), Against: against, Other: median(other),
		Ratio: median(each), Least: slices.Min(each), Most: slices.Max(each)}
	for _, a := range c.Aims {
		if a.Workload == workload && a.Measure == measure && a.Against == against {
			r.Aim, r.Met = a.String(), a.met(r.Ratio)
		}
	}
	return r, true
}

// series returns a measure of each round.
func series(turns []Turn, workload, measure, entrant string) []float64 {
	var values []float64
	for _, t := range turns {
		if t.Workload == workload && t.Entrant == entrant {
			values = append(values, t.of(measure))
		}
	}
	return values
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// WriteTable writes the ratios as a table, and then the turns in which something failed.
func (o *Outcome) WriteTable(w io.Writer, first string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "WORKLOAD\tMEASURE\t%s\tAGAINST\tITS FIGURE\tRATIO\tOF ROUNDS\tAIM\t\n", strings.ToUpper(first))
	for _, r := range o.Ratios {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%.2f\t%.2f-%.2f\t%s\t%s\n", r.Workload, r.Measure, short(r.First), r.Against, short(r.Other), r.Ratio, r.Least, r.Most, r.Aim, r.verdict())
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, turn := range o.Turns {
		if turn.Failed > 0 {
			fmt.Fprintf(w, "%s, round %d: %s: %s\n", turn.Workload, turn.Round, turn.Entrant, turn)
		}
	}
	return nil
}

func (r Ratio) verdict() string {
	switch {
	case r.Aim == "":
		return ""
	case r.Met:
		return "met"
	}
	return "missed"
}

// short writes large numbers without decimals.
func short(v float64) string {
	if v >= 1000 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}
