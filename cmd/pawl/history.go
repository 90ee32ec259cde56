package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/console"
)

const historyLong = `Show every move of a job and of its steps in the order of time: when, of what,
from which state to which, by which event, who, and why. TOOK is how long the state
lasted that the move leaves. A line marked REFUSED is a fact that came too late, such
as the result of a worker whose step had been taken away; it changed nothing.

--step shows one step only: load with all its instances, load[3], or job for the job
itself. --limit shows the last moves only. A long history is printed as it is read, its
columns aligned for 1,000 lines each. In JSON, "took" is a duration such as
"1m30.5s", absent where a move leaves no state.`

// isOf reports whether a move is of a step: an instance is of its fan-out too.
func isOf(t *pawl.Transition, step string) bool {
	switch step {
	case "", t.Step:
		return true
	case console.OfJob:
		return t.Step == ""
	}
	return strings.HasPrefix(t.Step, step+"[")
}

func newJobHistory(a *app) *cobra.Command {
	form, step, limit := formText, "", 0
	c := &cobra.Command{
		Use: "history JOB", Short: "Show every move of a job and its steps", Long: historyLong,
		Example: "  pawl job history last\n  pawl job history last --step load --limit 20\n  pawl job history last -o json",
		Args:    want(1, 1, "a JOB"), ValidArgsFunction: a.completeJobs,
		RunE: func(c *cobra.Command, args []string) error {
			if limit < 0 {
				return usage("", "--limit %d: want 0 or more; 0 is no limit", limit)
			}
			return a.withJob(c.Context(), args[0], func(cl *client.Client, id pawl.ID) error {
				rows := console.History(a.stdout, form == formJSON, a.outZone())
				last := &console.Tail[pawl.Transition]{Limit: limit, F: rows.Add}
				err := cl.Inspect.History(c.Context(), id, func(t pawl.Transition) error {
					if !isOf(&t, step) {
						return nil
					}
					return last.Add(t)
				})
				if err == nil {
					err = last.End()
				}
				if err == nil && rows.N == 0 {
					err = noMoves(c.Context(), cl, id, step)
				}
				if err != nil {
					return err
				}
				return rows.End()
			})
		},
	}
	bindForm(c, &form, "a list of moves")
	c.Flags().StringVar(&step, "step", "", "only the moves of this step, or of the job itself: job")
	c.Flags().IntVar(&limit, "limit", 0, "only so many of the last moves; 0 is all")
	return c
}

// noMoves says why there is nothing to show of a step.
func noMoves(ctx context.Context, cl *client.Client, id pawl.ID, step string) error {
	def, err := cl.Inspect.Definition(ctx, id)
	if err != nil {
		return err
	}
	if _, err := def.OrdOf(step); err != nil {
		return err
	}
	return pawl.Errorf(pawl.NotFound, "job %s has no step %s yet", id.Public(pawl.JobPrefix), step)
}
