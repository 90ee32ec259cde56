package engine

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/health"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/workflow"
)

// lookLimit is how much of each kind one look at the database brings.
const lookLimit = 200

// An evaluator does what marks and deadlines in the database ask for: it applies
// outcomes, evaluates expressions, fires deadlines, starts jobs that no worker
// starts by itself, and releases what dead workers held. Hints tell it at once;
// a periodic look at the database finds what no hint told (level-triggered).
type evaluator struct {
	e     *Engine
	looks *bell

	mu      sync.Mutex
	wake    *sync.Cond
	queue   []rowkey.Job // jobs to evaluate
	queued  map[rowkey.Job]bool
	running map[rowkey.Job]bool  // being evaluated; true: and asked for again
	starts  map[rowkey.Job]bool  // of queue: pending jobs to be started
	found   map[rowkey.Job]int64 // of queue: jobs that a look found marked, and for when; 0 if a hint told since
	short   bool                 // a look left marks in the database until the queue is short

	delays delays

	dueMu   sync.Mutex
	nextDue int64 // microseconds; 0 is none
	looking bool  // the next look is planned when this one is done with
	dues    *bell

	poolMu sync.Mutex
	pools  map[rowkey.Pool]bool // that have free slots since they were looked at
	fronts map[rowkey.Pool]front
	lasts  map[rowkey.Schedule]bool // schedules whose last job has perhaps ended
	frees  *bell
}

func newEvaluator(e *Engine) *evaluator {
	v := &evaluator{e: e, looks: newBell(), dues: newBell(), frees: newBell(), pools: make(map[rowkey.Pool]bool), queued: make(map[rowkey.Job]bool), found: make(map[rowkey.Job]int64), running: make(map[rowkey.Job]bool), starts: make(map[rowkey.Job]bool)}
	v.wake = sync.NewCond(&v.mu)
	return v
}

// request asks for a look at a job. Asking twice is asking once; asking while it
// is being looked at is asking for another look.
func (v *evaluator) request(job rowkey.Job) { v.ask(job, false) }

// pending asks for a pending job to be started.
func (v *evaluator) pending(job rowkey.Job) { v.ask(job, true) }

func (v *evaluator) ask(job rowkey.Job, start bool) {
	if v.e.cfg.Passive {
		return // another process evaluates
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if start {
		v.starts[job] = true
	}
	delete(v.found, job)
	if _, busy := v.running[job]; busy {
		v.running[job] = true
		return
	}
	if !v.queued[job] {
		v.queued[job] = true
		v.queue = append(v.queue, job)
		v.wake.Signal()
	}
}

// marked is request for a job that a look has found. If that finds nothing to do, it is
// put off: what is marked cannot be read.
func (v *evaluator) marked(m store.Marked) {
	if !v.delays.ready(store.JobEntity(m.Job), m.At, time.Now()) {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if _, busy := v.running[m.Job]; busy || v.queued[m.Job] {
		return
	}
	v.queued[m.Job], v.found[m.Job] = true, m.At
	v.queue = append(v.queue, m.Job)
	v.wake.Signal()
}

// look asks for a look at the database.
func (v *evaluator) look() { v.looks.ring() }

// due tells of a deadline.
func (v *evaluator) due(at int64) {
	if at == 0 {
		return
	}
	v.dueMu.Lock()
	sooner := v.nextDue == 0 || at < v.nextDue
	if sooner {
		v.nextDue = at
	}
	ring := sooner && !v.looking
	v.dueMu.Unlock()
	if ring {
		v.dues.ring()
	}
}

// beginLook gathers the deadlines that are told of from now on, which the look may not see.
func (v *evaluator) beginLook() {
	v.dueMu.Lock()
	defer v.dueMu.Unlock()
	v.looking, v.nextDue = true, 0
}

// endLook adds the next deadline that the look has seen, and returns the next of all; 0:
// there is none.
func (v *evaluator) endLook(seen int64) int64 {
	v.dueMu.Lock()
	defer v.dueMu.Unlock()
	v.looking = false
	if seen != 0 && (v.nextDue == 0 || seen < v.nextDue) {
		v.nextDue = seen
	}
	return v.nextDue
}

// freed tells of a slot of a concurrency key. Looking for the jobs of that pool
// alone keeps an ended job from having all that wait looked at.
func (v *evaluator) freed(pool rowkey.Pool) {
	v.poolMu.Lock()
	v.pools[pool] = true
	v.poolMu.Unlock()
	v.frees.ring()
}

// ended tells of the end of a job that a schedule has made: a time of it may wait.
func (v *evaluator) ended(schedule rowkey.Schedule) {
	v.poolMu.Lock()
	if v.lasts == nil {
		v.lasts = make(map[rowkey.Schedule]bool)
	}
	v.lasts[schedule] = true
	v.poolMu.Unlock()
	v.frees.ring()
}

// tickEnded has schedules go on whose last job has ended. One that fails is due within a
// second anyway.
func (v *evaluator) tickEnded(ctx context.Context) {
	v.poolMu.Lock()
	schedules := v.lasts
	v.lasts = nil
	v.poolMu.Unlock()
	for key := range schedules {
		if err := v.e.lastEnded(ctx, key); err != nil && ctx.Err() == nil {
			v.e.log.Warn("a schedule could not go on after its job; it is tried again", "schedule", key, "error", err)
		}
	}
}

// perPool is how many jobs are tried at once when slots of a pool have become free.
const perPool = 10

// maxFronts bounds the pools of which a front is remembered.
const maxFronts = 10_000

// A front is who waits first for the slots of a pool, and how far those behind it were
// tried since it waits there: so that one that cannot start holds up nobody who can.
type front struct {
	first rowkey.Job
	tried store.Ranked
}

// passOn is all that a passive engine evaluates: who takes the slots that its own
// commits have freed, and the schedules whose jobs they have ended. No other process knows
// of them.
func (v *evaluator) passOn(ctx context.Context, r *rounds) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-v.frees.c:
		}
		r.begin()
		v.tickEnded(ctx)
		for _, job := range v.waitFreed(ctx) {
			if _, err := v.startJob(ctx, job); err != nil && ctx.Err() == nil {
				v.e.log.Warn("a job could not take a slot that has become free; a server will look", "job", job, "error", err)
			}
		}
		r.end(ctx, nil)
	}
}

