package pawl

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// A Move is a row of the audit trail, with what it is about.
type Move struct {
	Transition
	Machine   string `json:"machine"`
	JobID     string `json:"job_id,omitempty"`       // of a job or a step
	Name      string `json:"name"`                   // of the workflow, the worker, the schedule, the token, the webhook or the queue
	Workspace string `json:"workspace_id,omitempty"` // a token has none, nor has a webhook of all workspaces
}

// AuditMachines are the names of the machines whose moves are in the audit trail of a database.
var AuditMachines = []string{lifecycle.Job.Name, lifecycle.Step.Name, lifecycle.Worker.Name, lifecycle.Schedule.Name,
	lifecycle.QueuePause.Name, lifecycle.Token.Name, lifecycle.Webhook.Name}

// An AuditQuery selects moves. The zero value selects the newest 50 of everything: on a database
// that writes more than about 600 rows a second, 50 of the last ten seconds, of which a later page
// may have newer ones.
type AuditQuery struct {
	Entity     string        // id of a job, step, worker, schedule, pause of a queue, token or webhook: only its moves, oldest first; empty: of all, newest first
	Machines   []string      // only of these, of AuditMachines; none: of all
	Actor      string        // only by this actor
	Event      machine.Event // only of this event
	State      machine.State // only those that lead to this state
	Workspaces []string      // only of these; none: of all, and what belongs to no workspace
	From       Timestamp     // only at this time or later
	To         Timestamp     // only before this time; 0: no bound
	After      string        // only what is behind the place at which the page before has ended
	Limit      int           // 1 to 1000; 0 is 50
}

// Check returns an error of kind Invalid that names the first value that selects nothing.
func (q *AuditQuery) Check() error {
	for _, name := range q.Machines {
		if !slices.Contains(AuditMachines, name) {
			return Errorf(Invalid, "machine %.100q: want %s", name, strings.Join(AuditMachines, ", "))
		}
	}
	machines := q.Machines
	if len(machines) == 0 {
		machines = AuditMachines
	}
	named := func(names func(*machine.Machine) bool) bool {
		return slices.ContainsFunc(machines, func(name string) bool { return names(lifecycle.ByName(name)) })
	}
	unknown := func(message, name string) error {
		return &Error{Kind: Invalid, Message: fmt.Sprintf(message, name, strings.Join(machines, ", ")), Hint: `"pawl machine show" and GET /api/machines list them`}
	}
	switch {
	case q.Event != "" && !named(func(m *machine.Machine) bool { return m.Create == q.Event || slices.Contains(m.Events(), q.Event) }):
		return unknown("event %.100q: want an event of %s", string(q.Event))
	case q.State != "" && !named(func(m *machine.Machine) bool { return m.Has(q.State) }):
		return unknown("state %.100q: want a state of %s", string(q.State))
	}
	if q.To != 0 && q.From >= q.To {
		return &Error{Kind: Invalid, Message: fmt.Sprintf("to %s: want a time after from, which is %s", q.To, q.From)}
	}
	return nil
}

// Admits reports whether the query selects a move by its actor, event, state and time.
func (q *AuditQuery) Admits(t *Transition) bool {
	return (q.Actor == "" || q.Actor == t.Actor) && (q.Event == "" || q.Event == t.Event) && (q.State == "" || q.State == t.To) && t.At >= q.From && (q.To == 0 || t.At < q.To)
}
