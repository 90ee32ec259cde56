package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/engine"
)

const devLong = `Run an engine and a worker in this process until Ctrl-C. Jobs that are submitted
to the same database and workspace, by "pawl submit" say, run here.

--capacity is how many steps run at once, 10 by default. --queue names a queue to
serve, and may be repeated; without it that is the queue "default". --retention
removes what ended so long ago, as "pawl prune" does. --listen answers Prometheus,
and whoever asks whether it is ready, over HTTP. Ctrl-C (or SIGTERM)
stops the steps that run; they are pending again, for the next worker. The exit
code is then 0. A second Ctrl-C leaves at once.`

func newDev(a *app) *cobra.Command {
	s := &service{role: engine.RoleDev}
	c := &cobra.Command{
		Use: "dev", Short: "Run an engine and a worker until Ctrl-C", Long: devLong,
		Example: "  pawl dev\n  pawl dev --capacity 50 --queue default --queue billing",
		Args:    want(0, 0, "no argument"),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := s.check(c); err != nil {
				return err
			}
			return a.dev(c.Context(), s)
		},
	}
	s.bindName(c)
	s.bindWorker(c)
	s.bindSilence(c)
	bindRetention(c, &s.retention)
	bindListen(c, &s.listen)
	return c
}

func (a *app) dev(ctx context.Context, s *service) (err error) {
	l, err := a.openService(ctx, s, engine.Config{Managed: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	defer outliveReaders()()
	return a.staffed(ctx, l, s, func(ctx context.Context) error {
		return a.guarded(ctx, l, func(ctx context.Context) error { return a.work(ctx, l, s) })
	})
}