func (v *evaluator) startFreed(ctx context.Context) {
	for _, job := range v.waitFreed(ctx) {
		v.pending(job)
	}
}

// waitFreed returns who may have waited for slots that have become free.
func (v *evaluator) waitFreed(ctx context.Context) (waiting []rowkey.Job) {
	v.poolMu.Lock()
	pools := v.pools
	v.pools = make(map[rowkey.Pool]bool)
	v.poolMu.Unlock()
	for pool := range pools {
		jobs, err := v.waitIn(ctx, pool)
		if err != nil && ctx.Err() == nil {
			v.e.log.Warn("looking for jobs of a concurrency key failed; polling goes on", "error", err)
		}
		waiting = append(waiting, jobs...)
	}
	return waiting
}

// waitIn returns who waits first for slots of a pool and, if the same job was first the
// last time, some of those behind.
func (v *evaluator) waitIn(ctx context.Context, pool rowkey.Pool) (waiting []rowkey.Job, err error) {
	v.poolMu.Lock()
	was := v.fronts[pool]
	v.poolMu.Unlock()
	page, err := v.e.store.PendingIn(ctx, pool, store.Ranked{}, perPool)
	now := front{}
	if len(page) == perPool {
		now = front{page[0].Job, page[perPool-1]}
	}
	if now.first != 0 && now.first == was.first && err == nil {
		var behind []store.Ranked
		behind, err = v.e.store.PendingIn(ctx, pool, was.tried, perPool)
		if page = append(page, behind...); len(behind) > 0 {
			now.tried = behind[len(behind)-1]
		}
	}
	v.poolMu.Lock()
	defer v.poolMu.Unlock()
	if v.fronts == nil || len(v.fronts) >= maxFronts {
		v.fronts = make(map[rowkey.Pool]front)
	}
	if v.fronts[pool] = now; now.first == 0 {
		delete(v.fronts, pool)
	}
	for _, r := range page {
		waiting = append(waiting, r.Job)
	}
	return waiting, err
}

// work evaluates jobs until ctx ends.
func (v *evaluator) work(ctx context.Context, r *rounds) {
	defer context.AfterFunc(ctx, v.rouse)()
	for {
		job, start, found, ok := v.next(ctx)
		if !ok {
			return
		}
		r.begin()
		err := v.try(ctx, job, start, found)
		r.end(ctx, err)
		if err != nil && ctx.Err() == nil && (!unreadable(err) || v.e.unreadableSteps.faults.New(fmt.Sprint(job, err))) {
			v.e.log.Error("a job could not be evaluated; it is looked at again", "job", job, "error", err)
		}
	}
}

