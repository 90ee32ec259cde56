// Package contest compares systems: they do the same work in the same run, in turns and
// round by round, so that a disturbance of the machine affects all of them.
package contest

import (
	"context"
	"fmt"
	"runtime"
	"slices"

	"github.com/pawl-dev/pawl/internal/lab/bench"
)

// An Entrant is a system that takes part. Open starts it for each round, on the same
// database.
type Entrant struct {
	Name  string
	Sizes bench.Sizes // a slow system may do less, since figures are per job
	Open  func(ctx context.Context) (bench.System, error)
}

// A Contest has the systems, their workloads, and the number of rounds.
type Contest struct {
	Entrants  []Entrant // ratios compare the first with each of the others
	Workloads []bench.Workload
	Rounds    int
	Aims      []Aim
	CPU       func() CPU                                         // used until now
	Bare      func(ctx context.Context, n int) (float64, error)  // measures the database alone; see bench.Target. It may be nil
	Progress  func(workload string, round int, who, what string) // called at each turn
}

// A Turn is one workload of one entrant in one round.
type Turn struct {
	Workload string `json:"workload"`
	Entrant  string `json:"entrant"`
	Round    int    `json:"round"` // from 1
	bench.Figures
	Transitions float64 `json:"transitions_per_second,omitempty"` // of the database alone
	CPU         CPU     `json:"cpu_seconds"`
}

// An Outcome is the result of a contest.
type Outcome struct {
	Ratios []Ratio `json:"ratios"`
	Turns  []Turn  `json:"turns"`
}

// Add adds the results of another contest.
func (o *Outcome) Add(p *Outcome) {
	o.Ratios, o.Turns = append(o.Ratios, p.Ratios...), append(o.Turns, p.Turns...)
}

// Run measures every workload with every entrant, once in each round. With an error it returns the
// outcome of the rounds before.
func (c Contest) Run(ctx context.Context) (*Outcome, error) {
	o := new(Outcome)
	err := c.rounds(ctx, o)
	o.Ratios = c.ratios(o.Turns)
	return o, err
}

// rounds adds the turns of all rounds.
func (c Contest) rounds(ctx context.Context, o *Outcome) error {
	for _, w := range c.Workloads {
		for round := 1; round <= c.Rounds; round++ {
			turns, err := c.round(ctx, w, round)
			if err != nil {
				return err
			}
			for _, t := range turns {
				t.Round = round
				c.Progress(w.Name, round, t.Entrant, t.String())
				o.Turns = append(o.Turns, t)
			}
		}
	}
	return nil
}

// round reverses the order of the round before, since work that a turn leaves behind slows
// the next turn.
func (c Contest) round(ctx context.Context, w bench.Workload, round int) ([]Turn, error) {
	var turns []Turn
	order := slices.Clone(c.Entrants)
	if round%2 == 0 {
		slices.Reverse(order)
	}
	for _, e := range order {
		t, err := c.turn(ctx, w, e)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", e.Name, w.Name, err)
		}
		turns = append(turns, t)
	}
	if w.Name != bench.EndToEnd || c.Bare == nil {
		return turns, nil
	}
	rate, err := c.Bare(ctx, int(bench.Budget.Audit)*c.Entrants[0].Sizes.Jobs)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", Bare, err)
	}
	return append(turns, Turn{Workload: w.Name, Entrant: Bare, Transitions: rate}), nil
}

// Bare is the name of the database alone among the entrants.
const Bare = "bare database"

func (c Contest) turn(ctx context.Context, w bench.Workload, e Entrant) (t Turn, err error) {
	t = Turn{Workload: w.Name, Entrant: e.Name}
	runtime.GC() // the garbage of the turn before is not part of this one
	s, err := e.Open(ctx)
	if err != nil {
		return t, err
	}
	defer func() {
		if e := s.Close(); err == nil {
			err = e
		}
	}()
	if err := w.Before(ctx, s, e.Sizes); err != nil {
		return t, err
	}
	before := c.CPU()
	if t.Figures, err = w.Measure(ctx, s, e.Sizes); err != nil {
		return t, err
	}
	t.CPU = c.CPU().minus(before)
	if w.After != nil {
		err = w.After(ctx, s)
	}
	return t, err
}

func (t Turn) String() string {
	switch {
	case t.Failed > 0:
		return fmt.Sprintf("%d of %d failed; of the others p50 %.2f ms, p99 %.2f ms", t.Failed, t.Jobs, t.P50, t.P99)
	case t.Transitions > 0:
		return fmt.Sprintf("%.0f transitions/s", t.Transitions)
	case t.P50 > 0:
		return fmt.Sprintf("p50 %.2f ms, p99 %.2f ms", t.P50, t.P99)
	}
	return fmt.Sprintf("%.0f jobs/s, %.0f steps/s", t.JobRate, t.StepRate)
}
