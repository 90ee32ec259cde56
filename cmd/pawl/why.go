package main

import (
	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/console"
)

const whyLong = `Say why a job does not go on: what the job itself waits for, then each step that has
not ended and does not run on a worker, with what would unblock it. Of the instances
of a fan-out the first are told one by one, and all of them with the fan-out. With a
STEP (load, or load[3] for an instance) it answers for that step, whatever its state.
Times are in UTC.

With -o json it is a list of reasons; a program goes by their "kind".`

func newJobWhy(a *app) *cobra.Command {
	form := formText
	c := &cobra.Command{
		Use: "why JOB [STEP]", Short: "Say why a job does not go on", Long: whyLong,
		Example: "  pawl job why last\n  pawl job why last load[3]\n  pawl job why last -o json",
		Args:    want(1, 2, "a JOB and perhaps a STEP"), ValidArgsFunction: a.completeJobs,
		RunE: func(c *cobra.Command, args []string) error {
			step := ""
			if len(args) > 1 {
				step = args[1]
			}
			return a.withJob(c.Context(), args[0], func(cl *client.Client, id pawl.ID) error {
				reasons, err := cl.Inspect.Why(c.Context(), id, step)
				if err != nil {
					return err
				}
				if form == formJSON {
					return console.JSON(a.stdout, reasons)
				}
				return console.Reasons(a.stdout, reasons)
			})
		},
	}
	bindForm(c, &form, "a list of reasons")
	return c
}
