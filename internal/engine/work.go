package engine

import (
	"context"
	"errors"
	"slices"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/quota"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
)

// NewID makes an id.
func (e *Engine) NewID() pawl.ID { return e.mint.next(e.cfg.Clock()) }

type register struct {
	worker pawl.Worker
	note   decide.Note

	predecessor string         // the public id under which the worker was registered before, or empty
	acquitted   []pawl.StepKey // steps that it lost though it was alive

	made *pawl.Worker
}

func (r *register) query(q *store.Query) { askSteps(q, r.acquitted...) }

func (r *register) decide(t *tx) error {
	w := r.worker // each try begins with the worker as given
	r.acquit(t)
	t.makeWorker(&w, r.note)
	if w.Remote() {
		t.setTurn(w.Key(), store.Turn{})
	}
	r.made = &w
	return nil
}

func (r *register) subject() store.EntityKey { return store.WorkerEntity(r.worker.Key()) }

// MoveWorker applies an event of the worker's table: complete_tasks when it has drained,
// pause, resume, error_unrecoverable. To end a worker, see Terminate.
func (e *Engine) MoveWorker(ctx context.Context, key rowkey.Worker, event machine.Event, note decide.Note) error {
	return e.committer.one(ctx, &moveWorker{key: key, event: event, note: note})
}

type moveWorker struct {
	key   rowkey.Worker
	event machine.Event
	note  decide.Note
}

func (m *moveWorker) subject() store.EntityKey { return store.WorkerEntity(m.key) }

func (m *moveWorker) query(q *store.Query) { q.Workers = append(q.Workers, m.key) }

func (m *moveWorker) decide(t *tx) error {
	w := t.worker(m.key)
	if w == nil {
		return pawl.Errorf(pawl.NotFound, "there is no worker with key %d", m.key)
	}
	return t.moveWorker(w, m.event, m.note)
}

func assignment(s *pawl.Step, job *jobFacts, def *workflow.Definition) link.Assignment {
	return link.Assignment{Step: link.Claimed{StepKey: s.StepKey, Claims: s.Claims, Attempts: s.Attempts}, Definition: def,
		Isolation: def.Node(s.Ord.Node()).Isolation, Known: job}
}

// maxOverlap is how many exchanges of one worker are worth having under way: the next ones wait for
// the processors.
const maxOverlap = 2

// Overlap returns how many exchanges of one worker the lanes can commit side by side.
func (e *Engine) Overlap() int { return min(e.cfg.Lanes, maxOverlap) }

// Exchange reports and claims in one commit (T3): the outcomes are stored and applied, and
// the steps that become ready may be among the assignments. A report that comes too late is
// kept as a refused fact, without an error. If the worker has ended, the reports are kept
// the same way and the error is link.ErrWorkerEnded.
func (e *Engine) Exchange(ctx context.Context, x link.Exchange) ([]link.Assignment, error) {
	cmds := make([]command, 0, len(x.Reports)+1)
	for i := range x.Reports {
		cmds = append(cmds, e.newReport(&x.Reports[i]))
	}
	take := &claim{e: e, worker: x.Worker, free: x.Free, skipQueue: x.SkipQueue, queued: min(x.Queued, x.Free)}
	if x.Free > 0 {
		cmds = append(cmds, take)
		if err := take.prepare(ctx); err != nil {
			return nil, &link.CommitError{Err: err}
		}
	}
	if len(cmds) == 0 {
		return nil, nil
	}
	defer e.offers.visit(&x)()
	errs, err := e.committer.do(ctx, cmds...)
	if err != nil {
		return nil, err
	}
	if link.Retryable(errs[0]) {
		return nil, errs[0] // the same for all, since they were one commit
	}
	for i, err := range errs {
		r, ok := cmds[i].(*report)
		switch {
		case !ok || err != nil:
		case r.settled:
			e.settled(r.r.Step.Job)
		case r.taken:
			e.jobs.putOutput(r.r.Step, r.r.Output)
		}
	}
	if last := len(errs) - 1; x.Free > 0 && errs[last] != nil { // what the claim took is undone
		if len(x.Reports) > 0 && link.Retryable(errs[last]) { // only the claim: the reports stand, and must not be sent again
			e.log.Warn("a claim failed and is made again with the next visit", "error", errs[last])
			errs[last] = nil
			e.offers.ring()
		}
		return nil, errors.Join(errs...)
	}
	if x.Free > 0 && !x.SkipQueue {
		e.looked(take)
	}
	return take.assigned, errors.Join(errs...)
}

