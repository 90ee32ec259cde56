package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
)

const historyLong = `Show every move of a job and of its steps in the order of time: when, of what,
from which state to which, by which event, who, and why. Times are in UTC. A line
marked REFUSED is a fact that came too late, such as the result of a worker whose
step had been taken away; it changed nothing.`

func newJobHistory(a *app) *cobra.Command {
	form := formText
	c := &cobra.Command{
		Use: "history JOB", Short: "Show every move of a job and its steps", Long: historyLong,
		Example: "  pawl job history 3f9a01\n  pawl job history 3f9a01 -o json",
		Args:    want(1, 1, "a JOB"), ValidArgsFunction: a.completeJobs,
		RunE: func(c *cobra.Command, args []string) error {
			if err := oneOf("output", form, formText, formJSON); err != nil {
				return err
			}
			return a.withJob(c.Context(), args[0], func(o orchestrator, id pawl.ID) error {
				rows, err := o.History(c.Context(), id)
				if err != nil {
					return err
				}
				if form == formJSON {
					return writeJSON(a.stdout, rows)
				}
				return showHistory(a.stdout, rows)
			})
		},
	}
	c.Flags().StringVarP(&form, "output", "o", formText, "text, or json: a list of moves")
	return c
}

func showHistory(w io.Writer, rows []pawl.Transition) error {
	table := [][]string{{"AT", "OF", "MOVE", "EVENT", "BY", "WHY"}}
	for i := range rows {
		r := &rows[i]
		of := r.Step
		if of == "" {
			of = "job"
		}
		table = append(table, []string{stamp(r.At.Time()), of, move(r), string(r.Event), r.Actor, r.Reason})
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
