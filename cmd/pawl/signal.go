package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
)

const signalLong = `Tell a job of an event. The oldest step that waits for the NAME takes it, or the
next one that will: an event that comes early is kept for it. The step's output is
the data. A NAME that no step of the workflow waits for is refused (exit 2).`

func newJobSignal(a *app) *cobra.Command {
	reason, data, requestID := "", "", ""
	c := &cobra.Command{
		Use: "signal JOB NAME", Short: "Tell a job of an event", Long: signalLong,
		Example: "  pawl job signal last payment_received --data @payment.json",
		Args:    want(2, 2, "a JOB and the NAME of an event"), ValidArgsFunction: a.completeJobs,
		RunE: func(c *cobra.Command, args []string) error {
			raw, err := dataOf(c)
			if err != nil {
				return err
			}
			return a.withJob(c.Context(), args[0], func(cl *client.Client, id pawl.ID) error {
				change := a.change(reason)
				change.RequestID = requestID
				if err := cl.Approvals.Signal(c.Context(), id, args[1], raw, change); err != nil {
					return err
				}
				_, err := fmt.Fprintf(a.stdout, "job %s is told of %s\n", id.Public(pawl.JobPrefix), args[1])
				return err
			})
		},
	}
	bindReason(c, &reason)
	bindRequestID(c, &requestID, "signal")
	c.Flags().StringVar(&data, "data", "", "what the event brings, as JSON or @FILE of it; default null")
	return c
}
