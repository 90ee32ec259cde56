package main

import (
	"context"
	"fmt"
	"os"

	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/internal/lab/bench"
	"github.com/pawl-dev/pawl/internal/lab/contest"
)

// crews are the flags that say who works off the backlog.
type crews struct {
	workers   []int // of each crew; none: no crews are measured
	processes bool
}

// maxCrew bounds a crew: each worker in a process of its own has connections of its own.
const maxCrew = 100

func (b *benchCommand) checkCrews() error {
	if len(b.crews.workers) == 0 {
		if b.crews.processes {
			return usage("", "--processes: only with --workers")
		}
		return nil
	}
	for _, n := range b.crews.workers {
		if n < 1 || n > maxCrew {
			return usage("", "--workers %d: want 1 to %d", n, maxCrew)
		}
	}
	if w := bench.Select(b.only...); len(w) != 1 || w[0].Name != bench.Drained {
		return usage("add --only drain", "--workers: only with --only drain")
	}
	if b.fill != (bench.Fill{}) {
		return usage("", "--workers: not with --finished or --waiting")
	}
	return nil
}

// runCrews has crews of all the sizes work off the same backlog, on each store.
func (b *benchCommand) runCrews(ctx context.Context, dir string) error {
	targets, done, err := b.targets(ctx, dir, "crews")
	if err != nil {
		return err
	}
	defer done()
	c := contest.Crews{Workers: b.crews.workers, Sizes: b.sizes, Rounds: b.rounds, Progress: b.progress}
	if b.crews.processes {
		if c.Program, err = os.Executable(); err != nil {
			return fmt.Errorf("find the program of the workers: %w", err)
		}
	}
	var outcomes []*contest.CrewsOutcome
	for _, c.Target = range targets {
		o, err := c.Run(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", c.Target.Name(), err)
		}
		outcomes = append(outcomes, o)
	}
	if b.format == "json" {
		return console.JSON(b.stdout, outcomes)
	}
	for i, o := range outcomes {
		if i > 0 {
			fmt.Fprintln(b.stdout)
		}
		if err := o.WriteTable(b.stdout); err != nil {
			return err
		}
	}
	return nil
}