// looked makes the worker of a claim scan the queue again, if it has slots left and there
// may be more for them.
func (e *Engine) looked(c *claim) {
	worker, short := c.worker.Key(), len(c.assigned) < c.free
	e.offers.found(c.found, c.emptied())
	further := e.unreadableSteps.met(worker, c.unreadableSteps, c.skipped) && short
	if c.passed || further {
		e.offers.ring() // there may be steps behind those of a full queue or those that cannot be read
	}
	if short {
		e.offers.saw(worker, c.scan, c.more && c.moved, c.skipped)
	}
}

// A claim takes steps for a worker: first those that this commit has enqueued, then those
// of the queue, then those of pending jobs that it starts.
type claim struct {
	e         *Engine
	worker    *pawl.Worker
	free      int
	skipQueue bool
	queued    int
	scan      int // its number; see offers.look. 0: it does not scan the queue

	quotas *quota.Limits
	routes []rowkey.Route // of the worker, without those of full queues
	pools  []store.Pool   // of the queues that have limits

	assigned        []link.Assignment
	found           int                        // number of steps found in the queue
	more            bool                       // there may be more than were found
	skipped         bool                       // others had locked some
	moved           bool                       // some of the steps found have left the queue
	passed          bool                       // a step was passed over because its queue is full or paused, or all were because the limits have changed
	needs           []rowkey.Definition        // definitions that are not in memory
	unreadableSteps int                        // rows skipped because they cannot be read
	broken          map[rowkey.Definition]bool // definitions that cannot be read

	last    *decide.Decision // the newest decision: mostly, the next step is of the same job
	lastJob rowkey.Job
}

func (c *claim) prepare(ctx context.Context) (err error) {
	if c.quotas, err = c.e.limits.Get(ctx); err != nil {
		return err
	}
	c.routes, c.pools, err = c.e.open(ctx, c.worker, c.quotas)
	return err
}

func (c *claim) query(q *store.Query) {
	c.e.offers.watch(q, c.worker.Key())
	q.Pools = append(q.Pools, c.pools...)
	if c.skipQueue {
		return
	}
	c.scan = c.e.offers.look(c.worker.Key())
	q.Claims = append(q.Claims, store.ClaimQuery{Worker: c.worker.Key(), Routes: c.routes, Limit: c.e.unreadableSteps.limit(c.worker.Key(), c.free), Starts: c.queued})
}

func (c *claim) decide(t *tx) error {
	c.assigned, c.passed, c.moved, c.unreadableSteps, c.broken, c.needs = c.assigned[:0], false, false, t.facts.Unreadable, make(map[rowkey.Definition]bool), nil
	c.last = nil
	defer func() { c.last = nil }() // else it would keep the facts alive as long as the claim
	facts := new(store.ClaimFacts)
	if !c.skipQueue {
		facts = &t.facts.Claims[t.claims]
		t.claims++
		c.found, c.more, c.skipped = len(facts.Steps)+len(facts.Starts), facts.More, facts.Skipped
	}
	w := t.worker(c.worker.Key())
	if w == nil || lifecycle.Worker.Ended(w.State) {
		return link.ErrWorkerEnded
	}
	if w.State == lifecycle.WorkerPaused {
		return nil
	}
	if c.e.limits.Changed(c.quotas) {
		c.passed = true
		return nil
	}
	enqueued, steps, starts := t.enqueued, facts.Steps, facts.Starts
	for len(c.assigned) < c.queued && len(steps)+len(starts) > 0 {
		var err error
		if len(steps) == 0 || len(starts) > 0 && t.job(starts[0]).Rank < t.step(steps[0]).Rank {
			err, starts = c.start(t, w, starts[0]), starts[1:]
		} else {
			err, steps = c.take(t, w, steps[0]), steps[1:]
		}
		if err != nil {
			return err
		}
	}
	if err := c.takeAll(t, w, enqueued); err != nil {
		return err
	}
	if err := c.takeAll(t, w, steps); err != nil {
		return err
	}
	for _, job := range starts {
		if len(c.assigned) >= c.free {
			break
		}
		if err := c.start(t, w, job); err != nil {
			return err
		}
	}
	if len(c.needs) > 0 && len(c.assigned) < c.free {
		return &need{c.needs}
	}
	if len(c.assigned) > 0 {
		if err := t.startTask(w); err != nil {
			return err
		}
	}
	if c.emptied() {
		c.e.spare(t, c, c.free-len(c.assigned)) // last, since it cannot be undone
	}
	return nil
}

