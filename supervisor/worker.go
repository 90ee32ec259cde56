package supervisor

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// A Worker is the user's knowledge of one service (S1): how to observe it, what is desired
// of it, and the states that it goes through. S is its specification, O what is observed,
// D what is desired. Observed and desired values must not be modified once they were
// returned. O may have a method Equal(O) bool, which reports whether two observations are
// the same.
//
// The supervisor calls CollectObservedState in goroutines of their own, one after another
// unless one ignores its context, and the other methods from several goroutines. None is
// called with a lock held.
type Worker[S, O, D any] interface {
	// CollectObservedState observes the service and changes nothing. Its context is
	// cancelled after Collector.Timeout.
	CollectObservedState(ctx context.Context, desired D) (O, error)

	// DeriveDesiredState returns what a specification asks for. It is pure. Its error is
	// returned by Add or SetSpec, and the old desired state stays.
	DeriveDesiredState(spec S) (D, error)

	// GetInitialState returns the state of a new service. Its Phase is stopped.
	GetInitialState() State[O, D]

	// States returns all states, each once. A journal keeps names, and finds the states
	// here after a restart.
	States() []State[O, D]
}

// A State is one of the user's states. States are identified by String, never compared as
// values. [NewState] makes one from a function.
type State[O, D any] interface {
	// Next decides, from the snapshot alone: no clock, no I/O, no waiting. It is called
	// again whenever something that it sees has changed. Add, too, asks each state what it
	// decides at a shutdown, and refuses a worker whose decision is not legal then.
	Next(s Snapshot[O, D]) Decision[O, D]

	// String returns the name: stored, shown and compared.
	String() string

	// Reason says, for people, why the service is in this state. It may be empty.
	Reason() string

	// Phase is the state of the table in package lifecycle (ServiceStopped and so on)
	// that this one stands for (S15). A decision moves by one row of that table at
	// most: from trying_to_start and degraded, for example, only trying_to_stop leads
	// to stopped.
	Phase() machine.State
}

// NewState returns a state that calls a function. It has no reason of its own: the
// reason of the decision that leads to it is shown.
func NewState[O, D any](name string, phase machine.State, next func(Snapshot[O, D]) Decision[O, D]) State[O, D] {
	return funcState[O, D]{name, phase, next}
}

type funcState[O, D any] struct {
	name  string
	phase machine.State
	next  func(Snapshot[O, D]) Decision[O, D]
}

func (s funcState[O, D]) String() string                       { return s.name }
func (s funcState[O, D]) Reason() string                       { return "" }
func (s funcState[O, D]) Phase() machine.State                 { return s.phase }
func (s funcState[O, D]) Next(n Snapshot[O, D]) Decision[O, D] { return s.next(n) }

// A Snapshot is everything that Next sees.
type Snapshot[O, D any] struct {
	Facts
	Observed O // the zero value while Seen.Sequence is 0
	Desired  D
}

// Facts are the part of a snapshot that does not depend on the worker's types.
type Facts struct {
	Identity   // of the service
	Now        time.Time
	State      string        // its name
	Phase      machine.State // of State
	Since      time.Time     // when the state was entered
	Generation uint64        // of the desired state; incremented by each new one, and by a shutdown
	Seen       Observation
	Action     ActionStatus
	Shutdown   bool // the service has to come to rest, since it is being stopped, removed or restarted

	Dependencies []Peer // those of Options.DependsOn, in their order; see DependenciesRun
	Children     []Peer // the services that name this one as their parent, by id
}

// DependenciesRun reports whether every dependency is running or degraded.
func (f Facts) DependenciesRun() bool { return len(f.missing()) == 0 }

// missing returns the ids of the dependencies that do not run.
func (f Facts) missing() (ids []string) {
	for _, d := range f.Dependencies {
		if !d.Runs() {
			ids = append(ids, d.ID)
		}
	}
	return ids
}

// An Identity identifies a service. ID has 1 to 200 bytes of letters, digits and . _ - /
// and is unique in a supervisor. Parent is the id of another service or empty: a parent is
// stopped after its children and sees them in its snapshot. Type is a label for metrics.
type Identity struct {
	ID     string
	Parent string
	Type   string
}

// A Peer is another service, as a snapshot shows it.
type Peer struct {
	ID    string
	State string
	Phase machine.State // empty when the supervisor has no such service
}

// An Observation describes the observed state in a snapshot.
type Observation struct {
	Sequence uint64 // of the collection, from 1; 0 while there is no observation
	Started  time.Time
	Ended    time.Time
	Fresh    bool   // begun after the last action ended (S4); false while one runs
	Failures int    // of collections since
	Error    string // of the last of them
}

// A Signal is a request of Next to the supervisor (S11).
type Signal int

// The signals.
const (
	SignalNone         Signal = iota
	SignalNeedsRemoval        // stop, then remove the service and all that depends on it
	SignalNeedsRestart        // stop within Options.StopTimeout, then begin again in the initial state, with the same Worker and its fields; see Options.Restarts
	SignalEscalate            // a person has to act: Hooks.Escalated is called
)

// A Decision is the result of Next. The zero value means: stay, and wait.
//
// State and Action are one commit (S3). While another action holds the slot, an Action is
// refused with a [BusyError], and the State with it; one with the key of the running
// action is ignored.
type Decision[O, D any] struct {
	State        State[O, D] // nil: stay
	Signal       Signal
	Action       Action        // nil: none
	Cancel       bool          // cancel the running action
	RequeueAfter time.Duration // call Next again after this time, even if nothing changes; 0: only when something changes
	Reason       string        // for people and the journal; empty: the state's
	Actor        string        // who asked for it, in the journal; empty: Config.Actor
}

// Stay returns the decision to change nothing, with its reason.
func Stay[O, D any](reason string) Decision[O, D] { return Decision[O, D]{Reason: reason} }

// Go returns the decision to change to another state.
func Go[O, D any](s State[O, D]) Decision[O, D] { return Decision[O, D]{State: s} }

// Runs reports whether the peer is running or degraded.
func (p Peer) Runs() bool {
	return p.Phase == lifecycle.ServiceRunning || p.Phase == lifecycle.ServiceDegraded
}
