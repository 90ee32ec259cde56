package supervisor_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/supervisor"
)

// Random schedules of all that may happen to services, of which one depends on
// another and one is its child: outcomes and delays of actions, collections and the
// journal, changes of what is desired and storms of them, exits, restarts, removals
// and other lives, crashes of the process, a shutdown at any moment. No execution is a
// duplicate, no action is lost, no removal and no shutdown; dependants stop first (S3,
// S10, S11).

var scheduleCases = flag.Int("schedule.cases", 2_000, "random schedules that a service is held to its promises on")

// The outcomes of an attempt.
const (
	succeeds = iota
	fails
	failsLate // after it had its effect
	failsForGood
	panics
	hangs  // until it is cancelled
	isDeaf // to its cancellation, for a while
	endings
)

// What happens at a moment of a schedule.
const (
	turnsDown = iota
	turnsUp
	revises
	exits
	isWoken
	crashes
	storms // of specifications
	restarts
	isRemoved
	isAdded // again
	moments
)

type (
	run    struct{ Ending, Millis int }
	entry  struct{ Fails, Late bool } // what the journal does: it may fail though the entry is there
	moment struct {
		What, Who int
		After     int // milliseconds
	}
)

// A course is all that a schedule does not decide by itself. What is not in it goes
// well.
type course struct {
	Services int // of those that are called names
	Moments  []moment
	Runs     []run
	Looks    []run
	Entries  []entry
	Journal  bool
	Seed     uint64 // of jitter
}

func courses() *rapid.Generator[course] {
	after := rapid.SampledFrom([]int{0, 1, 10, 300, 1000, 1001, 2500, 7000, 15000})
	ending := rapid.Custom(func(t *rapid.T) run { return run{rapid.IntRange(0, endings-1).Draw(t, "ending"), after.Draw(t, "ms")} })
	look := rapid.Custom(func(t *rapid.T) run {
		return run{rapid.SampledFrom([]int{succeeds, succeeds, succeeds, fails, panics, hangs, isDeaf}).Draw(t, "look"), after.Draw(t, "ms")}
	})
	return rapid.Custom(func(t *rapid.T) course {
		return course{
			Services: rapid.IntRange(1, len(names)).Draw(t, "services"),
			Moments: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) moment {
				return moment{rapid.IntRange(0, moments-1).Draw(t, "what"), rapid.IntRange(0, len(names)-1).Draw(t, "who"), after.Draw(t, "after")}
			}), 0, 12).Draw(t, "moments"),
			Runs:  rapid.SliceOfN(ending, 0, 8).Draw(t, "runs"),
			Looks: rapid.SliceOfN(look, 0, 8).Draw(t, "looks"),
			Entries: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) entry {
				return entry{rapid.Bool().Draw(t, "fails"), rapid.Bool().Draw(t, "late")}
			}), 0, 8).Draw(t, "entries"),
			Journal: rapid.Bool().Draw(t, "journal"),
			Seed:    rapid.Uint64().Draw(t, "seed"),
		}
	})
}

func TestRandomSchedules(t *testing.T) {
	if err := flag.Set("rapid.checks", strconv.Itoa(*scheduleCases)); err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(rt *rapid.T) {
		c := courses().Draw(rt, "course")
		var fault error
		synctest.Test(t, func(*testing.T) { fault = newPlay(c).play() })
		if fault != nil {
			rt.Fatal(fault)
		}
	})
}

// names are those of the services: the second depends on the first, the third is its
// child.
var names = []string{"web", "app", "kid"}

// A play is a course that is being played.
type play struct {
	course
	journal *supervisor.MemoryJournal

	mu      sync.Mutex
	runs    []run
	looks   []run
	entries []entry
	dead    chan struct{} // closed when the process dies
	fault   error
	stopped time.Time // when the shutdown began

	things []*thing
	s      *supervisor.Supervisor
	cancel context.CancelFunc
	report chan supervisor.Report
}

// A thing is what a service works on, and what is known of it.
type thing struct {
	p       *play
	id      supervisor.Identity
	needs   []string
	desired want
	h       *handle
	there   bool // it was added, and its removal was not asked for since

	up       bool
	now      int       // actions that run
	done     string    // the last action that succeeded, if nothing has happened since
	fence    uint64    // the highest
	told     time.Time // when Next first knew of the shutdown
	added    time.Time // the last time
	removed  time.Time // when its removal, or that of what it needs, was asked for
	restart  bool      // to be asked for by Next
	restarts bool      // it was asked for, and nothing was started since
}

