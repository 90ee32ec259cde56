// Package control lets a process be asked about its services, and be told what to do
// with them, through a socket that only its own user reaches: "pawl service" asks,
// "pawl supervise" and "pawl server" answer.
package control

import (
	"context"
	"io"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/machine"
)

// A Host is a process that has services. Its errors are of package pawl's kinds.
type Host interface {
	// Services answers all services, by id.
	Services() []Service

	// Service answers one, or an error of kind NotFound that names the nearest.
	Service(id string) (Service, error)

	// History answers the moves of a service, oldest first.
	History(ctx context.Context, id string) ([]pawl.Transition, error)

	// Order has a service started, stopped or restarted. It returns when that is
	// accepted; Service shows what becomes of it.
	Order(ctx context.Context, id string, o Order) error

	// Logs writes what a service has printed. With Follow it goes on until ctx ends.
	Logs(ctx context.Context, id string, q LogQuery, w io.Writer) error

	// Reload reads the file of the services again, and answers what has changed.
	Reload(ctx context.Context, c pawl.Change) ([]Difference, error)
}

// A Service is how a service is, as text and JSON show it.
type Service struct {
	ID     string        `json:"id"`
	Host   string        `json:"host"`  // the name of the process that has it
	State  string        `json:"state"` // its own: waiting, starting, running, ...
	Phase  machine.State `json:"phase"` // the state of the table "service"
	Since  time.Time     `json:"since"`
	Reason string        `json:"reason,omitempty"` // of the state
	Why    []string      `json:"why"`              // why it is not running, or not ready; empty when all is well
	Wanted string        `json:"wanted"`           // running or stopped
	By     string        `json:"by,omitempty"`     // who wanted that, if it was an order

	PID       int       `json:"pid,omitempty"`
	StartedAt time.Time `json:"started_at,omitzero"` // of the running program, or of the last one
	Starts    int       `json:"starts"`              // since the host was started
	Exit      string    `json:"exit,omitempty"`      // how the last one ended: "exit code 1", "killed by SIGKILL"
	Needs     []string  `json:"needs,omitempty"`     // "db ready"
	Probes    []Probe   `json:"probes,omitempty"`
	Status    string    `json:"status,omitempty"` // what the service says of itself
	Action    string    `json:"action,omitempty"` // that runs
	Log       string    `json:"log,omitempty"`    // the file
	Escalated bool      `json:"escalated,omitempty"`

	Unrecorded *Unrecorded `json:"unrecorded,omitempty"` // nil: its history lacks nothing
}

// Unrecorded is what the history of a service lacks since its host was started, because
// it could not be written.
type Unrecorded struct {
	Moves   int    `json:"moves"`              // that are written as soon as that is possible
	LeftOut int    `json:"left_out,omitempty"` // that never will be
	Error   string `json:"error,omitempty"`    // why not yet
}

// A Probe is about a probe of a service.
type Probe struct {
	Kind   string    `json:"kind"` // ready or alive
	What   string    `json:"what"` // "GET http://127.0.0.1:8080/healthz"
	OK     bool      `json:"ok"`
	At     time.Time `json:"at,omitzero"`
	Error  string    `json:"error,omitempty"`
	Streak int       `json:"streak"` // results of this kind in a row
}

// A Verb is an order.
type Verb string

// The verbs.
const (
	Start   Verb = "start"
	Stop    Verb = "stop"
	Restart Verb = "restart"
)

// An Order says what is to be done with a service, by whom and why.
type Order struct {
	Verb Verb `json:"verb"`
	pawl.Change
}

// A LogQuery says which lines of a service are wanted.
type LogQuery struct {
	Tail   int  `json:"tail"` // the last so many lines; -1: all that is kept
	Follow bool `json:"follow"`
}

// A Difference is what a reload does to one service.
type Difference struct {
	ID   string   `json:"id"`
	What string   `json:"what"`           // added, changed or removed
	Keys []string `json:"keys,omitempty"` // changed: which

	Restarts bool `json:"restarts,omitempty"` // changed: its program is started again
}

// String says it in words.
func (d Difference) String() string {
	text := d.ID + " " + d.What
	if len(d.Keys) > 0 {
		text += " (" + strings.Join(d.Keys, ", ") + ")"
	}
	if d.Restarts {
		text += ": it is started again"
	}
	return text
}
