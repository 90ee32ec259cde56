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

const workerLong = `Run a worker until Ctrl-C or SIGTERM: it claims steps and runs them. It needs at least
one "pawl server" on the same database, which evaluates what workers leave to it.

With --server URL it works over that server, and needs neither the database nor its
credentials. If the server is restarted, or another one serves the URL, it goes on.
--silence is then its own: from 2s to 1h without a heartbeat, after which its steps go to
others, though never before the --silence of the servers.

--capacity is how many steps run at once, 10 by default. --queue names a queue to serve,
by default the queue "default"; it may be repeated.

Ctrl-C or SIGTERM drains the worker: it claims nothing more, and running steps have
--drain-timeout to end. Steps that take longer are interrupted, and become pending again
for the next worker. A second signal interrupts them at once, a third exits. The exit
code is 0, or 1 if an operator terminated the worker.

A job that was submitted without --dir has a folder below --workdir, which is removed
when the job has ended.

--listen serves metrics for Prometheus and the readiness of the worker over HTTP, to this
machine only.`

func newWorker(a *app) *cobra.Command {
	s := &service{role: health.RoleWorker}
	c := &cobra.Command{
		Use: "worker", Short: "Run a worker until Ctrl-C, or show and manage workers", Long: workerLong,
		Example: "  pawl worker --database postgres://pawl@db.example/pawl\n  pawl worker --server https://pawl.example.com --capacity 4\n  pawl worker --capacity 50 --queue default --queue billing --drain-timeout 5m",
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
	c.Flags().DurationVar(&s.beat, "beat", 0, "how often it sends a beat, 100ms to 1m; default a third of --silence, at most 2s")
	c.Flags().DurationVar(&s.silence, "silence", 0, "the --silence of the servers, from which it computes when it counts as cut off; default 6s, at least three beats")
	c.Flags().DurationVar(&s.drain, "drain-timeout", 30*time.Second, "how long running steps may take to end after the first signal; 0s interrupts them at once")
	bindListen(c, &s.listen, "this loopback address", "none")
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
		Long:    "List the living workers of the workspace, newest first; --all includes those that have\nended. RUNS is how many steps the worker runs, and how many it can run at once. SINCE is\nwhen it entered its state.",
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
			return a.with(c.Context(), func(ctx context.Context, cl *client.Client) error {
				workers, err := cl.Workers.List(ctx, q)
				if err != nil {
					return err
				}
				return showList(a, form, workers, "workers", func(w []pawl.WorkerView) [][]string { return console.WorkerRows(w, a.outZone()) })
			})
		},
	}
	c.Flags().BoolVar(&all, "all", false, "include workers that have ended")
	c.Flags().IntVar(&limit, "limit", 50, "how many to list at most, 1 to 1000")
	bindForm(a, c, &form, "a list of workers")
	return c
}

func newWorkerShow(a *app) *cobra.Command {
	form := formText
	c := &cobra.Command{
		Use: "show WORKER", Short: "Show a worker",
		Long:    "Show a worker: what it serves, how much it runs, its state, and when it entered that.\nWORKER is an id (w_ and 32 digits), six or more of its first or last digits, or the name\nof a living worker.",
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
	bindForm(a, c, &form, "the worker")
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
	bindForm(a, c, &form, "a list of moves")
	return c
}

const workersLong = `

Several workers can be named. --all selects every worker of the workspace whose state
allows it, and asks for consent unless --yes is given. A refusal does not stop the
others; the exit code is the highest of all.`

// A workerVerb is an operator's action on workers.
type workerVerb struct {
	verb, done string
	from       []machine.State // the states that --all selects
	do         func(w *client.Workers, ctx context.Context, id pawl.ID, c pawl.Change) (pawl.Receipt, error)
	reasoned   bool // it requires a reason

	all    bool
	reason string
}

func newWorkerPause(a *app) *cobra.Command {
	v := &workerVerb{verb: "pause", done: "paused", from: []machine.State{lifecycle.WorkerRunning}, do: (*client.Workers).Pause}
	return v.bind(a, &cobra.Command{
		Short:   "Pause a worker",
		Long:    "Pause a worker: it claims nothing more until it is resumed; running steps continue to\ntheir end. A worker that has never had a task is IDLE, and cannot be paused (exit 5).",
		Example: "  pawl worker pause rack1 --reason \"new disk\"\n  pawl worker pause --all --yes",
	})
}

func newWorkerResume(a *app) *cobra.Command {
	v := &workerVerb{verb: "resume", done: "resumed", from: []machine.State{lifecycle.WorkerPaused}, do: (*client.Workers).Resume}
	return v.bind(a, &cobra.Command{
		Short:   "Resume a paused worker",
		Long:    "Resume a paused worker. One that paused itself because memory or disk space was low\npauses again while that lasts.",
		Example: "  pawl worker resume rack1\n  pawl worker resume --all --yes",
	})
}

func newWorkerTerminate(a *app) *cobra.Command {
	v := &workerVerb{verb: "terminate", done: "terminated", reasoned: true, do: (*client.Workers).Terminate,
		from: []machine.State{lifecycle.WorkerIdle, lifecycle.WorkerRunning, lifecycle.WorkerPaused}}
	return v.bind(a, &cobra.Command{
		Short:   "End a worker, and release its steps",
		Long:    "Terminate a worker: its running steps are interrupted and at once pending again, for\nother workers. Its process ends with exit code 1, and says who terminated it and why.",
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
		return a.with(c.Context(), func(ctx context.Context, cl *client.Client) error { return v.apply(ctx, a, cl, args) })
	}
	c.Flags().BoolVar(&v.all, "all", false, "every worker of the workspace whose state allows it")
	bindReason(c, &v.reason)
	return c
}

func (v *workerVerb) check(c *cobra.Command, args []string) error {
	hint := "usage: " + c.UseLine()
	switch {
	case v.all && len(args) > 0:
		return usage(hint, "--all takes no WORKER, and got %q", args[0])
	case !v.all && len(args) == 0:
		return usage(hint, "%s needs a WORKER or --all", c.CommandPath())
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
		if err := a.confirmedAll(ctx, fmt.Sprintf("%s %d workers", v.verb, len(workers))); err != nil {
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
	if _, err := v.do(cl.Workers, ctx, id, a.change(v.reason)); err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.stdout, "worker %s is %s\n", id.Public(pawl.WorkerPrefix), v.done)
	return err
}
