package access

import (
	"context"
	"maps"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
)

func (e *Engine) Job(ctx context.Context, id pawl.ID) (*pawl.JobView, error) {
	return when(e.job(ctx, id), func() (*pawl.JobView, error) { return e.of.Job(ctx, id) })
}

func ofJob(v *pawl.JobView) string { return v.Workspace }

func (e *Engine) Jobs(ctx context.Context, q pawl.JobQuery) ([]pawl.JobView, error) {
	workspace, sift, err := one(ctx, q.Workspace)
	if err != nil {
		return nil, err
	}
	q.Workspace = workspace
	jobs, err := e.of.Jobs(ctx, q)
	if sift {
		jobs = sifted(ctx, jobs, ofJob)
	}
	return jobs, err
}

func (e *Engine) JobPage(ctx context.Context, q pawl.JobQuery) ([]pawl.JobView, string, error) {
	workspace, sift, err := one(ctx, q.Workspace)
	if err != nil {
		return nil, "", err
	}
	q.Workspace = workspace
	jobs, next, err := e.of.JobPage(ctx, q)
	if sift {
		jobs = sifted(ctx, jobs, ofJob)
	}
	return jobs, next, err
}

func (e *Engine) RecentJobs(ctx context.Context, workspace string, limit int, f func(*pawl.Job) bool) error {
	workspace, _, err := one(ctx, workspace)
	if err != nil {
		return err
	}
	return e.of.RecentJobs(ctx, workspace, limit, func(j *pawl.Job) bool { return !Of(ctx).Sees(j.Workspace) || f(j) })
}

func (e *Engine) StepPage(ctx context.Context, id pawl.ID, q pawl.StepQuery) ([]pawl.StepView, string, error) {
	if err := e.job(ctx, id); err != nil {
		return nil, "", err
	}
	return e.of.StepPage(ctx, id, q)
}

func (e *Engine) Step(ctx context.Context, id pawl.ID) (*pawl.StepView, pawl.ID, string, error) {
	v, job, workspace, err := e.of.Step(ctx, id)
	if err == nil && !Of(ctx).Sees(workspace) {
		return nil, pawl.ID{}, "", store.NoStep(id)
	}
	return v, job, workspace, err
}

func (e *Engine) StepHistory(ctx context.Context, id pawl.ID, f func(pawl.Transition) error) error {
	if _, _, _, err := e.Step(ctx, id); err != nil {
		return err
	}
	return e.of.StepHistory(ctx, id, f)
}

func (e *Engine) History(ctx context.Context, id pawl.ID, f func(pawl.Transition) error) error {
	if err := e.job(ctx, id); err != nil {
		return err
	}
	return e.of.History(ctx, id, f)
}

func (e *Engine) HistoryPage(ctx context.Context, id pawl.ID, q pawl.HistoryQuery) ([]pawl.Transition, string, error) {
	if err := e.job(ctx, id); err != nil {
		return nil, "", err
	}
	return e.of.HistoryPage(ctx, id, q)
}

func (e *Engine) Past(ctx context.Context, id pawl.ID, at pawl.Moment) (*pawl.JobView, error) {
	return when(e.job(ctx, id), func() (*pawl.JobView, error) { return e.of.Past(ctx, id, at) })
}

func (e *Engine) Why(ctx context.Context, id pawl.ID, step string) ([]pawl.Reason, error) {
	return when(e.job(ctx, id), func() ([]pawl.Reason, error) { return e.of.Why(ctx, id, step) })
}

func (e *Engine) Stuck(ctx context.Context, q pawl.JobQuery, still time.Duration) (all []pawl.StuckJob, err error) {
	workspaces, err := within(ctx, q.Workspace)
	for _, w := range workspaces {
		q.Workspace = w
		jobs, err := e.of.Stuck(ctx, q, still)
		if err != nil {
			return nil, err
		}
		if all = append(all, jobs...); q.Limit > 0 && len(all) >= q.Limit {
			return all[:q.Limit], nil
		}
	}
	return all, err
}

func (e *Engine) Logs(ctx context.Context, id pawl.ID, step string, f func(pawl.LogLine) error) error {
	if err := e.job(ctx, id); err != nil {
		return err
	}
	return e.of.Logs(ctx, id, step, f)
}

