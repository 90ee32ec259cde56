package supervisor

import (
	"context"
	"fmt"
	"hash/maphash"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// A Supervisor keeps services converged. Its methods may be called from any goroutine.
type Supervisor struct {
	config   Config
	hooks    Hooks
	log      *slog.Logger
	executor ActionExecutor
	shards   []*shard
	seed     maphash.Seed
	began    time.Time

	root    context.Context // of actions and collections: not cancelled with the ctx of Run
	writing context.Context // of the journal's calls
	cut     context.CancelFunc
	forced  context.Context // done once Force was called
	force   context.CancelFunc
	over    context.Context // done when the supervisor has stopped
	end     context.CancelFunc

	starting sync.Mutex     // held by start and removedEarly; locked before the mu of a service
	removals sync.WaitGroup // goroutines of remove

	// mu is taken after the mu of a service, never before.
	mu         sync.RWMutex
	services   map[string]*service
	dependants map[string][]*service // by the id that they depend on, or have as parent
	started    bool
	stopping   bool
}

// New returns a supervisor without services, or an error that wraps ErrInvalid and names
// the field.
func New(c Config) (*Supervisor, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Supervisor{
		config: c, hooks: c.Hooks, log: c.Log, executor: c.Executor,
		seed: maphash.MakeSeed(), began: time.Now(),
		services: make(map[string]*service), dependants: make(map[string][]*service),
	}
	s.root = context.Background()
	s.writing, s.cut = context.WithCancel(context.Background())
	s.forced, s.force = context.WithCancel(context.Background())
	s.over, s.end = context.WithCancel(context.Background())
	for range c.Shards {
		s.shards = append(s.shards, newShard(s))
	}
	return s, nil
}

// random returns a number in [0, 1), even if Config.Random does not. It is called
// without a lock.
func (s *Supervisor) random() float64 {
	n := 0.5
	if p := guard(func() { n = s.config.Random() }); p != nil {
		s.log.Error("panic in Config.Random", "panic", fmt.Sprint(p.value), "stack", string(p.stack))
	}
	if n >= 0 && n < 1 {
		return n
	}
	return 0.5
}

// Run supervises until ctx is done, then stops every service in order, and reports what is
// left (S10). Actions and collections get the values of ctx, not its end. A supervisor
// runs once: a second call is ErrStarted.
func (s *Supervisor) Run(ctx context.Context) (Report, error) {
	if !s.start(ctx) {
		return Report{}, ErrStarted
	}
	for _, sh := range s.shards {
		go sh.loop()
	}
	<-ctx.Done()
	return s.stop(), nil
}

// start reports whether this is the first call.
func (s *Supervisor) start(ctx context.Context) bool {
	s.starting.Lock()
	defer s.starting.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.started {
		return false
	}
	s.started, s.root = true, context.WithoutCancel(ctx)
	return true
}

// insert adds a service to the maps.
func (s *Supervisor) insert(u *service) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.insertable(u); err != nil {
		return err
	}
	u.shard = s.shards[maphash.String(s.seed, u.id.ID)%uint64(len(s.shards))]
	s.services[u.id.ID] = u
	for _, id := range u.needs() {
		s.dependants[id] = append(s.dependants[id], u)
	}
	return nil
}

// insertable is called with mu held.
func (s *Supervisor) insertable(u *service) error {
	if s.stopping {
		return fmt.Errorf("add service %s: %w", u.id.ID, ErrStopped)
	}
	if s.services[u.id.ID] != nil {
		return fmt.Errorf("add service %s: %w", u.id.ID, ErrExists)
	}
	for _, id := range u.needs() {
		if path := s.path(id, u.id.ID, nil); path != nil {
			return fmt.Errorf("add service %s: %w: it depends on %s", u.id.ID, ErrCycle, strings.Join(path, ", which depends on "))
		}
	}
	return nil
}

// path returns how the service from depends on to, or nil.
func (s *Supervisor) path(from, to string, seen []string) []string {
	seen = append(seen, from)
	if from == to {
		return seen
	}
	if u := s.services[from]; u != nil {
		for _, id := range u.needs() {
			if p := s.path(id, to, seen); p != nil {
				return p
			}
		}
	}
	return nil
}