func newPlay(c course) *play {
	p := &play{course: c, runs: c.Runs, looks: c.Looks, entries: c.Entries, journal: &supervisor.MemoryJournal{}}
	for _, name := range names[:c.Services] {
		p.things = append(p.things, &thing{p: p, id: supervisor.Identity{ID: name}})
	}
	if c.Services > 1 {
		p.things[1].needs = names[:1]
	}
	if c.Services > 2 {
		p.things[2].id.Parent = names[0]
	}
	return p
}

func (p *play) play() error {
	p.boot()
	for _, m := range p.Moments {
		pass(time.Duration(m.After) * time.Millisecond)
		p.happens(m.What, p.things[m.Who%len(p.things)])
	}
	calm := len(p.Moments)%2 == 0 // or it is stopped in the middle of it all
	if calm {
		p.converges()
	}
	p.stops(calm)
	p.verify()
	return p.fault
}

func (p *play) happens(what int, x *thing) {
	switch what {
	case turnsDown, turnsUp:
		x.desired.Down = what == turnsDown
		x.wants()
	case revises:
		x.desired.Rev++
		x.wants()
	case storms:
		for range 10 {
			x.desired.Rev++
			x.desired.Down = !x.desired.Down
			x.wants()
			runtime.Gosched()
		}
	case exits:
		p.set(func() { x.up, x.done = false, "" })
	case isWoken:
		x.h.Wake()
	case restarts:
		p.set(func() { x.restart = true })
		x.h.Wake()
	case isRemoved:
		p.remove(x)
	case isAdded:
		p.add(x)
	case crashes:
		p.crash()
		p.boot()
	}
}

// wants sets what is desired.
func (x *thing) wants() {
	if err := x.h.SetSpec(x.desired); err != nil && !errors.Is(err, supervisor.ErrNotFound) {
		x.p.check(err)
	}
}

// remove begins to remove a thing, and what depends on it.
func (p *play) remove(x *thing) {
	if _, err := p.s.Status(x.id.ID); err != nil {
		return
	}
	p.set(func() {
		for _, d := range p.things {
			if d == x || x == p.things[0] {
				d.there = false
				if d.removed.IsZero() {
					d.removed = time.Now()
				}
			}
		}
	})
	s := p.s
	go func() { _, _ = s.Remove(context.Background(), x.id.ID) }()
	synctest.Wait()
}

// boot starts a process.
func (p *play) boot() {
	var turn sync.Mutex
	jitter := rand.New(rand.NewPCG(p.Seed, 1))
	c := supervisor.Config{Log: quiet(), Shards: 1, Random: func() float64 { // from any goroutine
		turn.Lock()
		defer turn.Unlock()
		return jitter.Float64()
	}}
	p.dead = make(chan struct{})
	if p.Journal {
		c.Journal = &unsure{p: p, dead: p.dead}
	}
	c.Defaults.Action.Timeout = 5 * time.Second
	c.Hooks.Action = p.begins
	s, err := supervisor.New(c)
	p.check(err)
	p.s = s
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel, p.report = cancel, make(chan supervisor.Report, 1)
	go func() {
		r, _ := s.Run(ctx)
		p.report <- r
	}()
	synctest.Wait()
	for _, x := range p.things {
		p.add(x)
	}
}

// add adds a thing, unless it is there or leaves.
func (p *play) add(x *thing) {
	w := &plant{id: x.id.ID, look: x.look(p.dead), start: x.act(p.dead, "start", true), stop: x.act(p.dead, "stop", false), next: x.asked}
	before := x.added
	p.set(func() {
		x.added = time.Now()
		if !p.Journal { // then they begin anew
			x.fence = 0
		}
	})
	for {
		h, err := supervisor.Add(context.Background(), p.s, x.id, w, x.desired, supervisor.Options{DependsOn: x.needs})
		if errors.Is(err, supervisor.ErrExists) {
			p.set(func() { x.added = before })
			return
		}
		if err == nil {
			p.set(func() { x.h, x.there, x.removed, x.restart, x.restarts = h, true, time.Time{}, false, false })
			return
		}
	}
}

// begins holds attempts to their fences, which rise.
func (p *play) begins(ctx context.Context, id supervisor.Identity, r supervisor.Run, _ supervisor.Action) (context.Context, func(supervisor.Attempt)) {
	p.set(func() {
		x := p.things[slices.Index(names, id.ID)]
		if r.Fence <= x.fence {
			p.blame("%s begins with fence %d after %d", r.ID, r.Fence, x.fence)
		}
		x.fence = r.Fence
	})
	return ctx, nil
}

