package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/engine"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/workflow"
)

// WorkerConfig says what a worker serves. Zero fields have the default.
type WorkerConfig struct {
	Engine *engine.Engine // required
	Store  store.Store    // required; where logs go and beats are kept

	Workspace string             // default pawl.DefaultWorkspace
	Name      string             // for people; default host/pid
	Actor     string             // who starts it, for the audit trail; default Name
	Capacity  int                // steps at once; default 10
	Handlers  map[string]Handler // by name; "command", "run" and "http" are the built-in kinds
	Queues    []string           // default workflow.DefaultQueue alone
	Job       int64              // 0, or the key of a private job: it and its child jobs alone are served, whatever their queues
	Limits    Limits
	Beat      time.Duration // default 2 s
	Poll      time.Duration // how often to ask for work that no hint told of; default 1 s
	Log       *slog.Logger  // default: discarded

	// Tee sees what steps print, live. nil is none. See LogConfig.Tee.
	Tee func(t *Task, stream string, p []byte)
}

func (c WorkerConfig) withDefaults() WorkerConfig {
	host, _ := os.Hostname()
	if c.Workspace == "" {
		c.Workspace = pawl.DefaultWorkspace
	}
	if c.Name == "" {
		c.Name = fmt.Sprintf("%s/%d", host, os.Getpid())
	}
	if c.Actor == "" {
		c.Actor = c.Name
	}
	if c.Capacity <= 0 {
		c.Capacity = 10
	}
	if len(c.Queues) == 0 || c.Job != 0 {
		c.Queues = []string{workflow.DefaultQueue}
	}
	if c.Beat <= 0 {
		c.Beat = 2 * time.Second
	}
	if c.Poll <= 0 {
		c.Poll = time.Second
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// A Worker claims steps and runs them, up to its capacity, until it is drained.
type Worker struct {
	config WorkerConfig
	log    *slog.Logger

	life    context.Context // ends when the worker is over
	end     context.CancelFunc
	drain   chan struct{} // closed: claim nothing more
	once    sync.Once
	over    chan struct{} // closed: the loop has ended
	results chan engine.Report
	warned  time.Time      // when the loop last complained of the database
	ended   chan int64     // 1: the key of this worker's record, when it was found ended
	beats   sync.WaitGroup // the heartbeat's goroutine

	mu      sync.Mutex // guards what follows
	self    *pawl.Worker
	release func() // of the name that tells its life
	running map[claimKey]context.CancelCauseFunc
	hurried bool // what runs is interrupted, and so is what a visit under way still brings
}

// A claimKey tells the claims of a step apart.
type claimKey struct {
	pawl.StepKey
	claim int
}

// Start registers a worker and lets it work. The caller drains it before it
// closes engine and store.
func Start(ctx context.Context, c WorkerConfig) (*Worker, error) {
	c = c.withDefaults()
	w := &Worker{config: c, log: c.Log, drain: make(chan struct{}), over: make(chan struct{}),
		results: make(chan engine.Report, c.Capacity), // one for each slot: a handler that ends never waits
		ended:   make(chan int64, 1),
		running: make(map[claimKey]context.CancelCauseFunc)}
	w.life, w.end = context.WithCancel(context.Background())
	if err := w.register(ctx); err != nil {
		w.end()
		return nil, err
	}
	w.beats.Go(w.beat)
	go w.loop()
	return w, nil
}

// register takes the name that tells the worker's life, and makes its record.
func (w *Worker) register(ctx context.Context) error {
	c := w.config
	id := c.Engine.NewID()
	host, _ := os.Hostname()
	note, err := json.Marshal(map[string]any{"pid": os.Getpid(), "host": host})
	if err != nil {
		return err
	}
	release, err := c.Store.Hold(ctx, fmt.Sprintf("worker/%d", id.Key()), note)
	if err != nil {
		return err
	}
	record := pawl.Worker{ID: id, Workspace: c.Workspace, Name: c.Name, Host: host, PID: os.Getpid(), Capacity: c.Capacity}
	for _, queue := range c.Queues {
		for name := range c.Handlers {
			record.Routes = append(record.Routes, pawl.Route(c.Workspace, queue, name, c.Job))
			record.Handlers = append(record.Handlers, queue+"/"+name)
		}
	}
	self, err := c.Engine.Register(ctx, record, c.Actor)
	if err != nil {
		release()
		return err
	}
	w.mu.Lock()
	w.self, w.release = self, release
	w.mu.Unlock()
	return nil
}

// ID answers the public id under which the worker is registered now.
func (w *Worker) ID() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.self.ID.Public(pawl.WorkerPrefix)
}

// Drain claims nothing more, waits for what runs and ends the worker. When ctx
// ends, what still runs is interrupted: it goes back to pending, for others to
// run; and while the database is away, what was done is given up, and run again
// too. A handler that does not heed its context is waited for. Draining twice is
// fine.
func (w *Worker) Drain(ctx context.Context) error {
	w.once.Do(func() { close(w.drain) })
	select {
	case <-w.over:
	case <-ctx.Done():
		w.interrupt()
		<-w.over
	}
	return nil
}

func (w *Worker) key() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.self.Key()
}

