package supervisor

import (
	"context"
	"fmt"
	"reflect"
	"runtime/debug"
	"time"

	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// An anyWorker is a Worker with its types erased. It is only given values that it has
// returned.
type anyWorker interface {
	collect(ctx context.Context, desired any) (any, error)
	next(state userState, f Facts, observed, desired any, d ActionLimits) verdict
	find(name string) (userState, bool)
	differ(before, now any) bool // whether observed values differ
}

// A userState is one of the user's states, with its type erased.
type userState struct {
	value        any
	name, reason string
	phase        machine.State
}

// A verdict is a Decision with its types erased.
type verdict struct {
	state        userState // empty name: stay
	signal       Signal
	action       Action // nil: none
	name, key    string
	limits       ActionLimits
	fault        error     // what is wrong with the state or the limits
	missing      []string  // dependencies that a start waits for
	first        userState // the initial state, for a restart
	cancel       bool
	requeueAfter time.Duration
	reason       string
	actor        string
}

// typed is the anyWorker of a Worker.
type typed[S, O, D any] struct{ worker Worker[S, O, D] }

func erase[O, D any](s State[O, D]) userState {
	return userState{value: s, name: s.String(), reason: s.Reason(), phase: s.Phase()}
}

func (t typed[S, O, D]) collect(ctx context.Context, desired any) (any, error) {
	d, _ := desired.(D)
	return t.worker.CollectObservedState(ctx, d)
}

// differ uses the Equal of observed values, if they have one.
func (t typed[S, O, D]) differ(before, now any) bool {
	old, ok := before.(O)
	next, _ := now.(O)
	if e, has := any(next).(interface{ Equal(O) bool }); ok && has {
		return !e.Equal(old)
	}
	return !ok || !reflect.DeepEqual(old, next)
}

func (t typed[S, O, D]) find(name string) (userState, bool) {
	for _, s := range t.worker.States() {
		if s.String() == name {
			return erase(s), true
		}
	}
	return userState{}, false
}

func (t typed[S, O, D]) next(state userState, f Facts, observed, desired any, limits ActionLimits) verdict {
	s := t.snapshot(f, observed, desired)
	d := state.value.(State[O, D]).Next(s)
	v := verdict{signal: d.Signal, action: d.Action, cancel: d.Cancel, requeueAfter: d.RequeueAfter, reason: d.Reason, actor: d.Actor}
	if d.State != nil {
		v.state = erase(d.State)
		if _, ok := t.find(v.state.name); v.state.name != state.name && !ok {
			v.fault = fmt.Errorf("service %s: state %s is not one of the worker's States", f.Identity.ID, v.state.name)
		}
	}
	if v.reason == "" {
		v.reason = v.state.reason
	}
	if d.Signal == SignalNeedsRestart {
		v.first = erase(t.worker.GetInitialState())
	}
	if d.Action != nil {
		v.name, v.key, v.limits = d.Action.Name(), keyOf(d.Action), limitsOf(d.Action, limits)
		if err := v.limits.validate(""); err != nil && v.fault == nil {
			v.fault = fmt.Errorf("service %s: limits of action %s: %w", f.Identity.ID, v.name, err)
		}
	}
	return v
}

func (t typed[S, O, D]) snapshot(f Facts, observed, desired any) Snapshot[O, D] {
	s := Snapshot[O, D]{Facts: f}
	s.Observed, _ = observed.(O)
	s.Desired, _ = desired.(D)
	return s
}

// check returns the initial state, or an error if the states of a worker are invalid. A
// panic is an error.
func (t typed[S, O, D]) check(id Identity, desired any) (first userState, err error) {
	if p := guard(func() { first, err = t.checked(id, desired) }); p != nil {
		//lint:ignore ST1005 States is the name of a method
		err = fmt.Errorf("States or GetInitialState: %w", p)
	}
	return first, err
}

func (t typed[S, O, D]) checked(id Identity, desired any) (userState, error) {
	names := map[string]bool{}
	for _, s := range t.worker.States() {
		o := erase(s)
		switch {
		case o.name == "" || names[o.name]:
			return userState{}, fmt.Errorf("%w: States: want each name once, and have %q", ErrInvalid, o.name)
		case !lifecycle.Service.Has(o.phase) || lifecycle.Service.Ended(o.phase):
			return userState{}, fmt.Errorf("%w: state %s: Phase is %q: want a state of the service table that is not its end", ErrInvalid, o.name, o.phase)
		}
		names[o.name] = true
	}
	first := erase(t.worker.GetInitialState())
	switch {
	case !names[first.name]:
		return userState{}, fmt.Errorf("%w: initial state %s: want one of States", ErrInvalid, first.name)
	case first.phase != lifecycle.Service.Initial:
		return userState{}, fmt.Errorf("%w: initial state %s stands for %s: want %s", ErrInvalid, first.name, first.phase, lifecycle.Service.Initial)
	}
	return first, t.checkMoves(id, names, desired)
}

// guard calls f and returns its panic, if there is one.
func guard(f func()) (panicked *panicError) {
	defer func() {
		if v := recover(); v != nil {
			panicked = &panicError{v, debug.Stack()}
		}
	}()
	f()
	return nil
}
