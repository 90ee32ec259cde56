package results

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
)

const (
	maxReading = 8                // reads of a kind at once: of runs in short, of what is in runs, and requests to end runs
	maxOfRun   = 4                // of them of one run
	maxListed  = 4                // of them for lists
	maxHanging = 64               // runs that hang, for reads of a kind: each has up to maxOfRun threads
	slow       = 10 * time.Second // how long a read lasts without progress until it hangs
)

// A gate bounds the reads of a kind. A read that makes no progress for too long hangs: it is given up, though it goes on,
// and leaves its place to others. Until it has returned, no other read of its run begins. So a run that hangs holds up
// the others no longer than it takes to find that out. Reads that wait for a place have no order.
type gate struct {
	mu      sync.Mutex     // guards the fields below
	reads   map[string]int // by run; those of the folder itself by ""
	total   int            // of them
	hanging map[string]int // reads that hang, by run
	changed chan struct{}  // closed, and made anew, when a read has returned or hangs
}

func newGate() *gate {
	return &gate{reads: map[string]int{}, hanging: map[string]int{}, changed: make(chan struct{})}
}

// enter waits for a place for a read of a run. It fails if a read of the run hangs, or ctx ends.
func (g *gate) enter(ctx context.Context, run string) error {
	for {
		g.mu.Lock()
		err, changed := g.refuses(run), g.changed
		free := g.total < maxReading && g.reads[run] < maxOfRun
		if err == nil && free {
			g.reads[run]++
			g.total++
		}
		g.mu.Unlock()
		if err != nil || free {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return hangs("earlier reads of the folder of load runs have not ended")
		}
	}
}

// refuses returns why no read of a run begins. The gate is locked.
func (g *gate) refuses(run string) error {
	switch {
	case g.hanging[run] > 0 && run == "":
		return hangs("an earlier list of the load runs has not ended")
	case g.hanging[run] > 0:
		return hangs("an earlier read of run %.50q has not ended", run)
	case len(g.hanging) >= maxHanging:
		return errTooMany
	}
	return nil
}

// errTooMany is the error of all other runs once too many hang.
var errTooMany = hangs("earlier reads of %d load runs have not ended", maxHanging)

func hangs(format string, args ...any) error {
	return &pawl.Error{Kind: pawl.Unavailable, Message: fmt.Sprintf(format, args...), Hint: "its file system may hang, or is slow"}
}

// hangsIn reports whether a read of a run hangs.
func (g *gate) hangsIn(run string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.hanging[run] > 0
}

// leave frees the place of a read. The gate is locked.
func (g *gate) leave(run string) {
	g.total--
	decrease(g.reads, run)
	g.tell()
}

func decrease(of map[string]int, run string) {
	if of[run]--; of[run] == 0 {
		delete(of, run)
	}
}

// tell wakes those that wait. The gate is locked.
func (g *gate) tell() {
	close(g.changed)
	g.changed = make(chan struct{})
}

// giveUp notes that a read hangs, unless it has returned.
func (g *gate) giveUp(p *progress) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if p.returned {
		return
	}
	g.hanging[p.run]++
	close(p.hangs)
	g.leave(p.run)
}

// end notes that a read has returned.
func (g *gate) end(p *progress) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p.returned = true
	select {
	case <-p.hangs:
		decrease(g.hanging, p.run)
		g.tell()
	default:
		g.leave(p.run)
	}
}

// A progress is a read, and how far it is.
type progress struct {
	run   string        // "" of the folder itself
	hangs chan struct{} // closed once it hangs

	returned bool // guarded by the gate

	mu    sync.Mutex // guards the fields below
	last  time.Time  // when the last data came
	timer *time.Timer
}

// made notes progress.
func (p *progress) made() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = time.Now()
}

// passed is made for what may fail.
func (p *progress) passed() error {
	p.made()
	return nil
}

// watch has the gate give the read up once there was no progress for a time.
func (p *progress) watch(g *gate, slow time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = time.Now()
	p.timer = time.AfterFunc(slow, func() {
		if !p.goesOn(slow) {
			g.giveUp(p)
		}
	})
}

// goesOn reports whether there was progress within that time, and has the timer look again when it will be over.
func (p *progress) goesOn(slow time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	left := slow - time.Since(p.last)
	if left > 0 {
		p.timer.Reset(left)
	}
	return left > 0
}

// inTime returns what a read of a run does, or an error of kind pawl.Unavailable if it hangs, another one of the run
// does, there is no place for it in time, or ctx ends. A panic of it is an error of kind pawl.Internal.
func inTime[T any](ctx context.Context, f *Folder, g *gate, run string, read func(*progress) (T, error)) (T, error) {
	soon, cancel := context.WithTimeout(ctx, f.slow)
	defer cancel()
	if err := g.enter(soon, run); err != nil {
		var none T
		return none, err
	}
	return entered(ctx, f, g, run, read)
}

// entered is inTime for a read that has its place.
func entered[T any](ctx context.Context, f *Folder, g *gate, run string, read func(*progress) (T, error)) (T, error) {
	type result struct {
		v   T
		err error
	}
	var none T
	p, done := &progress{run: run, hangs: make(chan struct{})}, make(chan result, 1)
	p.watch(g, f.slow)
	go func() {
		var r result
		defer func() {
			if v := recover(); v != nil {
				r.err = &pawl.Error{Kind: pawl.Internal, Message: "reading load runs has met a fault of the program", Err: fmt.Errorf("panic: %v", v)}
			}
			p.timer.Stop()
			g.end(p)
			done <- r
		}()
		r.v, r.err = read(p)
	}()
	select {
	case r := <-done:
		return r.v, r.err
	case <-p.hangs:
	case <-ctx.Done():
	}
	return none, hangs("the folder of load runs cannot be read in time")
}
