package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/document"
	"github.com/pawl-dev/pawl/internal/health"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/trouble"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
)

// Config says what a worker serves. The zero value is usable.
type Config struct {
	Workspace string             // default pawl.DefaultWorkspace
	Name      string             // for people; default host/pid
	Actor     string             // who starts it, for the audit trail; default Name
	Capacity  int                // steps at once; default 10
	Handlers  map[string]Handler // by name, besides those of Handle; commands, scripts and requests are served if "command", "run" and "http" are among them (see Command and HTTP)
	Queues    []string           // default workflow.DefaultQueue alone
	Job       rowkey.Job         // 0, or the key of a private job: only it and its child jobs are served, whatever their queues
	Limits    Limits

	// Middleware wraps every handler. The first is the outermost. Its own panics are
	// contained, like those of handlers.
	Middleware []func(next Handler) Handler

	// DrainTimeout is how long running steps may take to end once the context of Run
	// has ended. After it they are interrupted, and run again elsewhere. Default: no
	// limit.
	DrainTimeout time.Duration

	Beat    time.Duration // how often it sends a beat, which also finds work that no hint announced; default 2 s
	Silence time.Duration // that of the servers, after which they take it for dead; see Isolation. Default 6 s, and at least three Beats
	Poll    time.Duration // how often to poll while no hints arrive; default 1 s
	Node    pawl.Node     // the process, sent with each beat; default: as the client was opened
	Log     *slog.Logger  // default: discarded

	// Scarce returns why there is too little memory or disk to run steps, or "". It is
	// called with each beat. While it returns a reason, the worker pauses itself (J9).
	// nil: never.
	Scarce func() string

	// WorkDir is the folder in which each job gets a folder for its commands, unless
	// the job names one. The job's folder is made for its first step that runs here,
	// shared with workers that have the same WorkDir, and removed when the job has
	// ended. A WorkDir belongs to one database. Default: such commands start in the
	// current folder.
	WorkDir string

	// KeepWorkDirs keeps this worker from removing these folders.
	KeepWorkDirs bool

	// Isolation says what happens to running steps when beats get no reply. With
	// workflow.IsolationRun, the default, they continue, except for steps whose
	// definition says stop. With workflow.IsolationStop all are ended before the
	// Silence is over. A handler that ignores its context cannot be ended.
	Isolation workflow.Isolation

	// Tee sees what steps print, live. nil is none. See LogConfig.Tee.
	Tee func(t *Task, stream string, p []byte)
}

