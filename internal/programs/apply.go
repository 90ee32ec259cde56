package programs

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/control"
	"github.com/pawl-dev/pawl/internal/programs/spec"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/supervisor"
)

// Apply makes the file's programs the ones that are kept: new ones are added, changed
// ones are restarted if what changed is of the running program, and those that are
// no longer in it are stopped and removed. Nothing changes when it is refused. It
// returns when what is removed has stopped; the rest it has begun.
func (k *Keeper) Apply(ctx context.Context, f *spec.File, c pawl.Change) ([]control.Difference, error) {
	k.changing.Lock()
	defer k.changing.Unlock()
	if k.ending.Load() {
		return nil, failure(supervisor.ErrStopped)
	}
	p := k.plan(f, c)
	if err := p.check(); err != nil {
		return nil, err
	}
	if err := p.carryOut(context.WithoutCancel(ctx)); err != nil { // not half of it, because somebody hangs up
		return nil, err
	}
	return p.differences(), nil
}

// Reload reads the file again, and applies it.
func (k *Keeper) Reload(ctx context.Context, c pawl.Change) ([]control.Difference, error) {
	if k.config.Load == nil {
		return nil, pawl.Errorf(pawl.Refused, "there is no file to reload")
	}
	f, err := k.config.Load()
	if err != nil {
		return nil, err
	}
	return k.Apply(ctx, f, c)
}

// A plan is what makes the programs that are kept those of a file.
type plan struct {
	keeper *Keeper
	change pawl.Change
	new    map[string]*spec.Program
	diffs  []spec.Difference
}

func (k *Keeper) plan(f *spec.File, c pawl.Change) *plan {
	p := &plan{keeper: k, change: c, new: map[string]*spec.Program{}}
	for _, n := range f.Programs {
		p.new[n.ID] = n
	}
	old := &spec.File{}
	for _, w := range k.all() {
		if !w.leaves() {
			old.Programs = append(old.Programs, w.wanted().Program)
		}
	}
	p.diffs = spec.Diff(old, f)
	return p
}