// asked records when Next first saw the shutdown, checks the order, and asks for
// restarts.
func (x *thing) asked(_ string, n snapshot) (d *decision) {
	if n.Shutdown && n.Generation == 1 { // by Add: a shutdown is another generation
		return nil
	}
	p := x.p
	rests := p.rests(x)
	p.set(func() {
		began := p.stopped
		if !x.removed.IsZero() && (began.IsZero() || x.removed.Before(began)) {
			began = x.removed
		}
		if n.Shutdown && !p.stopped.IsZero() && x.told.IsZero() {
			x.told = n.Now
		}
		if n.Shutdown && !began.IsZero() && !x.restarts && !rests && n.Now.Sub(began) < 5*time.Second {
			p.blame("%s is to stop before what depends on it has stopped", x.id.ID)
		}
		if x.restart && !n.Shutdown {
			x.restart, x.restarts = false, true
			d = &decision{Signal: supervisor.SignalNeedsRestart}
		}
		if !n.Shutdown {
			x.restarts = d != nil
		}
	})
	return d
}

// rests reports whether all that depends on a thing has stopped. What was added after
// its removal began does not count; nor does what a process that has just begun has
// not seen yet, and stops when it does.
func (p *play) rests(x *thing) bool {
	if x != p.things[0] {
		return true
	}
	for _, d := range p.things[1:] {
		late := false
		p.set(func() { late = !x.removed.IsZero() && !d.added.Before(x.removed) })
		if late {
			continue
		}
		st, err := p.s.Status(d.id.ID)
		if err == nil && st.Phase != lifecycle.ServiceStopped && st.Phase != lifecycle.ServiceFailed {
			return false
		}
	}
	return true
}

// crash ends the process: nothing of it has an effect any more.
func (p *play) crash() {
	p.set(func() {
		close(p.dead)
		for _, x := range p.things {
			x.now, x.done, x.removed = 0, "", time.Time{} // the end of a dead process has no order
		}
	})
	p.cancel()
	p.s.Force()
	<-p.report
	synctest.Wait()
	p.set(func() {
		for _, x := range p.things {
			x.told = time.Time{}
			if !p.Journal {
				x.fence = 0
			}
		}
	})
}

// look is a collection. It sees the thing as it is at its end.
func (x *thing) look(dead <-chan struct{}) func(context.Context, *plant) error {
	p := x.p
	return func(ctx context.Context, w *plant) error {
		var r run
		var up bool
		p.set(func() { r = pop(&p.looks) })
		if err := p.take(ctx, r, dead); err != nil {
			return err
		}
		p.set(func() { up = x.up })
		w.set(func() { w.up = up })
		return nil
	}
}

// take takes the time of a run, and ends it.
func (p *play) take(ctx context.Context, r run, dead <-chan struct{}) error {
	for range 2 { // a deaf one stays twice its time
		var cancelled <-chan struct{}
		if r.Ending != isDeaf {
			cancelled = ctx.Done()
		}
		after := time.After(time.Duration(r.Millis) * time.Millisecond)
		if r.Ending == hangs {
			after = nil
		}
		select {
		case <-dead:
			return errors.New("the process is dead")
		case <-cancelled:
			return context.Cause(ctx)
		case <-after:
		}
		if r.Ending != isDeaf {
			break
		}
	}
	switch r.Ending {
	case fails:
		return errors.New("it failed")
	case panics:
		panic("it panicked")
	case failsForGood:
		return supervisor.ErrNonRetriable
	}
	return nil
}

// act is an action that has its effect at its end.
func (x *thing) act(dead <-chan struct{}, name string, up bool) func(context.Context, *plant) error {
	p := x.p
	return func(ctx context.Context, w *plant) error {
		alive := func() bool {
			select {
			case <-dead:
				return false
			default:
				return true
			}
		}
		var r run
		p.set(func() {
			if !alive() {
				return
			}
			r = pop(&p.runs)
			x.now++
			switch {
			case x.now > 1:
				p.blame("%s of %s begins while another action runs", name, x.id.ID)
			case name == "start" && x.up:
				p.blame("start of %s begins, and it is up", x.id.ID)
			case name == "stop" && x.done == "stop":
				p.blame("stop of %s begins again, and it was stopped", x.id.ID)
			}
			x.done = ""
		})
		defer p.set(func() {
			if alive() {
				x.now--
			}
		})
		err := p.take(ctx, r, dead)
		p.set(func() {
			if alive() && (err == nil || r.Ending == failsLate) {
				x.up = up
			}
			if alive() && err == nil {
				x.done = name
			}
		})
		if r.Ending == failsLate && err == nil {
			p.set(func() { x.done = "" })
			return errors.New("it failed, and had its effect")
		}
		return err
	}
}

