package link

import (
	"context"
	"encoding/json"
	"io"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
)

// Engine is the engine as a client, and the workers on it, use it. It is safe for
// concurrent use.
type Engine interface {
	Jobs
	Steps
	Inspect
	Workflows
	Workers
	Schedules
	Tokens
	Webhooks
	Queues
	Retention
	Trails
	Feed
	Worker
}

// Jobs submits jobs and changes them as a whole.
type Jobs interface {
	Submit(ctx context.Context, subs ...pawl.Submission) ([]pawl.Submitted, error)

	// SubmitTx submits within a transaction of the user: the jobs exist exactly if that is
	// committed.
	SubmitTx(ctx context.Context, tx any, subs ...pawl.Submission) ([]pawl.Submitted, error)

	// Hint makes the engines look at once for what transactions of users have
	// committed.
	Hint()

	Watch(ctx context.Context, id pawl.ID, f func() (more bool, err error)) error
	Wait(ctx context.Context, id pawl.ID) (*pawl.Job, error)
	Cancel(ctx context.Context, id pawl.ID, c pawl.Change) (pawl.Receipt, error)
	PauseJob(ctx context.Context, id pawl.ID, c pawl.Change) (pawl.Receipt, error)
	ResumeJob(ctx context.Context, id pawl.ID, c pawl.Change) (pawl.Receipt, error)
	RetryJob(ctx context.Context, id pawl.ID, r pawl.Retry, c pawl.Change) (pawl.Receipt, error)
	MoveJob(ctx context.Context, id pawl.ID, version int, dryRun bool, c pawl.Change) (*workflow.Moved, error)
}

// Steps changes single steps, and decides approvals and signals.
type Steps interface {
	RetryStep(ctx context.Context, id pawl.ID, step string, c pawl.Change) (pawl.Receipt, error)
	SkipStep(ctx context.Context, id pawl.ID, step string, c pawl.Change) (pawl.Receipt, error)
	ResolveStep(ctx context.Context, id pawl.ID, step string, output json.RawMessage, c pawl.Change) (pawl.Receipt, error)
	Approve(ctx context.Context, id pawl.ID, step string, form map[string]any, c pawl.Change) (pawl.Receipt, error)
	Reject(ctx context.Context, id pawl.ID, step string, c pawl.Change) (pawl.Receipt, error)
	Signal(ctx context.Context, id pawl.ID, name string, data json.RawMessage, c pawl.Change) (pawl.Receipt, error)
}

// Inspect reads jobs and explains them. It changes nothing.
type Inspect interface {
	Job(ctx context.Context, id pawl.ID) (*pawl.JobView, error)
	Jobs(ctx context.Context, q pawl.JobQuery) ([]pawl.JobView, error)

	// JobPage is Jobs with a bound on the jobs that it looks at: a page may be short though
	// there are more. next is the Before of the next page, empty after the last one.
	JobPage(ctx context.Context, q pawl.JobQuery) (jobs []pawl.JobView, next string, err error)
	RecentJobs(ctx context.Context, workspace string, limit int, f func(*pawl.Job) (more bool)) error

	// StepPage lists steps of a job, in the order of the workflow. A page may be short though
	// there are more. next is the After of the next page, empty after the last one.
	StepPage(ctx context.Context, id pawl.ID, q pawl.StepQuery) (steps []pawl.StepView, next string, err error)
	Step(ctx context.Context, id pawl.ID) (s *pawl.StepView, job pawl.ID, workspace string, err error)
	StepHistory(ctx context.Context, id pawl.ID, f func(pawl.Transition) error) error

	History(ctx context.Context, id pawl.ID, f func(pawl.Transition) error) error
	HistoryPage(ctx context.Context, id pawl.ID, q pawl.HistoryQuery) (rows []pawl.Transition, next string, err error)
	Past(ctx context.Context, id pawl.ID, at pawl.Moment) (*pawl.JobView, error)
	Why(ctx context.Context, id pawl.ID, step string) ([]pawl.Reason, error)
	Stuck(ctx context.Context, q pawl.JobQuery, still time.Duration) ([]pawl.StuckJob, error)
	Logs(ctx context.Context, id pawl.ID, step string, f func(pawl.LogLine) error) error
	LogPage(ctx context.Context, id pawl.ID, q pawl.LogQuery) (lines []pawl.LogLine, next string, err error)
	Definition(ctx context.Context, id pawl.ID) (*workflow.Definition, error)
	Counts(ctx context.Context, workspace string) (*pawl.Counts, error)

	// JobVersion returns a number that rises with every move of a job and of its steps. Read
	// before the job, it is at most that of what is read.
	JobVersion(ctx context.Context, id pawl.ID) (int64, error)

	// Approvals lists the steps that wait for a decision now. A page may be short though there
	// are more. next is the after of the next page, empty after the last one.
	Approvals(ctx context.Context, workspace, after string, limit int) (approvals []pawl.ApprovalView, next string, err error)
}

// Workflows registers workflows, and reads what is registered.
type Workflows interface {
	RegisterWorkflow(ctx context.Context, workspace string, canonical []byte, dir string, c pawl.Change) (v *pawl.Version, made bool, err error)
	Lookup(ctx context.Context, n pawl.WorkflowName, version int) (*pawl.Version, *workflow.Definition, error)
	Workflows(ctx context.Context, workspace string, f func(*pawl.Version) error) error
	Versions(ctx context.Context, n pawl.WorkflowName, f func(*pawl.Version) error) error
	PlanMoves(ctx context.Context, workspace string, canonical []byte) (*workflow.MovePlans, error)
}

