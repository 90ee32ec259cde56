package programs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pawl-dev/pawl/internal/process"
	"github.com/pawl-dev/pawl/internal/programs/spec"
	"github.com/pawl-dev/pawl/supervisor"
)

// A childProcess is a started process: a *process.Process, or a fake in tests.
type childProcess interface {
	PID() int
	Done() <-chan struct{}
	Exit() process.Exit
	Stop(ctx context.Context, s syscall.Signal, grace time.Duration) (killed bool)
}

// A run is one attempt to run a program. It is registered before its process starts, so
// that two never run at once. Fields that change are guarded by the program's mu.
type run struct {
	generation   uint64
	spec         *spec.Program   // with which it was started
	ended        chan struct{}   // closed when exit is set
	notify       *process.Notify // or nil
	watchdogPing chan struct{}   // receives when WATCHDOG=1 has arrived
	output       []*lineWriter
	logProbe     atomic.Pointer[probe] // the log probe that still waits for its line

	currentSpec *spec.Program // the newest: its probes and restart policy apply
	proc        childProcess  // nil until it is started
	startedAt   time.Time
	late        bool // it started too late, and is killed
	exit        *exit
	ordered     bool
	cause       string // why the manager ends it without an order

	isReady   bool
	wasReady  bool
	readyAt   time.Time
	unhealthy string
	status    string
	ready     *probe // or nil
	alive     *probe // or nil
	probeCtx  context.Context
	cancel    context.CancelFunc
	probers   sync.WaitGroup
}

// launch starts the program. If ctx has ended by the time the process runs, the process is
// killed at once: the action has been given up.
func (prog *program) launch(ctx context.Context, want desired) error {
	r, err := prog.register(want)
	if err != nil {
		return err
	}
	proc, err := prog.spawn(r)
	if err != nil {
		prog.startFailed(r, err)
		return err
	}
	late := ctx.Err() != nil || prog.manager.killing()
	prog.started(r, proc, late)
	if late {
		prog.discard(r, ctx)
		return fmt.Errorf("it was started too late, and killed: %w", context.Cause(ctx))
	}
	return nil
}

// register creates the next run. It fails while the last one has not ended.
func (prog *program) register(want desired) (*run, error) {
	prog.mu.Lock()
	defer prog.mu.Unlock()
	if l := prog.run; l != nil && l.exit == nil {
		return nil, errors.New("the last one has not ended yet")
	}
	if prog.manager.killing() {
		return nil, supervisor.ErrShuttingDown
	}
	if prog.desired.Generation > want.Generation {
		want = prog.desired // it has changed since the start was decided
	}
	now := time.Now()
	if prog.run == nil || want.Generation > prog.run.generation {
		prog.failures, prog.restarts = 0, nil
	} else {
		prog.restarts = append(prog.restarts, now)
	}
	r := &run{generation: want.Generation, spec: want.Spec, currentSpec: want.Spec, ended: make(chan struct{}), startedAt: now}
	r.setProbes()
	prog.run = r
	prog.attempts++
	return r, nil
}

func (prog *program) spawn(r *run) (childProcess, error) {
	ps, err := prog.processSpec(r)
	if err != nil {
		return nil, err
	}
	return prog.manager.launch(ps)
}

// startFailed records that the program could not be started.
func (prog *program) startFailed(r *run, err error) {
	permanent := errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, supervisor.ErrNonRetriable)
	prog.end(r, exit{Text: "it cannot be started: " + err.Error(), Code: -1, Permanent: permanent})
}

// started records that the process runs, and begins to watch it. One that started too late
// gets no probes, since it is about to be killed.
func (prog *program) started(r *run, proc childProcess, late bool) {
	prog.mu.Lock()
	r.proc, r.startedAt, r.late = proc, time.Now(), late
	prog.starts++
	if !late {
		prog.beginProbes(r)
	}
	prog.mu.Unlock()
	prog.manager.running.Go(func() { prog.watch(r) })
	prog.changed()
}

// watch waits for the end of the process. It kills it when Force is called.
func (prog *program) watch(r *run) {
	select {
	case <-r.proc.Done():
	case <-prog.manager.killed.Done():
		r.proc.Stop(prog.manager.killed, syscall.SIGKILL, 0)
		<-r.proc.Done()
	}
	for _, l := range r.output {
		l.flush()
	}
	e := r.proc.Exit()
	prog.end(r, exit{Text: exitText(e), Code: e.Code})
	r.probers.Wait()
}

// end records how an attempt has ended.
func (prog *program) end(r *run, e exit) {
	if r.notify != nil {
		_ = r.notify.Close() // the process that wrote to it has ended
	}
	prog.mu.Lock()
	r.cancel()
	e.At, e.Random, e.Generation = time.Now(), prog.manager.random(), prog.desired.Generation
	e.Ordered, e.Cause = r.ordered, r.cause
	prog.unready(r, e.At)
	if !e.Ordered {
		prog.failures++
	}
	prog.restarts = recentOf(prog.restarts, e.At, r.currentSpec.Restart)
	r.exit = &e
	close(r.ended)
	prog.mu.Unlock()
	prog.changed()
}

// recentOf returns the times that the policy still counts: at most Burst, within the
// window.
func recentOf(times []time.Time, now time.Time, r spec.Restart) (recent []time.Time) {
	for _, t := range times[max(0, len(times)-r.Burst):] {
		if now.Sub(t) < r.Window {
			recent = append(recent, t)
		}
	}
	return recent
}

// discard kills a process that started too late.
func (prog *program) discard(r *run, ctx context.Context) {
	prog.mu.Lock()
	if errors.Is(context.Cause(ctx), supervisor.ErrActionTimeout) {
		r.cause = "starting it took too long"
	} else {
		r.ordered = true
	}
	prog.mu.Unlock()
	r.proc.Stop(canceled, syscall.SIGKILL, 0)
	<-r.ended
}

// canceled is a context that has ended: Stop with it kills at once.
var canceled = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// terminate stops the process, if it runs, and everything that belongs to it. With an
// empty cause it was ordered, and is no failure.
func (prog *program) terminate(ctx context.Context, s spec.Stop, cause string) error {
	prog.mu.Lock()
	r := prog.run
	if r == nil || r.proc == nil || r.exit != nil {
		prog.mu.Unlock()
		return nil
	}
	if cause == "" {
		r.ordered = true
	} else {
		r.cause = cause
	}
	r.cancel()
	prog.mu.Unlock()
	r.proc.Stop(ctx, signalOf(s.Signal), s.Grace)
	<-r.ended
	return nil
}

func signalOf(name string) syscall.Signal {
	if s := unix.SignalNum(name); s != 0 {
		return s
	}
	return syscall.SIGTERM
}

func exitText(e process.Exit) string {
	if e.Signal == 0 {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	name := unix.SignalName(e.Signal)
	if name == "" {
		name = fmt.Sprintf("signal %d", int(e.Signal))
	}
	return "killed by " + name
}

// changed wakes the service after something has happened to the program.
func (prog *program) changed() { prog.manager.wake(prog.id) }
