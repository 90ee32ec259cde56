package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/runner"
	"github.com/pawl-dev/pawl/workflow"
)

const devLong = `Run an engine and a worker in this process until Ctrl-C. Jobs that are submitted
to the same database and workspace, by "pawl submit" say, run here.

--capacity is how many steps run at once, 10 by default. --queue names a queue to
serve, and may be repeated; without it that is the queue "default". Ctrl-C (or SIGTERM)
stops the steps that run; they are pending again, for the next worker. The exit
code is then 0. A second Ctrl-C leaves at once.`

func newDev(a *app) *cobra.Command {
	capacity, queues := 10, []string{}
	c := &cobra.Command{
		Use: "dev", Short: "Run an engine and a worker until Ctrl-C", Long: devLong,
		Example: "  pawl dev\n  pawl dev --capacity 50 --queue default --queue billing",
		Args:    want(0, 0, "no argument"),
		RunE:    func(c *cobra.Command, _ []string) error { return a.dev(c.Context(), capacity, queues) },
	}
	c.Flags().IntVar(&capacity, "capacity", 10, "steps that run at once, 1 to 1000")
	c.Flags().StringArrayVar(&queues, "queue", nil, "a queue to serve; may be repeated; default default")
	return c
}

func (a *app) dev(ctx context.Context, capacity int, queues []string) (err error) {
	if capacity < 1 || capacity > 1000 {
		return usage("", "--capacity %d: want 1 to 1000", capacity)
	}
	for _, q := range queues {
		if !workflow.IsID(q) {
			return usage("", "--queue %q: want an id: a-z first, then a-z, 0-9 and _", q)
		}
	}
	l, err := a.openLedger(ctx, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	defer outliveReaders()()
	handlers := handlers()
	worker, err := runner.Start(ctx, runner.WorkerConfig{
		Engine: l.engine, Store: l.store, Workspace: a.workspace, Actor: a.actor(), Capacity: capacity, Handlers: handlers, Queues: queues, Log: a.log,
	})
	if err != nil {
		return err
	}
	names := slices.Sorted(maps.Keys(handlers))
	fmt.Fprintf(a.stderr, "worker %s serves %s of workspace %s, %d at once\n", worker.ID(), strings.Join(names, ", "), a.workspace, capacity)
	fmt.Fprintf(a.stderr, "database %s; stop with Ctrl-C\n", l.database)
	<-ctx.Done()
	over, cancel := context.WithCancel(context.Background())
	cancel() // what runs is interrupted at once
	return worker.Drain(over)
}
