package pawl

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/machine"
)

// A Submission is a request for one job.
type Submission struct {
	Workspace   string          // empty: default
	Definition  []byte          // canonical JSON of the workflow
	Inputs      json.RawMessage // object: checked against the definition, whose defaults are added; empty: none
	Description string
	Dir         string // the folder that commands start in, absolute; empty: one of the job, which the worker makes
	Actor       string // who asks, for the audit trail
	RequestID   string // idempotency key, as in a Change; empty: none (J8)
	Private     bool   // only the process that submits it runs it
	Priority    int    // MinPriority to MaxPriority; each point is worth a minute of waiting
	Version     int    // of the registered workflow that the definition is, or 0

	// Traceparent is the place in a trace that the job belongs to, as W3C Trace Context has it.
	// Another one makes no other request. An invalid one is ignored.
	Traceparent string

	// Reference is how the workflow was named, NAME or NAME@VERSION; empty: by Definition. With a
	// RequestID a repeated request is the same, whatever has been registered since.
	Reference string

	// Parent is the job of the same workspace below which the job is, or the zero id. Canceling
	// a job cancels those below it. It must not have ended.
	Parent ID

	Depth       *int            // that the job has to have: 0, or that of its parent and 1; nil: whatever it is
	WorkerCount int             // at most this many steps at once, 1 to workflow.MaxWorkers; 0: as the workflow says
	Metadata    json.RawMessage // object of at most MaxMetadata bytes, kept with the job; empty: none
}

// MaxMetadata is the limit of the bytes of a job's metadata.
const MaxMetadata = 16 << 10

// MaxMetadataFilter is how many members of metadata a JobQuery selects by, at most.
const MaxMetadataFilter = 8

// A Submitted is the reply to a Submission.
type Submitted struct {
	ID       ID
	Receipt  Receipt // of the job, unless there is none
	Replayed bool    // the reply was stored before
	Err      error   // why there is no job
}

// DefaultWorkspace is the workspace of requests that name none.
const DefaultWorkspace = "default"

// A JobView is a job as JSON shows it. Times are RFC 3339 in UTC with
// microseconds, or null.
type JobView struct {
	ID             string                `json:"id"`
	Workflow       string                `json:"workflow"`
	DefinitionHash string                `json:"definition_hash"`
	Workspace      string                `json:"workspace_id"`
	Description    string                `json:"task_description"`
	Status         machine.State         `json:"status"`
	Version        int                   `json:"version,omitempty"` // of the registered workflow
	Ending         machine.State         `json:"ending,omitempty"`  // how it is going to end, once that is settled
	Inputs         json.RawMessage       `json:"inputs"`
	Output         json.RawMessage       `json:"output"`
	Error          *Failure              `json:"error"`
	ParentJobID    *string               `json:"parent_job_id"`
	ChildJobs      []string              `json:"child_jobs"`
	Continues      *string               `json:"continues"`
	Depth          int                   `json:"depth"`
	WorkerCount    int                   `json:"worker_count"`
	Paused         bool                  `json:"paused"`
	Redacted       bool                  `json:"redacted,omitempty"` // inputs, output, error and metadata were withheld, and those of all steps
	Metadata       json.RawMessage       `json:"metadata"`
	StepCounts     map[machine.State]int `json:"step_counts"`
	CreatedAt      Timestamp             `json:"created_at"`
	UpdatedAt      Timestamp             `json:"updated_at"`
	StartedAt      Timestamp             `json:"started_at"`
	CompletedAt    Timestamp             `json:"completed_at"`
	Steps          []StepView            `json:"steps,omitempty"`
	StateHistory   []Transition          `json:"state_history,omitempty"`
	HistoryOmitted int64                 `json:"state_history_omitted,omitempty"` // earlier moves that state_history leaves out: it has the last 1,000
	AsOf           Timestamp             `json:"as_of,omitzero"`                  // of a job as it was: when

	// Sequence rises with every move of the job and of its steps. Where the steps fill several
	// pages, those of later pages may be newer. It is 0 in a list, and of a job as it was.
	Sequence int64 `json:"-"`
}

