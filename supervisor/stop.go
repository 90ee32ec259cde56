package supervisor

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/machine"
)

// A Report is the result of a stop (S10). Left is empty if every service rests and nothing
// of it runs.
type Report struct {
	Left []Left
}

// Left is a service that did not come to rest, or has something that still runs.
type Left struct {
	ID     string
	State  string
	Phase  machine.State
	Action string // the one that still runs, or has no outcome; empty: none
	Why    string
}

// Remove stops a service and all that depends on it, dependants first, and removes them
// from the supervisor. What has not come to rest within its budget is in the report, and
// is removed once it rests; until then its id is taken. Dependants that are added
// meanwhile are not waited for. Errors are ErrNotFound, ErrStopped, and that of ctx, whose
// end only ends the waiting.
//
// Before Run nothing of a service has begun: it is removed at once, and its journal stays
// as it is.
func (s *Supervisor) Remove(ctx context.Context, id string) (Report, error) {
	u, err := s.find(id)
	if err != nil {
		return Report{}, err
	}
	return s.removed(ctx, u)
}

func (s *Supervisor) removed(ctx context.Context, u *service) (Report, error) {
	done, err := s.remove(u)
	if err != nil || done == nil {
		return Report{}, err
	}
	select {
	case r := <-done:
		return r, nil
	case <-ctx.Done():
		return Report{}, ctx.Err()
	}
}

// remove begins to remove a service, and returns the channel of the report, or nil if
// there was nothing to stop.
func (s *Supervisor) remove(u *service) (<-chan Report, error) {
	if s.removedEarly(u) {
		return nil, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.services[u.id.ID] != u:
		return nil, fmt.Errorf("remove service %s: %w", u.id.ID, ErrNotFound)
	case s.stopping:
		return nil, fmt.Errorf("remove service %s: %w", u.id.ID, ErrStopped)
	}
	set := s.withDependants(u)
	for _, d := range set {
		d.leaving = true
	}
	done := make(chan Report, 1)
	s.removals.Go(func() {
		s.drain(set, func(u *service) { u.removing = true })
		gone := func(u *service) bool { return u.gone }
		s.await(set, s.grace(set), gone)
		r := report(set, gone)
		for _, l := range r.Left {
			s.log.Warn("service does not come to rest", "service", l.ID, "why", l.Why)
		}
		done <- r
	})
	return done, nil
}

// removedEarly removes a service and all that depends on it from a supervisor that does
// not run yet, and reports whether it did.
func (s *Supervisor) removedEarly(u *service) bool {
	s.starting.Lock()
	defer s.starting.Unlock()
	s.mu.RLock()
	early := !s.started && s.services[u.id.ID] == u
	var set []*service
	if early {
		set = s.withDependants(u)
	}
	s.mu.RUnlock()
	for _, d := range set {
		d.set(func() {
			d.gone = true
			d.wakeWaiters()
		})
		s.forget(d)
	}
	return early
}

// Force cuts short a stop that is under way or to come: Run returns, and reports what
// still runs. It may be called more than once.
func (s *Supervisor) Force() { s.force() }

// stop stops services, collections and shards, in this order.
func (s *Supervisor) stop() Report {
	s.mu.Lock()
	s.stopping = true
	s.mu.Unlock()
	all := s.sorted()
	s.drain(all, func(u *service) { u.shutdown = true })
	for _, u := range all {
		u.close()
	}
	s.await(all, s.grace(all), (*service).silent)
	s.cut()
	r := report(all, func(u *service) bool { return u.resting() && u.silent() })
	for _, sh := range s.shards {
		close(sh.quit)
	}
	s.removals.Wait()
	s.end()
	return r.with(s.waitShards())
}

// waitShards waits for the loops to end, and names those that do not: only a Next or a
// hook that never returns keeps one.
func (s *Supervisor) waitShards() []Left {
	timeout := s.config.Defaults.StopTimeout
	if s.forced.Err() != nil {
		timeout = 10 * timeStep
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	var left []Left
	for i, sh := range s.shards {
		select {
		case <-sh.done:
		case <-ctx.Done():
			left = append(left, Left{ID: fmt.Sprintf("(shard %d)", i), Why: "a Next or a hook has not returned"})
		}
	}
	return left
}

func (r Report) with(left []Left) Report {
	r.Left = append(r.Left, left...)
	return r
}

func (u *service) set(f func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	f()
}

// close prevents the service from beginning anything.
func (u *service) close() {
	u.set(func() {
		u.closing = true
		if u.collection.cancel != nil {
			u.collection.cancel(ErrShuttingDown)
			u.collection.cancel = nil
		}
		u.interrupt(ErrShuttingDown, time.Now())
	})
	u.wake()
}

// spent reports whether the service rests, or waiting longer changes nothing.
func (u *service) spent() bool {
	return u.resting() || !u.running() && u.pending == nil && !u.dirty && u.requeue.IsZero()
}

// silent reports whether no goroutine of the service runs.
func (u *service) silent() bool {
	return !u.collection.running && u.collection.lost == 0 && u.abandoned == 0 && (u.act == nil || !u.act.live) && u.pending == nil
}

// await waits until ok of all services, for at most timeout.
func (s *Supervisor) await(set []*service, timeout time.Duration, ok func(*service) bool) {
	ctx, cancel := context.WithTimeout(s.writing, timeout)
	defer cancel()
	defer context.AfterFunc(s.forced, cancel)()
	for _, u := range set {
		if !u.await(ctx, timeout, ok) {
			return
		}
	}
}

// grace returns how long cancelled actions may take until they are abandoned, and their
// outcome is shown.
func (s *Supervisor) grace(set []*service) time.Duration {
	longest := time.Duration(0)
	for _, u := range set {
		u.set(func() { longest = max(longest, u.grace()) })
	}
	return longest
}

func (u *service) grace() time.Duration {
	if u.act != nil && u.act.live {
		return max(u.act.limits.Grace, u.opt.Action.Grace) + 10*timeStep
	}
	return u.opt.Action.Grace + 10*timeStep
}

// report names the services that are not ok.
func report(set []*service, ok func(*service) bool) Report {
	var r Report
	now := time.Now()
	for _, u := range set {
		u.set(func() {
			if !ok(u) {
				r.Left = append(r.Left, u.leftover(now))
			}
		})
	}
	return r
}

func (u *service) leftover(now time.Time) Left {
	l := Left{ID: u.id.ID, State: u.state.name, Phase: u.state.phase, Why: u.why(now)}
	if u.busy() || u.abandoned > 0 {
		l.Action = u.act.status.ActionName
	}
	if u.collection.running || u.collection.lost > 0 {
		l.Why = "a collection that ignores its context"
	}
	return l
}

// withDependants returns a service and all that depends on it. It is called with mu held.
func (s *Supervisor) withDependants(u *service) []*service {
	set := []*service{u}
	for i := 0; i < len(set); i++ {
		for _, d := range s.dependants[set[i].id.ID] {
			if !slices.Contains(set, d) {
				set = append(set, d)
			}
		}
	}
	return set
}
