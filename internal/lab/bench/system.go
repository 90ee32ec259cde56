package bench

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/worker"
)

// A System runs jobs. Pawl is one; the same workloads measure others.
type System interface {
	// Start starts the workers. Jobs submitted before wait for it.
	Start(ctx context.Context) error
	// Submit submits n jobs, in batches of the system's choice.
	Submit(ctx context.Context, s Shape, n int) error
	// Drain waits until every submitted job has ended.
	Drain(ctx context.Context) error
	// Run submits one job and waits until it has ended. It is safe for
	// concurrent use.
	Run(ctx context.Context, s Shape) error
	// Begin registers f, which is called with the time at which each further step begins; nil
	// removes it.
	Begin(f func(time.Time))
	// Close stops the work and releases all resources.
	Close() error
}

var _ System = (*Pawl)(nil)

// A PawlConfig is the configuration of Pawl. Zero fields, except Store, have defaults.
type PawlConfig struct {
	Store    store.Store // closed with the system
	Lanes    int         // commits in flight; default 1
	Crew     Crew        // default one worker, in this process
	URL      string      // of the database, for processes of the crew
	Capacity int         // of all workers in this process together; default 1000
}

// Pawl is an engine in this process, and its workers, here or in separate processes.
type Pawl struct {
	config  PawlConfig
	engine  *engine.Engine
	workers []*worker.Worker
	hands   processes
	begin   atomic.Pointer[func(time.Time)]
	ran     atomic.Int64
	due     int64      // runs needed for the submitted jobs
	first   rowkey.Job // key of the first job submitted
	last    pawl.ID
	drained bool
}

// NewPawl starts an engine without a worker.
func NewPawl(c PawlConfig) *Pawl {
	c.Lanes, c.Crew = max(c.Lanes, 1), c.Crew.or(1)
	if c.Capacity <= 0 {
		c.Capacity = 1000
	}
	return &Pawl{config: c, first: math.MaxInt64, engine: engine.New(engine.Config{Store: c.Store, Lanes: c.Lanes})}
}

// Start implements System.
func (p *Pawl) Start(ctx context.Context) error {
	if p.config.Crew.Program != "" {
		return p.hands.start(p.config.Crew, p.config.URL)
	}
	handlers := map[string]worker.Handler{"noop": p.handler(`{}`)}
	for _, s := range []Shape{FanOut, WideFanOut} {
		handlers[lister(s.Width)] = p.handler(items(s.Width))
	}
	for range p.config.Crew.Workers {
		w, err := worker.Start(ctx, p.engine, worker.Config{Capacity: p.slots(), Handlers: handlers})
		if err != nil {
			return err
		}
		p.workers = append(p.workers, w)
	}
	return nil
}

func (p *Pawl) handler(output string) worker.Handler {
	return func(context.Context, *worker.Task) worker.Result {
		if f := p.begin.Load(); f != nil {
			(*f)(time.Now())
		}
		p.ran.Add(1)
		return worker.Result{Output: json.RawMessage(output)}
	}
}

// items returns a list of n numbers.
func items(n int) string {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	b, _ := json.Marshal(list) // of numbers
	return string(b)
}

// slots returns the slots of one worker.
func (p *Pawl) slots() int { return max(p.config.Capacity/p.config.Crew.Workers, 1) }

// batch returns how many jobs one submission holds: while a worker reports one batch, it has
// slots to begin another.
func (p *Pawl) batch() int { return max(p.slots()*2/5, 1) }

// Submit implements System.
func (p *Pawl) Submit(ctx context.Context, s Shape, n int) error {
	def, err := s.definition()
	if err != nil {
		return err
	}
	p.due += int64(n * s.Steps)
	for n > 0 {
		subs := make([]pawl.Submission, min(n, p.batch()))
		for i := range subs {
			subs[i] = pawl.Submission{Definition: def.Canonical(), Actor: "bench"}
		}
		answers, err := p.engine.Submit(ctx, subs...)
		if err != nil {
			return err
		}
		for _, a := range answers {
			if a.Err != nil {
				return a.Err
			}
			p.first, p.last = min(p.first, a.ID.JobKey()), a.ID
		}
		n -= len(subs)
	}
	return nil
}

