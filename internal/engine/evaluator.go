package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/health"
	"github.com/pawl-dev/pawl/internal/quota"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/trouble"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/workflow"
)

// lookLimit is how many records of each kind one scan of the database returns.
const lookLimit = 200

// An evaluator acts on the marks and deadlines in the database: it applies outcomes,
// evaluates expressions, fires deadlines, starts jobs that no worker starts by itself, and
// releases the steps of dead workers. Hints wake it at once; a periodic scan of the
// database finds what no hint announced (level-triggered).
type evaluator struct {
	e     *Engine
	looks *bell

	mu      sync.Mutex
	wake    *sync.Cond
	queue   []rowkey.Job // jobs to evaluate
	queued  map[rowkey.Job]bool
	running map[rowkey.Job]bool  // being evaluated; true if requested again since
	starts  map[rowkey.Job]bool  // of queue: pending jobs to start
	found   map[rowkey.Job]int64 // of queue: jobs that a scan found marked, with the time of the mark; 0 if a hint arrived since
	short   bool                 // a scan left marks in the database until the queue is short

	delays  delays
	failing bool // the last deadlines met an unavailable database; only watch uses it

	dueMu   sync.Mutex
	nextDue int64 // microseconds; 0 if there is none
	looking bool  // the next scan is planned after the current one
	dues    *bell

	poolMu sync.Mutex
	pools  map[rowkey.Pool]bool // with slots freed since they were last scanned
	fronts map[rowkey.Pool]front
	lasts  map[rowkey.Schedule]bool // schedules whose last job may have ended
	frees  *bell
}

func newEvaluator(e *Engine) *evaluator {
	v := &evaluator{e: e, looks: newBell(), dues: newBell(), frees: newBell(), pools: make(map[rowkey.Pool]bool), queued: make(map[rowkey.Job]bool), found: make(map[rowkey.Job]int64), running: make(map[rowkey.Job]bool), starts: make(map[rowkey.Job]bool)}
	v.wake = sync.NewCond(&v.mu)
	return v
}

// request requests an evaluation of a job. Requests before it begins count as one; a
// request during it causes another evaluation.
func (v *evaluator) request(job rowkey.Job) { v.ask(job, false) }

// pending requests the start of a pending job.
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

// marked is request for a job that a scan has found. If the evaluation finds nothing to do,
// the job is put off: what is marked cannot be read.
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

// look requests a scan of the database.
func (v *evaluator) look() { v.looks.ring() }

// due announces a deadline.
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

// beginLook starts to collect the deadlines announced from now on, which the scan may miss.
func (v *evaluator) beginLook() {
	v.dueMu.Lock()
	defer v.dueMu.Unlock()
	v.looking, v.nextDue = true, 0
}

// endLook adds the next deadline that the scan found, and returns the earliest of all, or 0
// if there is none.
func (v *evaluator) endLook(seen int64) int64 {
	v.dueMu.Lock()
	defer v.dueMu.Unlock()
	v.looking = false
	if seen != 0 && (v.nextDue == 0 || seen < v.nextDue) {
		v.nextDue = seen
	}
	return v.nextDue
}

// freed announces a free slot of a concurrency key. Scanning the jobs of that pool alone
// avoids a scan of all waiting jobs each time a job ends.
func (v *evaluator) freed(pool rowkey.Pool) {
	v.poolMu.Lock()
	v.pools[pool] = true
	v.poolMu.Unlock()
	v.frees.ring()
}

// ended announces the end of a job that a schedule made: a time of the schedule may wait
// for it.
func (v *evaluator) ended(schedule rowkey.Schedule) {
	v.poolMu.Lock()
	if v.lasts == nil {
		v.lasts = make(map[rowkey.Schedule]bool)
	}
	v.lasts[schedule] = true
	v.poolMu.Unlock()
	v.frees.ring()
}

// tickEnded lets the schedules continue whose last job has ended. A schedule that fails
// here is due within a second anyway.
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

// perPool is how many jobs are tried at once when slots of a pool become free.
const perPool = 10

// maxFronts bounds the number of fronts remembered.
const maxFronts = 10_000

// A front is the first job waiting for slots of a pool, and how far the jobs behind it have
// been tried while it was first. So a job that cannot start does not hold up those that
// can.
type front struct {
	first rowkey.Job
	tried store.Ranked
}

// passOn is the only evaluation of a passive engine: it gives the slots that its own
// commits freed to waiting jobs, and ticks the schedules whose jobs they ended. No other
// process knows of these.
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

// waitFreed returns the jobs that may have waited for slots now free.
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

// waitIn returns the first jobs waiting for slots of a pool and, if the same job was first
// the last time, some of those behind.
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

