package engine

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
)

// maxGuests bounds the records of remote workers that are kept in memory.
const maxGuests = 10_000

// guests are the remote workers that exchange with this process, and their exchanges that
// wait for work.
type guests struct {
	mu    sync.Mutex
	known map[rowkey.Worker]*guest
	polls []*poll // those that wait for a bell, the longest first
}

// A guest is a remote worker. Of its record only what never changes is used.
type guest struct {
	worker *pawl.Worker
	routes string // the same text for the same routes

	mu   sync.Mutex
	owed int   // steps claimed since the queue went first
	poll *poll // its exchange under way
}

// A poll is an exchange that may wait for work.
type poll struct {
	guest     *guest
	bell      chan struct{} // buffer 1: a ring waits to be heard
	overtaken chan struct{} // closed: a later exchange of the worker has begun here
}

// guest returns a remote worker.
func (g *guests) guest(ctx context.Context, views store.Views, id pawl.ID) (*guest, error) {
	g.mu.Lock()
	known := g.known[id.WorkerKey()]
	g.mu.Unlock()
	if known != nil && known.worker.ID == id {
		return known, nil
	}
	w, err := store.FindWorker(ctx, views, id)
	if err != nil {
		return nil, err
	}
	if !w.Remote() {
		return nil, &pawl.Error{Kind: pawl.Conflict, Message: "worker " + id.Public(pawl.WorkerPrefix) + " works on the database itself",
			Hint: "only a worker that was registered through a server can do this"}
	}
	known = &guest{worker: w, routes: routesText(w.Routes)}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.known) >= maxGuests || g.known == nil {
		g.known = make(map[rowkey.Worker]*guest)
	}
	g.known[w.Key()] = known
	return known, nil
}

func routesText(routes []rowkey.Route) string {
	sorted := slices.Sorted(slices.Values(routes))
	text := make([]byte, 0, 8*len(sorted))
	for _, r := range sorted {
		for shift := 0; shift < 64; shift += 8 {
			text = append(text, byte(r>>shift))
		}
	}
	return string(text)
}

// failed forgets a worker that has ended.
func (g *guests) failed(w *guest, err error) {
	if !errors.Is(err, link.ErrWorkerEnded) {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.known, w.worker.Key())
}

// share returns how many of the free slots take from the queue first: one of every
// queueEvery steps.
func (w *guest) share(free int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := min(w.owed/queueEvery, free)
	w.owed -= n * queueEvery
	return n
}

// Of every queueEvery slots of a remote worker one is for the step that has waited longest in
// the queue, as in package worker.
const queueEvery = 4

func (w *guest) claimed(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.owed += n
}

// begin ends the wait of the worker's earlier exchange, and lists the new one.
func (g *guests) begin(w *guest) *poll {
	p := &poll{guest: w, bell: make(chan struct{}, 1), overtaken: make(chan struct{})}
	w.mu.Lock()
	if w.poll != nil {
		close(w.poll.overtaken)
	}
	w.poll = p
	w.mu.Unlock()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.polls = append(g.polls, p)
	return p
}

// end removes an exchange. If it was rung and did not claim since, another one is rung.
func (g *guests) end(p *poll) {
	p.guest.mu.Lock()
	if p.guest.poll == p {
		p.guest.poll = nil
	}
	p.guest.mu.Unlock()
	g.mu.Lock()
	g.polls = slices.DeleteFunc(g.polls, func(x *poll) bool { return x == p })
	g.mu.Unlock()
	select {
	case <-p.bell:
		g.ring(p.guest.routes)
	default:
	}
}

// any reports whether an exchange is under way.
func (g *guests) any() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.polls) > 0
}

// ring rings one exchange of workers with these routes.
func (g *guests) ring(routes string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, p := range g.polls {
		if p.guest.routes == routes && p.ring() {
			g.last(i)
			return
		}
	}
}

// ringAll rings one exchange for each kind of worker: something may be in the queue, and it
// is not known where. What claims something rings the next one.
func (g *guests) ringAll() {
	g.mu.Lock()
	defer g.mu.Unlock()
	rung := make(map[string]bool)
	for _, p := range g.polls {
		if !rung[p.guest.routes] {
			rung[p.guest.routes] = p.ring()
		}
	}
}

// ringFor rings as many exchanges as there are steps in the queue for them.
func (g *guests) ringFor(steps map[rowkey.Route]int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := 0; i < len(g.polls) && len(steps) > 0; i++ {
		p := g.polls[i]
		at := slices.IndexFunc(p.guest.worker.Routes, func(r rowkey.Route) bool { return steps[r] > 0 })
		if at < 0 || !p.ring() {
			continue
		}
		r := p.guest.worker.Routes[at]
		if steps[r]--; steps[r] == 0 {
			delete(steps, r)
		}
	}
}

// last moves an exchange behind the others, which are rung before it next time.
func (g *guests) last(i int) {
	p := g.polls[i]
	copy(g.polls[i:], g.polls[i+1:])
	g.polls[len(g.polls)-1] = p
}

// ring reports whether the exchange did not have a ring waiting.
func (p *poll) ring() bool {
	select {
	case p.bell <- struct{}{}:
		return true
	default:
		return false
	}
}

var _ link.Remote = (*Engine)(nil)
