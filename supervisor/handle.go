package supervisor

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"
)

// A Handle controls one service. Add returns it.
type Handle[S, O, D any] struct {
	u *service
	t typed[S, O, D]
}

// Add adds a service with its specification, before or while the supervisor runs; it
// starts at once. With a journal it continues where the last service of that id was, and
// ctx limits how long reading that may take.
//
// The error is ErrInvalid, ErrExists, ErrCycle or ErrStopped, or that of
// DeriveDesiredState or of the journal.
func Add[S, O, D any](ctx context.Context, s *Supervisor, id Identity, w Worker[S, O, D], spec S, o Options) (*Handle[S, O, D], error) {
	if err := id.validate(); err != nil {
		return nil, err
	}
	after := slices.Clone(o.DependsOn)
	o = o.withDefaults(s.config.Defaults)
	o.DependsOn = nil
	t := typed[S, O, D]{w}
	desired, err := derive(w, spec)
	if err == nil {
		err = o.validate()
	}
	var first userState
	if err == nil {
		first, err = t.check(id, desired)
	}
	if err != nil {
		return nil, fmt.Errorf("add service %s: %w", id.ID, err)
	}
	u := &service{
		sup: s, worker: t, id: id, after: after, opt: s.shared(o), place: -1,
		desired: desired, generation: 1, since: time.Now(), state: first, jitter: s.random(),
	}
	if err := s.add(ctx, u); err != nil {
		return nil, err
	}
	return &Handle[S, O, D]{u, t}, nil
}

// shared returns a pointer to the options, that of the defaults if they are equal, to save
// memory.
func (s *Supervisor) shared(o Options) *Options {
	if reflect.DeepEqual(o, s.config.Defaults) {
		return &s.config.Defaults
	}
	return &o
}

// add reserves the id, reads the journal, and starts the service.
func (s *Supervisor) add(ctx context.Context, u *service) error {
	u.loading = true
	if err := s.insert(u); err != nil {
		return err
	}
	if s.config.Journal != nil {
		if err := u.restore(ctx); err != nil {
			u.set(func() { u.gone = true })
			s.forget(u)
			return err
		}
	}
	u.mu.Lock()
	if u.gone {
		u.mu.Unlock()
		return fmt.Errorf("add service %s: it was removed meanwhile: %w", u.id.ID, ErrNotFound)
	}
	u.loading = false
	u.collection.wanted = true
	u.mu.Unlock()
	u.wake()
	s.wakeRelated(u)
	return nil
}

// restore continues the trail of a service. An action that was running is reported as
// interrupted: whether it succeeded is unknown (S12).
func (u *service) restore(ctx context.Context) error {
	t := trail{journal: u.sup.config.Journal, actor: u.sup.config.Actor}
	phase, n, err := t.open(ctx, u.id.ID, u.state)
	if err != nil {
		return err
	}
	var state userState
	var ok bool
	if p := guard(func() { state, ok = u.worker.find(n.State) }); p != nil {
		return fmt.Errorf("add service %s: States: %w", u.id.ID, p)
	}
	if !ok || state.phase != phase {
		return fmt.Errorf("add service %s: its journal has it in state %s, which stands for %s: want that among the worker's States", u.id.ID, n.State, phase)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.trail, u.state = t, state
	if n.Action != nil {
		unknown := n.Action.InProgress || n.Action.Abandoned
		n.Action.Abandoned = false
		u.act = &attempt{status: *n.Action, token: n.Action.Fence, unknown: unknown, lifted: true} // a restart of the supervisor counts as a change
		if n.Action.InProgress {
			u.act.ended = &outcome{kind: KindInterrupted, text: "the process ended meanwhile"}
		}
	}
	return nil
}

// derive returns the desired state of a specification. A panic is an error.
func derive[S, O, D any](w Worker[S, O, D], spec S) (desired D, err error) {
	if p := guard(func() { desired, err = w.DeriveDesiredState(spec) }); p != nil {
		err = p
	}
	if err != nil {
		err = fmt.Errorf("specification: %w", err)
	}
	return desired, err
}

// SetSpec gives the service another specification. Next sees the new desired state at
// once, even while an action runs. Errors are that of DeriveDesiredState, ErrNotFound if
// the service was removed, and ErrStopped; then nothing has changed.
func (h *Handle[S, O, D]) SetSpec(spec S) error {
	desired, err := derive(h.t.worker, spec)
	if err != nil {
		return fmt.Errorf("service %s: %w", h.u.id.ID, err)
	}
	h.u.set(func() {
		if err = h.u.left(); err == nil {
			h.u.desired = desired
			h.u.collection.wanted = true
			h.u.renew()
		}
	})
	if err == nil {
		h.u.wake()
	}
	return err
}

// left returns an error if the service was removed or the supervisor is stopping.
func (u *service) left() error {
	u.sup.mu.RLock()
	stopping := u.sup.stopping
	u.sup.mu.RUnlock()
	switch {
	case u.gone:
		return fmt.Errorf("service %s: %w", u.id.ID, ErrNotFound)
	case stopping:
		return fmt.Errorf("service %s: %w", u.id.ID, ErrStopped)
	}
	return nil
}

// Snapshot returns what Next would see now.
func (h *Handle[S, O, D]) Snapshot() Snapshot[O, D] {
	h.u.mu.Lock()
	f, observed, desired := h.u.facts(time.Now()), h.u.observed, h.u.desired
	h.u.mu.Unlock()
	h.u.sup.relate(h.u, &f)
	return h.t.snapshot(f, observed, desired)
}

// WaitFor waits until ok returns true; it is called after each turn of the service. Errors
// are that of ctx, ErrNotFound if the service is removed first, and ErrStopped if the
// supervisor stops first.
func (h *Handle[S, O, D]) WaitFor(ctx context.Context, ok func(Snapshot[O, D]) bool) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(h.u.sup.over, func() { cancel(fmt.Errorf("service %s: %w", h.u.id.ID, ErrStopped)) })()
	left := false
	err := h.u.wait(ctx, func() bool {
		h.u.set(func() { left = h.u.gone })
		if ok(h.Snapshot()) {
			left = false
			return true
		}
		return left
	})
	if err == nil && left {
		return fmt.Errorf("service %s: %w", h.u.id.ID, ErrNotFound)
	}
	return err
}

// Remove is [Supervisor.Remove] of this service. It does not remove a later one with the
// same id.
func (h *Handle[S, O, D]) Remove(ctx context.Context) (Report, error) {
	return h.u.sup.removed(ctx, h.u)
}

// Wake gives the service a turn and a collection at once. It does not wait.
func (h *Handle[S, O, D]) Wake() { _ = h.u.sup.Wake(h.u.id.ID) }

// wait waits until ok returns true; it is called after each turn.
func (u *service) wait(ctx context.Context, ok func() bool) error {
	for {
		u.mu.Lock()
		if u.turned == nil {
			u.turned = make(chan struct{})
		}
		turned := u.turned
		u.mu.Unlock()
		if ok() {
			return nil
		}
		select {
		case <-turned:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