// work evaluates jobs until ctx ends. That the database is unavailable is the fault of none of them.
func (v *evaluator) work(ctx context.Context, r *rounds) {
	defer context.AfterFunc(ctx, v.rouse)()
	outage := trouble.New(v.e.log, "jobs could not be evaluated; they are looked at again", "jobs are evaluated again")
	for {
		job, start, found, ok := v.next(ctx)
		if !ok {
			return
		}
		r.begin()
		err := v.try(ctx, job, start, found)
		r.end(ctx, err)
		switch {
		case ctx.Err() != nil:
		case err == nil || pawl.KindOf(err) == pawl.Unavailable:
			outage.Note(err)
		case !store.Unreadable(err) || v.e.unreadableSteps.faults.New(fmt.Sprint(job, err)):
			v.e.log.Error("a job could not be evaluated; it is looked at again", "job", job, "error", err)
		}
	}
}

// try evaluates a job. If ctx ends meanwhile, the job goes back into the queue for the next
// loop. A panic in a managed engine is an error of that job and holds up no other; in the
// engine of a command it ends the process, which prints its stack.
//
// A job that fails is put off, so that it holds up nothing and is not tried continuously.
func (v *evaluator) try(ctx context.Context, job rowkey.Job, start bool, found int64) (err error) {
	a := &evaluation{e: v.e, job: job}
	defer func() {
		switch {
		case ctx.Err() != nil:
		case err != nil:
			v.putOff(ctx, a, err, found)
		case found != 0 && len(a.seen) == 0:
			v.delays.failed(store.JobEntity(job), found, time.Now(), v.e.cfg.Jitter(), maxDelay)
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

// rouse wakes the loops that wait for a job.
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

// watch scans the database on request, at the next deadline, and every poll interval. It
// checks for dead workers every poll interval only.
func (v *evaluator) watch(ctx context.Context, r *rounds) {
	poll := time.NewTimer(0)
	defer poll.Stop()
	judge := health.NewJudge(v.e.cfg.Silence, v.pace())
	var dead time.Time // when dead workers are checked next
	var due scan
	var pages pages // of pending jobs, which may still find no worker
	log := trouble.New(v.e.log, "looking for work failed; it is tried again", "looking for work succeeds again")
	burials := trouble.New(v.e.log, "a dead worker could not be released; it is tried again", "dead workers are released again")
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
		} else {
			took := answered.Sub(begun)
			judge.Heard(agenda.Now, begun, answered)
			v.reap(ctx, judge, agenda.Living, begun, answered, burials)
			more := due.note(q, agenda)
			wait = v.until(agenda, v.deal(ctx, agenda), more)
			if pages.more(agenda.Pending, time.Now()) {
				wait = min(wait, pageEvery)
			}
			v.rest(ctx, took*dearLook)
		}
		if ctx.Err() == nil {
			log.Note(err)
		}
		r.end(ctx, err)
		poll.Reset(min(wait, max(time.Until(dead), minPause)))
	}
}

// failedLook is the pause after a failed scan: shorter than a poll, to notice soon that the
// database is back.
const failedLook = 200 * time.Millisecond

// pace returns the pause between scans when nothing is due.
func (v *evaluator) pace() time.Duration {
	return min(v.e.cfg.Poll, max(v.e.cfg.Silence/2, 100*time.Millisecond))
}

// Scans that hints request may take at most a quarter of the time, however slow the
// database is.
const (
	dearLook  = 3
	cheapLook = 5 * time.Millisecond // a shorter pause is skipped
)

// rest pauses the scans for d.
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

// minPause keeps deadlines that cannot be applied from being retried in a tight loop.
const minPause = 5 * time.Millisecond

// until returns how long to wait before the next scan: no time if more is due and the queue
// is short, else until the next deadline or mark, the retry of one that failed, or the next
// poll.
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

// busy reports whether many jobs wait to be evaluated. If so, the bell for deadlines rings
// once few do.
func (v *evaluator) busy() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.short = len(v.queue) >= lookLimit
	return v.short
}

// deal does what the agenda asks for, or queues it. It returns the wait until a failed
// deadline is tried again.
func (v *evaluator) deal(ctx context.Context, a *store.Agenda) time.Duration {
	for _, m := range a.Marked {
		v.marked(m)
	}
	for _, p := range a.Pending {
		v.pending(p.Job)
	}
	return v.fire(ctx, a.Due)
}

