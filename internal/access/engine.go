package access

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
)

// A Source is an engine that also knows in which workspaces its records are.
type Source interface {
	link.Engine
	link.Remote
	Details

	// JobWorkspace returns the id and the workspace of a job, and WorkerWorkspace that of a
	// worker. The error is of kind NotFound if there is none.
	JobWorkspace(ctx context.Context, key rowkey.Job) (id pawl.ID, workspace string, err error)
	WorkerWorkspace(ctx context.Context, key rowkey.Worker) (string, error)

	// WebhookWorkspace returns the workspace of a webhook, empty for one of all workspaces. The
	// error is of kind NotFound if there is none.
	WebhookWorkspace(ctx context.Context, id pawl.ID) (string, error)

	// WorkerOwner returns who has registered a worker that exists.
	WorkerOwner(ctx context.Context, key rowkey.Worker) (actor string, err error)
}

// An Engine is an engine as the principal of each call's context sees it. What is in a
// workspace that is not the principal's has the errors of what does not exist; lists leave it
// out. What is about all workspaces is refused.
type Engine struct {
	of Source

	mu   sync.Mutex
	jobs map[pawl.ID]string // the workspaces of jobs, which never change
	own  map[ownership]bool // that a worker is of a principal
}

// An ownership is a worker and the name of a principal.
type ownership struct {
	worker    pawl.ID
	principal string
}

var (
	_ link.Engine = (*Engine)(nil)
	_ link.Remote = (*Engine)(nil)
)

// maxJobs and maxOwn are how many workspaces of jobs, and owners of workers, are kept.
const (
	maxJobs = 10_000
	maxOwn  = 10_000
)

// Scope returns the engine as principals see it.
func Scope(e Source) *Engine {
	return &Engine{of: e, jobs: map[pawl.ID]string{}, own: map[ownership]bool{}}
}

// NoWorkspace returns the error that there is no workspace of that name.
func NoWorkspace(name string) error {
	return &pawl.Error{Kind: pawl.NotFound, Message: fmt.Sprintf("there is no workspace %q", name), Hint: "whoami lists those of the token"}
}

// in returns an error unless the principal sees a workspace; empty is the default one.
func in(ctx context.Context, workspace string) error {
	if workspace == "" {
		workspace = pawl.DefaultWorkspace
	}
	if Of(ctx).Sees(workspace) {
		return nil
	}
	return NoWorkspace(workspace)
}

// everywhere returns an error unless the principal is of all workspaces.
func everywhere(ctx context.Context) error {
	if Of(ctx).Everywhere() {
		return nil
	}
	return pawl.Errorf(pawl.Refused, "this is about all workspaces, and the token is for some of them")
}

// within returns the workspaces of a list, each to be read by itself: the one that is named,
// those of the principal, or "" for all.
func within(ctx context.Context, named string) ([]string, error) {
	p := Of(ctx)
	switch {
	case named != "" && !p.Sees(named):
		return nil, NoWorkspace(named)
	case named != "" || p.Everywhere():
		return []string{named}, nil
	}
	return p.Workspaces, nil
}

// one returns the workspace of a list that is read at once, and whether its items have to be
// left out one by one.
func one(ctx context.Context, named string) (workspace string, sift bool, err error) {
	all, err := within(ctx, named)
	if err != nil || len(all) == 1 {
		return append(all, "")[0], false, err
	}
	return "", true, nil
}

// job returns an error unless the principal sees a job.
func (e *Engine) job(ctx context.Context, id pawl.ID) error {
	if Of(ctx).Everywhere() {
		return nil
	}
	e.mu.Lock()
	workspace, known := e.jobs[id]
	e.mu.Unlock()
	if !known {
		found, at, err := e.of.JobWorkspace(ctx, id.JobKey())
		if err != nil && pawl.KindOf(err) != pawl.NotFound {
			return err
		}
		if err != nil || found != id {
			return store.NoJob(id)
		}
		workspace = at
		e.mu.Lock()
		room(e.jobs, maxJobs)
		e.jobs[id] = at
		e.mu.Unlock()
	}
	if !Of(ctx).Sees(workspace) {
		return store.NoJob(id)
	}
	return nil
}

