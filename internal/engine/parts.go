package engine

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl"
)

// A Part is a loop of an engine whose Config is Managed: somebody else runs it, and
// runs it again when it has ended.
type Part struct {
	Name string
	Doc  string // what it does, in a line

	// Every is how far apart its rounds begin when all is well; 0: they come with
	// events.
	Every time.Duration

	// StuckAfter is how long a round takes at most when all is well; see server.Component.
	StuckAfter time.Duration

	// Run works until ctx ends, or the engine is closed. A panic is its error. What
	// was under way is in the database or in the engine's memory, so that nothing is
	// lost if it is called again, once it has returned.
	Run func(ctx context.Context) error

	// Seen returns what it has done, in all its runs. It does not wait.
	Seen func() Progress
}

// Progress is what a part has done. Several loops of one part are taken together.
type Progress struct {
	Rounds   uint64    // that have ended
	Failures uint64    // of them
	At       time.Time // when the last of them ended; zero: none has
	Busy     time.Time // when the one began that runs for the longest; zero: it waits
	Error    string    // of the last round; empty: it went well
	Found    uint64    // of the sweep: waits whose cause had ended, and that nothing marked
}

// roundLimit is that of parts whose rounds are short, heavyRoundLimit that of those
// that may rewrite much of the database.
const (
	roundLimit      = time.Minute
	heavyRoundLimit = 10 * time.Minute
)

// Parts returns the parts of an engine whose Config is Managed, the same ones each
// time. Others run their own.
func (e *Engine) Parts() []Part { return e.parts }

// A part is what an engine does beside answering: one loop, several times at once.
type part struct {
	Part
	loop   func(ctx context.Context, r *rounds)
	rounds []*rounds // one of each loop
}

func newPart(p Part, loops int, loop func(context.Context, *rounds)) *part {
	all := &part{Part: p, loop: loop}
	for range loops {
		all.rounds = append(all.rounds, &rounds{})
	}
	all.Seen = func() Progress { return seen(all.rounds) }
	return all
}

// newParts returns what the engine does beside answering.
func (e *Engine) newParts() []*part {
	v, heard := e.evaluator, newPart(Part{Name: "hints", Doc: "takes hints from other processes", StuckAfter: roundLimit}, 1, e.listen)
	heard.Seen = func() Progress { return e.heard(heard.rounds) }
	parts := []*part{heard}
	if e.cfg.Node.ID != 0 && !e.cfg.Passive {
		parts = append(parts, newPart(Part{Name: "beat", Doc: "says that this process lives", Every: nodeBeat, StuckAfter: roundLimit}, 1, e.live))
	}
	if e.cfg.Passive {
		return append(parts, newPart(Part{Name: "slots", Doc: "passes on slots that its own commits have freed", StuckAfter: roundLimit}, 1, v.passOn))
	}
	parts = append(parts,
		newPart(Part{Name: "evaluator", Doc: "evaluates what marked jobs wait for", StuckAfter: roundLimit}, e.cfg.Evaluators, v.work),
		newPart(Part{Name: "deadlines", Doc: "looks for deadlines, schedules, marks and dead workers", Every: v.pace(), StuckAfter: roundLimit}, 1, v.watch),
		newPart(Part{Name: "upkeep", Doc: "keeps the database in order", Every: maintainEvery, StuckAfter: heavyRoundLimit}, 1, v.maintain))
	sweeper := &sweeper{e: e}
	swept := newPart(Part{Name: "sweep", Doc: "looks for waits whose cause has ended, 500 rows a minute", Every: sweepEvery, StuckAfter: roundLimit}, 1, sweeper.run)
	swept.Seen = func() Progress { return sweeper.progress(swept.rounds) }
	parts = append(parts, swept)
	if e.cfg.Retention > 0 {
		parts = append(parts, newPart(Part{Name: "retention", Doc: "removes what ended long ago", Every: retainEvery * 3 / 2, StuckAfter: heavyRoundLimit}, 1, e.retain))
	}
	return parts
}

// start runs the parts until ctx ends, or hands them out to be run.
func (e *Engine) start(ctx context.Context) {
	for _, p := range e.newParts() {
		if e.cfg.Managed {
			p.Run = func(asked context.Context) error { return e.run(ctx, asked, p) }
			e.parts = append(e.parts, p.Part)
			continue
		}
		for _, r := range p.rounds {
			e.loops.Go(func() { p.loop(ctx, r) })
		}
	}
}

// run runs a part until either context ends, and returns its panic. The first is the
// engine's own: what Close waits for must not begin after it.
func (e *Engine) run(own, asked context.Context, p *part) error {
	e.closing.Lock()
	if own.Err() != nil {
		e.closing.Unlock()
		return errClosed
	}
	e.loops.Add(1)
	e.closing.Unlock()
	defer e.loops.Done()
	ctx, cancel := context.WithCancelCause(asked)
	defer cancel(nil)
	defer context.AfterFunc(own, func() { cancel(nil) })()
	var loops sync.WaitGroup
	for _, r := range p.rounds {
		loops.Go(func() {
			if err := e.contain(ctx, p.loop, r); err != nil {
				cancel(err) // the others end, too, so that all begin again
			}
		})
	}
	loops.Wait()
	if err := context.Cause(ctx); asked.Err() == nil && own.Err() == nil {
		return err
	}
	return nil
}

// survive makes a panic the error of the function that defers it. Its stack is
// logged once for each text.
func (e *Engine) survive(err *error) {
	v := recover()
	if v == nil {
		return
	}
	*err = pawl.Errorf(pawl.Internal, "panic: %v", v)
	if e.unreadableSteps.faults.New((*err).Error()) {
		e.log.Error("a part of the engine panicked; it goes on", "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
	}
}

// rounds count what a loop does. It is written by that loop alone.
type rounds struct {
	done, failed atomic.Uint64
	at, busy     atomic.Int64           // nanoseconds; 0: never, or not
	fault        atomic.Pointer[string] // nil: the last round went well
}

func (r *rounds) begin() { r.busy.Store(time.Now().UnixNano()) }

// end counts a round, unless it failed because ctx has ended.
func (r *rounds) end(ctx context.Context, err error) {
	r.busy.Store(0)
	if err != nil && ctx.Err() != nil {
		return
	}
	r.at.Store(time.Now().UnixNano())
	r.done.Add(1)
	if err == nil {
		r.fault.Store(nil)
		return
	}
	r.failed.Add(1)
	text := err.Error()
	r.fault.Store(&text)
}

// contain runs a loop and returns its panic, which is a round that failed.
func (e *Engine) contain(ctx context.Context, loop func(context.Context, *rounds), r *rounds) (err error) {
	defer func() {
		if err != nil {
			r.end(ctx, err)
		}
		r.busy.Store(0)
	}()
	defer e.survive(&err)
	loop(ctx, r)
	return nil
}

// seen takes the progress of several loops together.
func seen(all []*rounds) (p Progress) {
	for _, r := range all {
		p.Rounds += r.done.Load()
		p.Failures += r.failed.Load()
		if at := r.at.Load(); at != 0 && time.Unix(0, at).After(p.At) {
			p.At, p.Error = time.Unix(0, at), ""
			if f := r.fault.Load(); f != nil {
				p.Error = *f
			}
		}
		if busy := r.busy.Load(); busy != 0 && (p.Busy.IsZero() || time.Unix(0, busy).Before(p.Busy)) {
			p.Busy = time.Unix(0, busy)
		}
	}
	return p
}
