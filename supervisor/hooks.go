package supervisor

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/machine"
)

// Hooks are told what happens, for metrics and traces (S12). A hook that is nil is
// not called. None is called with a lock held; Action is called in the goroutine of
// the attempt, the others in the loop of a shard, where waiting would hold up
// other services. A panic in a hook is logged.
type Hooks struct {
	// Transition is told of each change of state, after it was committed.
	Transition func(Identity, Transition)

	// Action is told that an attempt begins. The attempt has the context that it
	// answers, with a span in it, say. The function that it answers may be nil; it
	// is told when the attempt has returned, however late.
	Action func(context.Context, Identity, Run, Action) (context.Context, func(Attempt))

	// Settled is told of the outcome of an action when snapshots show it: once for
	// each attempt.
	Settled func(Identity, ActionStatus)

	// Observed is told of each collection that has ended, and how long it took.
	Observed func(id Identity, seen Observation, took time.Duration)

	// Decided is told after Next was asked: how long the service had waited for its
	// turn, and how long Next took.
	Decided func(id Identity, waited, took time.Duration)

	// Refused is told of a decision that was not legal: a *BusyError, or an error
	// that says what is not.
	Refused func(Identity, error)

	// Panicked is told of a panic in "Next", "CollectObservedState" or "Execute".
	Panicked func(id Identity, where string, value any, stack []byte)

	// Escalated is told of SignalEscalate, of restarts beyond their limit, of one that
	// does not come to rest, of a journal that somebody else writes to, and of
	// collections that ignore their context.
	Escalated func(id Identity, reason string)
}

// A Transition is a change of state. Event is lifecycle.ServiceShift when From and To
// stand for the same state of the table.
type Transition struct {
	From, To           string // names of the user's own
	FromPhase, ToPhase machine.State
	Event              machine.Event
	Reason             string
	Actor              string // Decision.Actor
	At                 time.Time
	After              time.Duration // how long From lasted
}

// An Attempt is about an attempt that has returned.
type Attempt struct {
	Kind ErrorKind // KindNone: it succeeded
	Err  error
	Took time.Duration
}