// worker returns an error unless the principal sees a worker.
func (e *Engine) worker(ctx context.Context, id pawl.ID) error {
	if Of(ctx).Everywhere() {
		return nil
	}
	workspace, err := e.of.WorkerWorkspace(ctx, id.WorkerKey())
	if pawl.KindOf(err) == pawl.NotFound && err != nil || err == nil && !Of(ctx).Sees(workspace) {
		return store.NoWorker(id)
	}
	return err
}

// mine returns an error unless the principal may act for a worker: it sees it, and has
// registered it, unless it is an admin.
func (e *Engine) mine(ctx context.Context, id pawl.ID) error {
	if err := e.worker(ctx, id); err != nil {
		return err
	}
	p := Of(ctx)
	if p.Name == "" || p.Holds(pawl.RoleAdmin) {
		return nil
	}
	of := ownership{id, p.Name}
	e.mu.Lock()
	own := e.own[of]
	e.mu.Unlock()
	if own {
		return nil
	}
	owner, err := e.of.WorkerOwner(ctx, id.WorkerKey())
	if err != nil {
		return err
	}
	if owner != p.Name {
		return store.NoWorker(id)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	room(e.own, maxOwn)
	e.own[of] = true
	return nil
}

// workerKey is worker for a key.
func (e *Engine) workerKey(ctx context.Context, key rowkey.Worker) error {
	if Of(ctx).Everywhere() {
		return nil
	}
	workspace, err := e.of.WorkerWorkspace(ctx, key)
	if err == nil && !Of(ctx).Sees(workspace) {
		err = link.ErrWorkerEnded
	}
	return err
}

// jobKeys returns an error unless the principal sees the jobs of all these steps. It does not
// say which of them exist.
func (e *Engine) jobKeys(ctx context.Context, keys ...rowkey.Job) error {
	if Of(ctx).Everywhere() {
		return nil
	}
	for _, key := range keys {
		_, workspace, err := e.of.JobWorkspace(ctx, key)
		switch {
		case err != nil && pawl.KindOf(err) != pawl.NotFound:
			return err
		case err != nil || !Of(ctx).Sees(workspace):
			return pawl.Errorf(pawl.NotFound, "there is no such step")
		}
	}
	return nil
}

// when returns what do returns, unless err is an error.
func when[T any](err error, do func() (T, error)) (none T, _ error) {
	if err != nil {
		return none, err
	}
	return do()
}

// sifted removes what is in workspaces that the principal does not see.
func sifted[T any](ctx context.Context, list []T, workspace func(*T) string) []T {
	return slices.DeleteFunc(list, func(v T) bool { return !Of(ctx).Sees(workspace(&v)) })
}

// Submit refuses the submissions to workspaces that the principal does not see, each by
// itself.
func (e *Engine) Submit(ctx context.Context, subs ...pawl.Submission) ([]pawl.Submitted, error) {
	done := make([]pawl.Submitted, len(subs))
	var mine []pawl.Submission
	var at []int
	for i := range subs {
		if err := in(ctx, subs[i].Workspace); err != nil {
			done[i].Err = err
			continue
		}
		mine, at = append(mine, subs[i]), append(at, i)
	}
	if len(mine) == 0 {
		return done, nil
	}
	made, err := e.of.Submit(ctx, mine...)
	if err != nil {
		return nil, err
	}
	for i := range made {
		done[at[i]] = made[i]
	}
	return done, nil
}

func (e *Engine) SubmitTx(ctx context.Context, tx any, subs ...pawl.Submission) ([]pawl.Submitted, error) {
	return when(everywhere(ctx), func() ([]pawl.Submitted, error) { return e.of.SubmitTx(ctx, tx, subs...) })
}

func (e *Engine) Hint() { e.of.Hint() }

func (e *Engine) Watch(ctx context.Context, id pawl.ID, f func() (bool, error)) error {
	if err := e.job(ctx, id); err != nil {
		return err
	}
	return e.of.Watch(ctx, id, f)
}

func (e *Engine) Wait(ctx context.Context, id pawl.ID) (*pawl.Job, error) {
	return when(e.job(ctx, id), func() (*pawl.Job, error) { return e.of.Wait(ctx, id) })
}

func (e *Engine) Cancel(ctx context.Context, id pawl.ID, c pawl.Change) (pawl.Receipt, error) {
	return when(e.job(ctx, id), func() (pawl.Receipt, error) { return e.of.Cancel(ctx, id, c) })
}

func (e *Engine) PauseJob(ctx context.Context, id pawl.ID, c pawl.Change) (pawl.Receipt, error) {
	return when(e.job(ctx, id), func() (pawl.Receipt, error) { return e.of.PauseJob(ctx, id, c) })
}

func (e *Engine) ResumeJob(ctx context.Context, id pawl.ID, c pawl.Change) (pawl.Receipt, error) {
	return when(e.job(ctx, id), func() (pawl.Receipt, error) { return e.of.ResumeJob(ctx, id, c) })
}

func (e *Engine) RetryJob(ctx context.Context, id pawl.ID, r pawl.Retry, c pawl.Change) (pawl.Receipt, error) {
	return when(e.job(ctx, id), func() (pawl.Receipt, error) { return e.of.RetryJob(ctx, id, r, c) })
}

func (e *Engine) MoveJob(ctx context.Context, id pawl.ID, version int, dryRun bool, c pawl.Change) (*workflow.Moved, error) {
	return when(e.job(ctx, id), func() (*workflow.Moved, error) { return e.of.MoveJob(ctx, id, version, dryRun, c) })
}

func (e *Engine) RedactJob(ctx context.Context, id pawl.ID, step string, c pawl.Change, each func(pawl.Redaction)) (pawl.Redaction, error) {
	return when(e.job(ctx, id), func() (pawl.Redaction, error) { return e.of.RedactJob(ctx, id, step, c, each) })
}

func (e *Engine) RetryStep(ctx context.Context, id pawl.ID, step string, c pawl.Change) (pawl.Receipt, error) {
	return when(e.job(ctx, id), func() (pawl.Receipt, error) { return e.of.RetryStep(ctx, id, step, c) })
}

func (e *Engine) SkipStep(ctx context.Context, id pawl.ID, step string, c pawl.Change) (pawl.Receipt, error) {
	return when(e.job(ctx, id), func() (pawl.Receipt, error) { return e.of.SkipStep(ctx, id, step, c) })
}

func (e *Engine) ResolveStep(ctx context.Context, id pawl.ID, step string, output json.RawMessage, c pawl.Change) (pawl.Receipt, error) {
	return when(e.job(ctx, id), func() (pawl.Receipt, error) { return e.of.ResolveStep(ctx, id, step, output, c) })
}

func (e *Engine) Approve(ctx context.Context, id pawl.ID, step string, form map[string]any, c pawl.Change) (pawl.Receipt, error) {
	return when(e.job(ctx, id), func() (pawl.Receipt, error) { return e.of.Approve(ctx, id, step, form, c) })
}

func (e *Engine) Reject(ctx context.Context, id pawl.ID, step string, c pawl.Change) (pawl.Receipt, error) {
	return when(e.job(ctx, id), func() (pawl.Receipt, error) { return e.of.Reject(ctx, id, step, c) })
}

func (e *Engine) Signal(ctx context.Context, id pawl.ID, name string, data json.RawMessage, c pawl.Change) (pawl.Receipt, error) {
	return when(e.job(ctx, id), func() (pawl.Receipt, error) { return e.of.Signal(ctx, id, name, data, c) })
}

func (e *Engine) RegisterWorkflow(ctx context.Context, workspace string, canonical []byte, dir string, c pawl.Change) (*pawl.Version, bool, error) {
	if err := in(ctx, workspace); err != nil {
		return nil, false, err
	}
	return e.of.RegisterWorkflow(ctx, workspace, canonical, dir, c)
}

func (e *Engine) PutSchedule(ctx context.Context, p pawl.SchedulePlan, replace bool, c pawl.Change) (pawl.Receipt, error) {
	return when(in(ctx, p.Workspace), func() (pawl.Receipt, error) { return e.of.PutSchedule(ctx, p, replace, c) })
}

func (e *Engine) MoveSchedule(ctx context.Context, n pawl.ScheduleName, event machine.Event, c pawl.Change) (pawl.Receipt, error) {
	return when(in(ctx, n.Workspace), func() (pawl.Receipt, error) { return e.of.MoveSchedule(ctx, n, event, c) })
}

func (e *Engine) TriggerSchedule(ctx context.Context, n pawl.ScheduleName, c pawl.Change) (pawl.Receipt, error) {
	return when(in(ctx, n.Workspace), func() (pawl.Receipt, error) { return e.of.TriggerSchedule(ctx, n, c) })
}

func (e *Engine) SetQuotas(ctx context.Context, set []pawl.Quota, c pawl.Change) error {
	for _, q := range set {
		if err := in(ctx, q.Workspace); err != nil {
			return err
		}
	}
	return e.of.SetQuotas(ctx, set, c)
}

func (e *Engine) PauseQueue(ctx context.Context, n pawl.QueueName, c pawl.Change) (pawl.Receipt, error) {
	return when(in(ctx, n.Workspace), func() (pawl.Receipt, error) { return e.of.PauseQueue(ctx, n, c) })
}

func (e *Engine) ResumeQueue(ctx context.Context, n pawl.QueueName, c pawl.Change) (pawl.Receipt, error) {
	return when(in(ctx, n.Workspace), func() (pawl.Receipt, error) { return e.of.ResumeQueue(ctx, n, c) })
}

func (e *Engine) Reserve(ctx context.Context, workspace string, depth, slots int, ttl time.Duration, c pawl.Change) (pawl.ReservationView, error) {
	return when(in(ctx, workspace), func() (pawl.ReservationView, error) {
		return e.of.Reserve(ctx, workspace, depth, slots, ttl, c)
	})
}

func (e *Engine) Release(ctx context.Context, workspace string, id pawl.ID, c pawl.Change) (pawl.ReservationView, error) {
	return when(in(ctx, workspace), func() (pawl.ReservationView, error) { return e.of.Release(ctx, workspace, id, c) })
}

func (e *Engine) PauseWorker(ctx context.Context, id pawl.ID, c pawl.Change) (pawl.Receipt, error) {
	return when(e.worker(ctx, id), func() (pawl.Receipt, error) { return e.of.PauseWorker(ctx, id, c) })
}

func (e *Engine) ResumeWorker(ctx context.Context, id pawl.ID, c pawl.Change) (pawl.Receipt, error) {
	return when(e.worker(ctx, id), func() (pawl.Receipt, error) { return e.of.ResumeWorker(ctx, id, c) })
}

func (e *Engine) TerminateWorker(ctx context.Context, id pawl.ID, c pawl.Change) (pawl.Receipt, error) {
	return when(e.worker(ctx, id), func() (pawl.Receipt, error) { return e.of.TerminateWorker(ctx, id, c) })
}

func (e *Engine) Prune(ctx context.Context, age time.Duration, c pawl.Change, each func(pawl.Pruning)) (pawl.Pruning, error) {
	return when(everywhere(ctx), func() (pawl.Pruning, error) { return e.of.Prune(ctx, age, c, each) })
}

func (e *Engine) Prospects(ctx context.Context, age time.Duration) ([]pawl.Prospect, error) {
	return when(everywhere(ctx), func() ([]pawl.Prospect, error) { return e.of.Prospects(ctx, age) })
}

func (e *Engine) CreateToken(ctx context.Context, p pawl.TokenPlan, c pawl.Change) (pawl.NewToken, error) {
	return when(everywhere(ctx), func() (pawl.NewToken, error) { return e.of.CreateToken(ctx, p, c) })
}

func (e *Engine) RevokeToken(ctx context.Context, id pawl.ID, c pawl.Change) (pawl.Receipt, error) {
	return when(everywhere(ctx), func() (pawl.Receipt, error) { return e.of.RevokeToken(ctx, id, c) })
}