func (c Config) withDefaults() Config {
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
	if c.Silence <= 0 {
		c.Silence = max(health.Silence, 3*c.Beat)
	}
	if c.Poll <= 0 {
		c.Poll = time.Second
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// validate returns the first fault of a configuration with its defaults.
func (c Config) validate() error {
	switch c.Isolation {
	case "", workflow.IsolationRun, workflow.IsolationStop:
	default:
		return pawl.Errorf(pawl.Invalid, "Isolation: %q: want %s or %s", c.Isolation, workflow.IsolationRun, workflow.IsolationStop)
	}
	for name, h := range c.Handlers {
		if name == "" || h == nil {
			return pawl.Errorf(pawl.Invalid, "Handlers: %q: want a name and a handler", name)
		}
	}
	return nil
}

// A Worker claims steps and runs them, up to its capacity, until it is drained.
type Worker struct {
	config   Config
	link     link.Worker
	log      *slog.Logger
	handlers map[string]Handler // not changed once the worker has begun

	life    context.Context // ends when the worker has ended
	end     context.CancelFunc
	drain   chan struct{} // closed: claim nothing more
	once    sync.Once
	over    chan struct{} // closed: the loop has ended
	results chan link.Report
	paused  bool           // by itself; used by the heartbeat only
	moves   *trouble.Log   // of its record, by itself; used by the heartbeat only
	news    chan news      // buffer 1: the reply to the last beat
	beats   sync.WaitGroup // the goroutines of the heartbeat, of follow and of the folders
	look    chan struct{}  // buffer 1: the loop is to check for work
	slots   func() int     // the method free, bound once
	width   int            // visits under way at once while it is alone
	alone   atomic.Bool    // no other worker lives, as the last beat says
	pace    pace
	folders *folders // of jobs; nil: there are none

	sink func(context.Context, []pawl.Chunk) error // the method AppendLogs of the link, bound once

	ample chan struct{} // buffer 1: there are enough results

	turn    sync.Mutex // guards what follows; held to prepare a visit and to settle it, not during its exchange
	visits  []*visit   // under way
	left    bool       // the loop sleeps since visits were under way, and does not receive results
	outbox  []link.Report
	poll    bool           // there may be something in the queue
	wants   int            // how often there was a reason to poll
	strays  bool           // it may hold claims of which it has not heard
	deep    bool           // the last visit that looked found as much as it asked for
	looked  time.Time      // when it last checked whether it hears of that
	trouble error          // of the last visit, for the loop to handle before the next
	owed    int            // steps that were claimed since the queue went first
	late    []link.Claimed // reported after the worker had been ended
	warned  time.Time      // when it last warned about the database

	mu      sync.Mutex // guards what follows; locked after turn
	enough  int        // so many results make a visit, if one is under way or the loop does not receive them
	begun   bool       // no handler may be added
	self    *pawl.Worker
	actor   string // its public id
	release func() // releases the name by which others see that it lives
	offer   link.Slots
	running map[claimKey]occupant
	lease   lease
	hurried bool  // running steps are interrupted, and so are those that a visit under way still returns
	scarce  bool  // the same, while there is too little memory or disk
	fate    error // why the worker has ended, unless it was drained
}

// An occupant is a claim that runs here.
type occupant struct {
	cancel   context.CancelCauseFunc
	isolated bool // it must not overlap with another claim of the step
}

// A claimKey identifies a claim of a step.
type claimKey struct {
	pawl.StepKey
	claim int
}

// A Linker has a link to an engine: a *client.Client.
type Linker interface{ Link() link.Worker }

// New makes a worker that does nothing before Run. The error names the first fault of the
// configuration.
func New(l Linker, c Config) (*Worker, error) {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return nil, err
	}
	w := &Worker{config: c, link: l.Link(), log: c.Log, drain: make(chan struct{}), over: make(chan struct{}),
		moves:   trouble.New(c.Log, "the worker could not pause or resume itself; it is tried again", "the worker could pause or resume itself"),
		results: make(chan link.Report, c.Capacity), // one for each slot: a handler that ends never waits
		news:    make(chan news, 1), look: make(chan struct{}, 1), ample: make(chan struct{}, 1), poll: true,
		running: make(map[claimKey]occupant), handlers: make(map[string]Handler)}
	maps.Copy(w.handlers, c.Handlers)
	w.slots, w.sink, w.width = w.free, w.link.AppendLogs, max(min(w.link.Overlap(), c.Capacity/minShare), 1)
	w.alone.Store(true) // until a beat says otherwise
	return w, nil
}

// Run registers the worker and works until ctx ends, then drains it: it claims nothing
// more, and returns when what runs has ended. See Config.DrainTimeout. The error is nil
// then, and a *TerminatedError if an operator has ended the worker. A worker runs once.
//
// A worker fires no deadline, retry or schedule: a server does, or an engine that is
// not passive. While there is none on the database, the log has a warning.
func (w *Worker) Run(ctx context.Context) error {
	if err := w.start(ctx); err != nil {
		if errors.Is(err, ctx.Err()) {
			return nil // it was to end before it began
		}
		return err
	}
	select {
	case <-ctx.Done():
	case <-w.over:
	}
	limit, cancel := context.WithCancel(context.Background())
	defer cancel()
	if w.config.DrainTimeout > 0 {
		defer time.AfterFunc(w.config.DrainTimeout, cancel).Stop()
	}
	return w.Drain(limit)
}

// Start is New for a worker that begins at once and works until it is drained. Its caller
// drains it before it closes the engine.
func Start(ctx context.Context, l Linker, c Config) (*Worker, error) {
	w, err := New(l, c)
	if err == nil {
		err = w.start(ctx)
	}
	if err != nil {
		return nil, err
	}
	return w, nil
}

// start registers the worker and starts its goroutines.
func (w *Worker) start(ctx context.Context) error {
	if err := w.begins(); err != nil {
		return err
	}
	if err := w.openFolders(); err != nil {
		close(w.over)
		return err
	}
	w.lease.fuse = time.AfterFunc(never, w.cutOff)
	w.life, w.end = context.WithCancel(context.Background())
	if err := w.register(ctx, nil); err != nil {
		w.lease.fuse.Stop()
		w.end()
		w.folders.close()
		close(w.over)
		return err
	}
	w.beats.Go(w.beat)
	w.beats.Go(w.follow)
	w.beats.Go(func() { w.folders.tidy(w.life) })
	if w.width > 1 {
		w.beats.Go(w.visitBeside)
	}
	go w.loop()
	return nil
}

// begins closes the list of handlers, and refuses a worker that has begun before.
func (w *Worker) begins() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.begun {
		return pawl.Errorf(pawl.Conflict, "this worker was started before: a worker runs once")
	}
	w.begun = true
	for name, h := range w.handlers {
		for _, wrap := range slices.Backward(w.config.Middleware) {
			h = wrap(h)
		}
		w.handlers[name] = h
	}
	return nil
}

