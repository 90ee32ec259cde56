package main

import (
	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/internal/inspect"
)

const diffLong = `Compare two jobs, of one workflow as a rule: their definitions, inputs, outputs and
how long they took, and of every step its state, attempts, time, output and error.
A line of the first job begins with -, one of the second with +; a step is told of if
its state, attempts, output or error differ, and --all tells of every one. Long
values are cut. A fan-out is compared as a whole, with its instances counted.`

func newJobDiff(a *app) *cobra.Command {
	form, all := formText, false
	c := &cobra.Command{
		Use: "diff JOB JOB", Short: "Compare two jobs", Long: diffLong,
		Example: "  pawl job diff a1b2c3 last\n  pawl job diff a1b2c3 last -o json",
		Args:    want(2, 2, "two JOBs"), ValidArgsFunction: a.completeJobs,
		RunE: func(c *cobra.Command, args []string) error {
			return a.with(c.Context(), func(cl *client.Client) error {
				var jobs [2]pawl.ID
				for i, text := range args {
					var err error
					if jobs[i], err = a.jobOf(c.Context(), cl, text); err != nil {
						return err
					}
				}
				d, err := inspect.Compare(c.Context(), cl, jobs[0], jobs[1])
				if err != nil {
					return err
				}
				if form == formJSON {
					return console.JSON(a.stdout, d)
				}
				return console.JobDiff(a.stdout, d, all)
			})
		},
	}
	bindForm(c, &form, "everything that is compared")
	c.Flags().BoolVar(&all, "all", false, "tell of steps that are alike, too")
	return c
}