func (w *Worker) draining() bool {
	select {
	case <-w.drain:
		return true
	default:
		return false
	}
}

// loop visits the engine: with what has finished, and for more while there are
// free slots. What finishes during a visit goes along with the next.
func (w *Worker) loop() {
	defer close(w.over)
	defer w.beats.Wait()
	defer w.end()
	poll := time.NewTicker(w.config.Poll)
	defer poll.Stop()
	var outbox []engine.Report
	hungry := true
	for {
		outbox = w.collect(outbox)
		draining := w.draining()
		if draining && len(outbox) == 0 && w.busy() == 0 {
			w.finish()
			return
		}
		free := 0
		if !draining {
			free = w.config.Capacity - w.busy()
		}
		if len(outbox) > 0 || hungry && free > 0 {
			outbox, hungry = w.visit(outbox, free)
			continue
		}
		select {
		case r := <-w.results:
			outbox = append(outbox, w.finished(r))
		case <-w.config.Engine.Work():
			hungry = true
		case <-poll.C:
			hungry = true
		case key := <-w.ended:
			if key == w.key() {
				w.reincarnate()
				hungry = true
			}
		case <-w.drainOnce(draining):
		}
	}
}

// drainOnce is the bell for the beginning of the drain, and silent after it.
func (w *Worker) drainOnce(draining bool) <-chan struct{} {
	if draining {
		return nil
	}
	return w.drain
}

// collect adds what has finished to the outbox.
func (w *Worker) collect(outbox []engine.Report) []engine.Report {
	for {
		select {
		case r := <-w.results:
			outbox = append(outbox, w.finished(r))
		default:
			return outbox
		}
	}
}

func (w *Worker) finished(r engine.Report) engine.Report {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.running, claimKey{r.Step, r.Claim})
	return r
}

func (w *Worker) busy() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.running)
}

// visit reports and claims. It answers the reports that did not get through,
// and whether there may be more to claim.
func (w *Worker) visit(outbox []engine.Report, free int) ([]engine.Report, bool) {
	w.mu.Lock()
	self := w.self
	w.mu.Unlock()
	assigned, err := w.config.Engine.Exchange(context.Background(), engine.Exchange{Worker: self, Reports: outbox, Free: free})
	switch {
	case errors.Is(err, engine.ErrWorkerEnded):
		w.reincarnate()
		return nil, true
	case engine.Retryable(err):
		w.warnOfDatabase(err)
		if w.givesUp() {
			w.log.Error("the worker stops while the database is away; what it had to report will be run again", "reports", len(outbox))
			return nil, false
		}
		w.rest()
		return outbox, true
	case err != nil:
		w.log.Error("a report was not accepted", "error", err)
	}
	for i := range assigned {
		w.run(&assigned[i])
	}
	return outbox[:0], free > 0 && len(assigned) == free
}

// givesUp reports whether the worker is to stop at once.
func (w *Worker) givesUp() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.hurried
}

// warnEvery is how often a database that is away is complained about.
const warnEvery = 30 * time.Second

