package explain

import (
	"context"
	"slices"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/health"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
)

// Followed reports whether any process is known to evaluate, fire deadlines and follow
// schedules: this one unless it is passive, a server, or a process that has a living worker
// and a role other than worker.
func (r *Reader) Followed(ctx context.Context) (bool, error) {
	if !r.cfg.Passive {
		return true, nil
	}
	nodes, err := r.store.Nodes(ctx)
	if err != nil {
		return false, err
	}
	agenda, err := r.store.Look(ctx, store.LookQuery{Limit: 1}) // provides the time that beats are measured against
	if err != nil {
		return false, err
	}
	living, _, err := r.living(ctx)
	return health.Evaluated(nodes, living, agenda.Now), err
}

// living returns the workers that live and, for each worker not released yet, the sign that
// it is dead.
func (r *Reader) living(ctx context.Context) ([]*pawl.Worker, map[rowkey.Worker]string, error) {
	seen, err := r.store.Observe(ctx)
	if err != nil {
		return nil, nil, err
	}
	dead := make(map[rowkey.Worker]string)
	for _, d := range health.Glance(seen, r.cfg.Silence) {
		dead[d.Worker] = d.Reason()
	}
	workers, err := r.store.Workers(ctx, store.WorkerFilter{Living: true})
	return slices.DeleteFunc(workers, func(w *pawl.Worker) bool { return dead[w.Key()] != "" }), dead, err
}
