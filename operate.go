package pawl

import (
	"encoding/json"
	"time"

	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// A Receipt says what a command of an operator has done to the entity that it names, as
// its audit trail records it (J5). That is the job, for verbs of steps and approvals the
// step, the worker, the schedule, the token or the webhook.
type Receipt struct {
	ID       string         `json:"id"`         // public
	Status   machine.State  `json:"status"`     // after the command
	From     *machine.State `json:"from_state"` // before the command; nil if it made the entity
	To       machine.State  `json:"to_state"`   // the same as Status
	Sequence int64          `json:"sequence"`   // of the entity's last move by the command
	At       Timestamp      `json:"timestamp"`  // of that move
	Actor    string         `json:"actor"`      // who asked for it
	Replayed bool           `json:"-"`          // the receipt was stored by an earlier request (J8)
}

// A Retry says how to continue a job that has ended (J2).
type Retry struct {
	From    []string                   // complete steps to run again, with all that depends on them
	Set     map[string]any             // inputs that change, as BindInputs takes them; existing results stay
	Resolve map[string]json.RawMessage // outputs for steps, which then do not run
	Private bool                       // only this process runs the new job
}

// A ScheduleName is the name of a schedule.
type ScheduleName struct{ Workspace, Name string }

// A SchedulePlan is a requested schedule.
type SchedulePlan struct {
	Workspace string          // empty: default
	Name      string          // letters, 0-9, . _ and -, no sign first, at most 128
	Workflow  string          // NAME or NAME@VERSION of a registered workflow
	Inputs    json.RawMessage // object; bound when a job is made. None: {}
	Cron      string          // see package schedule
	TimeZone  string          // IANA name; empty: UTC
	CatchUp   time.Duration   // times missed by at most this are caught up with; 0: none; at most MaxCatchUp
	Overlap   string          // skip (the default), queue or cancel_old
	Priority  int             // MinPriority to MaxPriority
}

// A ScheduleView is a schedule as JSON shows it.
type ScheduleView struct {
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Workspace string          `json:"workspace_id"`
	Status    machine.State   `json:"status"`
	Workflow  string          `json:"workflow"`
	Inputs    json.RawMessage `json:"inputs"`
	Cron      string          `json:"cron"`
	TimeZone  string          `json:"timezone"`
	CatchUp   Duration        `json:"catch_up"`
	Overlap   string          `json:"overlap"`
	Priority  int             `json:"priority"`
	Next      []Timestamp     `json:"next"`     // none while it is paused
	Waiting   Timestamp       `json:"waiting"`  // the time whose job waits for the last job to end
	LastDue   Timestamp       `json:"last_due"` // when the last job was due
	LastJob   *string         `json:"last_job"` // none if it was removed
	LastState machine.State   `json:"last_status,omitempty"`
	Version   int64           `json:"version"` // rises with each move of the schedule, by itself too
}

// A QuotaView is a limit and how much of it is taken.
type QuotaView struct {
	Name    string    `json:"name"`
	Slots   int       `json:"slots"`
	Used    int       `json:"used"`
	SetAt   Timestamp `json:"set_at"`
	Actor   string    `json:"actor"`
	Reason  string    `json:"reason"`
	Version int64     `json:"version"` // rises with each change
}

// Counts are how many workers, jobs and steps there are, by state. A state that is
// missing has none.
type Counts struct {
	Workers    map[machine.State]int `json:"workers"`
	Jobs       map[machine.State]int `json:"jobs"`
	Steps      map[machine.State]int `json:"steps"`       // of those in flight: enqueued or in progress
	ActiveJobs int                   `json:"active_jobs"` // RUNNING

	// AtLeast says that there may be more ended workers, or ended jobs, than were counted:
	// only the newest 10,001 workers and the newest 10,001 jobs are looked at for these.
	// What has not ended is always counted in full.
	AtLeast bool `json:"at_least"`
}

// A QueueView is a queue with steps in flight, with live workers that serve it, with a limit,
// or that is paused.
type QueueView struct {
	Name      string          `json:"name"`
	Workspace string          `json:"workspace_id"`
	Depth     int             `json:"depth"`            // steps enqueued
	Oldest    Timestamp       `json:"oldest"`           // when the oldest of them was enqueued, among the first 1,000 of each handler
	Running   int             `json:"running"`          // steps in progress on workers
	Limit     *int            `json:"limit"`            // of steps in progress; none if it is not limited
	Workers   int             `json:"workers"`          // that live and serve it
	Paused    *QueuePauseView `json:"paused,omitempty"` // none if it is not paused
}

// An ApprovalView is a step that waits for a decision.
type ApprovalView struct {
	JobID     string          `json:"job_id"`
	Workspace string          `json:"workspace_id"`
	Workflow  string          `json:"workflow"`
	StepID    string          `json:"step_id"`
	Key       string          `json:"key"`
	Prompt    string          `json:"prompt"`
	Form      json.RawMessage `json:"form"`   // the fields, by name, as inputs are declared; or null
	Since     Timestamp       `json:"since"`  // when it began to wait
	DueAt     Timestamp       `json:"due_at"` // when it ends by itself, or null
}

// A Redaction is the progress of a redaction, as counted by this process.
type Redaction struct {
	Job     string `json:"job"`
	Step    string `json:"step,omitempty"`
	Records int64  `json:"records"` // the job and steps whose bodies were removed
	Entries int64  `json:"entries"` // rows of the trail whose payload was removed
	Beside  int64  `json:"beside"`  // signals, refused facts and pieces of logs

	// Advice is what has to be done by hand to remove the old bytes, or empty.
	Advice string `json:"advice,omitempty"`
}

// A Pruning is what was removed so far, and what could not be.
type Pruning struct {
	Jobs      int64    `json:"jobs"`
	Steps     int64    `json:"steps"`
	Workers   int64    `json:"workers"`
	Schedules int64    `json:"schedules"`
	Tokens    int64    `json:"tokens"`
	Pauses    int64    `json:"queue_pauses"` // of queues
	Webhooks  int64    `json:"webhooks"`
	Entries   int64    `json:"entries"` // rows of trails
	Busy      []string `json:"busy"`    // what other processes had locked; the next pruning finds it
}

// Count adds a number of entities of a kind that were, or would be, removed.
func (p *Pruning) Count(kind string, n int64) {
	switch kind {
	case lifecycle.Job.Name:
		p.Jobs += n
	case lifecycle.Worker.Name:
		p.Workers += n
	case lifecycle.Schedule.Name:
		p.Schedules += n
	case lifecycle.Token.Name:
		p.Tokens += n
	case lifecycle.Webhook.Name:
		p.Webhooks += n
	case lifecycle.QueuePause.Name:
		p.Pauses += n
	}
}

// Add adds what another one has removed.
func (p *Pruning) Add(q *Pruning) {
	p.Jobs, p.Steps, p.Workers, p.Schedules = p.Jobs+q.Jobs, p.Steps+q.Steps, p.Workers+q.Workers, p.Schedules+q.Schedules
	p.Tokens, p.Pauses, p.Webhooks, p.Entries = p.Tokens+q.Tokens, p.Pauses+q.Pauses, p.Webhooks+q.Webhooks, p.Entries+q.Entries
	p.Busy = append(p.Busy, q.Busy...)
}

// A Prospect says what would happen to the entities of a kind.
type Prospect struct {
	Kind   string
	Goes   int64 // ended before the time, and would be removed
	Open   int64 // created before the time, and not ended
	Needed int64 // ended before the time, and needed by what has not ended
	Beside int64 // could be removed if others of the same day could
}