// needs returns the ids that a service is stopped before.
func (u *service) needs() []string {
	if u.id.Parent == "" || slices.Contains(u.after, u.id.Parent) {
		return u.after
	}
	return append(slices.Clip(u.after), u.id.Parent)
}

// forget removes a service from the maps.
func (s *Supervisor) forget(u *service) {
	s.mu.Lock()
	if s.services[u.id.ID] == u {
		delete(s.services, u.id.ID)
	}
	for _, id := range u.needs() {
		s.removeDependant(id, u)
	}
	s.mu.Unlock()
	s.wakeRelated(u)
}

// needed reports whether a service has dependants that are removed before it. One that was
// added since its removal began does not count.
func (s *Supervisor) needed(id string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.ContainsFunc(s.dependants[id], func(d *service) bool { return d.leaving })
}

// wakeRelated wakes the services that see a service in their snapshots, or wait for its
// removal.
func (s *Supervisor) wakeRelated(u *service) {
	s.mu.RLock()
	related := slices.Clone(s.dependants[u.id.ID])
	for _, id := range u.needs() {
		if r := s.services[id]; r != nil {
			related = append(related, r)
		}
	}
	s.mu.RUnlock()
	for _, r := range related {
		r.wake()
	}
}

// relate adds the peers to the facts of a snapshot.
func (s *Supervisor) relate(u *service, f *Facts) {
	s.mu.RLock()
	around, after := s.dependants[u.id.ID], u.after
	if len(around) == 0 && len(after) == 0 {
		s.mu.RUnlock()
		return
	}
	var children, needed []*service
	for _, c := range around {
		if c.id.Parent == u.id.ID {
			children = append(children, c)
		}
	}
	for _, id := range after {
		needed = append(needed, s.services[id])
	}
	s.mu.RUnlock()
	for _, c := range children {
		f.Children = append(f.Children, c.peer())
	}
	slices.SortFunc(f.Children, func(a, b Peer) int { return strings.Compare(a.ID, b.ID) })
	for i, d := range needed {
		p := Peer{ID: after[i]}
		if d != nil {
			p = d.peer()
		}
		f.Dependencies = append(f.Dependencies, p)
	}
}

func (u *service) peer() Peer {
	u.mu.Lock()
	defer u.mu.Unlock()
	return Peer{ID: u.id.ID, State: u.state.name, Phase: u.state.phase}
}

// find returns a service by its id.
func (s *Supervisor) find(id string) (*service, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if u := s.services[id]; u != nil {
		return u, nil
	}
	return nil, fmt.Errorf("service %.250q: %w", id, ErrNotFound)
}

// sorted returns all services by id.
func (s *Supervisor) sorted() []*service {
	s.mu.RLock()
	defer s.mu.RUnlock()
	all := slices.Collect(maps.Values(s.services))
	slices.SortFunc(all, func(a, b *service) int { return strings.Compare(a.id.ID, b.id.ID) })
	return all
}

// Wake gives a service a turn and a collection at once, because something has happened
// that the next collection would find. It does not wait; calls in a row are merged.
func (s *Supervisor) Wake(id string) error {
	u, err := s.find(id)
	if err == nil {
		u.mu.Lock()
		u.collection.wanted = true
		u.mu.Unlock()
		u.wake()
	}
	return err
}

// Status returns the status of a service, or ErrNotFound.
func (s *Supervisor) Status(id string) (Status, error) {
	u, err := s.find(id)
	if err != nil {
		return Status{}, err
	}
	return u.status(time.Now()), nil
}

// All returns the status of each service, by id.
func (s *Supervisor) All() iter.Seq[Status] {
	return func(yield func(Status) bool) {
		now := time.Now()
		for _, u := range s.sorted() {
			if !yield(u.status(now)) {
				return
			}
		}
	}
}

// call calls functions that had to wait until no lock is held.
func (s *Supervisor) call(out []func()) {
	called := 0
	defer func() {
		if called < len(out) { // a hook has ended the goroutine
			s.call(out[called:])
		}
	}()
	for called < len(out) {
		f := out[called]
		called++
		if p := guard(f); p != nil {
			s.log.Error("panic in a hook", "panic", fmt.Sprint(p.value), "stack", string(p.stack))
		}
	}
}
