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

// Scale returns how much there is to do, against the default.
func (p *Program) Scale() float64 { return p.scale }

// Words returns the words of which a workload has one in its name. Every name has "".
func (p *Program) Words() []string { return strings.Split(p.only, ",") }

// Run runs a contest in those of the named workloads that the flags select. It writes
// progress to standard error and the outcome to standard output.
func (p *Program) Run(ctx context.Context, c Contest, workloads []string) error {
	for _, w := range bench.Select(p.Words()...) {
		if slices.Contains(workloads, w.Name) {
			c.Workloads = append(c.Workloads, w)
		}
	}
	if len(c.Workloads) == 0 {
		return fmt.Errorf("-only %s: want a word of one of: %s", p.only, strings.Join(workloads, "; "))
	}
	o, err := p.Measure(ctx, c)
	if err != nil {
		return err
	}
	return p.Write(o, c.Entrants[0].Name)
}

// Measure runs a contest as often as the flags say, and writes progress to standard error. With an
// error it returns what Contest.Run returns.
func (p *Program) Measure(ctx context.Context, c Contest) (*Outcome, error) {
	c.Rounds = max(1, p.rounds)
	c.Progress = func(workload string, round int, who, what string) {
		fmt.Fprintf(os.Stderr, "%s, round %d: %s: %s\n", workload, round, who, what)
	}
	return c.Run(ctx)
}

// Write writes an outcome to standard output, as the flags say. first is the entrant that the
// others are compared with.
func (p *Program) Write(o *Outcome, first string) error {
	if p.json {
		e := json.NewEncoder(os.Stdout)
		e.SetIndent("", "  ")
		return e.Encode(o)
	}
	return o.WriteTable(os.Stdout, first)
}
