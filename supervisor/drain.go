package supervisor

import (
	"context"
	"slices"
	"sync"
	"time"
)

// A drain is a stop of several services: each is stopped when those of the others that
// depend on it have ended, and has its own budget from then on. Until then it is held, so
// that it takes their end for no failure.
type drain struct {
	mark  func(*service)          // tells a service to stop
	needs map[*service][]*service // those of the drain that a service is stopped before
	all   sync.WaitGroup

	mu    sync.Mutex                     // taken after that of a service
	waits map[*service]map[*service]bool // for those of its dependants that have not ended
}

// drain brings services to rest. It returns when all have ended: they rest, or their
// budget and the grace of their actions have passed.
func (s *Supervisor) drain(set []*service, mark func(*service)) {
	ctx, cancel := context.WithCancel(s.writing)
	defer cancel()
	defer context.AfterFunc(s.forced, cancel)()
	d := s.newDrain(set, mark)
	var free []*service
	for _, u := range set {
		u.set(func() { u.held = d })
		if len(d.waits[u]) == 0 {
			free = append(free, u)
		}
	}
	for _, u := range free {
		d.begin(ctx, u)
	}
	d.all.Wait()
}

func (s *Supervisor) newDrain(set []*service, mark func(*service)) *drain {
	d := &drain{mark: mark, needs: map[*service][]*service{}, waits: map[*service]map[*service]bool{}}
	for _, u := range set {
		d.waits[u] = map[*service]bool{}
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, u := range set {
		for _, dependant := range s.dependants[u.id.ID] {
			if _, ok := d.waits[dependant]; ok && !d.waits[u][dependant] {
				d.waits[u][dependant] = true
				d.needs[dependant] = append(d.needs[dependant], u)
			}
		}
	}
	return d
}

// begin stops a service whose turn has come, and then those that have waited for it only.
func (d *drain) begin(ctx context.Context, u *service) {
	d.all.Go(func() {
		d.stop(ctx, u)
		for _, next := range d.ended(u) {
			d.begin(ctx, next)
		}
	})
}

// stop returns when a service has come to rest, or has used up its budget, was cancelled,
// and has used up the grace of its action.
func (d *drain) stop(ctx context.Context, u *service) {
	var patience time.Duration
	u.set(func() {
		if u.held == d { // or a later drain holds it
			u.held = nil
		}
		d.mark(u)
		u.renew()
		patience = u.opt.StopTimeout
	})
	u.wake()
	if u.await(ctx, patience, (*service).resting) {
		return
	}
	u.set(func() {
		u.interrupt(ErrShuttingDown, time.Now())
		patience = u.grace()
	})
	u.wake()
	u.await(ctx, patience, (*service).spent)
}

// ended returns those whose turn comes because a service has ended.
func (d *drain) ended(u *service) (free []*service) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, n := range d.needs[u] {
		if delete(d.waits[n], u); len(d.waits[n]) == 0 {
			free = append(free, n)
		}
	}
	return free
}

// awaited returns the ids of those whose end the stop of a service waits for.
func (d *drain) awaited(u *service) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var ids []string
	for dependant := range d.waits[u] {
		ids = append(ids, dependant.id.ID)
	}
	slices.Sort(ids)
	return ids
}

// await waits until a service is as it should be, but no longer than its patience, and
// reports whether it is.
func (u *service) await(ctx context.Context, patience time.Duration, ok func(*service) bool) bool {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return u.wait(ctx, func() bool {
		u.mu.Lock()
		defer u.mu.Unlock()
		return ok(u)
	}) == nil
}
