// Package pawl is the vocabulary of Pawl, a durable orchestrator: the jobs, steps,
// workers, definitions and errors that all other packages share. It is pure: no clock,
// no I/O, no randomness.
//
// A job is one run of a workflow; a step is one node of its graph; a worker is a
// process that claims steps. Each moves only as its table in package lifecycle allows,
// and every move is one row of the audit trail.
package pawl

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/machine"
)

// Times in records are microseconds since the Unix epoch, UTC; 0 is none.

// Micros returns t in microseconds since the Unix epoch.
func Micros(t time.Time) int64 { return t.UnixMicro() }

// Time returns the time of us microseconds since the Unix epoch, in UTC.
func Time(us int64) time.Time { return time.UnixMicro(us).UTC() }

// A Record has the fields of every audited entity.
type Record struct {
	State     machine.State
	Seq       int64      // of its last audit entry; the version for compare-and-swap
	Head      audit.Hash // of its last audit entry
	DueAt     int64      // the deadline of the state, or 0 (K8)
	DueEvent  machine.Event
	CreatedAt int64
	UpdatedAt int64
}

// A Mark says that something about a record is still to be decided. Marks survive the
// loss of every message. Attention is due at a time (MarkAt): the evaluator finds the
// oldest first by a partial index, and puts off a mark that it cannot act on. MarkNow
// leaves MarkAt at 0: the commit sets it to its time. A record that waits for something
// other than the evaluator is not marked Attention: the commit that ends the wait marks
// it.
type Mark int8

// The marks.
const (
	Clear     Mark = 0 // nothing to do
	Attention Mark = 1 // for the evaluator: an outcome to apply, an expression to evaluate
	Waiting   Mark = 2 // ready, and waiting for a slot of its own job, or for the job to be resumed
	Blocked   Mark = 3 // behind a failed step, in a job that drains: cancelled with the job's end
)

// A Job is one run of a workflow. Stores load Inputs, Output, Error and
// Metadata only where they say so.
type Job struct {
	Record
	ID          ID
	Workspace   string
	Definition  rowkey.Definition
	Workflow    string
	Description string
	Version     int             // of its workflow, if that is registered, or 0
	Parent      rowkey.Job      // the parent job, or 0
	ParentStep  Ord             // the step of the parent that waits for it
	Continues   rowkey.Job      // the job that this one continues, or 0
	Schedule    rowkey.Schedule // the one that made it, or 0
	Depth       int
	WorkerCount int          // the most steps in progress at once
	Private     rowkey.Job   // the job (itself, or an ancestor) whose process is the only one to run it, or 0
	Route       rowkey.Route // the route of its first steps, or 0 if the evaluator has to start it
	Priority    int
	Rank        int64       // its place among pending jobs; see RankAt
	Pool        rowkey.Pool // the pool of its concurrency key, of which it takes one slot while it runs, or 0
	Quota       rowkey.Pool // the pool of which it took WorkerCount slots when it started, or 0
	Paused      bool
	Children    bool // other jobs were submitted as its children
	Mark        Mark
	MarkAt      int64         // of Attention: when the evaluator looks; else 0. See Mark
	MarkTries   int           // how often in a row it has looked in vain
	Ending      machine.State // COMPLETED, FAILED or CANCELED once that is settled, else empty
	Hooks       HookPhase
	Open        int   // nodes that have not ended and are not blocked; of the hooks, once they run
	Blocked     int   // nodes marked Blocked
	Active      int   // steps enqueued, or in progress on a worker
	Tree        *Tree // of the steps that were counted out; nil is the zero value
	StartedAt   int64
	CompletedAt int64

	Inputs   json.RawMessage // object
	Output   json.RawMessage // nil until completed
	Error    *Failure        // why it failed, or was canceled
	Metadata json.RawMessage // object
}

// A Tree is what was counted out of a job, or of the node of a fan-out (K6), as long as
// no audit entry seals it. N is -1 if the record is older than trees. Copies of a record
// share it: it is replaced, and not changed.
type Tree struct {
	audit.Tree
	Owed *Owed // nil: none
}

// Equal reports whether two trees are the same; nil is the zero value.
func (t *Tree) Equal(u *Tree) bool {
	var zero Tree
	t, u = cmp.Or(t, &zero), cmp.Or(u, &zero)
	return t == u || t.Tree == u.Tree && (t.Owed == u.Owed || t.Owed != nil && u.Owed != nil && *t.Owed == *u.Owed)
}

// Owed is the seal of an error that was stored in a commit in which the record made no
// move, so that no audit entry has it yet: the next one does.
type Owed struct {
	Sum  audit.Hash
	Salt audit.Salt
}

// A HookPhase is the progress of the hooks of a job.
type HookPhase int8

// The phases of hooks.
const (
	HooksNotYet    HookPhase = 0
	HooksRun       HookPhase = 1
	HooksCancelled HookPhase = 2 // those that have not ended are being cancelled
)

// Key returns the key of the job.
func (j *Job) Key() rowkey.Job { return j.ID.JobKey() }

// MarkNow marks the job for the evaluator, as soon as that is committed.
func (j *Job) MarkNow() { j.Mark, j.MarkAt, j.MarkTries = Attention, 0, 0 }

// MarkNow marks the step for the evaluator, as soon as that is committed.
func (s *Step) MarkNow() { s.Mark, s.MarkAt, s.MarkTries = Attention, 0, 0 }

