package engine

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/definitions"
	"github.com/pawl-dev/pawl/internal/explain"
	"github.com/pawl-dev/pawl/internal/feed"
	"github.com/pawl-dev/pawl/internal/health"
	"github.com/pawl-dev/pawl/internal/quota"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/tracing"
	"github.com/pawl-dev/pawl/internal/webhook"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/workflow"
)

// Config configures an engine. The zero value of each field but Store is valid.
type Config struct {
	// Store is the database. The engine does not close it.
	Store store.Store

	// Lanes is the maximum number of commits in flight, at most the number of transactions
	// that the store can run at once. Default 1, which is right for SQLite; 2 to 4 help on
	// PostgreSQL.
	Lanes int

	// Poll is the interval between scans of the database for work that no hint announced
	// and for dead workers. Default 3 s, and at most half of Silence.
	Poll time.Duration

	// Silence is how long a worker may be silent before it is considered dead (J9). Default
	// 6 s.
	Silence time.Duration

	// Passive makes an engine that serves queries, submits and cancels, and leaves the rest
	// to other processes: evaluation, deadlines, dead workers.
	Passive bool

	// Managed makes an engine that serves its methods only. Its caller runs the loops that
	// Parts returns.
	Managed bool

	// Node identifies this process. It reports every 10 s that it lives, unless the engine
	// is passive; so do the beats of its workers that name no process. With the zero value
	// it does not report.
	Node pawl.Node

	// Retention is how long ended entities are kept (K6). Default 0: forever. A passive
	// engine removes nothing.
	Retention time.Duration

	// Deliver makes the engine deliver the events of webhooks, unless another process does. A
	// passive engine delivers nothing.
	Deliver bool

	// Webhooks configures how that is done, and how a single delivery is made that somebody has
	// asked for.
	Webhooks webhook.Config

	// Spans exports a span of each job whose end this engine commits, and makes attempts part of
	// the trace of their job. Default: none.
	Spans *tracing.Exporter

	// QuietTx keeps SubmitTx and CompleteTx from waking other processes when the user's
	// transaction commits. See Hint.
	QuietTx bool

	// Evaluators is how many jobs are evaluated at once. Default 2.
	Evaluators int

	// Clock returns the time used in ids. Leases and deadlines use the database's clock.
	// Default time.Now.
	Clock func() time.Time

	// Jitter returns a number in [0,1) that spreads backoffs. Default random.
	Jitter func() float64

	// Salt returns the random bytes for a seal of payload (K6). Default random.
	Salt func() audit.Salt

	// Log receives warnings and errors. Default: discarded.
	Log *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.Lanes == 0 {
		c.Lanes = 1
	}
	if c.Poll == 0 {
		c.Poll = 3 * time.Second
	}
	if c.Silence == 0 {
		c.Silence = health.Silence
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
	if c.Salt == nil {
		c.Salt = new(salts).next
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// An Engine runs jobs on one database. It is safe for concurrent use.
type Engine struct {
	*explain.Reader // the methods that only read

	cfg             Config
	store           store.Store
	log             *slog.Logger
	committer       *committer
	defs            *definitions.Cache
	jobs            *memory
	mint            mint
	evaluator       *evaluator
	watches         watches
	limits          *quota.Cache
	feed            *feed.Hub
	webhooks        *webhook.Runner
	offers          offers
	guests          guests
	unreadableSteps unreadableSteps
	entryPool       entryPool
	erasures        erasures
	hints           sync.Once // the store prepares to send hints
	stops           *bell     // rung when a running step may have been asked to stop
	schema          *bell     // rung when the schema may have been migrated

	parts   []Part
	life    context.Context // ends when the engine is closed
	cancel  context.CancelFunc
	closing sync.Mutex // held while a loop begins, or while further loops are ruled out
	loops   sync.WaitGroup
	once    sync.Once
}

// validate returns the first fault of a configuration with its defaults.
func (c Config) validate() error {
	switch most := c.Store.Transactions(); {
	case c.Lanes < 1:
		return pawl.Errorf(pawl.Invalid, "Lanes: %d: want 0 (for the default) or more", c.Lanes)
	case most > 0 && c.Lanes > most:
		return &pawl.Error{Kind: pawl.Invalid, Message: fmt.Sprintf("Lanes: %d: the store has connections for %d transactions at once", c.Lanes, most),
			Hint: fmt.Sprintf("open it with at least %d connections (MaxConns), or use at most %d lanes", 2*c.Lanes, most)}
	}
	return nil
}

// New is Open for a configuration that is known to be valid. It panics otherwise.
func New(cfg Config) *Engine {
	e, err := Open(cfg)
	if err != nil {
		panic(err)
	}
	return e
}

// Open starts an engine: its committer and, unless it is managed, its evaluator and the
// loop that listens to other processes. Close ends it. The error names the first fault of
// the configuration.
func Open(cfg Config) (*Engine, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	e := &Engine{cfg: cfg, store: cfg.Store, log: cfg.Log, defs: definitions.New(cfg.Store), limits: quota.NewCache(cfg.Store), jobs: newMemory(), stops: newBell(), schema: newBell(), life: ctx, cancel: cancel}
	e.Reader = explain.New(explain.Config{Source: cfg.Store, Definitions: e.defs, Limits: e.limits, Silence: cfg.Silence, Passive: cfg.Passive, Clock: cfg.Clock})
	e.feed = feed.New(feed.Config{Source: cfg.Store, Definitions: e.defs, Log: cfg.Log})
	e.offers.e = e
	e.webhooks = e.newRunner()
	e.committer = newCommitter(cfg.Store, cfg.Lanes, cfg.Log, e.begin, e.committed)
	e.committer.admit, e.committer.supply = e.admit, e.supply
	e.evaluator = newEvaluator(e)
	e.start(ctx)
	return e, nil
}

// Close stops the engine: first its parts, even those that its caller runs. It then commits
// the commands received before, and nothing runs afterwards. Closing twice is fine. Stop
// workers before their engine.
func (e *Engine) Close() {
	e.once.Do(func() {
		e.closing.Lock()
		e.cancel()
		e.closing.Unlock()
		e.feed.Close()
		e.offers.returnAll()
		e.loops.Wait()
		e.committer.close()
	})
}

// listen receives hints from other processes until ctx ends.
func (e *Engine) listen(ctx context.Context, r *rounds) {
	for ctx.Err() == nil {
		err := e.store.Listen(ctx, func(h store.Hint) {
			e.hint(h)
			r.end(ctx, nil)
		})
		if ctx.Err() != nil {
			return
		}
		r.end(ctx, err)
		if err != nil {
			e.log.Warn("listening for hints failed; polling goes on", "error", err)
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
}

// heard returns the progress of listen: each of its rounds is a hint.
func (e *Engine) heard(all []*rounds) Progress {
	p := seen(all)
	switch {
	case e.store.Hears():
		p.Error = ""
	case p.Error == "":
		p.Error = "no hints reach this process; polling goes on"
	}
	return p
}

func (e *Engine) hint(h store.Hint) {
	switch h.Topic {
	case store.TopicWork:
		e.offers.hear(h)
		e.guests.ringAll()
	case store.TopicMessages:
		if h.Message != nil {
			e.message(h.Message)
		} else {
			e.offers.compareAll()
		}
		return
	case store.TopicMarks:
		e.evaluator.look()
	case store.TopicStops:
		e.stops.ring()
	case store.TopicWebhooks:
		e.webhooks.Wake()
	case store.TopicSchema:
		e.schema.ring()
	case store.TopicLimits:
		e.relimit()
	}
	e.watches.ringAll()
	e.feed.Wake()
}

// relimits reports whether the transaction has changed a limit or a pause of a queue.
func (t *tx) relimits() bool { return len(t.quotas)+len(t.pauses) > 0 }

// relimit goes on with the limits and pauses of queues that are stored now.
func (e *Engine) relimit() {
	e.limits.Forget()
	e.evaluator.look()
	e.offers.ring()
	e.guests.ringAll()
}

// Stops returns a bell that rings when a running step may have been asked to stop or a
// worker has been ended. Beats are the slow poll beside it.
func (e *Engine) Stops() <-chan struct{} { return e.stops.c }

// Migrated returns a bell that rings when the schema may have been migrated.
func (e *Engine) Migrated() <-chan struct{} { return e.schema.c }

// A bell rings until it is heard; ringing twice before that is ringing once.
type bell struct{ c chan struct{} }

func newBell() *bell { return &bell{c: make(chan struct{}, 1)} } // 1: a ring waits to be heard

func (b *bell) ring() {
	select {
	case b.c <- struct{}{}:
	default:
	}
}

// begin returns a transaction, which committed ends. made is about how many jobs it will
// create.
func (e *Engine) begin(q *store.Query, f *store.Facts, made int) *tx {
	t := newTx(q, f, made, e.entryPool.take())
	t.known, t.salt = e.defs.Known, e.cfg.Salt
	return t
}

// committed examines what a commit left to be done, and notifies the parts and processes
// that do it. It runs before the callers of the commit's commands return.
func (e *Engine) committed(t *tx) {
	var marks, stops bool
	waiting, freed := e.unclaimed(t), 0 // steps, and slots for which others may have waited
	e.pass(t)
	for _, s := range t.spare {
		s.of.add(s.slots, s.scan)
	}
	for _, d := range t.definitions {
		e.defs.MarkStored(d.Key)
	}
	for key, h := range t.jobs {
		if !h.dirty {
			continue
		}
		j := h.record
		ended := lifecycle.Job.Ended(j.State)
		if ended && (j.Pool != 0 || j.Quota != 0) {
			e.freed(j)
			marks, freed = true, freed+max(j.WorkerCount, 1)
		}
		if ended && j.Schedule != 0 {
			e.evaluator.ended(j.Schedule)
		}
		marks = e.marked(t, key, j.Mark, j.MarkAt) || marks
		e.evaluator.due(j.DueAt)
		marks = marks || e.soon(t, j.DueAt)
		if h.made && j.Route != 0 && j.State == lifecycle.JobPending {
			waiting++
		}
		if j.Route == 0 && (h.made || j.State == lifecycle.JobPending && !j.Paused) {
			e.evaluator.pending(key)
			marks = true
		}
		if ended {
			e.watches.ended(j, e.jobs.forget(key))
		} else {
			e.watches.ring(key)
		}
	}
	for key, h := range t.steps {
		if !h.dirty {
			continue
		}
		s := h.record
		marks = e.marked(t, key.Job, s.Mark, s.MarkAt) || marks
		e.evaluator.due(s.DueAt)
		marks = marks || e.soon(t, s.DueAt)
		stops = stops || s.DueEvent == "cancel"
		if s.Pool != 0 && s.State != lifecycle.StepInProgress {
			freed++
		}
		e.watches.ring(key.Job)
	}
	for _, h := range t.schedules {
		if h.dirty {
			e.evaluator.due(h.record.DueAt)
		}
	}
	for _, h := range t.tokens {
		if h.dirty {
			e.evaluator.due(h.record.DueAt)
		}
	}
	if len(t.webhooks) > 0 {
		e.webhooks.Wake()
		e.store.Wake(0, store.TopicWebhooks)
	}
	for _, h := range t.workers {
		e.offers.note(h.record)
		stops = stops || h.dirty && lifecycle.Worker.Ended(h.record.State) // its process has to stop its running steps
	}
	e.offers.enqueued(waiting)
	if t.relimits() {
		e.relimit()
		e.store.Wake(0, store.TopicLimits)
	}
	if freed > 0 {
		e.guests.ringAll()
	} else if waiting > 0 && e.guests.any() {
		e.guests.ringFor(t.queued())
	}
	if t.unserved > 0 {
		e.store.Ask(t.unserved)
	}
	e.wake(waiting+freed, marks, stops)
	e.exportSpans(t)
	e.recycle(t)
	e.feed.Wake()
}

// recycle keeps the lists of a finished transaction for another one.
func (e *Engine) recycle(t *tx) {
	e.entryPool.put(list{
		entries: t.entries, drafts: t.drafts, counted: t.counted, seals: t.seals, salts: t.salts,
		jobs: t.heldJobs, steps: t.heldSteps, touchedJobs: t.journal.jobs, touchedSteps: t.journal.steps,
	})
	t.entries, t.drafts, t.counted, t.seals, t.salts, t.heldJobs, t.heldSteps = nil, nil, nil, nil, nil, nil, nil
	t.jobs, t.steps, t.ofJob, t.journal = nil, nil, nil, journal{}
}

// marked requests the evaluation of a marked job, now or when the mark is due, and reports
// whether other processes need a hint.
func (e *Engine) marked(t *tx, job rowkey.Job, mark pawl.Mark, at int64) bool {
	switch {
	case mark != pawl.Attention:
		return false
	case at > t.now:
		e.evaluator.due(at)
		return false
	}
	e.evaluator.request(job)
	return true
}

// soon reports whether another process needs a hint about a deadline: this engine fires
// none, and the others would not scan the database in time.
func (e *Engine) soon(t *tx, due int64) bool {
	return e.cfg.Passive && due > 0 && due-t.now < e.cfg.Poll.Microseconds()
}

// freed requests an evaluation of the jobs that may have waited for the slots of an ended
// job.
func (e *Engine) freed(j *pawl.Job) {
	if j.Pool != 0 {
		e.evaluator.freed(j.Pool)
	}
	if j.Quota != 0 {
		e.evaluator.look()
	}
}

// unclaimed returns how many steps the transaction has left in the queue.
func (e *Engine) unclaimed(t *tx) (n int) {
	for _, k := range t.enqueued {
		if s := t.steps[k]; s != nil && s.record.State == "enqueued" {
			n++
		}
	}
	return n
}

// manySteps are at least as many as there are workers.
const manySteps = 1 << 20

// wake notifies this and the other processes of so many more steps that can be claimed, of marks
// and of stops.
func (e *Engine) wake(steps int, marks, stops bool) {
	var topics []store.Topic
	if steps > 0 {
		e.offers.ring()
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
		e.store.Wake(steps, topics...)
	}
}

// decision returns a Decision for one job of the transaction. The job must be in sight, and
// its definition in memory.
func (e *Engine) decision(t *tx, job rowkey.Job, answers decide.Answers) (*decide.Decision, error) {
	j := t.job(job)
	if j == nil {
		return nil, pawl.Errorf(pawl.NotFound, "there is no job with key %d", job)
	}
	def, err := t.definition(j.Definition)
	if err != nil {
		return nil, err
	}
	return e.decisionBy(t, job, def, answers), nil
}

// decisionBy returns a Decision for a job that has this definition.
func (e *Engine) decisionBy(t *tx, job rowkey.Job, def *workflow.Definition, answers decide.Answers) *decide.Decision {
	d := &struct { // one allocation
		decide.Decision
		job jobTx
	}{job: jobTx{e: e, t: t, key: job}}
	d.Decision = decide.Decision{Definition: def, JobTx: &d.job, Now: t.now, Jitter: e.cfg.Jitter, Answers: answers}
	return &d.Decision
}