// register takes the name by which others see that the worker lives, and makes its
// record. A worker that was taken for dead names its predecessor.
func (w *Worker) register(ctx context.Context, before *link.Predecessor) error {
	c := w.config
	host, _ := os.Hostname()
	record := pawl.Worker{Workspace: c.Workspace, Name: c.Name, Host: host, PID: os.Getpid(), Capacity: c.Capacity,
		Metadata: link.Declaration{Isolation: c.Isolation, Silence: pawl.Duration(c.Silence)}.Metadata()}
	for _, queue := range c.Queues {
		for _, name := range slices.Sorted(maps.Keys(w.handlers)) {
			record.Routes = append(record.Routes, pawl.Route(c.Workspace, queue, name, c.Job))
			record.Handlers = append(record.Handlers, queue+"/"+name)
		}
	}
	sent := time.Now()
	self, release, err := w.link.Register(ctx, link.Registration{Worker: record, Actor: c.Actor, Before: before,
		Queues: c.Queues, Handlers: slices.Sorted(maps.Keys(w.handlers)), Job: c.Job})
	if err != nil {
		return err
	}
	offer := w.link.LendSlots(self, w.run)
	w.mu.Lock()
	w.self, w.actor, w.release, w.offer = self, self.ID.Public(pawl.WorkerPrefix), release, offer
	w.mu.Unlock()
	w.renew(self.Key(), sent)
	return nil
}

// ID returns the public id under which the worker is registered now, or "" before that.
func (w *Worker) ID() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.actor
}

// Over returns a channel that is closed when the worker has ended.
func (w *Worker) Over() <-chan struct{} { return w.over }

// Drain claims nothing more, waits for what runs and ends the worker. When ctx ends,
// what still runs is interrupted: it goes back to pending, for others to run; and if
// the database is unreachable, results that were not reported are dropped, and their
// steps run again, too. Drain waits for a handler that ignores its context. Draining
// twice is fine, and so is draining a worker that was never started. The error is a
// *TerminatedError if an operator has ended the worker.
func (w *Worker) Drain(ctx context.Context) error {
	w.once.Do(func() { close(w.drain) })
	if !w.hasBegun() {
		return nil
	}
	select {
	case <-w.over:
	case <-ctx.Done():
		w.interrupt()
		<-w.over
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fate
}

func (w *Worker) hasBegun() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.begun
}

func (w *Worker) key() rowkey.Worker {
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
	defer w.lease.fuse.Stop()
	poll := time.NewTicker(w.config.Poll)
	defer poll.Stop()
	for {
		draining := w.draining()
		over, under := w.visitAll(draining)
		if over {
			w.finish()
			return
		}
		results := w.results
		if under {
			results = nil
		}
		select {
		case r := <-results:
			w.turn.Lock()
			w.outbox = append(w.outbox, w.finished(r))
			w.turn.Unlock()
		case <-w.ample:
		case <-w.look:
		case <-w.offer.Bell():
		case <-w.offer.Work(): // read with turn held
		case <-poll.C:
			w.askToPoll(!w.link.Hears())
		case n := <-w.news:
			w.learn(n)
		case <-w.offer.Strays():
			w.stray()
		case <-w.drainOnce(draining):
		}
	}
}

// drainOnce returns the channel that is closed when the drain begins, or nil after
// that.
func (w *Worker) drainOnce(draining bool) <-chan struct{} {
	if draining {
		return nil
	}
	return w.drain
}

func (w *Worker) finished(r link.Report) link.Report {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.running, claimKey{r.Step, r.Claim})
	return r
}

// free returns how many more steps the worker can take now.
func (w *Worker) free() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.draining() || w.scarce {
		return 0
	}
	return w.config.Capacity - len(w.running)
}

