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
	"github.com/pawl-dev/pawl/internal/inspect"
	"github.com/pawl-dev/pawl/lifecycle"
)

// workerOf reads the WORKER of a command line.
func (a *app) workerOf(ctx context.Context, cl *client.Client, text string) (pawl.ID, error) {
	id, err := inspect.Worker(ctx, cl, a.workspace, text)
	if pawl.KindOf(err) == pawl.NotFound && hintOf(err) == "" {
		return id, hinted(err, "list the workers with: pawl worker list")
	}
	return id, err
}

func (a *app) withWorker(ctx context.Context, text string, f func(*client.Client, pawl.ID) error) error {
	return a.with(ctx, func(cl *client.Client) error {
		id, err := a.workerOf(ctx, cl, text)
		if err != nil {
			return err
		}
		return f(cl, id)
	})
}

// completeWorkers offers the workers that live to the shell.
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
			if limit < 1 || limit > 1000 {
				return usage("", "--limit %d: want 1 to 1000", limit)
			}
			q := pawl.WorkerQuery{Workspace: a.workspace, Limit: limit}
			if all {
				q.Statuses = lifecycle.Worker.States
			}
			return a.with(c.Context(), func(cl *client.Client) error { return a.workers(c.Context(), cl, q, form) })
		},
	}
	c.Flags().BoolVar(&all, "all", false, "those too that have ended")
	c.Flags().IntVar(&limit, "limit", 50, "at most so many, 1 to 1000")
	bindForm(c, &form, "a list of workers")
	return c
}

func (a *app) workers(ctx context.Context, cl *client.Client, q pawl.WorkerQuery, form string) error {
	workers, err := cl.Workers.List(ctx, q)
	if err != nil {
		return err
	}
	if form == formJSON {
		return console.JSON(a.stdout, workers)
	}
	if len(workers) == 0 {
		fmt.Fprintln(a.stderr, "no workers in workspace "+a.workspace)
		return nil
	}
	return console.Table(a.stdout, console.WorkerRows(workers, a.outZone()))
}

func newWorkerShow(a *app) *cobra.Command {
	form := formText
	c := &cobra.Command{
		Use: "show WORKER", Short: "Show a worker",
		Long:    "Show a worker: what it serves, how much it runs, and since when it is in its state.\nWORKER is an id (w_ and 32 digits), six or more of its first or last digits, or the name\nof one that lives.",
		Example: "  pawl worker show rack1\n  pawl worker show c0ffd1 -o json",
		Args:    want(1, 1, "a WORKER"), ValidArgsFunction: a.completeWorkers,
		RunE: func(c *cobra.Command, args []string) error {
			return a.withWorker(c.Context(), args[0], func(cl *client.Client, id pawl.ID) error {
				v, err := cl.Workers.Get(c.Context(), id)
				if err != nil {
					return err
				}
				if form == formJSON {
					return console.JSON(a.stdout, v)
				}
				console.Worker(a.stdout, v, time.Now(), a.outZone())
				return nil
			})
		},
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
		RunE: func(c *cobra.Command, args []string) error {
			return a.withWorker(c.Context(), args[0], func(cl *client.Client, id pawl.ID) error {
				rows := console.WorkerHistory(a.stdout, form == formJSON, a.outZone())
				if err := cl.Workers.History(c.Context(), id, func(t pawl.Transition) error { return rows.Add(&t) }); err != nil {
					return err
				}
				return rows.End()
			})
		},
	}
	bindForm(c, &form, "a list of moves")
	return c
}
