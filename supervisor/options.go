package supervisor

import (
	"fmt"
	"slices"
	"strings"
)

// SetOptions gives the service other options, as for Add. A running action keeps its own.
// The errors are those of Add, and ErrNotFound if the service was removed; then nothing
// has changed.
func (h *Handle[S, O, D]) SetOptions(o Options) error {
	u, s := h.u, h.u.sup
	after := slices.Clone(o.DependsOn)
	o = o.withDefaults(s.config.Defaults)
	o.DependsOn = nil
	if err := o.validate(); err != nil {
		return fmt.Errorf("service %s: %w", u.id.ID, err)
	}
	left, err := s.setDependencies(u, after)
	if err != nil {
		return fmt.Errorf("service %s: %w", u.id.ID, err)
	}
	u.set(func() { u.opt = s.shared(o) })
	for _, d := range append(left, u) {
		d.wake()
	}
	return nil
}

// setDependencies replaces what a service depends on, and returns what it depended on
// before.
func (s *Supervisor) setDependencies(u *service, after []string) (left []*service, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.stopping:
		return nil, ErrStopped
	case s.services[u.id.ID] != u:
		return nil, ErrNotFound
	}
	for _, id := range after {
		if path := s.path(id, u.id.ID, nil); path != nil {
			return nil, fmt.Errorf("%w: it depends on %s", ErrCycle, strings.Join(path, ", which depends on "))
		}
	}
	for _, id := range u.needs() {
		s.removeDependant(id, u)
		if d := s.services[id]; d != nil {
			left = append(left, d)
		}
	}
	u.after = after
	for _, id := range u.needs() {
		s.dependants[id] = append(s.dependants[id], u)
	}
	return left, nil
}

// removeDependant removes u from the dependants of a service. It is called with mu held.
func (s *Supervisor) removeDependant(id string, u *service) {
	left := slices.DeleteFunc(s.dependants[id], func(d *service) bool { return d == u })
	if s.dependants[id] = left; len(left) == 0 {
		delete(s.dependants, id)
	}
}
