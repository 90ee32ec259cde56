package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/daemon"
	"github.com/pawl-dev/pawl/internal/signals"
	"github.com/pawl-dev/pawl/worker"
)

// serveFar runs a worker over a server, which has the database.
func (a *app) serveFar(ctx context.Context, s *service, node pawl.Node) error {
	defer signals.IgnoreClosedPipes()()
	sum := sha256.Sum256([]byte(a.server))
	folder, err := s.folders.named(a, "server-"+hex.EncodeToString(sum[:8]))
	if err != nil {
		return err
	}
	return a.onServer(ctx, func(cl *client.Client) error {
		m := s.metrics()
		if s.listen != "" && s.listen != noPort {
			p, err := a.openPort(s.listen, nil, servesState, a.stderr)
			if err != nil {
				return err
			}
			end, err := daemon.ServeReadiness(ctx, p, m, func(ctx context.Context) []string {
				if _, err := cl.Link().Followed(ctx); err != nil {
					return []string{err.Error()}
				}
				return nil
			})
			if err != nil {
				return err
			}
			defer end()
		}
		handlers := a.handlers(worker.CommandConfig{})
		work := a.workOf(cl, s, node, m, handlers, folder, []string{os.TempDir()})
		return terminated(work.Run(ctx, func(id string) {
			a.introduce(id, handlers, s.capacity)
			fmt.Fprintf(a.stderr, "server %s; stop with Ctrl-C\n", a.server)
		}))
	})
}