// try evaluates a job. If ctx ends meanwhile, it is in the queue again, for whoever
// works next. A panic in a managed engine is an error of that job, and holds up no
// other; in the engine of a command it ends the process, which says where it was.
//
// What fails is put off, so that it holds up nothing and is not tried all the time.
func (v *evaluator) try(ctx context.Context, job rowkey.Job, start bool, found int64) (err error) {
	a := &evaluation{e: v.e, job: job}
	defer func() {
		switch {
		case ctx.Err() != nil:
		case err != nil:
			v.putOff(ctx, a, err, found)
		case found != 0 && len(a.seen) == 0:
			v.delays.failed(store.JobEntity(job), found, time.Now(), v.e.cfg.Jitter())
		case found != 0:
			v.delays.done(store.JobEntity(job))
		}
		v.done(job)
		if ctx.Err() != nil {
			v.ask(job, start)
		}
	}()
	if v.e.cfg.Managed {
		defer v.e.survive(&err)
	}
	return v.evaluate(ctx, a, start)
}

// rouse has those look up who wait for a job.
func (v *evaluator) rouse() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.wake.Broadcast()
}

func (v *evaluator) next(ctx context.Context) (job rowkey.Job, start bool, found int64, ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for len(v.queue) == 0 && ctx.Err() == nil {
		v.wake.Wait()
	}
	if ctx.Err() != nil {
		return 0, false, 0, false
	}
	job = v.queue[0]
	v.queue = v.queue[1:]
	start, found = v.starts[job], v.found[job]
	delete(v.starts, job)
	delete(v.found, job)
	delete(v.queued, job)
	v.running[job] = false
	if v.short && len(v.queue) < lookLimit {
		v.short = false
		v.dues.ring()
	}
	return job, start, found, true
}

func (v *evaluator) done(job rowkey.Job) {
	v.mu.Lock()
	again := v.running[job]
	delete(v.running, job)
	v.mu.Unlock()
	if again {
		v.request(job)
	}
}

// watch looks at the database when it is told to, when a deadline has come, and
// every poll interval; for dead workers every poll interval only.
func (v *evaluator) watch(ctx context.Context, r *rounds) {
	poll := time.NewTimer(0)
	defer poll.Stop()
	judge := health.NewJudge(v.e.cfg.Silence, v.pace())
	var dead time.Time // when dead workers are looked for next
	var due scan
	var pages pages // of pending jobs, which may still find no worker
	failing := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-v.looks.c:
			pages.asked = true
		case <-v.dues.c:
		case <-v.frees.c:
			v.startFreed(ctx)
			v.tickEnded(ctx)
			continue
		case <-poll.C:
		}
		r.begin()
		begun := time.Now()
		q := due.next(v.waiting())
		q.Pending = pages.begin(begun)
		if !begun.Before(dead) {
			q.Living = true
			dead = begun.Add(v.pace())
		}
		var wait time.Duration
		v.beginLook()
		agenda, err := v.e.store.Look(ctx, q)
		answered := time.Now()
		if err != nil {
			v.endLook(0)
			judge.Failed(begun)
			dead, wait = answered.Add(failedLook), failedLook
			if ctx.Err() == nil && !failing {
				v.e.log.Warn("looking for work failed; it is tried again", "error", err)
			}
		} else {
			took := answered.Sub(begun)
			judge.Heard(agenda.Now, begun, answered)
			v.reap(ctx, judge, agenda.Living, begun, answered)
			more := due.note(q, agenda)
			wait = v.until(agenda, v.deal(ctx, agenda), more)
			if pages.more(agenda.Pending, time.Now()) {
				wait = min(wait, pageEvery)
			}
			v.rest(ctx, took*dearLook)
		}
		failing = err != nil
		r.end(ctx, err)
		poll.Reset(min(wait, max(time.Until(dead), minPause)))
	}
}

// failedLook is how long the database is left alone after a look that has failed: less than
// a poll, so that it is known soon whether it is back.
const failedLook = 200 * time.Millisecond

// pace is how long the database is left alone when nothing is to be done.
func (v *evaluator) pace() time.Duration {
	return min(v.e.cfg.Poll, max(v.e.cfg.Silence/2, 100*time.Millisecond))
}

// Looks that hints ask for may take a quarter of the time, not more, however slow
// the database is.
const (
	dearLook  = 3
	cheapLook = 5 * time.Millisecond // the rest after one that is not worth it
)

