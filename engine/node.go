package engine

import (
	"context"
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// nodeBeat is how often a process without a worker says that it lives.
const nodeBeat = 10 * time.Second

// live says that the process lives, until ctx ends.
func (e *Engine) live(ctx context.Context) {
	tick := time.NewTimer(0)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		_, err := e.store.Beat(ctx, store.Pulse{Node: e.cfg.Node, Clock: pawl.Micros(e.cfg.Clock())})
		if err != nil && ctx.Err() == nil {
			e.log.Warn("a heartbeat failed", "error", err)
		}
		tick.Reset(nodeBeat)
	}
}

// The roles of processes.
const (
	RoleServer = "server" // evaluates
	RoleWorker = "worker" // runs steps, and evaluates nothing
	RoleDev    = "dev"    // both
)

// Followed reports whether anybody is seen to evaluate, fire deadlines and follow
// schedules: this engine, a server, or a process whose worker lives and is not a
// worker alone.
func (e *Engine) Followed(ctx context.Context) (bool, error) {
	if !e.cfg.Passive {
		return true, nil
	}
	nodes, err := e.store.Nodes(ctx)
	if err != nil {
		return false, err
	}
	agenda, err := e.store.Look(ctx, store.LookQuery{Limit: 1}) // for the time that beats go by
	if err != nil {
		return false, err
	}
	plain := make(map[process]bool)
	for _, n := range nodes {
		if n.Role == RoleServer && agenda.Now-n.BeatAt < (2*nodeBeat).Microseconds() {
			return true, nil
		}
		plain[process{n.Host, n.PID}] = n.Role == RoleWorker
	}
	return e.wholeProcess(ctx, plain)
}

type process struct {
	host string
	pid  int
}

// wholeProcess reports whether a worker lives in a process that has an engine.
func (e *Engine) wholeProcess(ctx context.Context, plain map[process]bool) (bool, error) {
	dead, err := e.store.Reap(ctx, e.cfg.Silence) // which only looks
	if err != nil {
		return false, err
	}
	gone := make(map[int64]bool)
	for _, d := range dead {
		gone[d.Worker] = true
	}
	living, err := e.store.Workers(ctx, true)
	return slices.ContainsFunc(living, func(w *pawl.Worker) bool {
		return !gone[w.Key()] && !plain[process{w.Host, w.PID}]
	}), err
}
