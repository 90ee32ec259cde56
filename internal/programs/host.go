package programs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/control"
	"github.com/pawl-dev/pawl/internal/document"
	"github.com/pawl-dev/pawl/internal/process"
	"github.com/pawl-dev/pawl/internal/programs/spec"
	"github.com/pawl-dev/pawl/supervisor"
)

// all answers the wards by id, those that are being removed included.
func (k *Keeper) all() []*ward {
	k.mu.RLock()
	defer k.mu.RUnlock()
	list := make([]*ward, 0, len(k.wards))
	for _, w := range k.wards {
		list = append(list, w)
	}
	slices.SortFunc(list, func(a, b *ward) int { return strings.Compare(a.id, b.id) })
	return list
}

// size returns how many wards there are.
func (k *Keeper) size() int {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return len(k.wards)
}

// lived answers peers without what they came to in the life of an earlier keeper: a
// program that was not tried yet is not running, and has not completed.
func (k *Keeper) lived(peers []supervisor.Peer) []supervisor.Peer {
	now := slices.Clone(peers)
	k.mu.RLock()
	defer k.mu.RUnlock()
	for i, p := range now {
		if w := k.wards[p.ID]; meets(p.State, spec.Started) && (w == nil || w.look().Attempts == 0) {
			now[i].State = stopped
		}
	}
	return now
}

// ward answers one, or nil.
func (k *Keeper) ward(id string) *ward {
	k.mu.RLock()
	w := k.wards[id]
	k.mu.RUnlock()
	if w == nil || w.leaves() && k.purge(w) {
		return nil
	}
	return w
}

// purge forgets a ward that the supervisor has no longer, and reports whether that
// is so.
func (k *Keeper) purge(w *ward) bool {
	if _, err := k.sup.Status(w.id); !errors.Is(err, supervisor.ErrNotFound) {
		return false
	}
	k.mu.Lock()
	if k.wards[w.id] == w {
		delete(k.wards, w.id)
	}
	k.mu.Unlock()
	w.mu.Lock()
	w.closeLog()
	w.mu.Unlock()
	k.tell(w.id)
	return true
}

// find answers one, or an error that names the nearest.
func (k *Keeper) find(id string) (*ward, error) {
	if w := k.ward(id); w != nil {
		return w, nil
	}
	var ids []string
	for _, w := range k.all() {
		ids = append(ids, w.id)
	}
	e := pawl.Errorf(pawl.NotFound, "there is no service %.100q", id)
	if near := document.Nearest(id, ids); near != "" {
		e.Hint = "did you mean " + near + "?"
	}
	return nil, e
}

// Services implements control.Host.
func (k *Keeper) Services() []control.Service {
	list := []control.Service{}
	for _, w := range k.all() {
		if s, ok := k.view(w); ok {
			list = append(list, s)
		}
	}
	return list
}

// Service implements control.Host.
func (k *Keeper) Service(id string) (control.Service, error) {
	w, err := k.find(id)
	if err != nil {
		return control.Service{}, err
	}
	s, ok := k.view(w)
	if !ok { // it has just left
		_, err = k.find(id)
	}
	return s, err
}

// History implements control.Host.
func (k *Keeper) History(ctx context.Context, id string) ([]pawl.Transition, error) {
	if _, err := k.find(id); err != nil {
		return nil, err
	}
	if _, ok := k.config.Journal.(supervisor.Trailer); !ok {
		return nil, pawl.Errorf(pawl.Refused, "the journal of this supervisor cannot be read")
	}
	trail, err := supervisor.Trails(ctx, k.owing, id)
	if err != nil {
		return nil, err
	}
	moves := make([]pawl.Transition, len(trail))
	for i := range trail {
		moves[i] = pawl.TransitionOf(&trail[i])
	}
	return moves, nil
}

// Order implements control.Host. A start of what runs and a stop of what does not
// change nothing. It does not wait for an Apply, which may wait for a program to end.
func (k *Keeper) Order(_ context.Context, id string, o control.Order) error {
	w, err := k.find(id)
	switch {
	case err != nil:
		return err
	case k.ending.Load():
		return failure(supervisor.ErrStopped)
	case w.leaves():
		return pawl.Errorf(pawl.Conflict, "service %s is being removed", id)
	}
	run := o.Verb != control.Stop
	switch o.Verb {
	case control.Start, control.Stop:
		if w.is(run) {
			return nil
		}
	case control.Restart:
	default:
		return pawl.Errorf(pawl.Invalid, "verb: %.100q: want start, stop or restart", string(o.Verb))
	}
	return w.want(func(next *wish) {
		if next.Retired { // meanwhile
			return
		}
		next.Run, next.By, next.Actor, next.Why = run, o.Actor, o.Actor, wordsOf(o.Verb, o.Actor, o.Reason)
		if run { // what still runs, on its way to an end, is not what was asked for
			next.Renew = next.Order
		}
	})
}

// is reports whether the program is wanted to run, or not, and is so, or on the way.
func (w *ward) is(run bool) bool {
	there := []string{waiting, starting, running, degraded}
	if !run {
		there = []string{stopped, completed, stopping}
	}
	return w.wanted().Run == run && slices.Contains(there, w.handle.Snapshot().State)
}

// Logs implements control.Host.
func (k *Keeper) Logs(ctx context.Context, id string, q control.LogQuery, to io.Writer) error {
	w, err := k.find(id)
	if err != nil {
		return err
	}
	p := w.wanted().Program
	if q.Follow {
		return w.printing().Follow(ctx, to, q.Tail)
	}
	if err := process.Tail(to, k.logPath(p), q.Tail); err != nil {
		return fmt.Errorf("log of service %s: %w", id, err)
	}
	return nil
}