// A StepView is a step as JSON shows it.
type StepView struct {
	ID          string          `json:"id"`
	Key         string          `json:"key"`
	Status      machine.State   `json:"status"`
	Hook        string          `json:"hook,omitempty"` // failure or always, of a hook
	Attempts    int             `json:"attempts"`
	Claims      int             `json:"claims"`
	WorkerID    *string         `json:"worker_id"`
	Instances   *Instances      `json:"instances,omitempty"`
	Wait        *Wait           `json:"wait,omitempty"` // of a step that waits for something other than a worker
	Output      json.RawMessage `json:"output"`
	Error       *Failure        `json:"error"`
	Omitted     bool            `json:"omitted,omitempty"`   // output, error and wait are left out: those of the steps before have 16 MiB already
	Redacted    bool            `json:"redacted,omitempty"`  // output and error were withheld
	NotBefore   Timestamp       `json:"not_before,omitzero"` // of a step that waits for its next attempt
	StartedAt   Timestamp       `json:"started_at"`
	CompletedAt Timestamp       `json:"completed_at"`

	Ord   Ord `json:"-"`
	Claim int `json:"-"`
}

// Instances is the progress of a fan-out.
type Instances struct {
	Total int `json:"total"`
	Made  int `json:"made"`
	Live  int `json:"live"` // made and not ended
}

// A Transition is one row of an entity's history.
type Transition struct {
	Entity    string          `json:"entity,omitempty"`
	Step      string          `json:"step,omitempty"` // the step's key; empty for the job itself
	Sequence  int64           `json:"sequence"`
	From      *machine.State  `json:"from"`
	To        machine.State   `json:"to"`
	Event     machine.Event   `json:"event"`
	Reason    string          `json:"reason"`
	Actor     string          `json:"actor"`
	RequestID string          `json:"request_id,omitempty"`
	Metadata  json.RawMessage `json:"metadata,omitempty"`
	At        Timestamp       `json:"at"`
	Refused   bool            `json:"refused,omitempty"`  // a fact that came too late and was not applied
	Redacted  bool            `json:"redacted,omitempty"` // payload of it was withheld
	Took      *Duration       `json:"took,omitempty"`     // how long the state lasted that it leaves, if it leaves one
}

// TransitionOf returns an audit entry as a row of the history.
func TransitionOf(e *audit.Entry) Transition {
	t := Transition{Entity: e.Entity, Sequence: e.Sequence, To: e.To, Event: e.Event, Reason: e.Reason,
		Actor: e.Actor, RequestID: e.RequestID, Metadata: e.Metadata, At: Timestamp(e.At), Redacted: e.Redacted()}
	if e.From != "" {
		t.From = &e.From
	}
	if t.Redacted && t.Reason == "" {
		t.Reason = "redacted"
	}
	if s := e.SealOf(audit.FieldFailure); s != nil {
		t.Metadata = withFailure(e.Metadata, s.Payload)
		var f Failure
		if t.Reason == "" && json.Unmarshal(s.Payload, &f) == nil {
			t.Reason = f.Message
		}
	}
	return t
}

// withFailure returns metadata with the failure that is kept beside the entry, or with
// what is left of it.
func withFailure(metadata, failure json.RawMessage) json.RawMessage {
	if failure == nil {
		failure = json.RawMessage(`"redacted"`)
	}
	if len(metadata) <= len("{}") {
		return slices.Concat([]byte(`{"failure":`), failure, []byte("}"))
	}
	return slices.Concat(metadata[:len(metadata)-1], []byte(`,"failure":`), failure, []byte("}"))
}

// A WorkerView is a worker as JSON shows it.
type WorkerView struct {
	ID           string          `json:"id"`
	Workspace    string          `json:"workspace_id"`
	Name         string          `json:"name"`
	Host         string          `json:"host"`
	PID          int             `json:"pid"`
	Status       machine.State   `json:"status"`
	Capacity     int             `json:"capacity"`
	Running      int             `json:"running"`  // steps in progress
	Handlers     []string        `json:"handlers"` // queue/handler
	Metadata     json.RawMessage `json:"metadata"`
	CreatedAt    Timestamp       `json:"created_at"`
	UpdatedAt    Timestamp       `json:"updated_at"`
	StateHistory []Transition    `json:"state_history,omitempty"`

	HistoryOmitted int64 `json:"state_history_omitted,omitempty"` // as of a job
}

// A WorkerQuery selects workers for a list, newest first. The zero value selects
// the newest 50 that live, of all workspaces.
type WorkerQuery struct {
	Workspace string
	Statuses  []machine.State // none: those that live
	Before    string          // id of a worker: only older ones
	Limit     int             // 1 to 1000; 0 is 50
}