func (w *Worker) busy() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.running)
}

// warnEvery is how often the worker warns about an unreachable database.
const warnEvery = 30 * time.Second

// warnOfDatabase is called by the loop alone.
func (w *Worker) warnOfDatabase(err error) {
	if time.Since(w.warned) < warnEvery {
		return
	}
	w.warned = time.Now()
	w.log.Warn("reporting to the database failed; it is tried again until it works", "error", err)
}

func (w *Worker) stopAll(cause error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, o := range w.running {
		o.cancel(cause)
	}
}

// interrupt stops running steps, and those that are assigned from now on.
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
	self, release, offer := w.self, w.release, w.offer
	w.mu.Unlock()
	offer.Withdraw()
	note := decide.Note{Actor: self.ID.Public(pawl.WorkerPrefix), Reason: "drained"}
	err := w.link.MoveWorker(ctx, self.Key(), lifecycle.WorkerCompleteTasks, note)
	if pawl.KindOf(err) == pawl.Conflict && err != nil { // it has never had a task, or was ended
		err = w.link.Terminate(ctx, self.Key(), note)
	}
	if err != nil && pawl.KindOf(err) != pawl.Conflict {
		w.log.Warn("ending the worker failed; servers will find it dead", "error", err)
	}
	release()
}

// A claim is a step that runs here.
type claim struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	actor  string
	link.Assignment

	isolated bool
}

func (w *Worker) begin(a *link.Assignment) *claim {
	c := &claim{Assignment: *a}
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	w.mu.Lock()
	defer w.mu.Unlock()
	c.isolated = w.isolated(a)
	w.running[claimKey{a.Step.StepKey, a.Step.Claims}] = occupant{c.cancel, c.isolated}
	c.actor = w.actor
	switch {
	case w.hurried || w.scarce:
		c.cancel(ErrInterrupted)
	case c.isolated && w.lease.over():
		c.cancel(errCutOff)
	}
	return c
}

// run runs an assignment in a goroutine of its own, followed by the assignments that
// its report returns.
func (w *Worker) run(a *link.Assignment) {
	c := w.begin(a)
	go w.goOn(c)
}

func (w *Worker) goOn(c *claim) {
	for c != nil {
		c = w.report(w.perform(c))
	}
}

// perform runs a step and returns its report.
func (w *Worker) perform(c *claim) (r link.Report) {
	ended := true // a handler may end the goroutine
	began := time.Now()
	defer func() {
		c.cancel(nil)
		w.pace.ran(time.Since(began))
		r.Step, r.Claim, r.Actor = c.Step.StepKey, c.Step.Claims, c.actor
		if ended {
			w.hand(r)
		}
	}()
	w.attempt(c.ctx, c, &r)
	ended = false
	return r
}

// report reports the outcome of a step, and returns what to run next. If several steps
// run, it leaves both to the loop, which gathers reports. A step that runs alone is
// followed by the next in the same goroutine, since waking another goroutine takes
// longer than a short step.
func (w *Worker) report(r link.Report) (next *claim) {
	if w.busy() > 1 || w.draining() || !w.turn.TryLock() {
		w.hand(r)
		return nil
	}
	defer w.turn.Unlock()
	if len(w.visits) > 0 || w.strays { // the loop compares before it visits
		w.hand(r)
		return nil
	}
	w.outbox = append(w.outbox, w.finished(r))
	if w.trouble == nil && w.due(false) {
		assigned := w.visit(false)
		for i := range assigned {
			if i == 0 {
				next = w.begin(&assigned[0])
			} else {
				w.run(&assigned[i])
			}
		}
	}
	if w.trouble != nil || w.draining() || w.due(false) {
		w.alert() // the loop visits
	}
	return next
}

