package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/engine"
)

const serverLong = `Run an engine until Ctrl-C or SIGTERM: it evaluates what workers leave to be
evaluated, fires deadlines and schedules, releases what dead workers held, and keeps
the database in order. It runs no steps; "pawl worker" does. Any number of servers
may run on one database: none leads, and each may be killed at any moment.

--silence is how long a worker may be silent before it is taken for dead and its
steps go to others: 6s by default, and 2s at least. It has to be three times the
--beat of the workers, or more. --retention removes what ended so long ago, as
"pawl prune" does. --listen answers Prometheus, and whoever asks whether the server
is ready, over HTTP. Its parts are services: see "pawl service list".`

func newServer(a *app) *cobra.Command {
	s := &service{role: engine.RoleServer}
	c := &cobra.Command{
		Use: "server", Short: "Run an engine, without a worker, until Ctrl-C", Long: serverLong,
		Example: "  pawl server --database postgres://pawl@db.example/pawl\n  pawl server --silence 15s --name rack1",
		Args:    want(0, 0, "no argument"),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := s.check(c); err != nil {
				return err
			}
			return a.server(c.Context(), s)
		},
	}
	s.bindName(c)
	s.bindSilence(c)
	bindRetention(c, &s.retention)
	bindListen(c, &s.listen)
	return c
}

func (a *app) server(ctx context.Context, s *service) (err error) {
	node := s.node()
	l, err := a.openService(ctx, s, engine.Config{Node: node, Managed: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	defer outliveReaders()()
	fmt.Fprintf(a.stderr, "server %s evaluates; database %s; stop with Ctrl-C\n", node.Name, l.database)
	return a.staffed(ctx, l, s, func(ctx context.Context) error {
		return a.guarded(ctx, l, func(ctx context.Context) error {
			<-ctx.Done()
			fmt.Fprintf(a.stderr, "server %s has stopped\n", node.Name)
			return nil
		})
	})
}
