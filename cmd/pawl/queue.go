package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/console"
)

func newQueue(a *app) *cobra.Command {
	c := group(&cobra.Command{
		Use: "queue", Short: "List queues, pause and resume them",
		Long: `A step waits in the queue that its workflow names, "default" if it names none, until a
worker that serves the queue has room for it. "pawl quota set queue/NAME" limits how many
steps of a queue run at once.

While a queue is paused none of its steps begins, on any worker; those that run go on. Other
processes may take up to a second to notice a pause. Jobs are still accepted, and wait.
"pawl job why" says who has paused the queue, and why.`,
		Example: "  pawl queue list\n  pawl queue pause billing --reason \"the bank is down\"\n  pawl queue resume billing",
	})
	c.AddCommand(newQueueList(a), newQueueVerb(a, "pause"), newQueueVerb(a, "resume"), newQueueHistory(a))
	return c
}

func newQueueList(a *app) *cobra.Command {
	form := formText
	c := &cobra.Command{
		Use: "list", Short: "List the queues of the workspace",
		Long:    "List the queues of the workspace that steps are in, that live workers serve, that have a\nlimit, or that are paused.",
		Example: "  pawl queue list\n  pawl queue list -o json",
		Args:    want(0, 0, "no argument"),
		RunE: a.on(func(ctx context.Context, cl *client.Client, _ []string) error {
			queues, err := cl.Queues.List(ctx, a.workspace)
			if err != nil {
				return err
			}
			return showList(a, form, queues, "queues", func(q []pawl.QueueView) [][]string { return console.QueueRows(q, a.outZone()) })
		}),
	}
	bindForm(a, c, &form, "a list of queues")
	return c
}

func newQueueVerb(a *app, verb string) *cobra.Command {
	reason := ""
	c := &cobra.Command{
		Use: verb + " NAME", Short: "Pause a queue",
		Long:    "Keep the steps of a queue from being claimed until it is resumed. Those that run go on. A\nqueue that is paused already is refused (exit 5).",
		Example: "  pawl queue pause billing --reason \"the bank is down\"",
		Args:    want(1, 1, "the NAME of a queue"), ValidArgsFunction: a.completeQueues,
		RunE: a.on(func(ctx context.Context, cl *client.Client, args []string) error {
			do, done := cl.Queues.Pause, "paused"
			if verb == "resume" {
				do, done = cl.Queues.Resume, "resumed"
			}
			r, err := do(ctx, a.workspace, args[0], a.change(reason))
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.stdout, "queue %s of workspace %s is %s (%s)\n", args[0], a.workspace, done, r.ID)
			return err
		}),
	}
	if verb == "resume" {
		c.Short, c.Example = "Resume a queue", "  pawl queue resume billing"
		c.Long = "End the pause of a queue. A queue that is not paused is refused (exit 5)."
	}
	bindReason(c, &reason)
	return c
}

func newQueueHistory(a *app) *cobra.Command {
	form := formText
	c := &cobra.Command{
		Use: "history NAME", Short: "List the pauses of a queue",
		Long:    "List who has paused and resumed a queue, when and why, the newest pause first. Pauses that\nended longer ago than --retention are gone.",
		Example: "  pawl queue history billing\n  pawl queue history billing -o json",
		Args:    want(1, 1, "the NAME of a queue"), ValidArgsFunction: a.completeQueues,
		RunE: a.on(func(ctx context.Context, cl *client.Client, args []string) error {
			rows := console.WorkerHistory(a.stdout, form == formJSON, a.outZone())
			if err := cl.Queues.History(ctx, a.workspace, args[0], func(t pawl.Transition) error { return rows.Add(&t) }); err != nil {
				return err
			}
			return rows.End()
		}),
	}
	bindForm(a, c, &form, "a list of moves")
	return c
}

// completeQueues offers the names of queues to the shell.
func (a *app) completeQueues(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	return a.completedFirst(c, args, begun, func(ctx context.Context, cl *client.Client, offer func(word, about string)) error {
		queues, err := cl.Queues.List(ctx, a.workspace)
		for i := range queues {
			offer(queues[i].Name, fmt.Sprintf("%d in it", queues[i].Depth))
		}
		return err
	})
}
