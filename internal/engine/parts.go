package engine

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/health"
)

// A Part is a loop of an engine whose Config is Managed. Its caller runs it, and runs it
// again when it has ended.
type Part struct {
	Name string
	Doc  string // what it does, in one line

	// Every is the interval between the starts of its rounds when all is well; 0: events
	// start them.
	Every time.Duration

	// StuckAfter is the longest duration of a round when all is well; see server.Component.
	StuckAfter time.Duration

	// Run works until ctx ends or the engine is closed. It returns a panic as its error.
	// Unfinished work is in the database or in the engine's memory, so nothing is lost if
	// Run is called again after it has returned.
	Run func(ctx context.Context) error

	// Seen returns the progress of all runs so far. It does not block.
	Seen func() Progress
}

// Progress counts the work of a part. The loops of one part are added up.
type Progress struct {
	Rounds   uint64    // that have ended
	Failures uint64    // of them
	At       time.Time // when the last round ended; zero: none has
	Busy     time.Time // when the longest-running round began; zero: it is waiting
	Error    string    // of the last round; empty if it succeeded
	Found    uint64    // of the sweep: waits whose cause had ended without a mark
}

// roundLimit is for parts whose rounds are short, heavyRoundLimit for those that may
// rewrite much of the database.
const (
	roundLimit      = time.Minute
	heavyRoundLimit = 10 * time.Minute
)

// Parts returns the parts of an engine whose Config is Managed, the same ones each time.
// Other engines run their own.
func (e *Engine) Parts() []Part { return e.parts }

// A part is background work of an engine: one loop, possibly run several times at once.
type part struct {
	Part
	loop   func(ctx context.Context, r *rounds)
	rounds []*rounds // one per loop
}

func newPart(p Part, loops int, loop func(context.Context, *rounds)) *part {
	all := &part{Part: p, loop: loop}
	for range loops {
		all.rounds = append(all.rounds, &rounds{})
	}
	all.Seen = func() Progress { return seen(all.rounds) }
	return all
}

// newParts returns the background work of the engine.
func (e *Engine) newParts() []*part {
	v, heard := e.evaluator, newPart(Part{Name: "hints", Doc: "takes hints from other processes", StuckAfter: roundLimit}, 1, e.listen)
	heard.Seen = func() Progress { return e.heard(heard.rounds) }
	parts := []*part{heard}
	if e.cfg.Node.ID != 0 && !e.cfg.Passive {
		parts = append(parts, newPart(Part{Name: "beat", Doc: "says that this process lives", Every: health.NodeBeat, StuckAfter: roundLimit}, 1, e.live))
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
	if e.cfg.Deliver {
		parts = append(parts, newPart(Part{Name: "webhooks", Doc: "delivers the events of webhooks, unless another process does", Every: e.webhooks.Look(), StuckAfter: roundLimit}, 1, e.deliver))
	}
	if e.cfg.Retention > 0 {
		parts = append(parts, newPart(Part{Name: "retention", Doc: "removes what ended long ago", Every: retainEvery * 3 / 2, StuckAfter: heavyRoundLimit}, 1, e.retain))
	}
	return parts
}

// start runs the parts until ctx ends, or exposes them to be run.
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

// run runs a part until either context ends, and returns its panic. own is the context of
// the engine itself: work that Close waits for must not begin after it ends.
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
				cancel(err) // the other loops end, too, so that all start again together
			}
		})
	}
	loops.Wait()
	if err := context.Cause(ctx); asked.Err() == nil && own.Err() == nil {
		return err
	}
	return nil
}

// survive turns a panic into the error of the function that defers it. It logs the stack
// once for each text.
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

// rounds counts the rounds of a loop. Only that loop writes it.
type rounds struct {
	done, failed atomic.Uint64
	at, busy     atomic.Int64           // nanoseconds; 0: never (at), idle (busy)
	fault        atomic.Pointer[string] // nil: the last round succeeded
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

// contain runs a loop and returns its panic, which counts as a failed round.
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

// seen adds up the progress of several loops.
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
