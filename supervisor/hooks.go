package supervisor

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/machine"
)

// Hooks are called when something happens, for metrics and traces (S12). A nil hook is not
// called. None is called with a lock held. Action is called in the goroutine of the
// attempt, the others in the loop of a shard, where blocking would delay other services. A
// panic in a hook is logged.
type Hooks struct {
	// Transition is called after each change of state was committed.
	Transition func(Identity, Transition)

	// Action is called when an attempt begins. The attempt gets the context that it
	// returns, with a span in it, for example. The function that it returns may be nil; it
	// is called when the attempt has returned, however late.
	Action func(context.Context, Identity, Run, Action) (context.Context, func(Attempt))

	// Settled is called when snapshots show the outcome of an action: once per attempt.
	Settled func(Identity, ActionStatus)

	// Observed is called when a collection has ended, with how long it took.
	Observed func(id Identity, seen Observation, took time.Duration)

	// Decided is called after Next, with how long the service had waited for its turn, and
	// how long Next took.
	Decided func(id Identity, waited, took time.Duration)

	// Refused is called when a decision was not legal. The error says why; it may be a
	// *BusyError.
	Refused func(Identity, error)

	// Panicked is called after a panic in "Next", "CollectObservedState" or "Execute".
	Panicked func(id Identity, where string, value any, stack []byte)

	// Escalated is called when a person has to act: for SignalEscalate, restarts beyond
	// their limit, a restart that does not come to rest, a journal with another writer,
	// and collections that ignore their context.
	Escalated func(id Identity, reason string)
}

// A Transition is a change of state. Event is lifecycle.ServiceShift when From and To
// stand for the same state of the table.
type Transition struct {
	From, To           string // names of the user's states
	FromPhase, ToPhase machine.State
	Event              machine.Event
	Reason             string
	Actor              string // Decision.Actor
	At                 time.Time
	After              time.Duration // how long the service was in From
}

// An Attempt describes an attempt that has returned.
type Attempt struct {
	Kind ErrorKind // KindNone: it succeeded
	Err  error
	Took time.Duration
}