// attempt runs a handler and stores the outcome in r.
func (w *Worker) attempt(ctx context.Context, c *claim, r *link.Report) {
	a := &c.Assignment
	input, failure, err := w.stepInput(ctx, a)
	*a = link.Assignment{Step: a.Step} // without the job's inputs, which the step input has as far as they are needed
	if err != nil {
		failure = &pawl.Failure{Class: "step_input", Message: "what the step needs could not be read: " + err.Error()}
	}
	if failure != nil {
		*r = reportOf(ctx, Result{Failure: failure})
		return
	}
	if input.Reused != nil {
		*r = reportOf(ctx, Result{Output: input.Reused})
		r.Note.Reason = decide.Reused
		return
	}
	limit := input.Node.Timeout
	if limit == 0 {
		limit = workflow.DefaultTimeout
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, timeoutError(limit))
	defer cancel()
	t := w.task(c, input)
	if c.isolated {
		t.Limits.Grace = max(health.Grace(w.config.Silence, t.Limits.withDefaults().Grace), time.Millisecond)
	}
	defer w.closeLog(t)
	h := w.handlers[input.Node.Handler]
	if h == nil {
		*r = reportOf(ctx, Result{Failure: &pawl.Failure{Class: "no_handler", Message: "this worker has no handler " + input.Node.Handler}})
		return
	}
	if ctx.Err() != nil { // do not begin what is to end at once
		*r = reportOf(ctx, Result{Failure: stopped(ctx)})
		return
	}
	leave, failure := w.folders.enter(t, input)
	if failure != nil {
		*r = reportOf(ctx, Result{Failure: failure})
		return
	}
	defer leave()
	contain(ctx, h, t, func(result Result) {
		*r = reportOf(ctx, checked(result, t))
		t.settle(r)
	})
}

// checked checks that the result of a handler may be stored: JSON within the limit
// (T8).
func checked(r Result, t *Task) Result {
	limit := t.Limits.withDefaults().Output
	if t.Work.Kind.Encodes() && t.Output == workflow.OutputNone {
		r.Output = nil
	}
	switch {
	case r.Failure != nil:
		r = Result{Failure: r.Failure}
	case r.Snooze != 0:
		r = snoozed(r.Snooze)
	case len(r.Output) == 0:
		r.Output = json.RawMessage("null")
	case len(r.Output) > limit:
		r = Result{Failure: tooLarge(fmt.Sprintf("the output has %d bytes", len(r.Output)), limit)}
	case !document.ValidJSON(r.Output):
		r = Result{Failure: &pawl.Failure{Class: "invalid_output", Message: "the output of the handler is not JSON", Permanent: true}}
	}
	return r
}

// stepInput reads the input of the step, and retries while the database is unreachable,
// since that must not cost an attempt.
func (w *Worker) stepInput(ctx context.Context, a *link.Assignment) (*link.StepInput, *pawl.Failure, error) {
	for {
		b, failure, err := w.link.StepInput(ctx, a)
		if err == nil || ctx.Err() != nil || pawl.KindOf(err) != pawl.Unavailable {
			return b, failure, err
		}
		w.log.Warn("reading what a step needs failed; it is tried again", "step", a.Step.StepKey.String(), "error", err)
		w.rest()
	}
}

func (w *Worker) task(c *claim, b *link.StepInput) *Task {
	a := &c.Assignment
	t := &Task{JobID: b.JobID, StepID: b.StepID, Key: b.Key, Workflow: b.Workflow, Attempt: a.Step.Attempts, Claim: a.Step.Claims,
		Work: b.Work, input: b.Input, Output: b.Node.Output, PermanentExitCodes: b.Node.Retry.PermanentExitCodes,
		BaseDir: b.Dir, Limits: w.config.Limits, Traceparent: b.Traceparent,
		completion: completion{link: w.link, step: a.Step.StepKey, actor: c.actor}}
	lc := LogConfig{Step: a.Step.StepKey, Claim: a.Step.Claims, Sink: w.sink}
	if w.config.Tee != nil {
		lc.Tee = func(stream string, p []byte) { w.config.Tee(t, stream, p) }
	}
	t.Log = NewLog(lc)
	return t
}

// closeLog writes what is left of a log before the outcome is reported.
func (w *Worker) closeLog(t *Task) {
	if t.Log.closeEmpty() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := t.Log.Close(ctx); err != nil {
		w.log.Warn("part of a log was lost", "job", t.JobID, "step", t.Key, "error", err)
	}
}

// reportOf turns a result into an event of the step's table (T6). The end of ctx takes
// precedence over a snooze.
func reportOf(ctx context.Context, r Result) link.Report {
	if r.Snooze > 0 && ctx.Err() == nil {
		return link.Report{Report: decide.Report{Event: lifecycle.StepInterrupt, Snooze: r.Snooze}}
	}
	if r.Snooze > 0 {
		r = Result{Failure: stopped(ctx)}
	}
	return link.Report{Report: decide.Report{Event: eventOf(ctx, r.Failure), Output: r.Output, Failure: r.Failure}}
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
