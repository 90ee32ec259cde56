package pawl

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// An Event is a move of a job, a step, a worker, a schedule, a pause of a queue, a token or a
// webhook that was committed, or a notice about the stream of events. JSON shows what Type is
// about, and not the fields Type, Token and Gap.
//
// An event may arrive more than once: drop an (Entity, Sequence) that you have seen. Those of
// one entity arrive by Sequence. No order is promised between entities.
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
	Machine   string         `json:"machine"`          // one of AuditMachines
	JobID     string         `json:"job_id,omitempty"` // of a job or a step
	Step      string         `json:"step,omitempty"`   // key of a step
	Name      string         `json:"name"`             // of the workflow, the worker, the schedule, the queue, the token or the webhook
	Workspace string         `json:"workspace_id"`     // empty: a token, or a webhook of all workspaces
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

// An EventFilter selects events. The zero value selects all of all workspaces, from now on.
type EventFilter struct {
	Workspace string          // empty: of all
	Job       string          // id of a job: only it and its steps
	Machines  []string        // only of these, of AuditMachines; none: of all
	Events    []machine.Event // only these, such as success; none: all
	Topics    []string        // only what one of these is about; none: all. See Topics
	After     string          // Token of an event: only what follows; empty: from now on, after an EventHello

	// AllWorkspaces says that an empty Workspace is not that of a client. Tokens belong to none.
	AllWorkspaces bool

	within []string // see Within
	seen   []string // see Seeing
}

// Topics are what EventFilter.Topics may have, beside "job:" and the id of a job, for it and its
// steps. jobs, workers, schedules, tokens and webhooks are the moves of these. queues are moves of steps into and
// out of queues, or to and from workers, and pauses of queues. approvals are moves of steps that begin or end to wait
// for something other than a worker: approvals are among them. machines is everything.
var Topics = []string{"jobs", "workers", "schedules", "queues", "approvals", "machines", "tokens", "webhooks"}

// about reports whether an event is about a topic.
func (e *Event) about(topic string) bool {
	from := machine.State("")
	if e.From != nil {
		from = *e.From
	}
	step := e.Machine == lifecycle.Step.Name && from != e.To
	switch topic {
	case "jobs", "workers", "schedules", "tokens", "webhooks":
		return e.Machine+"s" == topic
	case "queues":
		return e.Machine == lifecycle.QueuePause.Name || step && (from == lifecycle.StepEnqueued || e.To == lifecycle.StepEnqueued || from == lifecycle.StepInProgress)
	case "approvals":
		return step && (from == lifecycle.StepInProgress || e.To == lifecycle.StepInProgress) && !strings.HasPrefix(e.Actor, WorkerPrefix)
	case "machines":
		return true
	}
	return e.JobID != "" && strings.TrimPrefix(topic, topicJob) == e.JobID
}

// topicJob begins the topic of one job.
const topicJob = "job:"

// Within returns the filter, restricted to some workspaces.
func (f EventFilter) Within(workspaces []string) EventFilter {
	f.within = workspaces
	return f
}

// Seeing returns the filter, with the machines that its user may see. Moves of tokens and webhooks
// are selected only if these are among them.
func (f EventFilter) Seeing(machines []string) EventFilter {
	f.seen = append([]string{}, machines...)
	return f
}

// Bounded reports whether Seeing was called.
func (f *EventFilter) Bounded() bool { return f.seen != nil }

// OfAdmins reports whether only admins see moves of a machine.
func OfAdmins(name string) bool {
	return name == lifecycle.Token.Name || name == lifecycle.Webhook.Name
}

// Check returns an error of kind Invalid that names the first value that selects nothing.
func (f *EventFilter) Check() error {
	if f.Job != "" {
		if _, err := ParseID(JobPrefix, f.Job); err != nil {
			return err
		}
	}
	for _, topic := range f.Topics {
		if slices.Contains(Topics, topic) {
			continue
		}
		if id, is := strings.CutPrefix(topic, topicJob); !is || !isJob(id) {
			return Errorf(Invalid, "topic %.100q: want %s or job:ID", topic, strings.Join(Topics, ", "))
		}
	}
	for _, name := range f.Machines {
		if !slices.Contains(AuditMachines, name) {
			return Errorf(Invalid, "machine %q: want %s", name, strings.Join(AuditMachines, ", "))
		}
	}
	for _, event := range f.Events {
		has := func(m *machine.Machine) bool {
			return slices.Contains(AuditMachines, m.Name) && (len(f.Machines) == 0 || slices.Contains(f.Machines, m.Name)) && (m.Create == event || slices.Contains(m.Events(), event))
		}
		if !slices.ContainsFunc(lifecycle.All(), has) {
			return &Error{Kind: Invalid, Message: fmt.Sprintf("event %q: no machine that is selected has it", event), Hint: "list the events of one with: pawl machine show NAME"}
		}
	}
	return nil
}

func isJob(id string) bool {
	_, err := ParseID(JobPrefix, id)
	return err == nil
}

// Jobs returns the ids of the jobs that the filter names.
func (f *EventFilter) Jobs() (ids []string) {
	if f.Job != "" {
		ids = append(ids, f.Job)
	}
	for _, topic := range f.Topics {
		if id, is := strings.CutPrefix(topic, topicJob); is {
			ids = append(ids, id)
		}
	}
	return ids
}

// Admits reports whether the filter selects an EventTransition.
func (f *EventFilter) Admits(e *Event) bool {
	return (!OfAdmins(e.Machine) || slices.Contains(f.seen, e.Machine)) && (f.Workspace == "" || f.Workspace == e.Workspace) && (len(f.within) == 0 || slices.Contains(f.within, e.Workspace)) && (f.Job == "" || f.Job == e.JobID) &&
		(len(f.Machines) == 0 || slices.Contains(f.Machines, e.Machine)) && (len(f.Events) == 0 || slices.Contains(f.Events, e.Event)) &&
		(len(f.Topics) == 0 || slices.ContainsFunc(f.Topics, e.about))
}
