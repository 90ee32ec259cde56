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

// all returns the programs by id, including those that are being removed.
func (m *Manager) all() []*program {
	m.mu.RLock()
	defer m.mu.RUnlock()
	list := make([]*program, 0, len(m.programs))
	for _, prog := range m.programs {
		list = append(list, prog)
	}
	slices.SortFunc(list, func(a, b *program) int { return strings.Compare(a.id, b.id) })
	return list
}

// count returns the number of programs.
func (m *Manager) count() int {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return len(m.programs)
}

// currentPeers returns peers, with those that this manager has not started yet as stopped:
// their state is left over from an earlier manager.
func (m *Manager) currentPeers(peers []supervisor.Peer) []supervisor.Peer {
	now := slices.Clone(peers)
	m.mu.RLock()
	defer m.mu.RUnlock()
	for i, p := range now {
		if prog := m.programs[p.ID]; meets(p.State, spec.Started) && (prog == nil || prog.observe().Attempts == 0) {
			now[i].State = stopped
		}
	}
	return now
}

// program returns the program with an id, or nil.
func (m *Manager) program(id string) *program {
	m.mu.RLock()
	prog := m.programs[id]
	m.mu.RUnlock()
	if prog == nil || prog.removing() && m.forget(prog) {
		return nil
	}
	return prog
}

// forget deletes a program that the supervisor has removed, and reports whether it has.
func (m *Manager) forget(prog *program) bool {
	if _, err := m.sup.Status(prog.id); !errors.Is(err, supervisor.ErrNotFound) {
		return false
	}
	m.mu.Lock()
	if m.programs[prog.id] == prog {
		delete(m.programs, prog.id)
	}
	m.mu.Unlock()
	prog.mu.Lock()
	prog.closeLog()
	prog.mu.Unlock()
	m.notifyChanged(prog.id)
	return true
}

// find returns the program with an id. The NotFound error suggests the nearest id.
func (m *Manager) find(id string) (*program, error) {
	if prog := m.program(id); prog != nil {
		return prog, nil
	}
	var ids []string
	for _, prog := range m.all() {
		ids = append(ids, prog.id)
	}
	e := pawl.Errorf(pawl.NotFound, "there is no service %.100q", id)
	if near := document.Nearest(id, ids); near != "" {
		e.Hint = "did you mean " + near + "?"
	}
	return nil, e
}

// Services implements control.Host.
func (m *Manager) Services() []control.Service {
	list := []control.Service{}
	for _, prog := range m.all() {
		if s, ok := m.view(prog); ok {
			list = append(list, s)
		}
	}
	return list
}

// Service implements control.Host.
func (m *Manager) Service(id string) (control.Service, error) {
	prog, err := m.find(id)
	if err != nil {
		return control.Service{}, err
	}
	s, ok := m.view(prog)
	if !ok { // it was removed meanwhile
		_, err = m.find(id)
	}
	return s, err
}

// History implements control.Host.
func (m *Manager) History(ctx context.Context, id string) ([]pawl.Transition, error) {
	if _, err := m.find(id); err != nil {
		return nil, err
	}
	if _, ok := m.config.Journal.(supervisor.Trailer); !ok {
		return nil, pawl.Errorf(pawl.Refused, "the journal of this supervisor cannot be read")
	}
	trail, err := supervisor.Trails(ctx, m.deferred, id)
	if err != nil {
		return nil, err
	}
	moves := make([]pawl.Transition, len(trail))
	for i := range trail {
		moves[i] = pawl.TransitionOf(&trail[i])
	}
	return moves, nil
}

// takes returns a program that takes an order, or the error of one that does not.
func (m *Manager) takes(id string, v control.Verb) (*program, error) {
	prog, err := m.find(id)
	switch {
	case err != nil:
		return nil, err
	case m.closing.Load():
		return nil, failure(supervisor.ErrStopped)
	case prog.removing():
		return nil, pawl.Errorf(pawl.Conflict, "service %s is being removed", id)
	case !slices.Contains(control.Verbs, v):
		return nil, pawl.Errorf(pawl.Invalid, "verb: %.100q: want start, stop or restart", string(v))
	}
	return prog, nil
}

// Check implements control.Host.
func (m *Manager) Check(id string, v control.Verb) error {
	prog, err := m.takes(id, v)
	switch {
	case err != nil || v == control.Restart:
		return err
	case !prog.headedFor(v == control.Start):
		return nil
	case v == control.Start:
		return pawl.Errorf(pawl.Conflict, "service %s runs already, or is about to", id)
	}
	return pawl.Errorf(pawl.Conflict, "service %s does not run, or is about to stop", id)
}

// Order implements control.Host. Starting a program that runs, or stopping one that does
// not, changes nothing. Order does not wait for Apply, which may be waiting for a program
// to end.
func (m *Manager) Order(_ context.Context, id string, o control.Order) error {
	prog, err := m.takes(id, o.Verb)
	if err != nil {
		return err
	}
	run := o.Verb != control.Stop
	if o.Verb != control.Restart && prog.headedFor(run) {
		return nil
	}
	return prog.setDesired(func(next *desired) {
		if next.Removing { // meanwhile
			return
		}
		next.Run, next.By, next.Actor, next.Why = run, o.Actor, o.Actor, orderText(o.Verb, o.Actor, o.Reason)
		if run { // a process that still runs, but is being stopped, does not count
			next.RestartBefore = next.Generation
		}
	})
}

// headedFor reports whether the program already runs, or is about to (run), or already
// does not, or is about to stop (!run), and that is what is desired.
func (prog *program) headedFor(run bool) bool {
	states := []string{waiting, starting, running, degraded}
	if !run {
		states = []string{stopped, completed, stopping}
	}
	return prog.currentDesired().Run == run && slices.Contains(states, prog.handle.Snapshot().State)
}

// Logs implements control.Host.
func (m *Manager) Logs(ctx context.Context, id string, q control.LogQuery, to io.Writer) error {
	prog, err := m.find(id)
	if err != nil {
		return err
	}
	p := prog.currentDesired().Spec
	if q.Follow {
		return prog.printing().Follow(ctx, to, q.Tail)
	}
	if err := process.Tail(to, m.logPath(p), q.Tail); err != nil {
		return fmt.Errorf("log of service %s: %w", id, err)
	}
	return nil
}
