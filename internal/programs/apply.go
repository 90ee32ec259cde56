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

// Apply makes the file's programs the ones that run: it adds new ones, restarts changed
// ones if the change affects the running process, and stops and removes those that are no
// longer in the file. If it refuses the file, nothing changes. It returns once the removed
// programs have stopped; it does not wait for the others to start.
func (m *Manager) Apply(ctx context.Context, f *spec.File, c pawl.Change) ([]control.Difference, error) {
	m.changing.Lock()
	defer m.changing.Unlock()
	if m.closing.Load() {
		return nil, failure(supervisor.ErrStopped)
	}
	p := m.plan(f, c)
	if err := p.check(); err != nil {
		return nil, err
	}
	if err := p.execute(context.WithoutCancel(ctx)); err != nil { // a caller that hangs up must not leave it half done
		return nil, err
	}
	return p.differences(), nil
}

// Reload reads the file again with Config.Load, and applies it.
func (m *Manager) Reload(ctx context.Context, c pawl.Change) ([]control.Difference, error) {
	if m.config.Load == nil {
		return nil, pawl.Errorf(pawl.Refused, "there is no file to reload")
	}
	f, err := m.config.Load()
	if err != nil {
		return nil, err
	}
	return m.Apply(ctx, f, c)
}

// A plan holds what has to change for the programs to become those of a file.
type plan struct {
	manager *Manager
	change  pawl.Change
	new     map[string]*spec.Program
	diffs   []spec.Difference
}

func (m *Manager) plan(f *spec.File, c pawl.Change) *plan {
	p := &plan{manager: m, change: c, new: map[string]*spec.Program{}}
	for _, n := range f.Programs {
		p.new[n.ID] = n
	}
	old := &spec.File{}
	for _, prog := range m.all() {
		if !prog.removing() {
			old.Programs = append(old.Programs, prog.currentDesired().Spec)
		}
	}
	p.diffs = spec.Diff(old, f)
	return p
}

// idPattern matches the ids that can be part of a file's name.
var idPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]*$`)

// check refuses what could not be carried out. Parsing the file has checked most of it,
// but a File may also be built in Go.
func (p *plan) check() error {
	for _, d := range p.diffs {
		if prog := p.manager.program(d.ID); d.What == spec.Added && prog != nil {
			return &pawl.Error{Kind: pawl.Conflict, Message: fmt.Sprintf("service %s is still being removed", d.ID), Hint: "try again when it has stopped"}
		}
	}
	for _, n := range p.new {
		switch {
		case !idPattern.MatchString(n.ID) || len(n.ID) > supervisor.MaxID:
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

// cycle returns a path of needs from a service to itself, or nil.
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

// execute makes the changes. Old needs are removed first and new ones added last, so
// that there is no cycle in between, and no remaining program depends on one that is
// removed.
func (p *plan) execute(ctx context.Context) error {
	for _, d := range p.diffsOf(spec.Changed) {
		prog := p.manager.program(d.ID)
		if err := prog.setOptions(intersect(prog.currentDesired().Spec.Needs, p.new[d.ID].Needs), p.new[d.ID]); err != nil {
			return err
		}
	}
	if err := p.remove(ctx); err != nil {
		return err
	}
	for _, d := range p.diffsOf(spec.Added) {
		if err := p.add(ctx, p.new[d.ID]); err != nil {
			return err
		}
	}
	for _, d := range p.diffsOf(spec.Changed) {
		if err := p.update(d); err != nil {
			return err
		}
	}
	return nil
}

func (p *plan) diffsOf(what string) (found []spec.Difference) {
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
		prog := p.manager.program(d.ID)
		list[i] = control.Difference{ID: d.ID, What: d.What, Keys: d.Keys, Restarts: d.Restart && prog != nil && prog.currentDesired().Run}
	}
	return list
}

// intersect returns the needs that are in both lists.
func intersect(a, b []spec.Need) []spec.Need {
	var list []spec.Need
	for _, n := range a {
		if slices.ContainsFunc(b, func(m spec.Need) bool { return m.ID == n.ID }) {
			list = append(list, n)
		}
	}
	return list
}

// options returns the supervisor's options for a program with these needs. States decide
// about its start, by the condition of each need.
func options(needs []spec.Need, p *spec.Program) supervisor.Options {
	o := supervisor.Options{StopTimeout: p.Stop.Grace + 2*stopMargin, StartsByItself: true}
	for _, n := range needs {
		o.DependsOn = append(o.DependsOn, n.ID)
	}
	return o
}

func (prog *program) setOptions(needs []spec.Need, p *spec.Program) error {
	return failure(prog.handle.SetOptions(options(needs, p)))
}

// wantedPhases are the phases in which a killed supervisor had left a program that was to
// run.
var wantedPhases = []machine.State{lifecycle.ServiceTryingToStart, lifecycle.ServiceRunning, lifecycle.ServiceDegraded}

func (p *plan) add(ctx context.Context, n *spec.Program) error {
	prog := &program{id: n.ID, manager: p.manager}
	prog.desired = desired{Spec: n, Run: n.Autostart, Generation: 1, Actor: p.change.Actor}
	if n.Autostart {
		prog.desired.Why = "autostart"
	}
	var err error
	if prog.handle, err = supervisor.Add(ctx, p.manager.sup, supervisor.Identity{ID: n.ID, Type: "program"}, prog, prog.desired, options(n.Needs, n)); err != nil {
		return failure(err)
	}
	p.manager.mu.Lock()
	p.manager.programs[n.ID] = prog
	p.manager.mu.Unlock()
	if !n.Autostart && slices.Contains(wantedPhases, prog.handle.Snapshot().Phase) {
		return prog.setDesired(func(next *desired) { next.Run, next.Why = true, interrupted })
	}
	p.manager.notifyChanged(n.ID)
	return nil
}

// update gives a program its new spec. A running one is restarted only if the change
// affects its process.
func (p *plan) update(d spec.Difference) error {
	prog, n := p.manager.program(d.ID), p.new[d.ID]
	if err := prog.setOptions(n.Needs, n); err != nil {
		return err
	}
	autostart := slices.Contains(d.Keys, "autostart")
	err := prog.setDesired(func(next *desired) {
		next.Spec, next.Actor = n, p.change.Actor
		next.Why = "changed: " + strings.Join(d.Keys, ", ")
		if p.change.Reason != "" {
			next.Why += " (" + p.change.Reason + ")"
		}
		if d.Restart {
			next.RestartBefore = next.Generation
		}
		if autostart && n.Autostart {
			next.Run = true
		}
	})
	prog.adopt(n, d)
	return err
}

// remove stops the programs that are no longer in the file, and waits for them.
func (p *plan) remove(ctx context.Context) error {
	var all sync.WaitGroup
	gone := p.diffsOf(spec.Removed)
	failures := make([]error, len(gone))
	for i, d := range gone {
		prog := p.manager.program(d.ID)
		failures[i] = prog.setDesired(func(next *desired) {
			next.Run, next.Removing, next.Actor, next.Why = false, true, p.change.Actor, "removed from the file"
		})
		if failures[i] == nil {
			all.Go(func() { failures[i] = p.manager.remove(ctx, prog) })
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

// remove removes a program. One that does not end in time is removed when it does.
func (m *Manager) remove(ctx context.Context, prog *program) error {
	_, err := m.sup.Remove(ctx, prog.id)
	if m.forget(prog) {
		return nil // another call has removed it
	}
	return failure(err)
}
