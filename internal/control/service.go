// Package control lets "pawl service" list and control the services of a running process,
// over a Unix socket that only the process's own user can use. [Listener.Serve] is the
// side of "pawl supervise" and "pawl server", with their [Host]; [Client] is the other.
//
// [ServicesOf] returns the services of several hosts, [Match] those that a text names.
// [Await] waits until orders that were accepted have had their effect, as [Judge] judges it.
package control

import (
	"context"
	"io"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/machine"
)

// A Host is a process that runs services. Its errors have kinds of package pawl.
type Host interface {
	// Services returns all services, by id.
	Services() []Service

	// Service returns one, or an error of kind NotFound that suggests the nearest.
	Service(id string) (Service, error)

	// History returns the transitions of a service, oldest first.
	History(ctx context.Context, id string) ([]pawl.Transition, error)

	// Order starts, stops or restarts a service. It returns when the order is accepted;
	// Service shows what follows.
	Order(ctx context.Context, id string, o Order) error

	// Check returns nil if an order would have an effect now, and otherwise an error that says
	// why not. It changes nothing.
	Check(id string, v Verb) error

	// Logs writes what a service has printed. With Follow it continues until ctx ends.
	Logs(ctx context.Context, id string, q LogQuery, w io.Writer) error

	// Reload reads the file of the services again, and returns what has changed.
	Reload(ctx context.Context, c pawl.Change) ([]Difference, error)
}

// A Service is the view of a service, in text and JSON.
type Service struct {
	ID     string        `json:"id"`
	Host   string        `json:"host"`  // the name of the process that runs it
	State  string        `json:"state"` // waiting, starting, running, ...
	Phase  machine.State `json:"phase"` // the state of the table "service"
	Since  time.Time     `json:"since"`
	Reason string        `json:"reason,omitempty"` // of the state
	Why    []string      `json:"why"`              // why it is not running, or not ready; empty when all is well
	Wanted string        `json:"wanted"`           // running or stopped
	By     string        `json:"by,omitempty"`     // who ordered that; empty: it is the default

	PID       int       `json:"pid,omitempty"`
	StartedAt time.Time `json:"started_at,omitzero"` // of the running program, or of the last one
	Starts    int       `json:"starts"`              // since the host was started
	Exit      string    `json:"exit,omitempty"`      // how the last one ended: "exit code 1", "killed by SIGKILL"
	Needs     []string  `json:"needs,omitempty"`     // "db ready"
	Probes    []Probe   `json:"probes,omitempty"`
	Status    string    `json:"status,omitempty"` // as the service reports it
	Action    string    `json:"action,omitempty"` // the running one
	Log       string    `json:"log,omitempty"`    // the file
	Escalated bool      `json:"escalated,omitempty"`
	Startable bool      `json:"startable,omitempty"` // it rests until it is ordered to start

	Unrecorded *Unrecorded `json:"unrecorded,omitempty"` // nil: its history is complete
}

// Unrecorded is what is missing in the history of a service since its host was started,
// because it could not be written.
type Unrecorded struct {
	Moves   int    `json:"moves"`              // transitions that will be written as soon as possible
	LeftOut int    `json:"left_out,omitempty"` // transitions that will never be written
	Error   string `json:"error,omitempty"`    // why they were not written yet
}

// A Probe is a probe of a service and its last result.
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

// Verbs are all verbs.
var Verbs = []Verb{Start, Stop, Restart}

// An Offer is a verb, and whether an order of it would have an effect now.
type Offer struct {
	Verb   Verb   `json:"verb"`
	OK     bool   `json:"ok"`
	WhyNot string `json:"why_not,omitempty"`
}

// An Order is an order for a service, by an actor and for a reason.
type Order struct {
	Verb Verb `json:"verb"`
	pawl.Change
}

// A LogQuery selects lines of a log.
type LogQuery struct {
	Tail   int  `json:"tail"` // how many of the last lines; -1: all
	Follow bool `json:"follow"`
}

// A Difference is the effect of a reload on one service.
type Difference struct {
	ID   string   `json:"id"`
	What string   `json:"what"`           // added, changed or removed
	Keys []string `json:"keys,omitempty"` // changed: which

	Restarts bool `json:"restarts,omitempty"` // changed: its program is started again
}

// String describes it for people.
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

// States of a service that its phase does not distinguish.
const (
	Starting  = "starting"  // it runs, and is not ready
	Running   = "running"   // it runs, and is ready
	Completed = "completed" // it has done its work
)
