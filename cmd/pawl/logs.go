package main

import (
	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/internal/inspect"
)

const logsLong = `Print what the steps of a job printed, on stdout: of all steps, each line behind
the key of its step, or of one STEP (load, or load[3] of a fan-out) as it was.
--follow goes on until the job has ended; it is a matter of a second at most.
Of an attempt that printed very much the middle is left out, and a line says so.`

func newJobLogs(a *app) *cobra.Command {
	followed := false
	c := &cobra.Command{
		Use: "logs JOB [STEP]", Short: "Print what the steps of a job printed", Long: logsLong,
		Example: "  pawl job logs last\n  pawl job logs last load[3] --follow",
		Args:    want(1, 2, "a JOB and perhaps a STEP"), ValidArgsFunction: a.completeJobs,
		RunE: func(c *cobra.Command, args []string) error {
			step := ""
			if len(args) == 2 {
				step = args[1]
			}
			return a.withJob(c.Context(), args[0], func(cl *client.Client, id pawl.ID) error {
				p := console.NewPrinter(a.stdout, step)
				defer p.Close()
				print := func() error { return cl.Inspect.Logs(c.Context(), id, step, p.Print) }
				if followed {
					return inspect.UntilEnded(c.Context(), cl, id, print)
				}
				return print()
			})
		},
	}
	c.Flags().BoolVarP(&followed, "follow", "f", false, "go on until the job has ended")
	return c
}
