package main

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
)

// An orchestrator is what the commands ask about jobs. An engine in this
// process is one; so is whatever reaches an engine elsewhere.
type orchestrator interface {
	Submit(ctx context.Context, subs ...pawl.Submission) ([]pawl.Submitted, error)
	Jobs(ctx context.Context, q pawl.JobQuery) ([]pawl.JobView, error)
	RecentJobs(ctx context.Context, workspace string, limit int, f func(*pawl.Job) (more bool)) error
	Job(ctx context.Context, id pawl.ID) (*pawl.JobView, error)
	History(ctx context.Context, id pawl.ID, f func(pawl.Transition) error) error
	Past(ctx context.Context, id pawl.ID, at pawl.Moment) (*pawl.JobView, error)
	Why(ctx context.Context, id pawl.ID, step string) ([]pawl.Reason, error)
	Stuck(ctx context.Context, q pawl.JobQuery, still time.Duration) ([]pawl.StuckJob, error)
	Logs(ctx context.Context, id pawl.ID, step string, f func(pawl.LogLine) error) error
	Cancel(ctx context.Context, id pawl.ID, c pawl.Change) error
	Watch(ctx context.Context, id pawl.ID, f func() (more bool, err error)) error

	PauseJob(ctx context.Context, id pawl.ID, c pawl.Change) error
	ResumeJob(ctx context.Context, id pawl.ID, c pawl.Change) error
	RetryJob(ctx context.Context, id pawl.ID, r pawl.Retry, c pawl.Change) (pawl.ID, error)
	RetryStep(ctx context.Context, id pawl.ID, step string, c pawl.Change) error
	SkipStep(ctx context.Context, id pawl.ID, step string, c pawl.Change) error
	ResolveStep(ctx context.Context, id pawl.ID, step string, output json.RawMessage, c pawl.Change) error
	Approve(ctx context.Context, id pawl.ID, step string, form map[string]any, c pawl.Change) error
	Reject(ctx context.Context, id pawl.ID, step string, c pawl.Change) error
	Signal(ctx context.Context, id pawl.ID, name string, data json.RawMessage, c pawl.Change) error
	RedactJob(ctx context.Context, id pawl.ID, step string, c pawl.Change, each func(pawl.Redaction)) (pawl.Redaction, error)
	Definition(ctx context.Context, id pawl.ID) (*workflow.Definition, error)

	RegisterWorkflow(ctx context.Context, workspace string, canonical []byte, dir string, c pawl.Change) (v *pawl.Version, made bool, err error)
	Lookup(ctx context.Context, n pawl.WorkflowName, version int) (*pawl.Version, *workflow.Definition, error)
	Workflows(ctx context.Context, workspace string, f func(*pawl.Version) error) error
	Versions(ctx context.Context, n pawl.WorkflowName, f func(*pawl.Version) error) error
	MoveJob(ctx context.Context, id pawl.ID, version int, dryRun bool, c pawl.Change) (*workflow.Moved, error)
	PlanMoves(ctx context.Context, workspace string, canonical []byte) (*workflow.MovePlans, error)

	Workers(ctx context.Context, q pawl.WorkerQuery) ([]pawl.WorkerView, error)
	Worker(ctx context.Context, id pawl.ID) (*pawl.WorkerView, error)
	WorkerHistory(ctx context.Context, id pawl.ID, f func(pawl.Transition) error) error
	PauseWorker(ctx context.Context, id pawl.ID, c pawl.Change) error
	ResumeWorker(ctx context.Context, id pawl.ID, c pawl.Change) error
	TerminateWorker(ctx context.Context, id pawl.ID, c pawl.Change) error

	SetQuotas(ctx context.Context, set []pawl.Quota, c pawl.Change) error
	Quotas(ctx context.Context, workspace string) ([]pawl.QuotaView, error)

	PutSchedule(ctx context.Context, p pawl.SchedulePlan, replace bool, c pawl.Change) error
	MoveSchedule(ctx context.Context, n pawl.ScheduleName, event machine.Event, c pawl.Change) error
	TriggerSchedule(ctx context.Context, n pawl.ScheduleName, c pawl.Change) (pawl.ID, error)
	Schedules(ctx context.Context, workspace string, next int, f func(*pawl.ScheduleView) error) error
	Schedule(ctx context.Context, n pawl.ScheduleName, next int) (*pawl.ScheduleView, error)
	ScheduleHistory(ctx context.Context, n pawl.ScheduleName, f func(pawl.Transition) error) error
	Followed(ctx context.Context) (bool, error)

	Prune(ctx context.Context, age time.Duration, c pawl.Change, each func(pawl.Pruning)) (pawl.Pruning, error)
	Prospects(ctx context.Context, age time.Duration) ([]pawl.Prospect, error)
}

var _ orchestrator = (*engine.Engine)(nil)

// A ledger is the database and an engine on it, in this process.
type ledger struct {
	store    store.Store
	engine   *engine.Engine
	database database
}

// openLedger opens the database and starts an engine on it. The caller closes
// it. A passive engine leaves all work to other processes.
func (a *app) openLedger(ctx context.Context, passive bool) (*ledger, error) {
	return a.openEngine(ctx, engine.Config{Passive: passive})
}

// openEngine opens the database and starts an engine on it as c says.
func (a *app) openEngine(ctx context.Context, c engine.Config) (*ledger, error) {
	s, db, err := a.openStore(ctx)
	if err != nil {
		return nil, err
	}
	c.Store, c.Log = s, a.log
	if db.postgres != "" {
		c.Lanes = 2
	}
	e, err := engine.Open(c)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return &ledger{store: s, engine: e, database: db}, nil
}

func (l *ledger) close() error {
	l.engine.Close()
	return l.store.Close()
}

// with reaches the orchestrator of a database that exists, for the length of f.
func (a *app) with(ctx context.Context, f func(orchestrator) error) error {
	if err := a.existing(); err != nil {
		return err
	}
	return a.withNew(ctx, f)
}

// withNew is with for commands that may be the first on their database.
func (a *app) withNew(ctx context.Context, f func(orchestrator) error) (err error) {
	l, err := a.openLedger(ctx, true)
	if err != nil {
		return err
	}
	defer func() {
		if e := l.close(); err == nil {
			err = e
		}
	}()
	return f(l.engine)
}
