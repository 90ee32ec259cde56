package main

import (
	"context"
	"fmt"

	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/internal/lab/bench"
	"github.com/pawl-dev/pawl/internal/lab/contest"
)

// runFilled holds filled databases against empty ones.
func (b *benchCommand) runFilled(ctx context.Context, dir string) error {
	full, done, err := b.targets(ctx, dir, "filled")
	if err != nil {
		return err
	}
	defer done()
	empty, done, err := b.targets(ctx, dir, "empty")
	if err != nil {
		return err
	}
	defer done()
	if len(b.only) == 0 {
		b.only = contest.FilledWorkloads
	}
	var outcomes []*contest.FilledOutcome
	for i := range full {
		o, err := contest.Filled{Full: full[i], Empty: empty[i], Fill: b.fill, Workloads: bench.Select(b.only...), Sizes: b.sizes, Rounds: b.rounds, Progress: b.progress}.Run(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", full[i].Name(), err)
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
		fmt.Fprintf(b.stdout, "%s, filled with %d finished and %d waiting jobs against empty, medians of %d rounds\n", o.Store, o.Finished, o.Waiting, o.Rounds)
		if err := o.WriteTable(b.stdout, contest.FullDatabase); err != nil {
			return err
		}
	}
	return nil
}