// A Timestamp is a time in microseconds since the Unix epoch that JSON shows as
// RFC 3339 in UTC with microseconds; 0 is null.
type Timestamp int64

// IsZero reports whether there is no time.
func (t Timestamp) IsZero() bool { return t == 0 }

// Time returns the time in UTC.
func (t Timestamp) Time() time.Time { return Time(int64(t)) }

const timestampLayout = "2006-01-02T15:04:05.000000Z"

func (t Timestamp) String() string {
	if t == 0 {
		return ""
	}
	return t.Time().Format(timestampLayout)
}

// MarshalJSON writes null or the time.
func (t Timestamp) MarshalJSON() ([]byte, error) {
	if t == 0 {
		return []byte("null"), nil
	}
	return []byte(`"` + t.String() + `"`), nil
}

// UnmarshalJSON reads null or a time of RFC 3339.
func (t *Timestamp) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*t = 0
		return nil
	}
	at, err := time.Parse(`"`+time.RFC3339Nano+`"`, string(b))
	if err != nil {
		return err
	}
	*t = Timestamp(at.UnixMicro())
	return nil
}

// A JobQuery selects jobs for a list, newest first. The zero value selects the
// newest 50 of all workspaces.
type JobQuery struct {
	Workspace     string
	Statuses      []machine.State
	TimedOut      bool // those that were CANCELED by their timeout, too
	Workflow      string
	Depth         *int      // only jobs of this depth; nil: of any
	Parent        string    // id of a job: only its children
	Continues     string    // id of a job: only those that continue it
	CreatedAfter  Timestamp // only jobs made at this time or later
	CreatedBefore Timestamp // only jobs made before this time
	Schedule      string    // name of a schedule of the workspace, or of the default one: only jobs that it made
	Text          string    // only jobs whose workflow or description contains it, in any case of ASCII letters

	// Metadata selects only jobs whose metadata has each of these members at its top level: as a
	// string, or as another value whose compact JSON it is. At most MaxMetadataFilter.
	Metadata map[string]string

	// Stuck selects only unfinished jobs in which nothing has moved for this long though it
	// should: those that wait for a person, a time, a signal, a child job or a slot are left out,
	// as are paused ones and those of which a step runs. 0: any jobs.
	Stuck time.Duration

	Before string // id of a job: only older ones
	Limit  int    // 1 to 1000; 0 is 50

	// Summary leaves out inputs, outputs, errors and metadata: these are not read.
	Summary bool
}

// A StepQuery selects steps of one job for a list, in the order of the workflow. The zero
// value selects the first 50.
type StepQuery struct {
	Statuses []machine.State
	Key      string // of one step: load, or load[3]
	Node     string // only this node and its instances
	After    string // id of a step: only those behind it
	Limit    int    // 1 to 1000; 0 is 50

	// Summary leaves out outputs, errors and what steps wait for: these are not read.
	Summary bool
}

// A Change says who requests an operation, and why.
//
// A request id makes the operation idempotent (J8): for an hour the same request returns
// the same result, be it that it was refused, and another request with that id is an
// error of kind Invalid. It is of 1 to 255 visible characters of ASCII; empty means none.
// A request whose first copy is still being carried out is an error of kind Conflict, and
// may be given again, as after a failure of the database.
//
// With a Version the change is made only to that version of what it names: the Version of a
// schedule or a quota, or of the pause of a queue. Otherwise the error is of kind Conflict.
type Change struct {
	Actor     string
	Reason    string
	RequestID string
	Version   int64 // 0: any
}

// A LogLine is a piece of the log of one attempt, as it was printed.
type LogLine struct {
	Step   string    `json:"step"` // the step's key
	Claim  int       `json:"claim"`
	Stream string    `json:"stream"` // stdout, stderr, or pawl for messages of Pawl itself
	At     Timestamp `json:"at"`
	Offset int64     `json:"offset"`
	Text   string    `json:"text"`
}

// A HistoryQuery selects rows of a history for a list, oldest first. The zero value selects
// the first 50.
type HistoryQuery struct {
	Step  string // of one step of a job, by its key
	After string // only what is behind the place at which the page before has ended
	Limit int    // 1 to 1000; 0 is 50
}

// A LogQuery selects pieces of the log of a job for a list. The zero value selects the
// first 50.
type LogQuery struct {
	Step   string // of one step, by its key
	Stream string // of one stream
	After  string // only what is behind the place at which the page before has ended
	Limit  int    // 1 to 1000; 0 is 50
}