// ids are those that a file may be named after.
var ids = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]*$`)

// check refuses what could not be carried out. A file that was parsed has been
// checked for most of it.
func (p *plan) check() error {
	for _, d := range p.diffs {
		if w := p.keeper.ward(d.ID); d.What == spec.Added && w != nil {
			return &pawl.Error{Kind: pawl.Conflict, Message: fmt.Sprintf("service %s is still being removed", d.ID), Hint: "try again when it has stopped"}
		}
	}
	for _, n := range p.new {
		switch {
		case !ids.MatchString(n.ID) || len(n.ID) > supervisor.MaxID:
			return pawl.Errorf(pawl.Invalid, "service %.100q: want an id of 1 to %d letters, digits and . _ -", n.ID, supervisor.MaxID)
		case len(n.Command) == 0:
			return pawl.Errorf(pawl.Invalid, "service %s: command: want a program", n.ID)
		case n.Stop.Grace < 0:
			return pawl.Errorf(pawl.Invalid, "service %s: stop.grace %s: want 0 or more", n.ID, n.Stop.Grace)
		}
		for _, need := range n.Needs {
			if p.new[need.ID] == nil {
				return pawl.Errorf(pawl.Invalid, "service %s: needs: there is no service %s", n.ID, need.ID)
			}
		}
		if path := p.cycle(n.ID, nil); path != nil {
			return pawl.Errorf(pawl.Invalid, "needs: %s", strings.Join(path, ", which needs "))
		}
	}
	return nil
}

// cycle answers how a service needs itself, or nil.
func (p *plan) cycle(id string, path []string) []string {
	if i := slices.Index(path, id); i >= 0 {
		return append(path[i:], id)
	}
	for _, n := range p.new[id].Needs {
		if p.new[n.ID] == nil {
			continue
		}
		if c := p.cycle(n.ID, append(path, id)); c != nil {
			return c
		}
	}
	return nil
}

// carryOut changes what is to be changed. What one service needs of another is taken
// away first and given last, so that there is no cycle in between, and so that
// nothing that stays depends on what is removed.
func (p *plan) carryOut(ctx context.Context) error {
	for _, d := range p.of(spec.Changed) {
		w := p.keeper.ward(d.ID)
		if err := w.depend(both(w.wanted().Program.Needs, p.new[d.ID].Needs), p.new[d.ID]); err != nil {
			return err
		}
	}
	if err := p.remove(ctx); err != nil {
		return err
	}
	for _, d := range p.of(spec.Added) {
		if err := p.add(ctx, p.new[d.ID]); err != nil {
			return err
		}
	}
	for _, d := range p.of(spec.Changed) {
		if err := p.alter(d); err != nil {
			return err
		}
	}
	return nil
}

func (p *plan) of(what string) (found []spec.Difference) {
	for _, d := range p.diffs {
		if d.What == what {
			found = append(found, d)
		}
	}
	return found
}

func (p *plan) differences() []control.Difference {
	list := make([]control.Difference, len(p.diffs))
	for i, d := range p.diffs {
		w := p.keeper.ward(d.ID)
		list[i] = control.Difference{ID: d.ID, What: d.What, Keys: d.Keys, Restarts: d.Restart && w != nil && w.wanted().Run}
	}
	return list
}

// both answers the needs that are in both lists.
func both(a, b []spec.Need) []spec.Need {
	var list []spec.Need
	for _, n := range a {
		if slices.ContainsFunc(b, func(m spec.Need) bool { return m.ID == n.ID }) {
			list = append(list, n)
		}
	}
	return list
}

// options are those of a program that needs others.
func options(needs []spec.Need, p *spec.Program) supervisor.Options {
	o := supervisor.Options{StopTimeout: p.Stop.Grace + 2*stopMargin, StartsByItself: true} // by how far each need has come
	for _, n := range needs {
		o.DependsOn = append(o.DependsOn, n.ID)
	}
	return o
}

func (w *ward) depend(needs []spec.Need, p *spec.Program) error {
	return failure(w.handle.SetOptions(options(needs, p)))
}

// wanting are the states of the table in which a program was wanted, when its
// supervisor was killed.
var wanting = []machine.State{lifecycle.ServiceTryingToStart, lifecycle.ServiceRunning, lifecycle.ServiceDegraded}

func (p *plan) add(ctx context.Context, n *spec.Program) error {
	w := &ward{id: n.ID, keeper: p.keeper}
	w.wish = wish{Program: n, Run: n.Autostart, Order: 1, Actor: p.change.Actor}
	if n.Autostart {
		w.wish.Why = "autostart"
	}
	var err error
	if w.handle, err = supervisor.Add(ctx, p.keeper.sup, supervisor.Identity{ID: n.ID, Type: "program"}, w, w.wish, options(n.Needs, n)); err != nil {
		return failure(err)
	}
	p.keeper.mu.Lock()
	p.keeper.wards[n.ID] = w
	p.keeper.mu.Unlock()
	if !n.Autostart && slices.Contains(wanting, w.handle.Snapshot().Phase) {
		return w.want(func(next *wish) { next.Run, next.Why = true, interrupted })
	}
	p.keeper.tell(n.ID)
	return nil
}

// alter gives a program its new definition. A running one is started again only if
// it was started with what has changed.
func (p *plan) alter(d spec.Difference) error {
	w, n := p.keeper.ward(d.ID), p.new[d.ID]
	if err := w.depend(n.Needs, n); err != nil {
		return err
	}
	turned := slices.Contains(d.Keys, "autostart")
	err := w.want(func(next *wish) {
		next.Program, next.Actor = n, p.change.Actor
		next.Why = "changed: " + strings.Join(d.Keys, ", ")
		if p.change.Reason != "" {
			next.Why += " (" + p.change.Reason + ")"
		}
		if d.Restart {
			next.Renew = next.Order
		}
		if turned && n.Autostart {
			next.Run = true
		}
	})
	w.adopt(n, d)
	return err
}

// remove stops what is no longer wanted, and waits for it.
func (p *plan) remove(ctx context.Context) error {
	var all sync.WaitGroup
	gone := p.of(spec.Removed)
	failures := make([]error, len(gone))
	for i, d := range gone {
		w := p.keeper.ward(d.ID)
		failures[i] = w.want(func(next *wish) {
			next.Run, next.Retired, next.Actor, next.Why = false, true, p.change.Actor, "removed from the file"
		})
		if failures[i] == nil {
			all.Go(func() { failures[i] = p.keeper.remove(ctx, w) })
		}
	}
	all.Wait()
	for _, err := range failures {
		if err != nil {
			return err
		}
	}
	return nil
}

// remove takes a program out. One that does not end leaves when it does.
func (k *Keeper) remove(ctx context.Context, w *ward) error {
	_, err := k.sup.Remove(ctx, w.id)
	if k.purge(w) {
		return nil // another removal has taken it along
	}
	return failure(err)
}