// converges holds the services to what is desired, once nothing goes wrong any more
// (no lost action, no lost removal).
func (p *play) converges() {
	p.set(func() { p.runs, p.looks, p.entries = nil, nil, nil })
	pass(70 * time.Second) // the longest backoff
	for _, x := range p.things {
		x.desired.Rev++
		x.wants()
	}
	pass(20 * time.Second)
	first := p.things[0].converged(true)
	for _, x := range p.things[1:] {
		x.converged(first)
	}
}

// converged holds a thing to what is desired of it, and reports whether it runs. One
// whose needs do not run need not start.
func (x *thing) converged(needs bool) bool {
	st, err := x.p.s.Status(x.id.ID)
	runs := st.Phase == lifecycle.ServiceRunning || st.Phase == lifecycle.ServiceDegraded
	stopped, failed := st.Phase == lifecycle.ServiceStopped, st.Phase == lifecycle.ServiceFailed
	x.p.set(func() {
		switch {
		case !x.there && errors.Is(err, supervisor.ErrNotFound):
		case !x.there || err != nil:
			x.p.blame("%s: removed %t, and there is %+v, %v", x.id.ID, !x.there, st, err)
		case runs && x.up && !x.desired.Down, stopped && !x.up && x.desired.Down:
		case failed && x.desired.Down, (stopped || failed) && !x.desired.Down && !needs: // its stop has failed for good; it is not to start yet
		default:
			x.p.blame("%s does not converge: %s, up %t, waits for %s; want down %t", x.id.ID, st.Phase, x.up, st.Waits, x.desired.Down)
		}
	})
	return runs
}

// stops checks the shutdown of the supervisor: Next is called at once, it is bounded,
// and nothing is left if nothing goes wrong.
func (p *play) stops(calm bool) {
	began := time.Now()
	p.set(func() { p.stopped = began })
	p.cancel()
	r := <-p.report
	last := p.things[len(p.things)-1] // nothing depends on it
	p.set(func() {
		switch took := time.Since(began); {
		case took > 26*time.Second:
			p.blame("the shutdown took %s", took)
		case len(r.Left) > 0 && calm:
			p.blame("the shutdown left %+v", r.Left)
		case !p.Journal && last.there && !last.told.Equal(began):
			p.blame("Next of %s was told of the shutdown at %s, and it was at %s", last.id.ID, last.told, began)
		}
	})
	time.Sleep(30 * time.Second) // the deaf return
	synctest.Wait()
}

// verify checks the trails: legal, chained, and an outcome for each action before the
// next is accepted.
func (p *play) verify() {
	for _, x := range p.things {
		_, lives, _ := p.journal.Lives(context.Background(), x.id.ID)
		for life := range lives {
			p.verifyTrail(trailOf(p.journal, supervisor.Entity(x.id.ID, life+1)))
		}
	}
}

func (p *play) verifyTrail(trail []audit.Entry) {
	if _, err := audit.Replay(lifecycle.Service, trail); err != nil {
		p.blame("%v", err)
	}
	open := ""
	for _, e := range trail {
		n := readNote(e)
		switch fence := fmt.Sprint(n.Action.Fence); {
		case n.Action.InProgress && open == "":
			open = fence
		case n.Action.InProgress && open != fence:
			p.blame("entry %d: action %s is accepted before the outcome of %s", e.Sequence, fence, open)
		case e.Event == lifecycle.ServiceSettle:
			open = ""
		}
	}
}

// An unsure journal fails, before or after the entry is there, and is cut off from
// a process that died.
type unsure struct {
	p    *play
	dead chan struct{}
}

func (j *unsure) Last(ctx context.Context, entity string) (audit.Entry, error) {
	return j.p.journal.Last(ctx, entity)
}

func (j *unsure) Append(ctx context.Context, e audit.Entry) error {
	var en entry
	j.p.set(func() { en = pop(&j.p.entries) })
	if en.Late {
		time.Sleep(3 * time.Second)
	}
	select {
	case <-j.dead:
		return errors.New("the process is dead")
	default:
	}
	if en.Fails && !en.Late {
		return errors.New("the journal fails")
	}
	if err := j.p.journal.Append(ctx, e); err != nil {
		return err
	}
	if en.Fails {
		return errors.New("the journal fails, and has the entry")
	}
	return nil
}

func (p *play) set(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

// blame keeps the first fault. It is called with the lock, or at the end.
func (p *play) blame(format string, args ...any) {
	if p.fault == nil {
		p.fault = fmt.Errorf(format, args...)
	}
}

func (p *play) check(err error) {
	if err != nil {
		p.set(func() { p.blame("%v", err) })
	}
}

// pop takes the first of what is left, or the zero value: it goes well.
func pop[T any](s *[]T) (first T) {
	if len(*s) > 0 {
		first, *s = (*s)[0], (*s)[1:]
	}
	return first
}