func (e *Engine) LogPage(ctx context.Context, id pawl.ID, q pawl.LogQuery) ([]pawl.LogLine, string, error) {
	if err := e.job(ctx, id); err != nil {
		return nil, "", err
	}
	return e.of.LogPage(ctx, id, q)
}

func (e *Engine) Definition(ctx context.Context, id pawl.ID) (*workflow.Definition, error) {
	return when(e.job(ctx, id), func() (*workflow.Definition, error) { return e.of.Definition(ctx, id) })
}

func (e *Engine) JobVersion(ctx context.Context, id pawl.ID) (int64, error) {
	return when(e.job(ctx, id), func() (int64, error) { return e.of.JobVersion(ctx, id) })
}

// Counts adds those of the principal's workspaces.
func (e *Engine) Counts(ctx context.Context, workspace string) (*pawl.Counts, error) {
	workspaces, err := within(ctx, workspace)
	if err != nil {
		return nil, err
	}
	total := &pawl.Counts{Workers: map[machine.State]int{}, Jobs: map[machine.State]int{}, Steps: map[machine.State]int{}}
	for _, w := range workspaces {
		c, err := e.of.Counts(ctx, w)
		if err != nil {
			return nil, err
		}
		add(total.Workers, c.Workers)
		add(total.Jobs, c.Jobs)
		add(total.Steps, c.Steps)
		total.ActiveJobs += c.ActiveJobs
		total.AtLeast = total.AtLeast || c.AtLeast
	}
	return total, nil
}

func add(to, from map[machine.State]int) {
	for state, n := range maps.All(from) {
		to[state] += n
	}
}

func (e *Engine) Approvals(ctx context.Context, workspace, after string, limit int) ([]pawl.ApprovalView, string, error) {
	workspace, sift, err := one(ctx, workspace)
	if err != nil {
		return nil, "", err
	}
	approvals, next, err := e.of.Approvals(ctx, workspace, after, limit)
	if sift {
		approvals = sifted(ctx, approvals, func(v *pawl.ApprovalView) string { return v.Workspace })
	}
	return approvals, next, err
}

func (e *Engine) Lookup(ctx context.Context, n pawl.WorkflowName, version int) (*pawl.Version, *workflow.Definition, error) {
	if err := in(ctx, n.Workspace); err != nil {
		return nil, nil, err
	}
	return e.of.Lookup(ctx, n, version)
}

func (e *Engine) Workflows(ctx context.Context, workspace string, f func(*pawl.Version) error) error {
	workspace, _, err := one(ctx, workspace)
	if err != nil {
		return err
	}
	return e.of.Workflows(ctx, workspace, func(v *pawl.Version) error {
		if !Of(ctx).Sees(v.Workspace) {
			return nil
		}
		return f(v)
	})
}

func (e *Engine) Versions(ctx context.Context, n pawl.WorkflowName, f func(*pawl.Version) error) error {
	if err := in(ctx, n.Workspace); err != nil {
		return err
	}
	return e.of.Versions(ctx, n, f)
}

func (e *Engine) PlanMoves(ctx context.Context, workspace string, canonical []byte) (*workflow.MovePlans, error) {
	return when(in(ctx, workspace), func() (*workflow.MovePlans, error) { return e.of.PlanMoves(ctx, workspace, canonical) })
}

func ofWorker(v *pawl.WorkerView) string { return v.Workspace }

func (e *Engine) Workers(ctx context.Context, q pawl.WorkerQuery) ([]pawl.WorkerView, error) {
	workspace, sift, err := one(ctx, q.Workspace)
	if err != nil {
		return nil, err
	}
	q.Workspace = workspace
	workers, err := e.of.Workers(ctx, q)
	if sift {
		workers = sifted(ctx, workers, ofWorker)
	}
	return workers, err
}

func (e *Engine) WorkerPage(ctx context.Context, q pawl.WorkerQuery) ([]pawl.WorkerView, string, error) {
	workspace, sift, err := one(ctx, q.Workspace)
	if err != nil {
		return nil, "", err
	}
	q.Workspace = workspace
	workers, next, err := e.of.WorkerPage(ctx, q)
	if sift {
		workers = sifted(ctx, workers, ofWorker)
	}
	return workers, next, err
}

func (e *Engine) Worker(ctx context.Context, id pawl.ID) (*pawl.WorkerView, error) {
	return when(e.worker(ctx, id), func() (*pawl.WorkerView, error) { return e.of.Worker(ctx, id) })
}

