package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/internal/health"
	"github.com/pawl-dev/pawl/internal/inspect"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

const workerLong = `Run a worker until Ctrl-C or SIGTERM: it claims steps and runs them. What it
cannot decide by itself it leaves to the engine of a "pawl server", of which there
has to be one at least on the same database.

--capacity is how many steps run at once, 10 by default. --queue names a queue to
serve, and may be repeated; without it that is the queue "default". Ctrl-C or
SIGTERM drains it: it claims nothing more, and what runs may end within
--drain-timeout; what does not is interrupted, and pending again for the next
worker. A second signal interrupts it at once, a third one leaves. The exit code is
0 then, and 1 if an operator has terminated the worker.

A job that was submitted without --dir has a folder below --workdir, which is removed
when the job has ended.`

func newWorker(a *app) *cobra.Command {
	s := &service{role: health.RoleWorker}
	c := &cobra.Command{
		Use: "worker", Short: "Run a worker until Ctrl-C, or look at workers", Long: workerLong,
		Example: "  pawl worker --database postgres://pawl@db.example/pawl\n  pawl worker --capacity 50 --queue default --queue billing --drain-timeout 5m",
		Args:    cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(c, args[0])
			}
			return a.serve(c, s)
		},
	}
	s.bindName(c)
	s.bindWorker(c)
	c.Flags().DurationVar(&s.beat, "beat", 0, "how often it says that it lives, 100ms to 1m; default a third of --silence, and 2s at most")
	c.Flags().DurationVar(&s.silence, "silence", 0, "what the servers have as --silence, by which it reckons when it is cut off; default 6s, and three beats at least")
	c.Flags().DurationVar(&s.drain, "drain-timeout", 30*time.Second, "how long what runs may take to end after the first signal; 0s interrupts it at once")
	c.AddCommand(newWorkerList(a), newWorkerShow(a), newWorkerHistory(a), newWorkerPause(a), newWorkerResume(a), newWorkerTerminate(a))
	return c
}

// workerOf reads the WORKER of a command line.
func (a *app) workerOf(ctx context.Context, cl *client.Client, text string) (pawl.ID, error) {
	id, err := inspect.Worker(ctx, cl, a.workspace, text)
	if pawl.KindOf(err) == pawl.NotFound && console.Hint(err) == "" {
		return id, hinted(err, "list the workers with: pawl worker list")
	}
	return id, err
}

// onWorker runs f on the worker named by the first argument of a command.
func (a *app) onWorker(f func(ctx context.Context, cl *client.Client, id pawl.ID) error) func(*cobra.Command, []string) error {
	return a.on(func(ctx context.Context, cl *client.Client, args []string) error {
		id, err := a.workerOf(ctx, cl, args[0])
		if err != nil {
			return err
		}
		return f(ctx, cl, id)
	})
}

// completeWorkers offers the living workers to the shell.
func (a *app) completeWorkers(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	return a.completed(c, begun, func(ctx context.Context, cl *client.Client, offer func(word, about string)) error {
		workers, err := cl.Workers.List(ctx, pawl.WorkerQuery{Workspace: a.workspace})
		for _, w := range workers {
			if !slices.Contains(args, w.ID) {
				offer(w.ID, w.Name+" "+string(w.Status))
			}
		}
		return err
	})
}

func newWorkerList(a *app) *cobra.Command {
	form, all, limit := formText, false, 50
	c := &cobra.Command{
		Use: "list", Short: "List the workers of the workspace",
		Long:    "List the workers of the workspace that live, newest first, or with --all those too that\nhave ended. RUNS is how many steps run there, of so many at once; SINCE is when it came\ninto its state.",
		Example: "  pawl worker list\n  pawl worker list --all --limit 10 -o json",
		Args:    want(0, 0, "no argument"),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := inRange("--limit", limit, 1, 1000); err != nil {
				return err
			}
			q := pawl.WorkerQuery{Workspace: a.workspace, Limit: limit}
			if all {
				q.Statuses = lifecycle.Worker.States
			}
			return a.with(c.Context(), func(cl *client.Client) error {
				workers, err := cl.Workers.List(c.Context(), q)
				if err != nil {
					return err
				}
				return showList(a, form, workers, "workers", func(w []pawl.WorkerView) [][]string { return console.WorkerRows(w, a.outZone()) })
			})
		},
	}
	c.Flags().BoolVar(&all, "all", false, "those too that have ended")
	c.Flags().IntVar(&limit, "limit", 50, "at most so many, 1 to 1000")
	bindForm(c, &form, "a list of workers")
	return c
}

func newWorkerShow(a *app) *cobra.Command {
	form := formText
	c := &cobra.Command{
		Use: "show WORKER", Short: "Show a worker",
		Long:    "Show a worker: what it serves, how much it runs, and since when it is in its state.\nWORKER is an id (w_ and 32 digits), six or more of its first or last digits, or the name\nof one that lives.",
		Example: "  pawl worker show rack1\n  pawl worker show c0ffd1 -o json",
		Args:    want(1, 1, "a WORKER"), ValidArgsFunction: a.completeWorkers,
		RunE: a.onWorker(func(ctx context.Context, cl *client.Client, id pawl.ID) error {
			v, err := cl.Workers.Get(ctx, id)
			if err != nil {
				return err
			}
			return a.show(form, v, func() error {
				console.Worker(a.stdout, v, time.Now(), a.outZone())
				return nil
			})
		}),
	}
	bindForm(c, &form, "the worker")
	return c
}

func newWorkerHistory(a *app) *cobra.Command {
	form := formText
	c := &cobra.Command{
		Use: "history WORKER", Short: "Show every move of a worker",
		Long:    "Show every move of a worker: when, from which state to which, by which event, who, and\nwhy.",
		Example: "  pawl worker history rack1\n  pawl worker history c0ffd1 -o json",
		Args:    want(1, 1, "a WORKER"), ValidArgsFunction: a.completeWorkers,
		RunE: a.onWorker(func(ctx context.Context, cl *client.Client, id pawl.ID) error {
			rows := console.WorkerHistory(a.stdout, form == formJSON, a.outZone())
			if err := cl.Workers.History(ctx, id, func(t pawl.Transition) error { return rows.Add(&t) }); err != nil {
				return err
			}
			return rows.End()
		}),
	}
	bindForm(c, &form, "a list of moves")
	return c
}

const workersLong = `

Several workers may be named. --all takes every worker of the workspace that it can
be done to, and asks before it begins, unless --yes is given. A refusal does not stop the
others; the exit code is the highest of them all.`

// A workerVerb is an operator's action on workers.
type workerVerb struct {
	verb, done string
	from       []machine.State // the states that --all selects
	do         func(w *client.Workers, ctx context.Context, id pawl.ID, c pawl.Change) error
	reasoned   bool // it requires a reason

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

// apply performs the action on each worker of the command line, and continues after a refusal.
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
		if err := a.confirmed(ctx, fmt.Sprintf("%s %d workers", v.verb, len(workers)), v.yes); err != nil {
			return err
		}
		for _, w := range workers {
			args = append(args, w.ID)
		}
	}
	if len(args) == 1 {
		return v.one(ctx, a, cl, args[0])
	}
	return all(a, unique(args), func(text string) error { return v.one(ctx, a, cl, text) })
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
