package engine

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/health"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/trouble"
)

// live reports that the process lives, until ctx ends.
func (e *Engine) live(ctx context.Context, r *rounds) {
	tick := time.NewTimer(0)
	defer tick.Stop()
	log := trouble.New(e.log, "a heartbeat failed; it is tried again", "heartbeats work again")
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		r.begin()
		_, err := e.store.Beat(ctx, link.Pulse{Node: e.cfg.Node, Clock: pawl.Micros(e.cfg.Clock())})
		if ctx.Err() == nil {
			log.Note(err)
		}
		r.end(ctx, err)
		tick.Reset(health.NodeBeat)
	}
}
