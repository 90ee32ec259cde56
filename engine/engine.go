package engine

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/workflow"
)

// Config says how an engine works. The zero value of each field but Store is
// good.
type Config struct {
	// Store is the database. The engine does not close it.
	Store store.Store

	// Lanes is how many commits may be in flight at once. Default 1, which is
	// right for SQLite; 2 to 4 pays on PostgreSQL.
	Lanes int

	// Poll is how often the database is looked at for work that no message
	// told of. Default 1 s.
	Poll time.Duration

	// Silence is how long a worker may be silent before it is taken for dead
	// (J9). Default 6 s.
	Silence time.Duration

	// Passive makes an engine that answers, submits and cancels, and leaves
	// everything else to other processes: evaluating, deadlines, the dead.
	Passive bool

	// Evaluators is how many jobs are evaluated at once. Default 2.
	Evaluators int

	// Clock answers the time that ids are made of. Leases and deadlines go by
	// the database's clock. Default time.Now.
	Clock func() time.Time

	// Jitter answers a number in [0,1) that spreads backoffs. Default random.
	Jitter func() float64

	// Log is told of trouble. Default: discarded.
	Log *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.Lanes == 0 {
		c.Lanes = 1
	}
	if c.Poll == 0 {
		c.Poll = time.Second
	}
	if c.Silence == 0 {
		c.Silence = 6 * time.Second
	}
	if c.Evaluators == 0 {
		c.Evaluators = 2
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.Jitter == nil {
		c.Jitter = func() float64 { return float64(random()>>11) / (1 << 53) }
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// An Engine runs jobs on one database. It is safe for concurrent use.
type Engine struct {
	cfg       Config
	store     store.Store
	log       *slog.Logger
	committer *committer
	defs      *definitions
	jobs      *memory
	mint      mint
	evaluator *evaluator
	watches   watches
	limits    limits
	work      *bell // rung when there may be something to claim
	stops     *bell // rung when a running step may have been asked to stop

	cancel context.CancelFunc
	loops  sync.WaitGroup
	once   sync.Once
}

// New starts an engine: its committer, its evaluator and its ears for other
// processes. Close ends it.
func New(cfg Config) *Engine {
	cfg = cfg.withDefaults()
	ctx, cancel := context.WithCancel(context.Background())
	e := &Engine{cfg: cfg, store: cfg.Store, log: cfg.Log, defs: newDefinitions(cfg.Store), jobs: newMemory(), work: newBell(), stops: newBell(), cancel: cancel}
	e.committer = newCommitter(cfg.Store, cfg.Lanes, cfg.Log, newTx, e.committed)
	e.evaluator = newEvaluator(e)
	e.loops.Go(func() { e.listen(ctx) })
	if !cfg.Passive {
		e.evaluator.start(ctx, &e.loops)
	}
	return e
}

// Close stops the engine: what was asked before is committed, and nothing runs
// after. Closing twice is fine. Workers are stopped before their engine.
func (e *Engine) Close() {
	e.once.Do(func() {
		e.cancel()
		e.loops.Wait()
		e.committer.close()
	})
}

// listen takes hints from other processes until ctx ends.
func (e *Engine) listen(ctx context.Context) {
	for ctx.Err() == nil {
		err := e.store.Listen(ctx, e.hint)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			e.log.Warn("listening for hints failed; polling goes on", "error", err)
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
}

func (e *Engine) hint(t store.Topic) {
	switch t {
	case store.TopicWork:
		e.work.ring()
	case store.TopicMarks:
		e.evaluator.look()
	case store.TopicStops:
		e.stops.ring()
	}
	e.watches.ringAll()
}

// Work answers a bell that rings when there may be something to claim, and
// Stops one that rings when a running step may have been asked to stop or a
// worker was ended. Both have a slow poll beside them for hints that got lost.
func (e *Engine) Work() <-chan struct{} { return e.work.c }

// Stops answers the bell for stops. See Work.
func (e *Engine) Stops() <-chan struct{} { return e.stops.c }

// A bell rings until it is heard; ringing twice before that is ringing once.
type bell struct{ c chan struct{} }

func newBell() *bell { return &bell{c: make(chan struct{}, 1)} } // 1: a ring waits to be heard

func (b *bell) ring() {
	select {
	case b.c <- struct{}{}:
	default:
	}
}

// committed looks at what a commit left to be done, and says so to whoever does
// it, here and in other processes. It runs before the commit's commands are
// answered.
func (e *Engine) committed(t *tx) {
	var work, marks, stops bool
	for _, d := range t.definitions {
		e.defs.markStored(d.Key)
	}
	for key, h := range t.jobs {
		if !h.dirty {
			continue
		}
		j := h.record
		if lifecycle.Job.Ended(j.State) && (j.Pool != 0 || j.Quota != 0) {
			e.freed(j) // others may have waited for its slots
			marks, work = true, true
		}
		if j.Mark == pawl.Attention {
			e.evaluator.attend(key)
			marks = true
		}
		e.evaluator.due(j.DueAt)
		if h.made {
			work = work || j.Route != 0
			if j.Route == 0 {
				e.evaluator.pending(key)
				marks = true
			}
		}
		e.watches.ring(key)
	}
	for key, h := range t.steps {
		if !h.dirty {
			continue
		}
		s := h.record
		if s.Mark == pawl.Attention {
			e.evaluator.attend(key.Job)
			marks = true
		}
		e.evaluator.due(s.DueAt)
		stops = stops || s.DueEvent == "cancel"
		work = work || s.Pool != 0 && s.State != lifecycle.StepInProgress // its slot is free
		e.watches.ring(key.Job)
	}
	for _, h := range t.schedules {
		if h.dirty {
			e.evaluator.due(h.record.DueAt)
		}
	}
	for _, h := range t.workers {
		stops = stops || h.dirty && lifecycle.Worker.Ended(h.record.State) // its process has to stop what it runs
	}
	work = work || e.unclaimed(t)
	e.wake(work, marks, stops)
}

// freed has those looked at that may have waited for the slots of an ended job.
func (e *Engine) freed(j *pawl.Job) {
	if j.Pool != 0 {
		e.evaluator.freed(j.Pool)
	}
	if j.Quota != 0 {
		e.evaluator.look()
	}
}

// unclaimed reports whether the transaction left a step in the queue.
func (e *Engine) unclaimed(t *tx) bool {
	for _, k := range t.enqueued {
		if s := t.steps[k]; s != nil && s.record.State == "enqueued" {
			return true
		}
	}
	return false
}

func (e *Engine) wake(work, marks, stops bool) {
	var topics []store.Topic
	if work {
		e.work.ring()
		topics = append(topics, store.TopicWork)
	}
	if marks {
		topics = append(topics, store.TopicMarks)
	}
	if stops {
		e.stops.ring()
		topics = append(topics, store.TopicStops)
	}
	if len(topics) > 0 {
		e.store.Wake(topics...)
	}
}

// decision answers a Decision for one job of the transaction, and its
// definition. The job must be in sight.
func (e *Engine) decision(t *tx, job int64, answers workflow.Answers) (*workflow.Decision, error) {
	j := t.job(job)
	if j == nil {
		return nil, pawl.Errorf(pawl.NotFound, "there is no job with key %d", job)
	}
	def, err := e.defs.get(context.Background(), j.Definition)
	if err != nil {
		return nil, err
	}
	return &workflow.Decision{Definition: def, Board: board{e: e, t: t, key: job}, Now: t.now, Jitter: e.cfg.Jitter, Answers: answers}, nil
}
