package contest

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/internal/lab/bench"
)

// A Program is the command line of a contest.
type Program struct {
	rounds int
	scale  float64
	only   string
	json   bool
}

// Flags declares the flags.
func (p *Program) Flags(f *flag.FlagSet) {
	f.IntVar(&p.rounds, "rounds", 5, "how often everybody does each workload")
	f.Float64Var(&p.scale, "scale", 1, "how much there is to do, against the default")
	f.StringVar(&p.only, "only", "", "workloads with one of these words, separated by commas, in their name")
	f.BoolVar(&p.json, "json", false, "write JSON")
}

// Scaled returns n multiplied by the scale of the flags.
func (p *Program) Scaled(n bench.Sizes) bench.Sizes {
	for _, size := range []*int{&n.Jobs, &n.Graphs, &n.Samples} {
		*size = max(1, int(float64(*size)*p.scale))
	}
	return n
}

// Run runs a contest in those of the named workloads that the flags select. It writes
// progress to standard error and the outcome to standard output.
func (p *Program) Run(ctx context.Context, c Contest, workloads []string) error {
	c.Rounds = max(1, p.rounds)
	for _, w := range bench.Select(strings.Split(p.only, ",")...) {
		if slices.Contains(workloads, w.Name) {
			c.Workloads = append(c.Workloads, w)
		}
	}
	if len(c.Workloads) == 0 {
		return fmt.Errorf("-only %s: want a word of one of: %s", p.only, strings.Join(workloads, "; "))
	}
	c.Progress = func(workload string, round int, who, what string) {
		fmt.Fprintf(os.Stderr, "%s, round %d: %s: %s\n", workload, round, who, what)
	}
	o, err := c.Run(ctx)
	if err != nil {
		return err
	}
	if p.json {
		e := json.NewEncoder(os.Stdout)
		e.SetIndent("", "  ")
		return e.Encode(o)
	}
	return o.WriteTable(os.Stdout, c.Entrants[0].Name)
}