// Workers reads workers, and changes their states for operators.
type Workers interface {
	Workers(ctx context.Context, q pawl.WorkerQuery) ([]pawl.WorkerView, error)

	// WorkerPage is Workers with a bound on the workers that it looks at: a page may be short
	// though there are more. next is the Before of the next page, empty after the last one.
	WorkerPage(ctx context.Context, q pawl.WorkerQuery) (workers []pawl.WorkerView, next string, err error)

	Worker(ctx context.Context, id pawl.ID) (*pawl.WorkerView, error)
	WorkerHistory(ctx context.Context, id pawl.ID, f func(pawl.Transition) error) error
	WorkerHistoryPage(ctx context.Context, id pawl.ID, q pawl.HistoryQuery) (rows []pawl.Transition, next string, err error)
	PauseWorker(ctx context.Context, id pawl.ID, c pawl.Change) (pawl.Receipt, error)
	ResumeWorker(ctx context.Context, id pawl.ID, c pawl.Change) (pawl.Receipt, error)
	TerminateWorker(ctx context.Context, id pawl.ID, c pawl.Change) (pawl.Receipt, error)
}

// Schedules makes schedules, changes them, and reads them.
type Schedules interface {
	PutSchedule(ctx context.Context, p pawl.SchedulePlan, replace bool, c pawl.Change) (pawl.Receipt, error)
	MoveSchedule(ctx context.Context, n pawl.ScheduleName, event machine.Event, c pawl.Change) (pawl.Receipt, error)
	TriggerSchedule(ctx context.Context, n pawl.ScheduleName, c pawl.Change) (pawl.Receipt, error)
	Schedules(ctx context.Context, workspace string, next int, f func(*pawl.ScheduleView) error) error
	Schedule(ctx context.Context, n pawl.ScheduleName, next int) (*pawl.ScheduleView, error)
	ScheduleHistory(ctx context.Context, n pawl.ScheduleName, f func(pawl.Transition) error) error
	ScheduleHistoryPage(ctx context.Context, n pawl.ScheduleName, q pawl.HistoryQuery) (rows []pawl.Transition, next string, err error)
}

// Queues reads queues, pauses them, and limits them and depths of jobs.
type Queues interface {
	Queues(ctx context.Context, workspace string) ([]pawl.QueueView, error)
	Queue(ctx context.Context, n pawl.QueueName) (*pawl.QueueView, error)
	PauseQueue(ctx context.Context, n pawl.QueueName, c pawl.Change) (pawl.Receipt, error)
	ResumeQueue(ctx context.Context, n pawl.QueueName, c pawl.Change) (pawl.Receipt, error)
	QueueHistory(ctx context.Context, n pawl.QueueName, f func(pawl.Transition) error) error
	QueueHistoryPage(ctx context.Context, n pawl.QueueName, q pawl.HistoryQuery) (rows []pawl.Transition, next string, err error)
	SetQuotas(ctx context.Context, set []pawl.Quota, c pawl.Change) error
	Quotas(ctx context.Context, workspace string) ([]pawl.QuotaView, error)
	Reserve(ctx context.Context, workspace string, depth, slots int, ttl time.Duration, c pawl.Change) (pawl.ReservationView, error)
	Release(ctx context.Context, workspace string, id pawl.ID, c pawl.Change) (pawl.ReservationView, error)
}

// Retention removes what ended long ago, and withholds payload.
type Retention interface {
	RedactJob(ctx context.Context, id pawl.ID, step string, c pawl.Change, each func(pawl.Redaction)) (pawl.Redaction, error)
	Prune(ctx context.Context, age time.Duration, c pawl.Change, each func(pawl.Pruning)) (pawl.Pruning, error)
	Prospects(ctx context.Context, age time.Duration) ([]pawl.Prospect, error)
}

// Trails checks the audit trail and copies it. The job is one of those that exist, or the zero
// id for all entities of all workspaces.
type Trails interface {
	// VerifyTrail calls each, if not nil, with the number of entries that it has checked so
	// far. A broken trail is a verdict and no error.
	VerifyTrail(ctx context.Context, job pawl.ID, each func(entries int64)) (*pawl.Verdict, error)

	// ExportTrail writes one row as JSON on each line.
	ExportTrail(ctx context.Context, job pawl.ID, w io.Writer) error

	// WriteCheckpoint writes the ends of all trails, by way of a temporary file in a folder;
	// empty: that for temporary files.
	WriteCheckpoint(ctx context.Context, w io.Writer, folder string) (*pawl.Checkpoint, error)

	// MovePage lists moves, and returns the place at which the next page begins. A page may be
	// short, or empty, though there is a next.
	MovePage(ctx context.Context, q pawl.AuditQuery) (moves []pawl.Move, next string, err error)
}

// Feed is what was committed.
type Feed interface {
	// Events calls f with the events that the filter selects, and with each notice, until ctx
	// ends or f fails, and returns that error. The last event of a batch has a Token.
	Events(ctx context.Context, q pawl.EventFilter, f func(*pawl.Event) error) error
}
