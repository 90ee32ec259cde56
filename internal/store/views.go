package store

import (
	"context"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// Views are plain reads, each with its own snapshot. They see everything that was committed
// before the call.
type Views interface {
	// Job reads a job with its bodies. The error is ErrNotFound if there is none, and of kind
	// Internal if it cannot be decoded.
	Job(ctx context.Context, key rowkey.Job) (*pawl.Job, error)
	// WholeJob reads a job with what belongs to it, all as of one moment. Errors are those of Job.
	WholeJob(ctx context.Context, key rowkey.Job) (*WholeJob, error)
	// JobSequence returns the id of a job, and the sum of its sequence and those of its steps.
	// The error is ErrNotFound if there is none.
	JobSequence(ctx context.Context, key rowkey.Job) (pawl.ID, int64, error)
	// Jobs lists jobs, newest first. With a limit it returns a page; see PageBytes.
	Jobs(ctx context.Context, f JobFilter) ([]*pawl.Job, error)
	// JobKeys finds the newest jobs of a filter, at most f.Limit. It looks at no more than rows
	// of the jobs that the keys, Parent and Continues of the filter allow; if all its states
	// are of jobs in flight, it looks at those in flight. It returns their keys, newest first,
	// and the key below which the next page begins, or 0 if that would be empty. A page may be
	// shorter than its limit, though there are more. Keys and Bare of the filter have no effect.
	JobKeys(ctx context.Context, f JobFilter, rows int) (keys []rowkey.Job, next rowkey.Job, err error)
	// Steps reads steps of a job with their bodies, by ord, beyond after: all, or a page of at
	// most limit; see PageBytes.
	Steps(ctx context.Context, job rowkey.Job, after pawl.Ord, limit int) ([]*pawl.Step, error)
	// Bare reads steps of a job without bodies, by ord, beyond after, at most limit.
	Bare(ctx context.Context, job rowkey.Job, after pawl.Ord, limit int) ([]*pawl.Step, error)
	// StepOrds finds the first steps of a filter, by ord, at most f.Limit, among the first rows
	// steps between its bounds. It returns their places, and the place behind which the next
	// page begins, or 0 if that would be empty.
	StepOrds(ctx context.Context, f StepFilter, rows int) (ords []pawl.Ord, next pawl.Ord, err error)
	// Waits finds the first steps that the engine owns and that wait for something of a kind
	// (pawl.Wait), by key, at most f.Limit, among the first rows steps that it owns. It returns
	// their keys, and the key behind which the next page begins, or the zero value if that
	// would be empty.
	Waits(ctx context.Context, f WaitFilter, rows int) (keys []pawl.StepKey, next pawl.StepKey, err error)
	// StepsAt reads those steps that exist, with their bodies, by key. It is a page; see
	// PageBytes.
	StepsAt(ctx context.Context, keys []pawl.StepKey) ([]*pawl.Step, error)
	// Running goes through the RUNNING jobs, in an order of the store's own, from a place on:
	// it reads at most limit, without bodies. A job may come several times. A job that starts,
	// or moves, between two calls may be missed. A result below the limit is the last one.
	Running(ctx context.Context, from Spot, limit int) ([]Passed, error)
	// Unstarted goes through limit jobs beyond a key, in order. It returns those of them that
	// are PENDING and not paused, without bodies, and the last key, which is 0 if there were
	// no more jobs.
	Unstarted(ctx context.Context, after rowkey.Job, limit int) (found []Unstarted, last rowkey.Job, err error)
	// SpotAt returns the place behind about this share (0 to 1) of the RUNNING jobs.
	SpotAt(ctx context.Context, share float64) (Spot, error)
	// Bodies reads the state, input, output and error of those steps that exist.
	Bodies(ctx context.Context, keys []pawl.StepKey) (map[pawl.StepKey]*pawl.Step, error)
	// Marked reads the steps of a job marked Attention, without bodies, at most
	// MaxMarked, by (mark_at, ord).
	Marked(ctx context.Context, job rowkey.Job) ([]*pawl.Step, error)
	// StepCounts counts the steps of a job by state.
	StepCounts(ctx context.Context, job rowkey.Job) (map[machine.State]int, error)
	// NewestSteps reads the times of the steps of the newest jobs, by job and ord, the highest
	// first, at most limit.
	NewestSteps(ctx context.Context, limit int) ([]StepTimes, error)
	// Worker reads a worker; Workers lists them, newest first. With a limit it is a page;
	// see PageBytes.
	Worker(ctx context.Context, key rowkey.Worker) (*pawl.Worker, error)
	Workers(ctx context.Context, f WorkerFilter) ([]*pawl.Worker, error)
	// Nodes reads the processes that reported within NodeMemory, oldest first.
	Nodes(ctx context.Context) ([]*pawl.Node, error)
	// InFlight counts the steps enqueued by route, and in progress by worker
	// (0: owned by the engine).
	InFlight(ctx context.Context) (enqueued map[rowkey.Route]int, running map[rowkey.Worker]int, err error)
	// Lines returns the routes on which steps are enqueued, at most limit, and those of the
	// steps that workers hold. It reads only what is in flight.
	Lines(ctx context.Context, limit int) ([]Line, error)
	// Counts counts workers, jobs and steps of a workspace, or of all if it is empty: all that
	// have not ended, and those that have ended among the newest workers and jobs.
	Counts(ctx context.Context, workspace string, newest int) (*Counts, error)
	// Usage returns the taken slots of the pools.
	Usage(ctx context.Context, pools []Pool) (map[Pool]int, error)
	// PendingIn returns pending jobs, not paused, with that Pool, by (rank, id): at most
	// limit, beyond a place. The zero value is before the first.
	PendingIn(ctx context.Context, pool rowkey.Pool, after Ranked, limit int) ([]Ranked, error)
	// Quotas reads the limits of a workspace, or of all workspaces if it is empty, by name,
	// those beyond after: all, or a page of at most limit; see PageBytes.
	Quotas(ctx context.Context, workspace string, after pawl.WorkflowName, limit int) ([]*pawl.Quota, error)
	// Signals reads the signals of a job that no step has taken, by seq, without data, at
	// most MaxSignals.
	Signals(ctx context.Context, job rowkey.Job) ([]*pawl.Signal, error)
	// Schedule reads a schedule. Schedules lists those that are not removed, by name: of one
	// workspace and with one name, unless these are empty; those beyond after: all, or a page
	// of at most limit; see PageBytes.
	Schedule(ctx context.Context, key rowkey.Schedule) (*pawl.Schedule, error)
	Schedules(ctx context.Context, n, after pawl.ScheduleName, limit int) ([]*pawl.Schedule, error)
	// HeldSchedules returns the keys of active schedules that have no deadline, or whose next
	// time waits for their last job, in order: at most limit, beyond a key.
	HeldSchedules(ctx context.Context, after rowkey.Schedule, limit int) ([]rowkey.Schedule, error)
	// Token reads a token. Tokens lists them, newest first: those with a key below before (0 is
	// no bound), at most limit.
	Token(ctx context.Context, key rowkey.Token) (*pawl.Token, error)
	Tokens(ctx context.Context, before rowkey.Token, limit int) ([]*pawl.Token, error)

	// TokenBySum reads the newest active token with a sum, or returns ErrNotFound.
	TokenBySum(ctx context.Context, sum [32]byte) (*pawl.Token, error)
	// Pauses lists pauses of queues, newest first.
	Pauses(ctx context.Context, f PauseFilter) ([]*pawl.QueuePause, error)
	// Webhook reads a webhook. Webhooks lists them, newest first: those with a key below before
	// (0 is no bound), at most limit.
	Webhook(ctx context.Context, key rowkey.Webhook) (*pawl.Webhook, error)
	Webhooks(ctx context.Context, before rowkey.Webhook, limit int) ([]*pawl.Webhook, error)
	// Registered reads the versions of a registered workflow, newest first, those below a
	// version (0 is no bound): all, or a page of at most limit; see PageBytes.
	Registered(ctx context.Context, n pawl.WorkflowName, below, limit int) ([]*pawl.Version, error)
	// Workflows reads the newest version of each registered workflow of a workspace, or of all
	// workspaces if it is empty, by name, those beyond after: all, or a page of at most limit.
	Workflows(ctx context.Context, workspace string, after pawl.WorkflowName, limit int) ([]*pawl.Version, error)
	// RegisteredVersion reads one version; version 0 is the newest. The error is ErrNotFound
	// if there is none.
	RegisteredVersion(ctx context.Context, n pawl.WorkflowName, version int) (*pawl.Version, error)
	// Definition reads a definition.
	Definition(ctx context.Context, key rowkey.Definition) (*pawl.Definition, error)
	// History reads the trail of a job and of its steps in the order of time, entries of one
	// time by (ord, sequence), without the fields of an entry that are not stored. It returns
	// whole rows beyond a place, at most limit and TrailPageBytes, and the place of the last
	// row. Entries committed between two pages may or may not be in a later page. An empty
	// page is the end.
	History(ctx context.Context, job rowkey.Job, after HistoryPlace, limit int) ([]Entry, HistoryPlace, error)
	// Trail reads the audit entries of one entity, by sequence, those beyond after: all, or a
	// page of at most limit; see PageBytes.
	Trail(ctx context.Context, k EntityKey, after int64, limit int) ([]audit.Entry, error)
	// Moves reads the entries of all trails that were written in a span of time, in the order of
	// their rows. It looks at no more than f.Most rows: those of other times that it passes on its
	// way count, too. Entries of a record that retention has removed are left out.
	Moves(ctx context.Context, f MoveFilter) (*Moves, error)
	// Trails passes every entity's trail to f, with the state, seq and head of its record (Seq
	// 0 if the record is gone), until f fails: job by job with its steps, then workers, then
	// schedules, tokens, webhooks and pauses of queues. A job of 0 means all. f gets each job
	// with its steps as of one moment. f may take its time: no transaction is open while it runs. Only a page of a long job is in
	// memory at once (LongTrail); a job that retention removes meanwhile is an error of kind
	// Unavailable.
	Trails(ctx context.Context, job rowkey.Job, f func(TrailOf) error) error
	// Payloads reads the sealed payload of records: of those jobs, steps or schedules that
	// exist. It begins with the first key, stops after the key that reaches PayloadPageBytes,
	// and returns how many keys it covered.
	Payloads(ctx context.Context, kind string, keys []pawl.StepKey) (found map[pawl.StepKey]Payload, through int, err error)
	// SignalData reads the data of signals of a job, by the sequence of the entry that records
	// each: those after an entry, up to PayloadPageBytes. It reports whether there may be
	// more.
	SignalData(ctx context.Context, job rowkey.Job, after int64) (data map[int64][]byte, more bool, err error)
	// Refusals reads the refused facts of a job, by (at, id), those beyond a place: all, or a
	// page of at most limit; see PageBytes. Refused counts those of a job, or of all jobs if
	// it is 0.
	Refusals(ctx context.Context, job rowkey.Job, after RefusalPlace, limit int) ([]pawl.Refusal, error)
	Refused(ctx context.Context, job rowkey.Job) (int64, error)
	// Stats returns counts of the writes through this handle since it was opened.
	Stats(ctx context.Context) (Stats, error)
}

// OldestAmong is how many of the steps enqueued on a route are asked for their age.
const OldestAmong = 1000

// A Line is the steps on one route.
type Line struct {
	Route    rowkey.Route
	Job      rowkey.Job // of one of the steps
	Enqueued int
	Oldest   int64 // when the oldest of the OldestAmong that are claimed first was enqueued, or 0
	Running  int   // held by workers
}

// Counts are numbers of records by state. The steps are those enqueued and in progress.
type Counts struct {
	Workers, Jobs, Steps map[machine.State]int
	More                 bool // not all ended workers, or ended jobs, are counted
}

// An Unstarted is a pending job that has to be started.
type Unstarted struct {
	*pawl.Job
	Lost bool // neither a scan nor a claim finds it
}

// A HistoryPlace is the place of a row in the order in which a history is read. The zero value
// is before the first.
type HistoryPlace struct {
	At  int64
	Ord pawl.Ord
	Seq int64
}

// A RefusalPlace is the place of a refused fact of a job. The zero value is before the first.
type RefusalPlace struct{ At, ID int64 }

// A Spot is a place in the store's own order of the running jobs. The zero value is before the
// first.
type Spot [4]int64

// A Passed is a place at which a job was read; a nil job has ended, or cannot be decoded.
type Passed struct {
	At  Spot
	Job *pawl.Job
}

// TrailOf is an entity with its whole trail.
type TrailOf struct {
	EntityKey
	ID      string // the public id
	Record  pawl.Record
	Folded  int64       // of a step
	Tree    *audit.Tree // of a job or a step; nil if there is none
	Entries []audit.Entry
}

// A JobFilter selects jobs. The zero value selects all.
type JobFilter struct {
	Workspace  string
	States     []machine.State
	TimedOut   bool // also those that were CANCELED by their timeout; see TimedOut
	Workflow   string
	Definition rowkey.Definition
	Parent     rowkey.Job        // only children of this job
	Continues  rowkey.Job        // only jobs that continue this one
	Still      int64             // only jobs whose record and steps were all unchanged since before this time
	Depth      *int              // only jobs of this depth; nil is any
	From       rowkey.Job        // only keys from this one on
	Before     rowkey.Job        // only keys below this one; 0 is no bound
	MadeFrom   int64             // only jobs made at this time or later
	MadeBefore int64             // only jobs made before this time; 0 is no bound
	Schedule   rowkey.Schedule   // only jobs that this schedule made
	Text       string            // only jobs whose workflow or description contains it, in any case of ASCII letters
	Metadata   map[string]string // only jobs whose metadata has these; see HasMetadata. Of JobKeys alone
	Keys       []rowkey.Job      // only these; nil is no bound
	Limit      int               // 0: no limit
	Bare       bool              // without bodies
}

// StepTimes are the state of a step and its times; 0 is not yet.
type StepTimes struct {
	pawl.StepKey
	State                              machine.State
	EnqueuedAt, StartedAt, CompletedAt int64
}

// A StepFilter selects steps of a job.
type StepFilter struct {
	Job     rowkey.Job
	States  []machine.State // none: any
	After   pawl.Ord        // only steps behind this place
	Through pawl.Ord        // only steps up to this place; 0 is no bound
	Limit   int
}

// A WaitFilter selects steps that wait.
type WaitFilter struct {
	Kind      string       // of what they wait for: approval, sleep, event or workflow
	Workspace string       // empty: of all
	After     pawl.StepKey // only keys behind this one
	Limit     int
}

// Begins returns the pattern of SQL's LIKE that the input of the steps matches: a Wait is
// stored as JSON that begins with its kind.
func (f WaitFilter) Begins() string { return `{"kind":"` + f.Kind + `"%` }

// TimedOut is the SQL condition that a job was CANCELED by its timeout: a failure is stored as
// JSON that begins with its class.
const TimedOut = "(state = '" + string(lifecycle.JobCanceled) + `' and error like '{"class":"` + pawl.ClassTimeout + `",%')`

// A WorkerFilter selects workers. The zero value selects all.
type WorkerFilter struct {
	Living bool          // only those in a living state
	Before rowkey.Worker // keys below this one only; 0 is no bound
	Limit  int           // 0: no limit
}

// A PauseFilter selects pauses of queues. The zero value selects all.
type PauseFilter struct {
	Workspace string
	Queue     string
	Lasting   bool              // only those that last
	Before    rowkey.QueuePause // keys below this one only; 0 is no bound
	Limit     int               // 0: no limit
}

// Stats counts the writes through this handle.
type Stats struct {
	Commits  int64
	Inserts  int64 // records
	Updates  int64 // records
	Entries  int64 // audit rows
	Rollback int64
}
