package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/inspect"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

const workersLong = `

Several workers may be named. --all takes every worker of the workspace that it can
be done to, and asks before it begins; --yes answers it. After a refusal the others
are gone on with; the exit code is the highest of them all.`

// A workerVerb is what an operator does to workers.
type workerVerb struct {
	verb, done string
	from       []machine.State // what --all takes
	do         func(w *client.Workers, ctx context.Context, id pawl.ID, c pawl.Change) error
	reasoned   bool // it wants a reason

	all, yes bool
	reason   string
}

func newWorkerPause(a *app) *cobra.Command {
	v := &workerVerb{verb: "pause", done: "paused", from: []machine.State{lifecycle.WorkerRunning}, do: (*client.Workers).Pause}
	return v.bind(a, &cobra.Command{
		Short:   "Let a worker claim nothing more",
		Long:    "Pause a worker: it claims nothing more until it is resumed; what it runs ends. One that\nhas never had a task is IDLE, and cannot be paused (exit 5).",
		Example: "  pawl worker pause rack1 --reason \"new disk\"\n  pawl worker pause --all --yes",
	})
}

func newWorkerResume(a *app) *cobra.Command {
	v := &workerVerb{verb: "resume", done: "resumed", from: []machine.State{lifecycle.WorkerPaused}, do: (*client.Workers).Resume}
	return v.bind(a, &cobra.Command{
		Short:   "End the pause of a worker",
		Long:    "Resume a worker that was paused. One that paused itself because there was too little\nmemory or disk pauses again as long as that is so.",
		Example: "  pawl worker resume rack1\n  pawl worker resume --all --yes",
	})
}

func newWorkerTerminate(a *app) *cobra.Command {
	v := &workerVerb{verb: "terminate", done: "terminated", reasoned: true, do: (*client.Workers).Terminate,
		from: []machine.State{lifecycle.WorkerIdle, lifecycle.WorkerRunning, lifecycle.WorkerPaused}}
	return v.bind(a, &cobra.Command{
		Short:   "End a worker for good",
		Long:    "Terminate a worker: what it runs is interrupted and pending again, for others, at once,\nand its process ends with exit code 1 and says who wanted it and why.",
		Example: "  pawl worker terminate rack1 --reason \"it is sold\"\n  pawl worker terminate w_019a3c7e5b7a7c1d8000000040a1b2c3 --reason \"it hangs\"",
	})
}

func (v *workerVerb) bind(a *app, c *cobra.Command) *cobra.Command {
	c.Use = v.verb + " WORKER..."
	c.Long += workersLong
	c.ValidArgsFunction = a.completeWorkers
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := v.check(c, args); err != nil {
			return err
		}
		return a.with(c.Context(), func(cl *client.Client) error { return v.apply(c.Context(), a, cl, args) })
	}
	c.Flags().BoolVar(&v.all, "all", false, "every worker of the workspace that it can be done to")
	c.Flags().BoolVar(&v.yes, "yes", false, "do not ask before --all begins")
	bindReason(c, &v.reason)
	return c
}

func (v *workerVerb) check(c *cobra.Command, args []string) error {
	hint := "usage: " + c.UseLine()
	switch {
	case v.all && len(args) > 0:
		return usage(hint, "--all goes without a WORKER, and got %q", args[0])
	case !v.all && len(args) == 0:
		return usage(hint, "%s needs a WORKER or --all", c.CommandPath())
	case !v.all && v.yes:
		return usage("", "--yes goes with --all")
	case v.reasoned && v.reason == "":
		return usage("say why, for the audit trail: --reason \"it hangs\"", "%s needs a --reason", c.CommandPath())
	}
	return nil
}

// apply does it to each worker that is meant, and goes on after a refusal.
func (v *workerVerb) apply(ctx context.Context, a *app, cl *client.Client, args []string) error {
	if v.all {
		workers, err := cl.Workers.List(ctx, pawl.WorkerQuery{Workspace: a.workspace, Statuses: v.from, Limit: inspect.ListPage})
		if err != nil {
			return err
		}
		if len(workers) == 0 {
			fmt.Fprintln(a.stderr, "no workers to "+v.verb)
			return nil
		}
		if err := a.sure(ctx, fmt.Sprintf("%s %d workers", v.verb, len(workers)), v.yes); err != nil {
			return err
		}
		for _, w := range workers {
			args = append(args, w.ID)
		}
	}
	if len(args) == 1 {
		return v.one(ctx, a, cl, args[0])
	}
	worst := codeOK
	for _, text := range unique(args) {
		if err := v.one(ctx, a, cl, text); err != nil {
			worst = max(worst, complain(a.stderr, err))
		}
	}
	if worst != codeOK {
		return exit{worst}
	}
	return nil
}

func (v *workerVerb) one(ctx context.Context, a *app, cl *client.Client, text string) error {
	id, err := a.workerOf(ctx, cl, text)
	if err != nil {
		return err
	}
	if err := v.do(cl.Workers, ctx, id, a.change(v.reason)); err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.stdout, "worker %s is %s\n", id.Public(pawl.WorkerPrefix), v.done)
	return err
}