// warnOfDatabase is called by the loop alone.
func (w *Worker) warnOfDatabase(err error) {
	if time.Since(w.warned) < warnEvery {
		return
	}
	w.warned = time.Now()
	w.log.Warn("reporting to the database failed; it is tried again until it works", "error", err)
}

// rest keeps a worker whose database is away from asking too often.
func (w *Worker) rest() {
	t := time.NewTimer(200 * time.Millisecond)
	defer t.Stop()
	<-t.C
}

// reincarnate drops everything and registers anew: somebody has ended this
// worker though it lives (J1). What its handlers still answer is reported like
// anything else, and kept as refused facts (T5).
func (w *Worker) reincarnate() {
	w.log.Warn("this worker was ended by another process; it drops what it held and registers anew")
	w.stopAll(errEnded)
	w.mu.Lock()
	release := w.release
	w.mu.Unlock()
	release()
	for !w.draining() {
		err := w.register(w.life)
		if err == nil {
			return
		}
		w.log.Warn("registering anew failed; it is tried again", "error", err)
		w.rest()
	}
}

var errEnded = errors.New("the worker was ended")

func (w *Worker) stopAll(cause error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, cancel := range w.running {
		cancel(cause)
	}
}

// interrupt stops what runs and whatever is assigned from now on.
func (w *Worker) interrupt() {
	w.mu.Lock()
	w.hurried = true
	w.mu.Unlock()
	w.stopAll(ErrInterrupted)
}

// finish ends the worker's record.
func (w *Worker) finish() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	w.mu.Lock()
	self, release := w.self, w.release
	w.mu.Unlock()
	note := workflow.Note{Actor: self.ID.Public(pawl.WorkerPrefix), Reason: "drained"}
	err := w.config.Engine.MoveWorker(ctx, self.Key(), lifecycle.WorkerCompleteTasks, note)
	if pawl.KindOf(err) == pawl.Conflict && err != nil { // it has never had a task, or was ended
		err = w.config.Engine.Terminate(ctx, self.Key(), note)
	}
	if err != nil && pawl.KindOf(err) != pawl.Conflict {
		w.log.Warn("ending the worker failed; it will be found dead", "error", err)
	}
	release()
}

// beat says that the worker lives, and stops what was asked to stop.
func (w *Worker) beat() {
	tick := time.NewTimer(0)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-w.config.Engine.Stops():
		case <-w.life.Done():
			return
		}
		key := w.key()
		stops, err := w.config.Store.Beat(w.life, key)
		if err != nil && w.life.Err() == nil {
			w.log.Warn("a heartbeat failed", "error", err)
		}
		w.stop(stops)
		w.lookAtSelf(key)
		tick.Reset(w.config.Beat)
	}
}

// lookAtSelf tells the loop when this worker's record was ended: one without a
// free slot asks the engine for nothing, and would not learn of it.
func (w *Worker) lookAtSelf(key int64) {
	self, err := w.config.Store.Worker(w.life, key)
	if err != nil || !lifecycle.Worker.Ended(self.State) {
		return
	}
	select {
	case w.ended <- key:
	default:
	}
}

func (w *Worker) stop(stops []store.Stop) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range stops {
		if cancel := w.running[claimKey{s.StepKey, s.Claim}]; cancel != nil {
			cancel(ErrCanceled)
		}
	}
}

// run runs one assignment in a goroutine of its own, which ends with a result.
func (w *Worker) run(a *engine.Assignment) {
	ctx, cancel := context.WithCancelCause(context.Background())
	w.mu.Lock()
	w.running[claimKey{a.Step.StepKey, a.Step.Claims}] = cancel
	actor := w.self.ID.Public(pawl.WorkerPrefix)
	if w.hurried {
		cancel(ErrInterrupted)
	}
	w.mu.Unlock()
	assignment := *a
	go func() {
		defer cancel(nil)
		r := w.attempt(ctx, &assignment)
		r.Step, r.Claim, r.Actor = assignment.Step.StepKey, assignment.Step.Claims, actor
		w.results <- r
	}()
}