// Drain implements System. It reads the database once the handlers have run as often as they
// have to or, if handlers are in other processes, once the last job has ended.
func (p *Pawl) Drain(ctx context.Context) error {
	ctx, cancel := p.hands.watch(ctx)
	defer cancel()
	if p.config.Crew.Program != "" {
		if _, err := p.engine.Wait(ctx, p.last); err != nil {
			return cmp.Or(context.Cause(ctx), err)
		}
		p.ran.Store(p.due)
	}
	err := Poll(ctx, func() (bool, error) {
		if p.ran.Load() < p.due {
			return false, nil
		}
		return p.still(ctx)
	})
	p.drained = err == nil
	return err
}

// still reports whether no step is in progress and no evaluation is pending. A scan for open
// jobs takes long if thousands wait; see ended.
func (p *Pawl) still(ctx context.Context) (bool, error) {
	enqueued, running, err := p.config.Store.InFlight(ctx)
	if err != nil || len(enqueued)+len(running) > 0 {
		return false, err
	}
	agenda, err := p.config.Store.Look(ctx, store.LookQuery{Limit: 1})
	return err == nil && len(agenda.Marked) == 0, err
}

// ended returns an error if a job submitted here is open.
func (p *Pawl) ended(ctx context.Context) error {
	open := store.JobFilter{States: []machine.State{lifecycle.JobSubmitted, lifecycle.JobPending, lifecycle.JobRunning}, Limit: 1}
	jobs, err := p.config.Store.Jobs(ctx, open)
	if err == nil && len(jobs) > 0 && jobs[0].ID.JobKey() >= p.first {
		err = fmt.Errorf("job %s is %s though nothing is left to do", jobs[0].ID.Public(pawl.JobPrefix), jobs[0].State)
	}
	return err
}

// settle waits until the handle has counted its work: a job's end can be visible in the
// database a moment before.
func (p *Pawl) settle(ctx context.Context) error {
	var last store.Stats
	same := 0
	return Poll(ctx, func() (bool, error) {
		s, err := p.config.Store.Stats(ctx)
		if same++; s != last {
			last, same = s, 0
		}
		return same == settleTicks, err
	})
}

// settleTicks is how many checks in a row, a millisecond apart, have to find no change.
const settleTicks = 50

// Poll calls done once a millisecond until it returns true.
func Poll(ctx context.Context, done func() (bool, error)) error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		if ok, err := done(); ok || err != nil {
			return err
		}
	}
}

// Run implements System.
func (p *Pawl) Run(ctx context.Context, s Shape) error {
	def, err := s.definition()
	if err != nil {
		return err
	}
	answers, err := p.engine.Submit(ctx, pawl.Submission{Definition: def.Canonical(), Actor: "bench"})
	if err != nil {
		return err
	}
	if answers[0].Err != nil {
		return answers[0].Err
	}
	job, err := p.engine.Wait(ctx, answers[0].ID)
	if err == nil && job.State != lifecycle.JobCompleted {
		err = fmt.Errorf("job %s ended %s", answers[0].ID, job.State)
	}
	return err
}

// Begin implements System.
func (p *Pawl) Begin(f func(time.Time)) {
	if f == nil {
		p.begin.Store(nil)
		return
	}
	p.begin.Store(&f)
}

// Close implements System. It fails unless all drained jobs have ended.
func (p *Pawl) Close() (err error) {
	if p.drained {
		err = p.ended(context.Background())
	}
	for _, w := range p.workers {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		w.Drain(ctx)
		cancel()
	}
	err = errors.Join(err, p.hands.stop())
	p.engine.Close()
	return errors.Join(err, p.config.Store.Close())
}