// fire applies deadlines that have passed. One that fails is tried again after growing
// waits; fire returns the shortest of these.
//
// An unavailable database is seldom the fault of a deadline, so the waits stay short then, and
// no more deadlines are prepared in this round, since each could take as long to fail. They
// grow all the same: what cannot be read may be one damaged row, and the next round begins
// with another.
func (v *evaluator) fire(ctx context.Context, due []store.Due) time.Duration {
	again, now, unavailable := max(maxDelay, v.pace()), time.Now(), false
	failed := func(d store.Due, err error) {
		most, logged := maxDelay, false
		if pawl.KindOf(err) == pawl.Unavailable {
			most, logged = maxUnavailableDelay, v.failing
			unavailable, v.failing = true, true
		}
		again = min(again, v.delays.failed(d.EntityKey, d.At, now, v.e.cfg.Jitter(), most))
		if !logged {
			v.e.log.Error("a deadline could not be applied; it is tried again", "of", d.Kind, "key", d.Job, "deadline", d.Event, "error", err)
		}
	}
	cmds, fired := make([]command, 0, len(due)), make([]store.Due, 0, len(due))
	for _, d := range due {
		if !v.delays.ready(d.EntityKey, d.At, now) {
			continue
		}
		cmd, err := v.deadline(ctx, d)
		if err != nil {
			failed(d, err)
			if unavailable {
				break
			}
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
	v.failing = unavailable
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
	if d.Kind == lifecycle.Token.Name {
		return &expiry{d}, nil
	}
	job, err := v.e.know(ctx, d.Job)
	return &fire{e: v.e, due: d, job: job}, err
}

// maintainEvery is the interval of database maintenance.
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

// reap releases the steps of dead workers, if the scan has reported the living ones.
func (v *evaluator) reap(ctx context.Context, judge *health.Judge, r *health.Report, asked, answered time.Time, log *trouble.Log) {
	if r == nil {
		return
	}
	if err := v.bury(ctx, judge.Look(r, asked, answered)); ctx.Err() == nil {
		log.Note(err)
	}
}

// bury releases the steps of dead workers. Those of which that failed are found again by the next scan.
func (v *evaluator) bury(ctx context.Context, dead []health.Death) error {
	var errs []error
	for _, d := range dead {
		r := &release{worker: d.Worker, note: decide.Note{Reason: d.Reason(), Metadata: endNote(d)},
			end: d.Cause != health.Ended, judged: true, interrupt: !d.Counts, quiet: d.Quiet}
		err := v.e.release(ctx, r, func() error { return v.e.committer.one(ctx, r) })
		if err != nil && pawl.KindOf(err) != pawl.Conflict {
			errs = append(errs, fmt.Errorf("worker %d: %w", d.Worker, err))
		}
	}
	return errors.Join(errs...)
}

// evaluate processes everything marked in a job, and starts the job if it is pending.
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
		if more, err := v.e.cancelChildren(ctx, a.job); !more || err != nil {
			return err
		}
		return v.erase(ctx, a.job)
	}
	return v.e.committer.one(ctx, a)
}

// startJob starts a pending job once living workers serve all its first steps (J7). It
// reports whether the job started.
func (v *evaluator) startJob(ctx context.Context, key rowkey.Job) (started bool, err error) {
	j, err := v.e.store.Job(ctx, key)
	if err != nil || j.State != lifecycle.JobPending || j.Paused {
		return false, err
	}
	def, err := v.e.defs.Get(ctx, j.Definition)
	if err != nil {
		return false, err
	}
	q, err := v.e.limits.Get(ctx)
	if err != nil {
		return false, err
	}
	demands := q.Demands(j, def)
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

// full reports whether a pool has too few slots at this moment. A full pool saves the
// transaction, which checks the pool again.
func (v *evaluator) full(ctx context.Context, demands []quota.Demand) (bool, error) {
	if len(demands) == 0 {
		return false, nil
	}
	var pools []store.Pool
	for _, d := range demands {
		pools = append(pools, d.Pool)
	}
	used, err := v.e.store.Usage(ctx, pools)
	if err != nil {
		return false, err
	}
	for _, d := range demands {
		if used[d.Pool]+d.Takes > d.Slots {
			return true, nil
		}
	}
	return false, nil
}

func (v *evaluator) served(ctx context.Context, def *workflow.Definition, j *pawl.Job) (bool, error) {
	if j.Continues != 0 {
		return true, nil // the job need not begin with its first steps
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
	limits  *quota.Limits
	demands []quota.Demand
	reads   decide.ReadSet

	started bool
}

func (s *startJob) query(q *store.Query) {
	s.job.ask(q, s.reads)
	for _, d := range s.demands {
		q.Pools = append(q.Pools, d.Pool)
	}
}

func (s *startJob) decide(t *tx) error {
	s.started = false // reset the result of an earlier try
	key := s.job.id.JobKey()
	j := t.job(key)
	if j == nil || j.State != lifecycle.JobPending || j.Paused {
		return nil
	}
	if s.e.outdated(t, key, s.job) || s.e.limits.Changed(s.limits) {
		s.e.evaluator.pending(key)
		return nil
	}
	for _, d := range s.demands {
		if t.used(d.Pool)+d.Takes > d.Slots {
			return nil
		}
	}
	for _, d := range s.demands {
		t.takeSlots(d.Pool, d.Takes)
		if d.Pool.Kind == store.PoolQuota {
			j.Quota, j.WorkerCount = d.Pool.Key, d.Takes
		}
	}
	if err := s.e.decisionBy(t, key, s.job.def, decide.Answers{}).Start(decide.Note{}); err != nil {
		return err
	}
	s.e.jobs.put(j, s.job.def) // with the slots it has by now
	s.started = true
	return nil
}
