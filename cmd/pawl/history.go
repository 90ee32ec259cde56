package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
)

const historyLong = `Show every move of a job and of its steps in the order of time: when, of what,
from which state to which, by which event, who, and why. TOOK is how long the state
lasted that the move leaves. A line marked REFUSED is a fact that came too late, such
as the result of a worker whose step had been taken away; it changed nothing.

--step shows one step only: load with all its instances, load[3], or job for the job
itself. --limit shows the last moves only. In JSON, "took" is a duration such as
"1m30.5s", absent where a move leaves no state.`

// rowsOf answers the moves of one step, or of all, at most the last limit of
// them; 0 is no limit.
func rowsOf(history []pawl.Transition, step string, limit int) []pawl.Transition {
	rows := []pawl.Transition{}
	for i := range history {
		if isOf(&history[i], step) {
			rows = append(rows, history[i])
		}
	}
	if limit > 0 && len(rows) > limit {
		rows = rows[len(rows)-limit:]
	}
	return rows
}

// ofJob is how --step names the job itself.
const ofJob = "job"

// isOf reports whether a move is of a step: an instance is of its fan-out too.
func isOf(t *pawl.Transition, step string) bool {
	switch step {
	case "", t.Step:
		return true
	case ofJob:
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
			if err := oneOf("output", form, formText, formJSON); err != nil {
				return err
			}
			if limit < 0 {
				return usage("", "--limit %d: want 0 or more; 0 is no limit", limit)
			}
			return a.withJob(c.Context(), args[0], func(o orchestrator, id pawl.ID) error {
				history, err := o.History(c.Context(), id)
				if err != nil {
					return err
				}
				rows := rowsOf(history, step, limit)
				if len(rows) == 0 {
					return noMoves(c.Context(), o, id, step)
				}
				if form == formJSON {
					return writeJSON(a.stdout, rows)
				}
				return showHistory(a.stdout, rows, a.outZone())
			})
		},
	}
	c.Flags().StringVarP(&form, "output", "o", formText, "text, or json: a list of moves")
	c.Flags().StringVar(&step, "step", "", "only the moves of this step, or of the job itself: job")
	c.Flags().IntVar(&limit, "limit", 0, "only so many of the last moves; 0 is all")
	return c
}

// noMoves says why there is nothing to show of a step.
func noMoves(ctx context.Context, o orchestrator, id pawl.ID, step string) error {
	def, err := o.Definition(ctx, id)
	if err != nil {
		return err
	}
	if _, err := def.OrdOf(step); err != nil {
		return err
	}
	return pawl.Errorf(pawl.NotFound, "job %s has no step %s yet", id.Public(pawl.JobPrefix), step)
}

func showHistory(w io.Writer, rows []pawl.Transition, zone *time.Location) error {
	table := [][]string{{"AT", "OF", "MOVE", "EVENT", "TOOK", "BY", "WHY"}}
	for i := range rows {
		r := &rows[i]
		of := r.Step
		if of == "" {
			of = ofJob
		}
		lasted := ""
		if r.Took != nil {
			lasted = length(time.Duration(*r.Took))
		}
		table = append(table, []string{stamp(r.At.Time(), zone), of, move(r), string(r.Event), lasted, r.Actor, r.Reason})
	}
	return writeTable(w, table)
}

func move(r *pawl.Transition) string {
	switch {
	case r.Refused:
		return "REFUSED"
	case r.From == nil:
		return string(r.To)
	case *r.From == r.To:
		return fmt.Sprintf("%s (stays)", r.To)
	}
	return fmt.Sprintf("%s -> %s", *r.From, r.To)
}
