package engine

import (
	"context"
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/health"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
)

// live reports that the process lives, until ctx ends.
func (e *Engine) live(ctx context.Context, r *rounds) {
	tick := time.NewTimer(0)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		r.begin()
		_, err := e.store.Beat(ctx, link.Pulse{Node: e.cfg.Node, Clock: pawl.Micros(e.cfg.Clock())})
		if err != nil && ctx.Err() == nil {
			e.log.Warn("a heartbeat failed", "error", err)
		}
		r.end(ctx, err)
		tick.Reset(health.NodeBeat)
	}
}

// Followed reports whether any process is known to evaluate, fire deadlines and follow
// schedules: this engine, a server, or a process that has a living worker and a role other
// than worker.
func (e *Engine) Followed(ctx context.Context) (bool, error) {
	if !e.cfg.Passive {
		return true, nil
	}
	nodes, err := e.store.Nodes(ctx)
	if err != nil {
		return false, err
	}
	agenda, err := e.store.Look(ctx, store.LookQuery{Limit: 1}) // provides the time that beats are measured against
	if err != nil {
		return false, err
	}
	living, _, err := e.living(ctx)
	return health.Evaluated(nodes, living, agenda.Now), err
}

// living returns the workers that live and, for each worker not released yet, the sign that
// it is dead.
func (e *Engine) living(ctx context.Context) ([]*pawl.Worker, map[rowkey.Worker]string, error) {
	seen, err := e.store.Observe(ctx)
	if err != nil {
		return nil, nil, err
	}
	dead := make(map[rowkey.Worker]string)
	for _, d := range health.Glance(seen, e.cfg.Silence) {
		dead[d.Worker] = d.Reason()
	}
	workers, err := e.store.Workers(ctx, store.WorkerFilter{Living: true})
	return slices.DeleteFunc(workers, func(w *pawl.Worker) bool { return dead[w.Key()] != "" }), dead, err
}