// rest leaves the database alone.
func (v *evaluator) rest(ctx context.Context, d time.Duration) {
	if d < cheapLook {
		return
	}
	t := time.NewTimer(min(d, v.pace()))
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// minPause keeps deadlines that cannot be applied from being tried in a circle.
const minPause = 5 * time.Millisecond

// until returns when to look again: at once if more is due and the queue is short, else
// at the next deadline or mark, when one that failed is tried again, or at the next poll.
func (v *evaluator) until(a *store.Agenda, again time.Duration, more bool) time.Duration {
	wait := min(v.pace(), again)
	if due := v.endLook(a.NextDue); due > 0 {
		wait = min(wait, time.Duration(due-a.Now)*time.Microsecond)
	}
	if more && !v.busy() {
		wait = 0
	}
	return max(wait, minPause)
}

// waiting returns how many jobs wait to be evaluated.
func (v *evaluator) waiting() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.queue)
}

// busy reports whether many jobs wait to be evaluated. If so, the bell of deadlines
// rings when few do.
func (v *evaluator) busy() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.short = len(v.queue) >= lookLimit
	return v.short
}

// deal does what the agenda asks for, or has it done. It returns how soon a deadline
// that failed is to be tried again.
func (v *evaluator) deal(ctx context.Context, a *store.Agenda) time.Duration {
	for _, m := range a.Marked {
		v.marked(m)
	}
	for _, p := range a.Pending {
		v.pending(p.Job)
	}
	return v.fire(ctx, a.Due)
}

// fire applies deadlines that have passed. One that fails is tried again later and
// later: it returns how soon the first of them is.
func (v *evaluator) fire(ctx context.Context, due []store.Due) time.Duration {
	again, now := max(maxDelay, v.pace()), time.Now()
	failed := func(d store.Due, err error) {
		again = min(again, v.delays.failed(d.EntityKey, d.At, now, v.e.cfg.Jitter()))
		v.e.log.Error("a deadline could not be applied; it is tried again", "of", d.Kind, "key", d.Job, "deadline", d.Event, "error", err)
	}
	cmds, fired := make([]command, 0, len(due)), make([]store.Due, 0, len(due))
	for _, d := range due {
		if !v.delays.ready(d.EntityKey, d.At, now) {
			continue
		}
		cmd, err := v.deadline(ctx, d)
		if err != nil {
			failed(d, err)
			continue
		}
		cmds, fired = append(cmds, cmd), append(fired, d)
	}
	if len(cmds) == 0 {
		return again
	}
	errs, err := v.e.committer.do(ctx, cmds...)
	if err != nil {
		return again
	}
	for i, err := range errs {
		if err != nil {
			failed(fired[i], err)
			continue
		}
		v.delays.done(fired[i].EntityKey)
	}
	return again
}

// deadline returns the command that applies a deadline. A panic in a managed engine
// is an error of that deadline.
func (v *evaluator) deadline(ctx context.Context, d store.Due) (cmd command, err error) {
	if v.e.cfg.Managed {
		defer v.e.survive(&err)
	}
	if d.Kind == lifecycle.Schedule.Name {
		return v.e.tick(ctx, d)
	}
	job, err := v.e.know(ctx, d.Job)
	return &fire{e: v.e, due: d, job: job}, err
}

// maintainEvery is how often the database is kept in order.
const maintainEvery = time.Hour

func (v *evaluator) maintain(ctx context.Context, r *rounds) {
	tick := time.NewTicker(maintainEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		r.begin()
		err := v.e.store.Maintain(ctx)
		r.end(ctx, err)
		if err != nil && ctx.Err() == nil {
			v.e.log.Warn("keeping the database in order failed; it is tried again", "error", err)
		}
	}
}

// reap releases what dead workers held, if the look has reported on the living.
func (v *evaluator) reap(ctx context.Context, judge *health.Judge, r *health.Report, asked, answered time.Time) {
	if r != nil {
		v.bury(ctx, judge.Look(r, asked, answered))
	}
}

func (v *evaluator) bury(ctx context.Context, dead []health.Death) {
	for _, d := range dead {
		r := &release{worker: d.Worker, note: decide.Note{Reason: d.Reason(), Metadata: endNote(d)},
			end: d.Cause != health.Ended, interrupt: !d.Counts, quiet: d.Quiet}
		err := v.e.release(ctx, r, r)
		if err != nil && pawl.KindOf(err) != pawl.Conflict && ctx.Err() == nil {
			v.e.log.Error("a dead worker could not be released; it is tried again", "worker", d.Worker, "error", err)
		}
	}
}

