package supervisor

import (
	"context"
	"slices"
	"sync"
	"time"
)

// A drain is a stop of several services: each is stopped once those of the others that
// depend on it have ended, and has its own budget from then on. Until then it is held, so
// that it does not take their end for a failure.
type drain struct {
	mark  func(*service)          // marks a service as stopping
	needs map[*service][]*service // the services that are stopped after this one
	all   sync.WaitGroup

	mu    sync.Mutex                     // locked after that of a service
	waits map[*service]map[*service]bool // the dependants of each that have not ended
}

// drain stops services. It returns when all have come to rest, or have used up their
// budget and the grace of their actions.
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

// begin stops a service, and then those that waited for it alone.
func (d *drain) begin(ctx context.Context, u *service) {
	d.all.Go(func() {
		d.stop(ctx, u)
		for _, next := range d.ended(u) {
			d.begin(ctx, next)
		}
	})
}

// stop returns when a service has come to rest, or when it has used up its budget, its
// action was cancelled, and the grace of that has passed.
func (d *drain) stop(ctx context.Context, u *service) {
	var timeout time.Duration
	u.set(func() {
		if u.held == d { // or a later drain holds it
			u.held = nil
		}
		d.mark(u)
		u.renew()
		timeout = u.opt.StopTimeout
	})
	u.wake()
	if u.await(ctx, timeout, (*service).resting) {
		return
	}
	u.set(func() {
		u.interrupt(ErrShuttingDown, time.Now())
		timeout = u.grace()
	})
	u.wake()
	u.await(ctx, timeout, (*service).spent)
}

// ended records that a service has ended, and returns those that are to stop next.
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

// awaited returns the ids of the dependants that the stop of a service waits for.
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

// await waits until ok of a service, for at most timeout, and reports whether it is.
func (u *service) await(ctx context.Context, timeout time.Duration, ok func(*service) bool) bool {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return u.wait(ctx, func() bool {
		u.mu.Lock()
		defer u.mu.Unlock()
		return ok(u)
	}) == nil
}