// emptied reports whether the queue has no more steps for the worker, as far as is known.
func (c *claim) emptied() bool {
	return c.skipQueue || !c.passed && c.unreadableSteps == 0 && !c.more && !c.skipped && c.found < c.free
}

// start starts a pending job and takes its first steps. A job that cannot be started is
// paused, with the reason in its trail, so that it does not hold up the others.
func (c *claim) start(t *tx, w *pawl.Worker, job rowkey.Job) error {
	j := t.job(job)
	if j == nil || j.State != lifecycle.JobPending || j.Paused {
		return nil
	}
	if _, limited := c.quotas.Depth(j.Workspace, j.Depth); limited {
		c.leave(t, j)
		return nil
	}
	before := len(t.enqueued)
	d := c.decision(t, pawl.StepKey{Job: job})
	if d == nil {
		return nil
	}
	c.moved = true
	if err := d.Start(decide.Note{}); err != nil {
		c.e.log.Error("a pending job cannot be started and is paused", "job", job, "error", err)
		j.Paused = true
		return t.moveJob(j, lifecycle.JobPause, decide.Note{Reason: "it cannot be started: " + err.Error()})
	}
	return c.takeAll(t, w, t.enqueued[before:])
}

// leave leaves a job that needs slots of a quota to the evaluators, which see how many are
// taken. While the job has no slots it must not stand before the jobs behind it: the
// holders of the slots may be waiting for those.
func (c *claim) leave(t *tx, j *pawl.Job) {
	j.Route, t.jobs[j.Key()].dirty, c.moved = 0, true, true
	c.e.evaluator.pending(j.Key())
	c.e.evaluator.look()
}

func (c *claim) takeAll(t *tx, w *pawl.Worker, keys []pawl.StepKey) error {
	for _, k := range keys {
		if len(c.assigned) >= c.free {
			return nil
		}
		if err := c.take(t, w, k); err != nil {
			return err
		}
	}
	return nil
}

func (c *claim) take(t *tx, w *pawl.Worker, k pawl.StepKey) error {
	s := t.step(k)
	if s == nil || s.State != lifecycle.StepEnqueued || !slices.Contains(w.Routes, s.Route) {
		return nil
	}
	d := c.decision(t, k)
	if d == nil {
		return nil
	}
	pool, free := c.slot(t, t.job(k.Job), d.Definition.Node(k.Ord.Node()))
	if !free {
		c.passed = true
		return nil
	}
	if err := d.Claim(s, w); err != nil {
		return err
	}
	s.Pool, c.moved = pool, true
	c.assigned = append(c.assigned, assignment(s, c.e.jobs.put(t.job(k.Job), d.Definition), d.Definition))
	return nil
}

// slot takes a slot of the step's queue, if that has a limit. It returns the pool, or 0 if
// there is no limit, and reports whether a slot was free; none is while the queue is paused. Private jobs have no queues.
func (c *claim) slot(t *tx, j *pawl.Job, n *workflow.Node) (pool rowkey.Pool, free bool) {
	if c.quotas.None() || j.Private != 0 {
		return 0, true
	}
	if c.quotas.Paused(j.Workspace, n.Queue) {
		return 0, false
	}
	slots, limited := c.quotas.Queue(j.Workspace, n.Queue)
	if !limited {
		return 0, true
	}
	p := quota.QueuePool(j.Workspace, n.Queue)
	if t.used(p) >= slots {
		return 0, false
	}
	t.takeSlots(p, 1)
	return p.Key, true
}
