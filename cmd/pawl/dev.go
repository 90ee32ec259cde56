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
)

const devLong = `Run an engine and a worker in this process until Ctrl-C. Jobs that are submitted
to the same database and workspace, by "pawl submit" say, run here.

--capacity is how many steps run at once, 10 by default. Ctrl-C (or SIGTERM)
stops the steps that run; they are pending again, for the next worker. The exit
code is then 0. A second Ctrl-C leaves at once.`

func newDev(a *app) *cobra.Command {
	capacity := 10
	c := &cobra.Command{
		Use: "dev", Short: "Run an engine and a worker until Ctrl-C", Long: devLong,
		Example: "  pawl dev\n  pawl dev --capacity 50 --workspace staging",
		Args:    want(0, 0, "no argument"),
		RunE:    func(c *cobra.Command, _ []string) error { return a.dev(c.Context(), capacity) },
	}
	c.Flags().IntVar(&capacity, "capacity", 10, "steps that run at once, 1 to 1000")
	return c
}

func (a *app) dev(ctx context.Context, capacity int) (err error) {
	if capacity < 1 || capacity > 1000 {
		return usage("", "--capacity %d: want 1 to 1000", capacity)
	}
	l, err := a.openLedger(ctx, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	defer outliveReaders()()
	handlers := handlers()
	worker, err := runner.Start(ctx, runner.WorkerConfig{
		Engine: l.engine, Store: l.store, Workspace: a.workspace, Actor: a.actor(), Capacity: capacity, Handlers: handlers, Log: a.log,
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