func (e *Engine) WorkerHistory(ctx context.Context, id pawl.ID, f func(pawl.Transition) error) error {
	if err := e.worker(ctx, id); err != nil {
		return err
	}
	return e.of.WorkerHistory(ctx, id, f)
}

func (e *Engine) WorkerHistoryPage(ctx context.Context, id pawl.ID, q pawl.HistoryQuery) ([]pawl.Transition, string, error) {
	if err := e.worker(ctx, id); err != nil {
		return nil, "", err
	}
	return e.of.WorkerHistoryPage(ctx, id, q)
}

func (e *Engine) Schedules(ctx context.Context, workspace string, next int, f func(*pawl.ScheduleView) error) error {
	workspace, _, err := one(ctx, workspace)
	if err != nil {
		return err
	}
	return e.of.Schedules(ctx, workspace, next, func(v *pawl.ScheduleView) error {
		if !Of(ctx).Sees(v.Workspace) {
			return nil
		}
		return f(v)
	})
}

func (e *Engine) Schedule(ctx context.Context, n pawl.ScheduleName, next int) (*pawl.ScheduleView, error) {
	return when(in(ctx, n.Workspace), func() (*pawl.ScheduleView, error) { return e.of.Schedule(ctx, n, next) })
}

func (e *Engine) ScheduleHistory(ctx context.Context, n pawl.ScheduleName, f func(pawl.Transition) error) error {
	if err := in(ctx, n.Workspace); err != nil {
		return err
	}
	return e.of.ScheduleHistory(ctx, n, f)
}

func (e *Engine) ScheduleHistoryPage(ctx context.Context, n pawl.ScheduleName, q pawl.HistoryQuery) ([]pawl.Transition, string, error) {
	if err := in(ctx, n.Workspace); err != nil {
		return nil, "", err
	}
	return e.of.ScheduleHistoryPage(ctx, n, q)
}

func (e *Engine) Queues(ctx context.Context, workspace string) (all []pawl.QueueView, err error) {
	workspaces, err := within(ctx, workspace)
	for _, w := range workspaces {
		queues, err := e.of.Queues(ctx, w)
		if err != nil {
			return nil, err
		}
		all = append(all, queues...)
	}
	return all, err
}

func (e *Engine) Queue(ctx context.Context, n pawl.QueueName) (*pawl.QueueView, error) {
	return when(in(ctx, n.Workspace), func() (*pawl.QueueView, error) { return e.of.Queue(ctx, n) })
}

func (e *Engine) QueueHistory(ctx context.Context, n pawl.QueueName, f func(pawl.Transition) error) error {
	if err := in(ctx, n.Workspace); err != nil {
		return err
	}
	return e.of.QueueHistory(ctx, n, f)
}

func (e *Engine) QueueHistoryPage(ctx context.Context, n pawl.QueueName, q pawl.HistoryQuery) ([]pawl.Transition, string, error) {
	if err := in(ctx, n.Workspace); err != nil {
		return nil, "", err
	}
	return e.of.QueueHistoryPage(ctx, n, q)
}

func (e *Engine) Quotas(ctx context.Context, workspace string) ([]pawl.QuotaView, error) {
	return when(in(ctx, workspace), func() ([]pawl.QuotaView, error) { return e.of.Quotas(ctx, workspace) })
}

func (e *Engine) Token(ctx context.Context, id pawl.ID) (*pawl.TokenView, error) {
	return when(everywhere(ctx), func() (*pawl.TokenView, error) { return e.of.Token(ctx, id) })
}

func (e *Engine) TokenPage(ctx context.Context, q pawl.TokenQuery) ([]pawl.TokenView, string, error) {
	if err := everywhere(ctx); err != nil {
		return nil, "", err
	}
	return e.of.TokenPage(ctx, q)
}

func (e *Engine) TokenHistory(ctx context.Context, id pawl.ID, f func(pawl.Transition) error) error {
	if err := everywhere(ctx); err != nil {
		return err
	}
	return e.of.TokenHistory(ctx, id, f)
}

func (e *Engine) TokenHistoryPage(ctx context.Context, id pawl.ID, q pawl.HistoryQuery) ([]pawl.Transition, string, error) {
	if err := everywhere(ctx); err != nil {
		return nil, "", err
	}
	return e.of.TokenHistoryPage(ctx, id, q)
}