// attempt runs a handler and answers what became of it.
func (w *Worker) attempt(ctx context.Context, a *engine.Assignment) engine.Report {
	brief, failure, err := w.brief(ctx, a)
	if err != nil {
		failure = &pawl.Failure{Class: "brief", Message: "what the step needs could not be read: " + err.Error()}
	}
	if failure != nil {
		return reportOf(ctx, Result{Failure: failure})
	}
	if brief.Reused != nil {
		r := reportOf(ctx, Result{Output: brief.Reused})
		r.Note.Reason = workflow.Reused
		return r
	}
	limit := brief.Node.Timeout
	if limit == 0 {
		limit = workflow.DefaultTimeout
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%w after %s", ErrTimeout, limit))
	defer cancel()
	t := w.task(a, brief)
	defer w.closeLog(t)
	h := w.config.Handlers[brief.Node.Handler]
	if h == nil {
		return reportOf(ctx, Result{Failure: &pawl.Failure{Class: "no_handler", Message: "this worker has no handler " + brief.Node.Handler}})
	}
	return reportOf(ctx, checked(Safely(h)(ctx, t), t.Limits.withDefaults().Output))
}

// checked holds what a handler answers to what may be stored: JSON of a size
// within the limit (T8).
func checked(r Result, limit int) Result {
	switch {
	case r.Failure != nil:
		r.Output = nil
	case len(r.Output) == 0:
		r.Output = json.RawMessage("null")
	case len(r.Output) > limit:
		r = Result{Failure: tooLarge("the output", limit)}
	case !json.Valid(r.Output):
		r = Result{Failure: &pawl.Failure{Class: "invalid_output", Message: "the output of the handler is not JSON", Permanent: true}}
	}
	return r
}

// brief reads what the step needs, again and again while the database is away:
// that is not the step's fault, and costs no attempt.
func (w *Worker) brief(ctx context.Context, a *engine.Assignment) (*engine.Brief, *pawl.Failure, error) {
	for {
		b, failure, err := w.config.Engine.Brief(ctx, a)
		if err == nil || ctx.Err() != nil || pawl.KindOf(err) != pawl.Unavailable {
			return b, failure, err
		}
		w.log.Warn("reading what a step needs failed; it is tried again", "step", a.Step.StepKey.String(), "error", err)
		w.rest()
	}
}

func (w *Worker) task(a *engine.Assignment, b *engine.Brief) *Task {
	t := &Task{JobID: b.JobID, StepID: b.StepID, Key: b.Key, Workflow: b.Workflow, Attempt: a.Step.Attempts, Claim: a.Step.Claims,
		Work: b.Work, Input: b.Input, Output: b.Node.Output, PermanentExitCodes: b.Node.Retry.PermanentExitCodes,
		BaseDir: b.Dir, Limits: w.config.Limits}
	lc := LogConfig{Step: a.Step.StepKey, Claim: a.Step.Claims, Sink: w.config.Store.AppendLogs}
	if w.config.Tee != nil {
		lc.Tee = func(stream string, p []byte) { w.config.Tee(t, stream, p) }
	}
	t.Log = NewLog(lc)
	return t
}

// closeLog writes what is left of a log before the outcome is reported.
func (w *Worker) closeLog(t *Task) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := t.Log.Close(ctx); err != nil {
		w.log.Warn("part of a log was lost", "job", t.JobID, "step", t.Key, "error", err)
	}
}

// reportOf judges a result into an event of the step's table (T6).
func reportOf(ctx context.Context, r Result) engine.Report {
	rep := engine.Report{Report: workflow.Report{Event: eventOf(ctx, r.Failure), Output: r.Output, Failure: r.Failure}}
	if r.Failure != nil {
		rep.Note.Reason = r.Failure.Message
	}
	return rep
}

func eventOf(ctx context.Context, f *pawl.Failure) machine.Event {
	if f == nil {
		return lifecycle.StepSuccess
	}
	switch cause := context.Cause(ctx); {
	case cause == nil:
	case errors.Is(cause, ErrTimeout):
		return lifecycle.StepTimeout
	case errors.Is(cause, ErrInterrupted), errors.Is(cause, errEnded):
		return lifecycle.StepInterrupt
	default:
		return lifecycle.StepCancel
	}
	if f.Permanent {
		return lifecycle.StepFailPermanently
	}
	return lifecycle.StepFail
}