// evaluate does all that is marked in a job, and starts it if it is pending.
func (v *evaluator) evaluate(ctx context.Context, a *evaluation, start bool) error {
	if start {
		if _, err := v.startJob(ctx, a.job); err != nil {
			return err
		}
	}
	if err := a.prepare(ctx); err != nil || len(a.seen) == 0 {
		return err
	}
	if a.erase {
		return v.erase(ctx, a.job)
	}
	return v.e.committer.one(ctx, a)
}

// startJob starts a pending job whose first steps are of several kinds, when
// living workers serve them all (J7). It reports whether it has.
func (v *evaluator) startJob(ctx context.Context, key rowkey.Job) (started bool, err error) {
	j, err := v.e.store.Job(ctx, key)
	if err != nil || j.State != lifecycle.JobPending || j.Paused {
		return false, err
	}
	def, err := v.e.defs.get(ctx, j.Definition)
	if err != nil {
		return false, err
	}
	q, err := v.e.quotas(ctx)
	if err != nil {
		return false, err
	}
	demands := v.e.jobPools(q, j, def)
	if full, err := v.full(ctx, demands); full || err != nil {
		return false, err
	}
	if served, err := v.served(ctx, def, j); err != nil || !served {
		return false, err
	}
	s := &startJob{e: v.e, job: v.e.jobs.put(j, def), limits: q, demands: demands, reads: decide.StartReads(def, j)}
	if err := v.e.committer.one(ctx, s); err != nil {
		return false, err
	}
	return s.started, nil
}

// full reports whether a pool has too few slots at this moment. It saves the
// transaction, in which it is asked again.
func (v *evaluator) full(ctx context.Context, demands []demand) (bool, error) {
	if len(demands) == 0 {
		return false, nil
	}
	var pools []store.Pool
	for _, d := range demands {
		pools = append(pools, d.pool)
	}
	used, err := v.e.store.Usage(ctx, pools)
	if err != nil {
		return false, err
	}
	for _, d := range demands {
		if used[d.pool]+d.takes > d.slots {
			return true, nil
		}
	}
	return false, nil
}

func (v *evaluator) served(ctx context.Context, def *workflow.Definition, j *pawl.Job) (bool, error) {
	if j.Continues != 0 {
		return true, nil // it need not begin at the beginning
	}
	var routes []rowkey.Route
	for _, n := range def.Roots() {
		if node := def.Node(n); !node.Kind.Waits() {
			routes = append(routes, decide.Route(def, j, n))
		}
	}
	if len(routes) == 0 {
		return true, nil
	}
	workers, err := v.e.store.Workers(ctx, store.WorkerFilter{Living: true})
	if err != nil {
		return false, err
	}
	serve := make(map[rowkey.Route]bool)
	for _, w := range workers {
		for _, r := range w.Routes {
			serve[r] = true
		}
	}
	for _, r := range routes {
		if !serve[r] {
			return false, nil
		}
	}
	return true, nil
}

type startJob struct {
	e       *Engine
	job     *jobFacts
	limits  *quotas
	demands []demand
	reads   decide.ReadSet

	started bool
}

func (s *startJob) query(q *store.Query) {
	s.job.ask(q, s.reads)
	for _, d := range s.demands {
		q.Pools = append(q.Pools, d.pool)
	}
}

func (s *startJob) decide(t *tx) error {
	s.started = false // whatever an earlier try has decided
	key := s.job.id.JobKey()
	j := t.job(key)
	if j == nil || j.State != lifecycle.JobPending || j.Paused {
		return nil
	}
	if s.e.outdated(t, key, s.job) || s.e.limits.changed(s.limits) {
		s.e.evaluator.pending(key)
		return nil
	}
	for _, d := range s.demands {
		if t.used(d.pool)+d.takes > d.slots {
			return nil
		}
	}
	for _, d := range s.demands {
		t.takeSlots(d.pool, d.takes)
		if d.pool.Kind == store.PoolQuota {
			j.Quota, j.WorkerCount = d.pool.Key, d.takes
		}
	}
	if err := s.e.decisionBy(t, key, s.job.def, decide.Answers{}).Start(decide.Note{}); err != nil {
		return err
	}
	s.e.jobs.put(j, s.job.def) // with the slots that it has by now
	s.started = true
	return nil
}