// A Step is one node of a job's graph, or one instance of a fanned-out node.
// Stores load Input, Output and Error only where they say so.
type Step struct {
	Record
	StepKey
	Mark        Mark
	MarkAt      int64 // of Attention: when the evaluator looks; else 0. See Mark
	MarkTries   int   // how often in a row it has looked in vain
	Unmet       int   // needs that have not ended well yet
	Skipped     bool  // at least one need was skipped
	Attempts    int   // an interrupt refunds one
	Claims      int   // the fence: it only rises
	Losses      int   // how often its worker died
	Worker      rowkey.Worker
	Route       rowkey.Route
	Priority    int
	Rank        int64       // its place in the queue, and 0 once a worker has it; see RankAt
	Pool        rowkey.Pool // the pool of its queue, of which it holds a slot while it is in progress, or 0
	Total       int         // of a fan-out's node: the instances there will be
	Made        int         // of a fan-out's node: the instances made so far
	Live        int         // of a fan-out's node: the instances that have not ended
	Tree        *Tree       // of a fan-out's node: of the instances that were counted out; nil is the zero value
	Folded      int64       // the number by which it was counted out of its job or fan-out, or 0
	EnqueuedAt  int64
	StartedAt   int64
	CompletedAt int64

	Input  json.RawMessage // of a fan-out's node: the list of items; of a step that waits: a Wait
	Output json.RawMessage
	Error  *Failure // of the last attempt that failed
}

// A Worker is a process that claims steps.
type Worker struct {
	Record
	ID        ID
	Workspace string
	Name      string // for people: host and pid
	Host      string
	PID       int
	Silence   time.Duration // after which it counts as dead, if it is remote; otherwise 0
	Capacity  int
	Routes    []rowkey.Route // what it serves; see Route
	Handlers  []string       // what it serves, in words: queue/handler
	Metadata  json.RawMessage
}

// Remote reports whether the worker reaches the database through a server. No process holds
// a lock for it: whether it lives is judged by its beats alone.
func (w *Worker) Remote() bool { return w.Silence > 0 }

// Key returns the key of the worker.
func (w *Worker) Key() rowkey.Worker { return w.ID.WorkerKey() }

// A Definition is a workflow as it was when a job was submitted. It never
// changes; its key is taken from its hash.
type Definition struct {
	Key       rowkey.Definition
	Hash      [32]byte
	Name      string
	Source    []byte // canonical JSON; what the hash is of
	CreatedAt int64
}

// ClassTimeout is the class of the failure of what took longer than its timeout.
const ClassTimeout = "timeout"

// ClassTooLarge is the class of the failure of a step whose output is over the limit (T8).
const ClassTooLarge = "output_too_large"

// A Failure is why a step or a job failed: reported by a handler, the engine or an
// operator (T6).
type Failure struct {
	Class     string          `json:"class"`
	Message   string          `json:"message"`
	Permanent bool            `json:"permanent"`
	Reason    string          `json:"reason,omitempty"` // why there was no further attempt, if one was allowed to fail: "3 of 3 attempts failed"
	Delay     Duration        `json:"delay,omitzero"`   // before the next attempt; 0 leaves it to the backoff
	Step      string          `json:"step,omitempty"`   // of a job's failure: the key of the step
	Metadata  json.RawMessage `json:"metadata,omitempty"`
}

// TooLarge returns the permanent failure of an output of more than limit bytes. What
// names the output and its size; instead is what can be done besides keeping the data
// elsewhere.
func TooLarge(what string, limit int, instead string) *Failure {
	return &Failure{Class: ClassTooLarge, Permanent: true,
		Message: fmt.Sprintf("%s, and an output has at most %d: keep the data in a file and put out its path, or %s", what, limit, instead)}
}

// Resolve returns the command that gives an output to a job's step whose own was too
// large, or "" for another failure.
func (f *Failure) Resolve(job string) string {
	if f == nil || f.Class != ClassTooLarge || f.Step == "" {
		return ""
	}
	step, _, _ := strings.Cut(f.Step, "[") // of an instance, what gathers it
	return "pawl job retry " + job + " --resolve " + step + "=JSON"
}

func (f *Failure) Error() string { return f.Class + ": " + f.Message }

// Text returns the message, with the reason for which there was no further attempt.
func (f *Failure) Text() string {
	if f.Reason == "" {
		return f.Message
	}
	return f.Message + " (" + f.Reason + ")"
}

// Redacted returns the failure that is shown in place of a redacted one.
func Redacted() *Failure {
	return &Failure{Class: "redacted", Message: "it was redacted", Permanent: true}
}

// A Duration is a time.Duration that JSON writes as Go does: "1m30s".
type Duration time.Duration

// MarshalText writes d as Go writes durations.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads a duration as Go writes it.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	*d = Duration(v)
	return err
}

// A Refusal is a fact that came too late and was not applied, for example the result of
// a worker that no longer had the step (T5). It is kept for inspection.
type Refusal struct {
	StepKey
	ID    int64 // of those of one time, the later one has the higher; given by the store
	At    int64
	Claim int
	Event machine.Event
	Actor string
	Why   string
	Data  json.RawMessage
}

// A Chunk is a piece of the log of one attempt of a step.
type Chunk struct {
	StepKey
	Claim  int
	Stream string // stdout, stderr, or pawl for messages of Pawl itself
	Offset int64  // of its first byte in the stream
	At     int64
	Data   []byte
}
