package supervisor

import (
	"fmt"
	"slices"
	"strings"
)

// SetOptions gives the service other options, as Add takes them. Those of an action
// that runs stay as they are. The errors are those of Add, and ErrNotFound for a
// service that has left; nothing has changed then.
func (h *Handle[S, O, D]) SetOptions(o Options) error {
	u, s := h.u, h.u.sup
	after := slices.Clone(o.DependsOn)
	o = o.over(s.config.Defaults)
	o.DependsOn = nil
	if err := o.validate(); err != nil {
		return fmt.Errorf("service %s: %w", u.id.ID, err)
	}
	left, err := s.rewire(u, after)
	if err != nil {
		return fmt.Errorf("service %s: %w", u.id.ID, err)
	}
	u.set(func() { u.opt = s.shared(o) })
	for _, d := range append(left, u) {
		d.wake()
	}
	return nil
}

// rewire has a service depend on others, and answers those that it depended on.
func (s *Supervisor) rewire(u *service, after []string) (left []*service, err error) {
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
		s.leaveBehind(id, u)
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

// leaveBehind takes u from those that depend on a service. It is called with mu held.
func (s *Supervisor) leaveBehind(id string, u *service) {
	left := slices.DeleteFunc(s.dependants[id], func(d *service) bool { return d == u })
	if s.dependants[id] = left; len(left) == 0 {
		delete(s.dependants, id)
	}
}
