package pawl

import "github.com/pawl-dev/pawl/machine"

// An Event is a move of a job, a step, a worker or a schedule that was committed, or a notice
// about the stream of events. JSON shows what Type is about, and not the fields Type, Token and
// Gap.
//
// An event may arrive more than once: drop a (Entity, Sequence) that you have seen. Those of
// one entity arrive by Sequence; there is no other order between entities than that of causes:
// an event is not before what it follows from.
type Event struct {
	Type EventType `json:"-"`

	// Token is a place to go on from: behind this event and all before it. Only some events
	// have one.
	Token string `json:"-"`

	// Gap is why events are missing, of an EventGap: "old" (the token is older than an hour),
	// "other" (of another database, or of one that was restored), "unreadable" (no token), or
	// "behind" (the reader was too slow). Read the state again.
	Gap string `json:"-"`

	Entity    string         `json:"entity"`           // public id
	Machine   string         `json:"machine"`          // job, step, worker or schedule
	JobID     string         `json:"job_id,omitempty"` // of a job or a step
	Step      string         `json:"step,omitempty"`   // key of a step
	Name      string         `json:"name"`             // of the workflow, the worker or the schedule
	Workspace string         `json:"workspace_id"`
	Sequence  int64          `json:"sequence"`
	From      *machine.State `json:"from"` // null for the first event of an entity
	To        machine.State  `json:"to"`
	Event     machine.Event  `json:"event"`
	Reason    string         `json:"reason,omitempty"`
	Actor     string         `json:"actor"`
	RequestID string         `json:"request_id,omitempty"`
	At        Timestamp      `json:"at"`
}

// An EventType says what an Event is.
type EventType string

// The types of events.
const (
	EventTransition EventType = "transition" // a move
	EventHello      EventType = "hello"      // the first event of a stream that begins now; it has a Token and nothing else
	EventGap        EventType = "gap"        // events are missing; it has Gap and Token
)

// An EventFilter selects events. The zero value is all of all workspaces from now on.
type EventFilter struct {
	Workspace string
	Job       string        // id of a job: it and its steps
	Machine   string        // job, step, worker or schedule
	Event     machine.Event // such as complete
	After     string        // Token of an event; empty: now
}
