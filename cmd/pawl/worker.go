package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/engine"
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
	s := &service{role: engine.RoleWorker}
	c := &cobra.Command{
		Use: "worker", Short: "Run a worker until Ctrl-C, or look at workers", Long: workerLong,
		Example: "  pawl worker --database postgres://pawl@db.example/pawl\n  pawl worker --capacity 50 --queue default --queue billing --drain-timeout 5m",
		Args:    cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(c, args[0])
			}
			if err := s.check(c); err != nil {
				return err
			}
			return a.worker(c.Context(), s)
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

func (a *app) worker(ctx context.Context, s *service) (err error) {
	l, err := a.openService(ctx, s, engine.Config{Passive: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	defer outliveReaders()()
	return a.guarded(ctx, l, func(ctx context.Context) error { return a.work(ctx, l, s) })
}
