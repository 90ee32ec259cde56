package supervisor_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
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

// Random schedules of all that may happen to a service: outcomes and delays of
// actions, collections and the journal, changes of what is desired, exits, crashes
// of the process, a shutdown at any moment. No execution is a duplicate, no action
// is lost, and no shutdown (S3).

var scheduleCases = flag.Int("schedule.cases", 2_000, "random schedules that a service is held to its promises on")

// What an attempt comes to.
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
	moments
)

type (
	run    struct{ Ending, Millis int }
	entry  struct{ Fails, Late bool } // what the journal does: it may fail though the entry is there
	moment struct {
		What  int
		After int // milliseconds
	}
)

// A course is all that a schedule does not decide by itself. What is not in it goes
// well.
type course struct {
	Moments []moment
	Runs    []run
	Looks   []run
	Entries []entry
	Journal bool
	Seed    uint64 // of jitter
}

func courses() *rapid.Generator[course] {
	after := rapid.SampledFrom([]int{0, 1, 10, 300, 1000, 1001, 2500, 7000, 15000})
	ending := rapid.Custom(func(t *rapid.T) run { return run{rapid.IntRange(0, endings-1).Draw(t, "ending"), after.Draw(t, "ms")} })
	look := rapid.Custom(func(t *rapid.T) run {
		return run{rapid.SampledFrom([]int{succeeds, succeeds, succeeds, fails, panics, hangs, isDeaf}).Draw(t, "look"), after.Draw(t, "ms")}
	})
	return rapid.Custom(func(t *rapid.T) course {
		return course{
			Moments: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) moment {
				return moment{rapid.IntRange(0, moments-1).Draw(t, "what"), after.Draw(t, "after")}
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

// A play is a course that is being played.
type play struct {
	course
	journal *supervisor.MemoryJournal
	ids     map[string]string // of intents -> their action

	mu      sync.Mutex
	runs    []run
	looks   []run
	entries []entry
	dead    chan struct{} // closed when the process dies
	up      bool
	now     int    // actions that run
	done    string // the last action that succeeded, if nothing has happened since
	fault   error
	told    time.Time // when Next first knew of the shutdown

	s      *supervisor.Supervisor
	h      *handle
	cancel context.CancelFunc
	report chan supervisor.Report
}

func newPlay(c course) *play {
	return &play{course: c, runs: c.Runs, looks: c.Looks, entries: c.Entries, journal: &supervisor.MemoryJournal{}, ids: map[string]string{}}
}

func (p *play) play() error {
	desired := want{}
	p.boot(desired)
	for _, m := range p.Moments {
		pass(time.Duration(m.After) * time.Millisecond)
		switch m.What {
		case turnsDown, turnsUp:
			desired.Down = m.What == turnsDown
			p.check(p.h.SetSpec(desired))
		case revises:
			desired.Rev++
			p.check(p.h.SetSpec(desired))
		case exits:
			p.set(func() { p.up, p.done = false, "" })
		case isWoken:
			p.h.Wake()
		case crashes:
			p.crash()
			p.boot(desired)
		}
	}
	calm := len(p.Moments)%2 == 0 // or it is stopped in the middle of it all
	if calm {
		p.converges(desired)
	}
	p.stops(calm)
	p.verify()
	return p.fault
}

// boot starts a process.
func (p *play) boot(desired want) {
	c := supervisor.Config{Log: quiet(), Shards: 1, Random: rand.New(rand.NewPCG(p.Seed, 1)).Float64}
	p.dead = make(chan struct{})
	if p.Journal {
		c.Journal = &unsure{p: p, dead: p.dead}
	}
	c.Defaults.Action.Timeout = 5 * time.Second
	s, err := supervisor.New(c)
	p.check(err)
	p.s = s
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel, p.report = cancel, make(chan supervisor.Report, 1)
	go func() {
		r, _ := s.Run(ctx)
		p.report <- r
	}()
	w := &plant{id: "web", look: p.look(p.dead), start: p.act(p.dead, "start", true), stop: p.act(p.dead, "stop", false), next: p.asked}
	for {
		if p.h, err = supervisor.Add(context.Background(), s, supervisor.Identity{ID: "web"}, w, desired, supervisor.Options{}); err == nil {
			return
		}
	}
}

// asked keeps when Next was first told of the shutdown.
func (p *play) asked(_ string, n snapshot) *decision {
	p.set(func() {
		if n.Shutdown && p.told.IsZero() {
			p.told = n.Now
		}
	})
	return nil
}

// crash ends the process: nothing of it has an effect any more.
func (p *play) crash() {
	p.set(func() { close(p.dead); p.now = 0; p.done = "" })
	p.cancel()
	p.s.Force()
	<-p.report
	synctest.Wait()
	p.set(func() { p.told = time.Time{} })
}

// look is a collection. It sees the thing as it is at its end.
func (p *play) look(dead <-chan struct{}) func(context.Context, *plant) error {
	return func(ctx context.Context, w *plant) error {
		var r run
		var up bool
		p.set(func() { r = pop(&p.looks) })
		if err := p.take(ctx, r, dead); err != nil {
			return err
		}
		p.set(func() { up = p.up })
		w.set(func() { w.up = up })
		return nil
	}
}

// take takes the time of a run, and comes to its end.
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
func (p *play) act(dead <-chan struct{}, name string, up bool) func(context.Context, *plant) error {
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
			p.now++
			switch {
			case p.now > 1:
				p.blame("%s begins while another action runs", name)
			case name == "start" && p.up:
				p.blame("start begins, and it is up")
			case name == "stop" && p.done == "stop":
				p.blame("stop begins again, and it was stopped")
			}
			p.done = ""
		})
		defer p.set(func() {
			if alive() {
				p.now--
			}
		})
		err := p.take(ctx, r, dead)
		p.set(func() {
			if alive() && (err == nil || r.Ending == failsLate) {
				p.up = up
			}
			if alive() && err == nil {
				p.done = name
			}
		})
		if r.Ending == failsLate && err == nil {
			p.set(func() { p.done = "" })
			return errors.New("it failed, and had its effect")
		}
		return err
	}
}

// converges holds the service to what is desired, once nothing goes wrong any more
// (no lost action).
func (p *play) converges(desired want) {
	p.set(func() { p.runs, p.looks, p.entries = nil, nil, nil })
	pass(70 * time.Second) // the longest backoff
	desired.Rev++
	p.check(p.h.SetSpec(desired))
	pass(20 * time.Second)
	st, err := p.s.Status("web")
	p.check(err)
	phase := lifecycle.ServiceRunning
	if desired.Down {
		phase = lifecycle.ServiceStopped
	}
	failed := desired.Down && st.Phase == lifecycle.ServiceFailed // a stop that failed for good
	p.set(func() {
		if !failed && (st.Phase != phase || p.up == desired.Down) {
			p.blame("it does not converge: %s, up %t, waits for %s; want %s", st.Phase, p.up, st.Waits, phase)
		}
	})
}

// stops holds the supervisor to its shutdown: Next is told at once, it is bounded,
// and nothing is left if nothing goes wrong.
func (p *play) stops(calm bool) {
	p.cancel()
	began := time.Now()
	r := <-p.report
	p.set(func() {
		switch took := time.Since(began); {
		case took > 16*time.Second:
			p.blame("the shutdown took %s", took)
		case len(r.Left) > 0 && calm:
			p.blame("the shutdown left %+v", r.Left)
		case !p.Journal && !p.told.Equal(began):
			p.blame("Next was told of the shutdown at %s, and it was at %s", p.told, began)
		}
	})
	time.Sleep(30 * time.Second) // the deaf return
	synctest.Wait()
}

// verify checks the trail: legal, chained, and an outcome for each action before the
// next is accepted.
func (p *play) verify() {
	trail := p.journal.Trail(supervisor.Entity("web", 1))
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
